"""A class for every pixel: networks fold by fold, and offsets per class chosen on pixels they have not seen.

Every picture trains, and is held out once. Networks are decoders on the maps of a backbone, or have an encoder of their
own.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional

from ..errors import InputError
from ..loss import MetricLoss
from ..metrics.iou import IoU
from ..targets.offsets import Offsets, fit_offsets
from ..targets.pixels import IGNORED
from .ensemble.cells import MemoryStore, Store
from .networks.loop import descend, never_stop
from .networks.models import GroupNorm

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
        self.norms = nn.ModuleList([GroupNorm(1, count) for count in channels])
        self.sides = nn.ModuleList([nn.Conv2d(count, width, 1) for count in channels])
        self.merge = nn.ModuleList([_block(width, width) for _ in channels[1:]])
        self.last = nn.Sequential(_block(width, width), nn.Dropout2d(0.1), nn.Conv2d(width, classes, 1))

    def forward(self, maps: Sequence[Tensor]) -> Tensor:
        sides = [side(norm(level)) for side, norm, level in zip(self.sides, self.norms, maps, strict=True)]
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
    scores, n = [], len(maps[0])
    with torch.no_grad():
        for start in range(0, n, block):
            batch = [level[start : start + block].float().contiguous() for level in maps]
            short = block - len(batch[0])
            if short:
                batch = [torch.cat((level, level.new_zeros(short, *level.shape[1:]))) for level in batch]
            scores.append(network(batch))
    network.train(mode)
    return torch.cat(scores)[:n]


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


@dataclass(frozen=True)
class Masks:
    """Pictures as networks see them, with a class for every pixel.

    Attributes:
        maps: ``(n, c_i, h_i, w_i)`` feature maps from fine to coarse, any float type; or the pictures alone.
        y: ``(n, h, w)`` uint8 class ids at the size of the network's scores, `IGNORED` where they do not count.
        groups: ``(n,)`` ids; pictures of one group are never on both sides of a fold.

    Example:
        >>> pictures, y = torch.zeros(4, 3, 8, 8), torch.zeros(4, 8, 8, dtype=torch.uint8)
        >>> len(Masks((pictures,), y, groups=torch.arange(4)))
        4
    """

    maps: tuple[Tensor, ...]
    y: Tensor
    groups: Tensor

    def __len__(self) -> int:
        return len(self.y)


@dataclass
class MaskFit:
    """Fitted networks, one per fold, whose mean log-probabilities speak, and the offsets that decide.

    Attributes:
        networks: One per fold.
        offsets: Chosen on out-of-fold scores.
        folds: The fold that each picture was held out of.
        out_of_fold: ``(n, c, h, w)`` out-of-fold log-probabilities, float16; None for a restored one.

    Example:
        >>> pictures = torch.rand(4, 3, 16, 16, generator=torch.Generator().manual_seed(0))
        >>> y = (pictures[:, 0, ::2, ::2] > 0.5).to(torch.uint8)  # the small network's scores are half as fine
        >>> data = Masks((pictures,), y, torch.arange(4))
        >>> fitted = fit_masks(data, 2, folds=2, epochs=1)
        >>> len(fitted.networks), fitted.scores(data.maps).shape
        (2, torch.Size([4, 2, 8, 8]))
    """

    networks: list[nn.Module]
    offsets: Offsets
    folds: Tensor
    out_of_fold: Tensor | None = field(default=None, repr=False)

    def scores(self, maps: Sequence[Tensor]) -> Tensor:
        """``(n, c, h, w)`` mean log-probabilities."""
        total = log_chances(scores_of(self.networks[0], maps))
        for network in self.networks[1:]:
            total = total + log_chances(scores_of(network, maps))
        return total / len(self.networks)


def log_chances(scores: Tensor) -> Tensor:
    """Log-probabilities, none below −12: the logarithm of nothing would be infinite."""
    return scores.log_softmax(1).clamp_min(-12.0)


def group_folds(groups: Tensor, number: int, seed: int) -> Tensor:
    """The fold of each picture: whole groups, the largest first, each to the fold that has fewest pictures.

    Raises:
        InputError: Fewer than two groups.
    """
    ids, counts = groups.unique(return_counts=True)
    if len(ids) < 2:
        raise InputError("--cluster", "one cluster only", "at least two: one to learn from, one to evaluate on")
    order = torch.randperm(len(ids), generator=torch.Generator().manual_seed(seed))
    order = order[counts[order].argsort(descending=True, stable=True)]
    sizes, fold = [0] * min(number, len(ids)), torch.zeros(len(groups), dtype=torch.long)
    for group in order.tolist():
        smallest = sizes.index(min(sizes))
        fold[groups == ids[group]] = smallest
        sizes[smallest] += int(counts[group])
    return fold


def fit_masks(
    data: Masks,
    classes: int,
    *,
    folds: int = 3,
    epochs: int = 12,
    seed: int = 0,
    make_loss: Callable[[], PixelLoss] = lovasz_loss,
    counted: Sequence[bool] | None = None,
    measure: str = "iou",
    store: Store | None = None,
    tell: Callable[[int, int], None] | None = None,
    stop: Callable[[], bool] = never_stop,
) -> MaskFit:
    """One network per fold, then the offsets of `fit_offsets` on what each says about the groups it has not seen.

    Args:
        data: Pictures with masks.
        classes: How many; a binary mask has two.
        folds: Their number at most; there are never more than groups.
        epochs: Passes over the training pictures of a fold.
        seed: Decides folds, first weights and order.
        make_loss: Makes the loss of a network; by default the Lovász loss.
        counted: Which classes the mean IoU is over; None for all that occur.
        measure: ``"iou"`` or ``"dice"``, of the data set.
        store: Where finished folds are kept; a second call with the same store goes on from there.
        tell: Called with steps done and in all.
        stop: True ends with `Interrupted`; finished folds are kept.

    Example:
        >>> pictures = torch.rand(4, 3, 16, 16, generator=torch.Generator().manual_seed(0))
        >>> y = (pictures[:, 0, ::2, ::2] > 0.5).to(torch.uint8)  # the small network's scores are half as fine
        >>> data = Masks((pictures,), y, torch.arange(4))
        >>> fit_masks(data, 2, folds=2, epochs=1).folds.bincount().tolist()
        [2, 2]
    """
    fold_of, kept = group_folds(data.groups, folds, seed), store or MemoryStore()
    number = int(fold_of.max()) + 1
    key = _key(data, (classes, epochs, seed, make_loss.__qualname__), fold_of)
    networks, scores = [], torch.zeros(len(data), classes, *data.y.shape[1:], dtype=torch.float16)
    for fold in range(number):
        train, held = ((fold_of != fold).nonzero().reshape(-1), (fold_of == fold).nonzero().reshape(-1))
        before = kept.get(f"fold-{fold}")
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed * 1009 + fold)
            network = make_network([level.shape[1] for level in data.maps], classes)
            if before is not None and before[1].get("key") == key:
                network.load_state_dict(before[0])
                network.eval()
            else:
                own = make_loss()  # a new one for each fold: some remember the spread of scores
                told = partial(_tell, tell, fold * epochs, number * epochs)
                _train(network, data, train, epochs, seed, own, told, stop)
                kept.put(f"fold-{fold}", dict(network.state_dict()), {"key": key})
        scores[held] = log_chances(scores_of(network, [level[held] for level in data.maps])).half()
        networks.append(network)
    return MaskFit(networks, out_of_fold_offsets(scores, data, fold_of, counted, measure), fold_of, scores)


def _tell(tell: Callable[[int, int], None] | None, before: int, total: int, epoch: int) -> None:
    if tell is not None:
        tell(before + epoch, total)


def out_of_fold_offsets(
    scores: Tensor, data: Masks, fold_of: Tensor, counted: Sequence[bool] | None = None, measure: str = "iou"
) -> Offsets:
    """Offsets on all out-of-fold pixels. Folds are the groups of the guard: they share no drive, patient or scene."""
    rows = [(fold_of == fold).nonzero().reshape(-1) for fold in fold_of.unique()]
    blocks = [block for of_fold in rows for block in of_fold.split(32)]
    groups = [int(fold_of[block[0]]) for block in blocks]
    return fit_offsets(
        [scores[block] for block in blocks],
        [data.y[block] for block in blocks],
        groups,
        ignore=IGNORED,
        counted=counted,
        measure=measure,
    )


def _key(data: Masks, settings: tuple[object, ...], fold_of: Tensor) -> str:
    """A name that changes whenever a fold's network could."""
    shapes = [tuple(level.shape) for level in data.maps]
    total = hashlib.sha256(repr((settings, fold_of.tolist(), shapes)).encode())
    total.update(data.y.numpy().tobytes() + data.maps[-1].numpy().tobytes())
    return total.hexdigest()[:24]


