"""Networks of the image experiments: a library's where it is installed, ours otherwise, chosen by name."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

pytest.importorskip("sklearn")
pytest.importorskip("matplotlib")

from aimfor.errors import InputError
from paper import Options
from paper.evidence import gathered
from paper.experiments.meng import epsilon as meng_epsilon
from paper.experiments.song import synthetic as song_synthetic
from paper.networks import models
from paper.protocol.protocol import Budget
from paper.run import run

#: Weights of the published networks for ten classes of 32 × 32 images.
PUBLISHED = {"resnet20": 272_474, "resnet18": 11_173_962}


@pytest.fixture
def no_library(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(models, "_LIBRARY", dict.fromkeys(models._LIBRARY, ("no_such_module_here", "resnet")))
    models._library.cache_clear()
    yield
    models._library.cache_clear()


@pytest.fixture
def few_images(tmp_path: Path) -> Path:
    (tmp_path / "data" / "cats_vs_dogs").mkdir(parents=True)
    random = np.random.default_rng(0)
    for split, n in (("train", 24), ("test", 6)):
        x, y = random.integers(0, 256, (n, 32, 32, 3)).astype(np.uint8), np.arange(n) % 2
        np.savez(tmp_path / "data" / "cats_vs_dogs" / f"{split}.npz", x=x, y=y)
    return tmp_path / "data"


def size(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize("name", PUBLISHED)
def test_ours_has_the_published_weights_but_for_norms_on_the_carried_input(name: str) -> None:
    model = getattr(models, f"own_{name}")(10)
    carried = [block.carry for block in model if isinstance(block, models.Residual)]
    norms = sum(2 * carry.out_channels for carry in carried if isinstance(carry, nn.Conv2d))
    assert size(model) + norms == PUBLISHED[name]


def test_without_the_library_our_own_networks_are_used_and_said_once(
    no_library: None, capsys: pytest.CaptureFixture[str]
) -> None:
    for make in (models.resnet20, models.resnet18, models.resnet20):
        model = make(3)
        scores = model(torch.randn(2, 3, 32, 32))
        assert scores.shape == (2, 3)
        scores.square().sum().backward()
        assert all(float(parameter.grad.abs().max()) > 0 for parameter in model.parameters())
    said = capsys.readouterr().err
    assert said.count("ResNet-20: aimfor's own") == said.count("ResNet-18: aimfor's own") == 1


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_librarys_networks_have_our_outputs(name: str) -> None:
    pytest.importorskip("pytorchcv")
    model = getattr(models, f"library_{name}")(10)
    assert size(model) == PUBLISHED[name]
    assert models.NETWORKS[name](3)(torch.randn(2, 3, 32, 32)).shape == (2, 3)


def test_the_network_is_the_one_that_was_asked_for(no_library: None) -> None:
    def asked(**options: object) -> int:
        return size(models.network(Options(**options), 10)())  # type: ignore[arg-type]

    assert asked() == asked(full=True, model="small") < 30_000
    assert asked(full=True) == asked(model="resnet20") == size(models.own_resnet20(10))
    assert asked(model="resnet18") == size(models.own_resnet18(10))


def test_another_networks_cells_are_kept_apart(
    few_images: Path, no_library: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(meng_epsilon, "budget", lambda options: Budget(1, 0, batch=4, rates=(1e-3,), looks=1))
    monkeypatch.setattr(meng_epsilon, "PLANS", meng_epsilon.PLANS[:1])
    out = tmp_path / "results"
    small = Options(seeds=1, data=few_images)
    large = Options(seeds=1, data=few_images, model="resnet18")
    assert [len(run(meng_epsilon.EXPERIMENT, options, out).finished) for options in (small, large)] == [1, 1]
    found = [run(meng_epsilon.EXPERIMENT, options, out, cached_only=True).finished for options in (small, large)]
    assert [cells[0].get("model") for cells in found] == [None, "resnet18"]
    assert gathered(out)["meng_epsilon"] == found[0]


def test_a_network_that_an_experiment_does_not_have_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="one of small, resnet20, resnet18"):
        run(meng_epsilon.EXPERIMENT, Options(model="resnet19"), tmp_path)
    with pytest.raises(InputError, match="it has its own networks"):
        run(song_synthetic.EXPERIMENT, Options(model="resnet18"), tmp_path)
    assert not list(tmp_path.iterdir())
