"""Which class a pixel is decided to be: one offset per class, chosen by the exact IoU of pixels not learned from.

A network trained by cross-entropy says how probable each class is, and the most probable one makes the fewest wrong
pixels. Mean IoU asks for something else: a rare class weighs as much as a common one. ``argmax(score + offset)`` with
the offsets that are best for the data set's mean IoU is that decision, and no network has to be trained again.

One offset at a time (coordinate ascent). With the others fixed, a pixel becomes class k as soon as its offset passes
``best other score − score of k``, so a histogram of those limits by true class and by the class given up holds the
exact confusion counts at every candidate at once: O(pixels · classes) per pass, and memory for one block of images.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..errors import InputError

#: Candidates of an offset, around the present one: wide first, then fine. In units of the scores (log-odds).
REACH, STEPS = (4.0, 1.0, 0.25), 81
ROUNDS = 6
#: How much of the offsets is taken: offsets of two drives overdo it on the third, and a part of them may still help.
SHARES = (0.25, 0.5, 0.75, 1.0)


@dataclass(frozen=True)
class Offsets:
    """What `fit_offsets` found.

    Attributes:
        values: ``(c,)`` float64, with mean 0; all 0 where they were no better on groups they were not chosen on.
        argmax: Mean IoU of the pixels without offsets.
        cross_validated: Mean IoU with offsets, each group decided by offsets chosen without it; the best of four parts.
        text: Where the offsets come from, in words.
    """

    values: Tensor
    argmax: float
    cross_validated: float
    text: str

    def decide(self, scores: Tensor) -> Tensor:
        """Class ids ``(b, …)`` of scores ``(b, c, …)``."""
        shape = (1, -1, *(1,) * (scores.ndim - 2))
        return (scores + self.values.to(scores.dtype).view(shape)).argmax(1)


def fit_offsets(
    scores: Sequence[Tensor],
    targets: Sequence[Tensor],
    groups: Sequence[int] | None = None,
    *,
    ignore: int = 255,
    counted: Sequence[bool] | None = None,
    measure: str = "iou",
) -> Offsets:
    """Offsets that maximise the mean over classes of the data set's IoU (or Dice), guarded by groups.

    Offsets chosen on all groups but one are tried on the last, in turn, whole and in part. The part that is best there
    is taken of the offsets of all groups; where none is better than plain argmax the offsets are 0: what is tuned on
    one drive can lose on the next.

    Args:
        scores: Blocks ``(b, c, h, w)`` of scores of images the network has not learned from, such as log-probabilities.
        targets: Blocks ``(b, h, w)`` of class ids.
        groups: One id per block (its drive, patient or scene, or its fold); None makes every block a group of its own.
        ignore: Class id of pixels that do not count.
        counted: Which classes the mean is over; None for all that occur in the targets.
        measure: ``"iou"`` or ``"dice"``.

    Raises:
        InputError: Shapes that do not belong together, scores that are not finite, ids that are no class.

    Example:
        >>> scores = [torch.tensor([[[[2.0, 1.0, 2.0, 0.4]], [[0.0, 0.0, 0.0, 0.0]]]])]
        >>> offsets = fit_offsets(scores * 2, [torch.tensor([[[0, 1, 0, 1]]])] * 2)
        >>> offsets.decide(scores[0])
        tensor([[[0, 1, 0, 1]]])
        >>> offsets.argmax, offsets.cross_validated
        (0.25, 1.0)
    """
    pixels = _checked(scores, targets, groups, ignore, measure)
    counting = _counted(pixels, counted)
    classes = pixels[0].scores.shape[0]
    zero = torch.zeros(classes, dtype=torch.float64)
    plain = mean_ratio(_summed([confusion(block, zero) for block in pixels]), counting, measure)
    ids = sorted({block.group for block in pixels})
    if len(ids) < 2:
        text = "offsets chosen on one group only, not checked on another"
        return Offsets(_ascend(pixels, counting, measure), plain, float("nan"), text)
    without = {group: _ascend([block for block in pixels if block.group != group], counting, measure) for group in ids}
    values = {}
    for share in SHARES:
        counts = [confusion(block, share * without[block.group]) for block in pixels]
        values[share] = mean_ratio(_summed(counts), counting, measure)
    share = max(SHARES, key=values.__getitem__)
    if not values[share] > plain:
        text = f"argmax: offsets chosen without a group did not help on it, over {len(ids)} groups together"
        return Offsets(zero, plain, plain, text)
    text = f"{share:.0%} of the offsets by the {measure} of {len(ids)} groups of images the models had not learned from"
    return Offsets(share * _ascend(pixels, counting, measure), plain, values[share], text)


@dataclass(frozen=True)
class Pixels:
    """The pixels of a block that count: scores ``(c, n)`` and class ids ``(n,)``."""

    scores: Tensor
    y: Tensor
    group: int


def confusion(pixels: Pixels, offsets: Tensor) -> Tensor:
    """``(3, c)``: pixels that are and are called a class, that are called it, and that are it."""
    classes = len(pixels.scores)
    called = (pixels.scores + offsets.to(pixels.scores.dtype)[:, None]).argmax(0)
    right = torch.bincount(called[called == pixels.y], minlength=classes)
    counts = (right, torch.bincount(called, minlength=classes), torch.bincount(pixels.y, minlength=classes))
    return torch.stack(counts).double()


def class_ratios(counts: Tensor, measure: str = "iou") -> Tensor:
    """IoU or Dice of each class ``(…, c)`` from counts ``(3, …, c)``; NaN for a class that neither is nor is called."""
    right, called, true = counts
    ratios: Tensor = right / (called + true - right) if measure == "iou" else 2 * right / (called + true)
    return ratios


def mean_ratio(counts: Tensor, counting: Tensor, measure: str = "iou") -> float:
    return float(class_ratios(counts, measure)[..., counting].mean())


def _summed(counts: Sequence[Tensor]) -> Tensor:
    return torch.stack(list(counts)).sum(0)


def _ascend(pixels: Sequence[Pixels], counting: Tensor, measure: str) -> Tensor:
    """Coordinate ascent from zero; stops when a whole round has changed nothing."""
    classes = len(pixels[0].scores)
    offsets = torch.zeros(classes, dtype=torch.float64)
    best = mean_ratio(_summed([confusion(block, offsets) for block in pixels]), counting, measure)
    for turn in range(ROUNDS):
        reach, before = REACH[min(turn, len(REACH) - 1)], best
        for label in range(classes):
            values = offsets[label] + torch.linspace(-reach, reach, STEPS, dtype=torch.float64)
            means = class_ratios(_counts_along(pixels, offsets, label, values), measure)[:, counting].mean(1)
            good = (means >= means.max() - 1e-12).nonzero().reshape(-1).tolist()
            if float(means[good[0]]) > best + 1e-9:
                # The middle of the first candidates that are as good: an edge is where luck ends.
                run = [step for number, step in enumerate(good) if step == good[0] + number]
                offsets[label], best = values[run[len(run) // 2]], float(means[good[0]])
        if best <= before and turn >= len(REACH) - 1:
            break
    return offsets - offsets.mean()


def _counts_along(pixels: Sequence[Pixels], offsets: Tensor, label: int, values: Tensor) -> Tensor:
    """Exact counts ``(3, v, c)`` for each of the ascending candidates ``(v,)`` of one class's offset."""
    classes, steps = len(offsets), len(values)
    total = torch.zeros(3, steps, classes, dtype=torch.float64)
    for block in pixels:
        moved = block.scores + offsets.to(block.scores.dtype)[:, None]
        moved[label] = -torch.inf
        other, given_up = moved.max(0)
        limit = (other - block.scores[label]).double()
        # argmax takes the first of equals, so a lower class id wins a tie and a higher one loses it.
        wins, loses = (torch.searchsorted(values, limit, right=right) for right in (False, True))
        edge = torch.where(given_up > label, wins, loses)

        def tally(rows: Tensor, ids: Tensor, edge: Tensor = edge) -> Tensor:
            flat = torch.bincount(edge[rows] * classes + ids[rows], minlength=(steps + 1) * classes)
            return flat.view(steps + 1, classes).cumsum(0)[:-1].double()

        gone = tally(torch.ones_like(block.y, dtype=torch.bool), given_up)
        called = torch.bincount(given_up, minlength=classes).double() - gone
        called[:, label] = gone.sum(1)
        right_before = given_up == block.y
        right = torch.bincount(given_up[right_before], minlength=classes) - tally(right_before, given_up)
        right[:, label] = tally(block.y == label, block.y)[:, label]
        total += torch.stack((right, called, torch.bincount(block.y, minlength=classes).double().expand(steps, -1)))
    return total


