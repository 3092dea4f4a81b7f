"""Mask networks fold by fold: every picture trains, and is held out once; the offsets are decided out of fold."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from ...errors import InputError
from ...targets.offsets import Offsets, fit_offsets
from ...targets.pixels import IGNORED
from ..ensemble.cells import MemoryStore, Store
from ..networks.loop import descend, never_stop
from .networks import PixelLoss, lovasz_loss, make_network, scores_of


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
        for one in self.networks[1:]:
            total = total + log_chances(scores_of(one, maps))
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
    for one in order.tolist():
        place = sizes.index(min(sizes))
        fold[groups == ids[one]] = place
        sizes[place] += int(counts[one])
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
            network = make_network([one.shape[1] for one in data.maps], classes)
            if before is not None and before[1].get("key") == key:
                network.load_state_dict(before[0])
                network.eval()
            else:
                own = make_loss()  # a new one for each fold: some remember the spread of scores
                told = _from(tell, fold * epochs, number * epochs)
                _train(network, data, train, epochs, seed, own, told, stop)
                kept.put(f"fold-{fold}", dict(network.state_dict()), {"key": key})
        scores[held] = log_chances(scores_of(network, [one[held] for one in data.maps])).half()
        networks.append(network)
    return MaskFit(networks, out_of_fold_offsets(scores, data, fold_of, counted, measure), fold_of, scores)


def out_of_fold_offsets(
    scores: Tensor, data: Masks, fold_of: Tensor, counted: Sequence[bool] | None = None, measure: str = "iou"
) -> Offsets:
    """Offsets on all out-of-fold pixels. Folds are the groups of the guard: they share no drive, patient or scene."""
    rows = [(fold_of == fold).nonzero().reshape(-1) for fold in fold_of.unique()]
    blocks = [part for row in rows for part in row.split(32)]
    groups = [int(fold_of[part[0]]) for part in blocks]
    return fit_offsets(
        [scores[part] for part in blocks],
        [data.y[part] for part in blocks],
        groups,
        ignore=IGNORED,
        counted=counted,
        measure=measure,
    )


def _from(tell: Callable[[int, int], None] | None, done: int, total: int) -> Callable[[int], None]:
    """Reports the epochs of one fold as a part of all epochs."""
    return lambda now: None if tell is None else tell(done + now, total)


def _key(data: Masks, settings: tuple[object, ...], fold_of: Tensor) -> str:
    """A name that changes whenever a fold's network could."""
    shapes = [tuple(one.shape) for one in data.maps]
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
            for part in order[: each * batch].split(batch):
                # Contiguous: torch's group norm has crashed on the gradient of maps that lay channels last.
                maps, y = [one[part].float().contiguous() for one in data.maps], data.y[part].long()
                if torch.rand((), generator=generator) < 0.5:
                    maps, y = [one.flip(3).contiguous() for one in maps], y.flip(2)
                inside = (y != IGNORED).reshape(-1)
                if bool(inside.any()):
                    scores = network(maps).permute(0, 2, 3, 1).flatten(0, 2)[inside]
                    yield loss(scores, y.reshape(-1)[inside])
            tell(epoch + 1)

    network.train()
    for _ in descend(optimizer, losses(), stop, clip=5.0):
        schedule.step()
    network.eval()
