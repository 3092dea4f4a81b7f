"""Sky from weak boxes (Venkatesh, Fig. 3): pixels inside a box are positive, everything else is unlabelled.

Stanford Background. The box of a training image is the largest rectangle that holds sky alone; the network sees no
other label. SegNet (16, 32, 64) on images of 48 × 64, 3 epochs of batches of 8 at rate 0.005; the last epoch is read
on test images with their masks, at threshold 0. *naive* takes all unlabelled pixels as not sky; *weighted* gives both
kinds the same mass; *uPU*, *nnPU*: `PULoss`. The known prior is the share of sky among unlabelled training pixels; the
estimated one comes from the naive network on validation images' boxes. *+ F1*: the papers' regularizer, α = 0.01, big
boxes against small and none. Boxes are not drawn from all sky alike (they miss its borders), which PU learning
assumes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

import aimfor
from aimfor.lagrangian import class_fractions
from aimfor.positive_unlabelled import estimate_prior

from ...data.mask_data import IGNORED, MaskPart
from ...experiment import Cell, Experiment, Options, Result
from ...networks.mask_networks import resized
from ...protocol.protocol import Contender, cross_entropy, weighted_cross_entropy
from ...report.pages import report_of
from ...report.scoreboard import markdown
from .mask_judges import SKY_JUDGES
from .mask_report import sky_row
from .mask_training import MaskBudget, Regularizer, mask_scores, train
from .sky_segmentation import task_of

SET, RATE, ALPHA = "stanford_background", 5e-3, 0.01
NAIVE, SIZE = "naive", "box"
BUDGET = MaskBudget(3, 1)
#: Pixels that the prior is estimated from.
PIXELS = 40_000


def largest_box(mask: Tensor) -> tuple[int, int, int, int]:
    """``(top, left, bottom, right)`` of the largest rectangle of ones, ends excluded; no area where there is none.

    Row by row: under how many ones in a stack does each column stand, and how far can each stack's height reach.
    """
    best, found = 0, (0, 0, 0, 0)
    heights = torch.zeros(mask.shape[1], dtype=torch.long)
    for row in range(mask.shape[0]):
        heights = torch.where(mask[row] > 0, heights + 1, 0)
        stack: list[tuple[int, int]] = []  # (where this height begins, height), heights rising
        for column, height in enumerate([*heights.tolist(), 0]):
            begin = column
            while stack and stack[-1][1] >= height:
                begin, tall = stack.pop()
                if tall * (column - begin) > best:
                    best, found = tall * (column - begin), (row + 1 - tall, begin, row + 1, column)
            stack.append((begin, height))
    return found


def boxed(part: MaskPart) -> MaskPart:
    """The part with weak labels: 1 inside each image's box, 0 (unlabelled) elsewhere."""
    weak = torch.where(part.y == IGNORED, part.y, torch.zeros_like(part.y))
    for mask, truth in zip(weak, part.y, strict=True):
        top, left, bottom, right = largest_box((truth == 1).long())
        mask[top:bottom, left:right] = 1
    return replace(part, y=weak)


def _pu(prior: float, correction: str) -> Any:
    loss = aimfor.PULoss(prior, correction)
    return lambda scores, targets, shares: loss(scores, targets)


def cells(options: Options) -> list[Cell]:
    return [{"seed": seed} for seed in range(options.seeds)]


def run(cell: Cell, options: Options) -> Result:
    full, seed = task_of({"set": SET, **cell}, options), cell["seed"]
    train_part, judges = boxed(full.train), boxed(full.validation)
    mean = float(class_fractions(train_part.y, 2)[:, 1].mean())
    task = replace(full, train=train_part, sizes={SIZE: lambda masks: class_fractions(masks, 2)[:, 1] > mean})
    unlabelled = (train_part.y == 0) & (full.train.y != IGNORED)
    known = float((full.train.y[unlabelled] == 1).double().mean())
    found: dict[str, Any] = {}

    def fit(name: str, loss: Any, on: Any = task, regularizer: Regularizer | None = None) -> Any:
        look = train(on, {}, Contender(name, loss), RATE, BUDGET, seed, regularizer=regularizer)[-1]
        model = full.make_model()
        model.load_state_dict(look.state)
        scores = resized(mask_scores(model, full.test)[0], full.test.fine.shape[1:])
        found[name] = {metric: judge.value(scores, full.test.fine) for metric, judge in SKY_JUDGES.items()}
        return model

    f1 = Regularizer(ALPHA, SIZE)
    fit("masks of all pixels", cross_entropy, full)
    first = fit(NAIVE, cross_entropy)
    scores = functional.interpolate(mask_scores(first, judges)[0], judges.y.shape[1:], mode="nearest")[:, 0]
    inside = judges.y != IGNORED
    scores, weak = scores[inside], judges.y[inside].long()
    rows = torch.randperm(len(weak), generator=torch.Generator().manual_seed(seed))[:PIXELS]
    estimated = estimate_prior(scores[rows], weak[rows])
    fit("naive + F1", cross_entropy, regularizer=f1)
    fit("weighted", weighted_cross_entropy)
    fit("uPU, prior known", _pu(known, "unbiased"))
    fit("nnPU, prior known", _pu(known, "non_negative"))
    fit("nnPU, prior estimated", _pu(estimated, "non_negative"))
    fit("nnPU, prior known, + F1", _pu(known, "non_negative"), regularizer=f1)
    return {"prior": {"known": known, "estimated": estimated}, "test": found}


def lines(results: list[dict[str, Any]]) -> list[str]:
    found = [one["result"] for one in results]
    rows = [sky_row(name, [one["test"] for one in found], NAIVE) for name in found[0]["test"]]
    priors = "; ".join(f"{one['prior']['known']:.3f}, {one['prior']['estimated']:.3f}" for one in found)
    head = ("trained with", *(f"{metric} (− naive)" for metric in SKY_JUDGES))
    text = (__doc__ or "").split("\n\n", 1)[1]
    last = f"Prior known, estimated, by seed: {priors}. {len(found)} seeds."
    return [text, markdown(head, rows), "", last, ""]


TITLE = "Sky from weak boxes: positive and unlabelled pixels"
EXPERIMENT = Experiment("weak_boxes", TITLE, "Venkatesh 2019, Fig. 3", cells, run, report_of(TITLE, lines), seeds=3)
