"""Networks for small images: a few convolutions, and residual networks from a maintained library where it is installed.

``pip install --no-deps pytorchcv`` beside torch is enough, and nothing here requires it; a network is imported from its
own module, because the package's index of models wants torchvision.
"""

from __future__ import annotations

import functools
import importlib
import itertools
import sys
from collections.abc import Callable
from typing import Any

from torch import Tensor, nn
from torch.nn import functional as F

from ..experiment import Options

#: Where the library keeps its residual networks: of twenty layers for 32 × 32 images, of eighteen for 224 × 224.
_LIBRARY = {
    "ResNet-20": ("pytorchcv.models.resnet_cifar", "resnet20_cifar10"),
    "ResNet-18": ("pytorchcv.models.resnet", "resnet18"),
}


@functools.cache
def _library(title: str) -> Callable[..., Any] | None:
    """The library's constructor, or None when it cannot be imported; says once which network is used."""
    module, name = _LIBRARY[title]
    try:
        make: Callable[..., Any] | None = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        make = None
        print(f"{title}: aimfor's own (pytorchcv's could not be used: {error})", file=sys.stderr)
    else:
        print(f"{title}: pytorchcv's", file=sys.stderr)
    return make


def library_resnet20(outputs: int = 1) -> nn.Module | None:
    """ResNet-20 for 32 × 32 images (He 2016, batch norm, not pretrained), or None without the library."""
    make = _library("ResNet-20")
    if make is None:
        return None
    model: nn.Module = make(num_classes=10)  # the library knows 10 and 100 classes alone
    last = model.output
    assert isinstance(last, nn.Linear)
    model.output = nn.Linear(last.in_features, outputs)
    return model


def library_resnet18(outputs: int = 1) -> nn.Module | None:
    """ResNet-18 (He 2016, batch norm, not pretrained) with a first layer for small images, or None without the library.

    The published first layer shrinks an image to a quarter of its side before the first block, and 32 × 32 images to
    one pixel after the last. As is usual for small images, a 3 × 3 convolution that shrinks nothing stands there.
    """
    make = _library("ResNet-18")
    if make is None:
        return None
    model: nn.Module = make(num_classes=outputs)
    features = model.features
    assert isinstance(features, nn.Sequential)
    features.init_block = nn.Sequential(nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU())
    features.final_pool = nn.AdaptiveAvgPool2d(1)
    return model


def small_cnn(outputs: int = 1, halve: bool = True) -> nn.Module:
    """Images halved, three strided convolutions, a linear layer: 24 thousand weights, milliseconds a step."""
    return nn.Sequential(
        nn.AvgPool2d(2) if halve else nn.Identity(),
        nn.Conv2d(3, 16, 3, 2, 1),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, 2, 1),
        nn.ReLU(),
        nn.Conv2d(32, 64, 3, 2, 1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
        nn.Linear(256, outputs),
    )


class Residual(nn.Module):
    """Two convolutions with the input carried around them (He 2016); group norm, which needs no batch statistics."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.second = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.norms = nn.ModuleList([nn.GroupNorm(8, outputs), nn.GroupNorm(8, outputs)])
        self.carry = nn.Identity() if inputs == outputs else nn.Conv2d(inputs, outputs, 1, stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        inner = self.norms[1](self.second(F.relu(self.norms[0](self.first(x)))))
        return F.relu(inner + self.carry(x))


def resnet20(outputs: int = 1) -> nn.Module:
    """The residual network of twenty layers for 32 × 32 images (0.27 million weights): a library's, or else ours."""
    return library_resnet20(outputs) or own_resnet20(outputs)


def resnet18(outputs: int = 1) -> nn.Module:
    """The residual network of eighteen layers (11 million weights), images of any size: a library's, or else ours."""
    return library_resnet18(outputs) or own_resnet18(outputs)


def own_resnet20(outputs: int = 1) -> nn.Module:
    """ResNet-20 with group norm, in torch alone."""
    return _residual_network((16, 16, 16, 16, 32, 32, 32, 64, 64, 64), outputs)


def own_resnet18(outputs: int = 1) -> nn.Module:
    """ResNet-18 with group norm and a first layer for small images, in torch alone."""
    return _residual_network((64, 64, 64, 128, 128, 256, 256, 512, 512), outputs)


def _residual_network(widths: tuple[int, ...], outputs: int) -> nn.Module:
    """A first convolution, a block from each width to the next (a wider one halves the image), a linear layer."""
    blocks = [Residual(a, b, 1 if a == b else 2) for a, b in itertools.pairwise(widths)]
    stem = [nn.Conv2d(3, widths[0], 3, 1, 1, bias=False), nn.GroupNorm(8, widths[0]), nn.ReLU()]
    return nn.Sequential(*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(widths[-1], outputs))


#: What ``--model`` can name.
NETWORKS: dict[str, Callable[[int], nn.Module]] = {"small": small_cnn, "resnet20": resnet20, "resnet18": resnet18}


def network(options: Options, outputs: int = 1) -> Callable[[], nn.Module]:
    """What makes the network that was asked for: by name, else ResNet-20 at full size and the small one otherwise."""
    return functools.partial(NETWORKS[options.model or ("resnet20" if options.full else "small")], outputs)