def _checked(
    scores: Sequence[Tensor], targets: Sequence[Tensor], groups: Sequence[int] | None, ignore: int, measure: str
) -> list[Pixels]:
    if measure not in ("iou", "dice"):
        raise InputError("measure", repr(measure), "'iou' or 'dice'")
    if not scores or len(scores) != len(targets):
        raise InputError("targets", f"{len(targets)} blocks beside {len(scores)} of scores", "one for each, at least 1")
    ids = list(range(len(scores))) if groups is None else [int(group) for group in groups]
    if len(ids) != len(scores):
        raise InputError("groups", f"{len(ids)} for {len(scores)} blocks", "one id per block")
    pixels = []
    for block, truth, group in zip(scores, targets, ids, strict=True):
        if block.ndim < 3 or block.shape[1] < 2 or (block.shape[0], *block.shape[2:]) != tuple(truth.shape):
            raise InputError("scores", f"{tuple(block.shape)} beside {tuple(truth.shape)}", "(b, c, h, w), (b, h, w)")
        if block.shape[1] != scores[0].shape[1]:
            raise InputError("scores", f"{block.shape[1]} classes in one block", f"{scores[0].shape[1]}, as before")
        flat, y = block.transpose(0, 1).flatten(1).float(), truth.reshape(-1).long()
        inside = y != ignore
        flat, y = flat[:, inside], y[inside]
        if len(y) and not 0 <= int(y.min()) <= int(y.max()) < len(flat):
            raise InputError("targets", f"ids {int(y.min())} … {int(y.max())}", f"0 … {len(flat) - 1}, or {ignore}")
        if not bool(flat.isfinite().all()):
            raise InputError("scores", "values that are not finite", "finite scores", "Clip log-probabilities.")
        pixels.append(Pixels(flat, y, group))
    if not any(len(block.y) for block in pixels):
        raise InputError("targets", "no pixel that counts", "masks with labelled pixels")
    return pixels


def _counted(pixels: Sequence[Pixels], counted: Sequence[bool] | None) -> Tensor:
    classes = len(pixels[0].scores)
    there = _summed([confusion(block, torch.zeros(classes)) for block in pixels])[2] > 0
    if counted is not None:
        if len(counted) != classes:
            raise InputError("counted", f"{len(counted)} entries", f"one for each of the {classes} classes")
        there &= torch.tensor(list(counted))
    if not bool(there.any()):
        raise InputError("targets", "none of the classes that count", "at least one pixel of one")
    return there