def _train(
    network: nn.Module,
    data: Masks,
    rows: Tensor,
    epochs: int,
    seed: int,
    loss: PixelLoss,
    tell: Callable[[int], None],
    stop: Callable[[], bool],
) -> None:
    """AdamW on one cycle, pictures mirrored at random."""
    batch = min(8, len(rows))
    each = max(1, len(rows) // batch)
    optimizer = torch.optim.AdamW(network.parameters(), lr=4e-3, weight_decay=1e-3, fused=True)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 4e-3, total_steps=epochs * each)
    generator = torch.Generator().manual_seed(seed)

    def losses() -> Iterator[Tensor]:
        for epoch in range(epochs):
            order = rows[torch.randperm(len(rows), generator=generator)]
            for drawn in order[: each * batch].split(batch):
                # Contiguous: torch's group norm has crashed on the gradient of maps that lay channels last.
                maps, y = [level[drawn].float().contiguous() for level in data.maps], data.y[drawn].long()
                if torch.rand((), generator=generator) < 0.5:
                    maps, y = [level.flip(3).contiguous() for level in maps], y.flip(2)
                inside = (y != IGNORED).reshape(-1)
                if bool(inside.any()):
                    scores = network(maps).permute(0, 2, 3, 1).flatten(0, 2)[inside]
                    yield loss(scores, y.reshape(-1)[inside])
            tell(epoch + 1)

    network.train()
    for _ in descend(optimizer, losses(), stop, clip=5.0):
        schedule.step()
    network.eval()
