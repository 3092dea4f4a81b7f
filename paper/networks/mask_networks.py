"""Networks that give a score to every pixel and one score to the whole image: SegNet and a DeepLabV3+ in small.

Both return ``(pixels, size)``: ``(b, c, h, w)`` scores of the classes and ``(b,)``, the extra node that reads the
encoder alone. The papers' regularizer needs the node; every other method leaves it as it was born, so that all start
from the same weights.
"""

from __future__ import annotations

import itertools
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from aimfor.errors import InputError


def convolution(inputs: int, outputs: int, kernel: int = 3, *, stride: int = 1, dilation: int = 1) -> nn.Sequential:
    """A convolution that keeps the size (divided by the stride), batch norm, ReLU."""
    padding = dilation * (kernel // 2)
    layer = nn.Conv2d(inputs, outputs, kernel, stride, padding, dilation, bias=False)
    return nn.Sequential(layer, nn.BatchNorm2d(outputs), nn.ReLU())


class SegNet(nn.Module):
    """Encoder and decoder, the decoder unpooling with the indices its encoder's max-pooling kept (Badrinarayanan 2017).

    Args:
        classes: Scores per pixel; 1 for a binary mask.
        widths: Channels of each stage; the size is halved after every one.
    """

    def __init__(self, classes: int = 1, widths: tuple[int, ...] = (16, 32, 64)) -> None:
        super().__init__()
        pairs = list(itertools.pairwise((3, *widths)))
        self.encoder = nn.ModuleList([convolution(a, b) for a, b in pairs])
        outward = [(b, max(a, widths[0])) for a, b in reversed(pairs)]
        self.decoder = nn.ModuleList([convolution(a, b) for a, b in outward])
        self.classify = nn.Conv2d(widths[0], classes, 1)
        self.size = nn.Linear(widths[-1], 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        kept = []
        for stage in self.encoder:
            x = stage(x)
            shape = x.shape[2:]
            x, where = functional.max_pool2d_with_indices(x, (2, 2))
            kept.append((where, shape))
        size = self.size(x.mean((2, 3))).squeeze(1)
        for stage, (where, shape) in zip(self.decoder, reversed(kept), strict=True):
            x = stage(functional.max_unpool2d(x, where, (2, 2), output_size=list(shape)))
        return self.classify(x), size


class _Residual(nn.Module):
    """Two convolutions with the input carried around them, dilated when asked."""

    def __init__(self, inputs: int, outputs: int, *, stride: int = 1, dilation: int = 1) -> None:
        super().__init__()
        self.inner = nn.Sequential(
            convolution(inputs, outputs, stride=stride, dilation=dilation),
            nn.Conv2d(outputs, outputs, 3, 1, dilation, dilation, bias=False),
            nn.BatchNorm2d(outputs),
        )
        same = inputs == outputs and stride == 1
        self.carry = nn.Identity() if same else nn.Conv2d(inputs, outputs, 1, stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return functional.relu(self.inner(x) + self.carry(x))


class DeepLab(nn.Module):
    """The shape of DeepLabV3+ (Chen 2018) in small: strides 2, 4, 8, then atrous blocks; an atrous pyramid with a
    branch for the whole image; a decoder that joins it with the features of stride 4. Scores at half the image's size.

    Args:
        classes: Scores per pixel.
        width: Channels at stride 2; twice and four times as many follow.
        rates: Dilations of the pyramid, at stride 8.
    """

    def __init__(self, classes: int, width: int = 16, rates: tuple[int, ...] = (1, 2, 4)) -> None:
        super().__init__()
        middle, deep = 2 * width, 4 * width
        self.stem = convolution(3, width, stride=2)
        self.shallow = _Residual(width, middle, stride=2)
        self.deep = nn.Sequential(_Residual(middle, deep, stride=2), _Residual(deep, deep, dilation=2))
        self.pyramid = nn.ModuleList([convolution(deep, middle, dilation=rate) for rate in rates])
        self.whole = nn.Sequential(nn.Conv2d(deep, middle, 1), nn.ReLU())
        self.join = convolution(middle * (len(rates) + 1), middle, 1)
        self.skip = convolution(middle, width, 1)
        self.decoder = convolution(middle + width, middle)
        self.classify = nn.Conv2d(middle, classes, 1)
        self.size = nn.Linear(deep, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        shallow = self.shallow(self.stem(x))
        deep = self.deep(shallow)
        whole = deep.mean((2, 3), keepdim=True)
        branches = [branch(deep) for branch in self.pyramid]
        branches.append(self.whole(whole).expand_as(branches[0]))
        joined = resized(self.join(torch.cat(branches, 1)), shallow.shape[2:])
        scores = self.classify(self.decoder(torch.cat((joined, self.skip(shallow)), 1)))
        half = (x.shape[2] // 2, x.shape[3] // 2)
        return resized(scores, half), self.size(whole.flatten(1)).squeeze(1)


def resized(x: Tensor, size: Any) -> Tensor:
    """Images or scores at another height and width, bilinear."""
    return functional.interpolate(x, size, mode="bilinear", align_corners=False)


class LibraryDeepLab(nn.Module):
    """DeepLabV3+ with a ResNet-18 encoder from `segmentation_models_pytorch`, and the size node on its encoder.

    Random weights: nothing is fetched. Scores at half the image's size, as `DeepLab` gives them.
    """

    def __init__(self, classes: int) -> None:
        super().__init__()
        try:
            import segmentation_models_pytorch as library
        except ImportError as error:
            remedy = "pip install segmentation-models-pytorch, or leave --full out."
            raise InputError("network", "no segmentation_models_pytorch", "the library installed", remedy) from error
        self.inner: Any = library.DeepLabV3Plus("resnet18", encoder_weights=None, classes=classes)
        self.size = nn.Linear(self.inner.encoder.out_channels[-1], 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        features = self.inner.encoder(x)
        scores = self.inner.segmentation_head(self.inner.decoder(features))
        half = (x.shape[2] // 2, x.shape[3] // 2)
        return resized(scores, half), self.size(features[-1].mean((2, 3))).squeeze(1)
