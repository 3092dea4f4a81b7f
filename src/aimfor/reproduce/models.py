"""Networks for runs at full size from a maintained library, where it is installed.

Nothing here is required: `images` falls back to its own. ``pip install --no-deps pytorchcv`` beside torch is enough;
the network is imported from its own module, because the package's index of models wants torchvision.
"""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable
from typing import Any

from torch import nn

#: Where the library keeps its residual network of twenty layers for 32 × 32 images.
_LIBRARY = ("pytorchcv.models.resnet_cifar", "resnet20_cifar10")


@functools.cache
def _library() -> Callable[..., Any] | None:
    """The library's constructor, or None when it cannot be imported; says once which network is used."""
    module, name = _LIBRARY
    try:
        found: Callable[..., Any] | None = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        found = None
        print(f"ResNet-20: aimfor's own (pytorchcv's could not be used: {error})", file=sys.stderr)
    else:
        print("ResNet-20: pytorchcv's", file=sys.stderr)
    return found


def library_resnet20(outputs: int = 1) -> nn.Module | None:
    """ResNet-20 for 32 × 32 images (He 2016, batch norm, not pretrained), or None without the library."""
    make = _library()
    if make is None:
        return None
    model: nn.Module = make(num_classes=10)  # the library knows 10 and 100 classes alone
    last = model.output
    assert isinstance(last, nn.Linear)
    model.output = nn.Linear(last.in_features, outputs)
    return model
