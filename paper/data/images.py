"""Small image sets as tensors, the imbalances of Meng's tables, and the networks that train on them."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from ..experiment import Options
from ..networks.models import library_resnet18, library_resnet20
from ..protocol.protocol import Split
from .formats import read_split
from .tables import stratified

#: Classes of each set; cats and dogs are two.
CLASSES = {"cats_vs_dogs": 2, "cifar10": 10, "cifar100": 100, "stl10": 10}


def load(folder: Path, name: str) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Training and test images ``(n, 3, 32, 32)`` in [−1, 1] with their class ids.

    From ``<name>/train.npz`` and ``<name>/test.npz``, or from the set's published files (see `formats`).

    Raises:
        InputError: Neither is there.
    """
    parts: list[Tensor] = []
    for split in ("train", "test"):
        images, labels = read_split(folder, name, split)
        x = torch.from_numpy(np.ascontiguousarray(images)).permute(0, 3, 1, 2).float().div(127.5).sub(1.0)
        if x.shape[-1] != 32:
            x = functional.interpolate(x, (32, 32), mode="area")
        parts += [x.contiguous(), torch.from_numpy(labels).long()]
    return parts[0], parts[1], parts[2], parts[3]


def thinned(labels: Tensor, keep: dict[int, int], seed: int) -> Tensor:
    """Positions with at most ``keep[label]`` of each label, drawn at random, in order."""
    generator = torch.Generator().manual_seed(seed)
    picked = []
    for label, count in keep.items():
        members = (labels == label).nonzero().squeeze(1)
        picked.append(members[torch.randperm(len(members), generator=generator)[:count]])
    return torch.cat(picked).sort().values


def binary_parts(folder: Path, name: str, positives: float, seed: int, size: int | None) -> tuple[Split, Split, Split]:
    """Meng's binary task: half of the classes positive, negatives dropped until positives have the given share.

    Args:
        folder: Of the data sets.
        name: Key of `CLASSES`.
        positives: Share of positives in training and validation data; test data keeps all.
        seed: Of the draws.
        size: At most so many positives (None: all there are). A quarter of the thinned data is for validation.
    """
    x, y, test_x, test_y = load(folder, name)
    half = CLASSES[name] // 2
    y, test_y = (y < half).long(), (test_y < half).long()
    count = int(y.sum()) if size is None else min(size, int(y.sum()))
    rows = thinned(y, {1: count, 0: round(count * (1 - positives) / positives)}, seed)
    return (*_split(x[rows], y[rows], seed), Split(test_x, test_y))


def three_class_parts(folder: Path, name: str, drop: float, seed: int, size: int | None) -> tuple[Split, Split, Split]:
    """Meng's three-class task: classes grouped in three, a share ``drop`` of the first two groups left out."""
    x, y, test_x, test_y = load(folder, name)
    edges = torch.tensor({"stl10": [3, 6], "cifar10": [3, 6], "cifar100": [33, 66]}[name])
    y, test_y = torch.bucketize(y, edges, right=True), torch.bucketize(test_y, edges, right=True)
    least = int(torch.bincount(y).min())
    count = least if size is None else min(size, least)
    few = round(count * (1 - drop))
    rows = thinned(y, {0: few, 1: few, 2: count}, seed)
    return (*_split(x[rows], y[rows], seed), Split(test_x, test_y))


def _split(x: Tensor, y: Tensor, seed: int) -> tuple[Split, Split]:
    fit, judge = stratified(y, 0.25, seed)
    return Split(x[fit], y[fit]), Split(x[judge], y[judge])


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
        inner = self.norms[1](self.second(functional.relu(self.norms[0](self.first(x)))))
        return functional.relu(inner + self.carry(x))


def resnet20(outputs: int = 1) -> nn.Module:
    """The residual network of twenty layers for 32 × 32 images (0.27 million weights): a library's, or else ours."""
    found = library_resnet20(outputs)
    return own_resnet20(outputs) if found is None else found


def resnet18(outputs: int = 1) -> nn.Module:
    """The residual network of eighteen layers (11 million weights), images of any size: a library's, or else ours."""
    found = library_resnet18(outputs)
    return own_resnet18(outputs) if found is None else found


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
    return partial(NETWORKS[options.model or ("resnet20" if options.full else "small")], outputs)
