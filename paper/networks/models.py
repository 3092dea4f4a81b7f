"""Networks for runs at full size from a maintained library, where it is installed.

Nothing here is required: `images` falls back to its own. ``pip install --no-deps pytorchcv`` beside torch is enough;
a network is imported from its own module, because the package's index of models wants torchvision.
"""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable
from typing import Any

from torch import nn

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
        found: Callable[..., Any] | None = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        found = None
        print(f"{title}: aimfor's own (pytorchcv's could not be used: {error})", file=sys.stderr)
    else:
        print(f"{title}: pytorchcv's", file=sys.stderr)
    return found


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
