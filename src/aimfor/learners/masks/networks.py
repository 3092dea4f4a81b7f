"""Networks that score every pixel, on the maps of a backbone or with an encoder of their own, and their losses."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from ...loss import MetricLoss
from ...metrics.iou import IoU
from ..networks.models import GroupNorm

#: Channels of the decoder, and of the small encoder at strides 2, 4, 8 and 16.
WIDTH, ENCODER = 48, (16, 32, 48, 64)


class Decoder(nn.Module):
    """Feature maps from fine to coarse, ``(b, c_i, h_i, w_i)``, to scores ``(b, classes, h_0, w_0)``.

    Every map is brought to one width; from the coarsest on, each is enlarged and added to the next finer one (a feature
    pyramid), and the sum passes once through 3 × 3 convolutions. Group norms: a picture's scores do not depend on who
    else is in the batch.
    """

    def __init__(self, channels: Sequence[int], classes: int, width: int = WIDTH) -> None:
        super().__init__()
        self.norms = nn.ModuleList([GroupNorm(1, one) for one in channels])
        self.sides = nn.ModuleList([nn.Conv2d(one, width, 1) for one in channels])
        self.merge = nn.ModuleList([_block(width, width) for _ in channels[1:]])
        self.last = nn.Sequential(_block(width, width), nn.Dropout2d(0.1), nn.Conv2d(width, classes, 1))

    def forward(self, maps: Sequence[Tensor]) -> Tensor:
        sides = [side(norm(one)) for side, norm, one in zip(self.sides, self.norms, maps, strict=True)]
        x = sides[-1]
        for side, merge in zip(reversed(sides[:-1]), reversed(self.merge), strict=True):
            x = side + functional.interpolate(merge(x), side.shape[2:], mode="bilinear", align_corners=False)
        scores: Tensor = self.last(x)
        return scores


class SmallNetwork(nn.Module):
    """The decoder with an encoder that is trained from scratch; scores at half the picture's size."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        widths = (3, *ENCODER)
        self.stages = nn.ModuleList(
            [nn.Sequential(_block(a, b, stride=2), _block(b, b)) for a, b in itertools.pairwise(widths)]
        )
        self.decoder = Decoder(ENCODER, classes)

    def forward(self, maps: Sequence[Tensor]) -> Tensor:
        (x,) = maps
        levels = []
        for stage in self.stages:
            x = stage(x)
            levels.append(x)
        scores: Tensor = self.decoder(levels)
        return scores


def _block(inputs: int, outputs: int, stride: int = 1) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), GroupNorm(8, outputs), nn.ReLU(inplace=True)
    )


def make_network(channels: Sequence[int], classes: int) -> nn.Module:
    """For the maps of a backbone, or, where the only map is the picture itself, with an encoder of its own."""
    return SmallNetwork(classes) if list(channels) == [3] else Decoder(channels, classes)


def enlarged(scores: Tensor, size: tuple[int, int]) -> Tensor:
    """Scores at another height and width, bilinear."""
    return functional.interpolate(scores, size, mode="bilinear", align_corners=False)


def scores_of(network: nn.Module, maps: Sequence[Tensor], block: int = 8) -> Tensor:
    """Of all pictures without gradient, float32; in blocks of one size, so that the others do not matter."""
    mode = network.training
    network.eval()
    found, n = [], len(maps[0])
    with torch.no_grad():
        for start in range(0, n, block):
            part = [one[start : start + block].float().contiguous() for one in maps]
            short = block - len(part[0])
            if short:
                part = [torch.cat((one, one.new_zeros(short, *one.shape[1:]))) for one in part]
            found.append(network(part))
    network.train(mode)
    return torch.cat(found)[:n]


#: Scores ``(n, c)`` and class ids ``(n,)`` of the pixels of a batch that count, to a scalar.
PixelLoss = Callable[[Tensor, Tensor], Tensor]


def lovasz_weights(truth: Tensor) -> Tensor:
    """Gradient of the Lovász extension of the Jaccard loss, at errors sorted downwards with these truths ``(n, c)``."""
    total = truth.sum(0)
    union = total + (1.0 - truth).cumsum(0)
    jaccard = 1.0 - (total - truth.cumsum(0)) / union
    return torch.cat((jaccard[:1], jaccard[1:] - jaccard[:-1]))


def lovasz(scores: Tensor, y: Tensor) -> Tensor:
    """The convex extension of the Jaccard loss of ``|y − p|``, mean over the classes in the batch.

    On pictures the networks had not learned from it had the highest mean IoU, CamVid and Stanford Background taken
    together (`mask_offsets`); its scores need no offsets.

    References:
        Berman, Triki, Blaschko, The Lovász-softmax loss, 2018.
    """
    truth = functional.one_hot(y, scores.shape[1]).to(scores.dtype)
    there = truth.sum(0) > 0
    truth, errors = truth[:, there], (truth - scores.softmax(1)).abs()[:, there]
    order = errors.detach().argsort(0, descending=True)
    return (errors.gather(0, order) * lovasz_weights(truth.gather(0, order))).sum(0).mean()


def lovasz_loss() -> PixelLoss:
    """The default; it remembers nothing."""
    return lovasz


def mean_iou() -> PixelLoss:
    """`MetricLoss` of the mean IoU as it comes. It remembers the spread of scores."""
    return MetricLoss(IoU(classes="mean"))


def cross_entropy() -> PixelLoss:
    """Every pixel alike."""
    return functional.cross_entropy


#: By the names of ``--loss``.
LOSSES: dict[str, Callable[[], PixelLoss]] = {"iou": mean_iou, "lovasz": lovasz_loss, "cross-entropy": cross_entropy}
