"""Song's Table 2 in small: windows of selective search, features of a frozen network, one linear layer per class.

Boxes of VOC 2012: 900 training pictures and all 700 of the val part. As in R-CNN a quarter of a batch are windows that
overlap an object by half and three quarters of others; all 20 classes are learned from the same batches, each by its
own output, and its list is the batch. Learning rate and ε of every method are chosen on 300 of the training pictures by
mean average precision of boxes (VOC's rule, after suppression); the method then learns on all 900.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

import aimfor

from ...detection.windows import Judge, Windows, windows
from ...experiment import Cell, Experiment, Options, Result, data_folder
from ...report.detection_board import TITLE, report

JUDGES = 300
BATCH, STEPS, OBJECTS = 2048, 800, 512
RATES = (3e-3, 1e-2)
EPSILONS: tuple[float | str, ...] = ("auto", 1.0, 10.0)
SOFTMAX, AFTER = "softmax", "direct AP after softmax"

Loss = Callable[[Tensor, Tensor], Tensor]


# ---------------------------------------------------------------- losses: scores (n, 20 or 21), labels (n,)


def _known(labels: Tensor, classes: int) -> Tensor:
    return functional.one_hot(labels + 1, classes + 1)[:, 1:]


def softmax(scores: Tensor, labels: Tensor) -> Tensor:
    """Over the 20 classes and background, which has the score 0."""
    return functional.cross_entropy(torch.cat((torch.zeros_like(scores[:, :1]), scores), 1), labels + 1)


def _by_class(loss: Callable[[Tensor, Tensor], Tensor]) -> Loss:
    return lambda scores, labels: loss(scores, _known(labels, scores.shape[1]).to(scores))


def logistic(scores: Tensor, y: Tensor) -> Tensor:
    return functional.binary_cross_entropy_with_logits(scores, y)


def weighted(scores: Tensor, y: Tensor) -> Tensor:
    ratio = (y == 0).sum(0) / y.sum(0).clamp_min(1.0)
    return functional.binary_cross_entropy_with_logits(scores, y, pos_weight=ratio)


def focal(scores: Tensor, y: Tensor) -> Tensor:
    loss = functional.binary_cross_entropy_with_logits(scores, y, reduction="none")
    return ((1.0 - torch.exp(-loss)).square() * loss).mean()


def hinge(scores: Tensor, y: Tensor) -> Tensor:
    return functional.relu(1.0 - (2.0 * y - 1.0) * scores).mean()


def ranked(engine: aimfor.Engine) -> Loss:
    loss_fn = aimfor.MetricLoss("ap", engine)
    return lambda scores, labels: loss_fn(scores.T, _known(labels, scores.shape[1]).T)


def direct(epsilon: float | str) -> Loss:
    return ranked(aimfor.DirectEngine(epsilon, 1))


#: Method → its candidates: (setting, loss, learning rate).
CANDIDATES: dict[str, list[tuple[str, Loss, float]]] = {
    SOFTMAX: [(f"rate {rate:g}", softmax, rate) for rate in RATES],
    "logistic": [(f"rate {rate:g}", _by_class(logistic), rate) for rate in RATES],
    "weighted": [(f"rate {rate:g}", _by_class(weighted), rate) for rate in RATES],
    "focal": [(f"rate {rate:g}", _by_class(focal), rate) for rate in RATES],
    "hinge": [(f"rate {rate:g}", _by_class(hinge), rate) for rate in RATES],
    "smooth AP": [(f"rate {rate:g}", ranked(aimfor.SmoothEngine()), rate) for rate in RATES],
    "direct AP": [(f"ε {e}, rate {rate:g}", direct(e), rate) for e in EPSILONS for rate in RATES],
    # Fixed beforehand as the contrast of interest: from where softmax ended, at a low rate.
    AFTER: [(f"ε {e}, rate 0.001", direct(e), 1e-3) for e in ("auto", 10.0)],
}


# ---------------------------------------------------------------- training and judging


def trained(
    w: Windows, rows: Tensor, loss: Loss, rate: float, seed: int, start: tuple[Tensor, Tensor] | None = None
) -> tuple[Tensor, Tensor]:
    draw = torch.Generator().manual_seed(seed)
    labels = w.labels[rows]
    objects, others = rows[labels >= 0], rows[labels == -1]
    classes = len(w.part.names)
    begin = (0.01 * torch.randn(w.x.shape[1], classes, generator=draw), torch.zeros(classes))
    weight, bias = (part.clone().requires_grad_() for part in (start or begin))
    optimizer = torch.optim.Adam([weight, bias], lr=rate)
    for _ in range(STEPS):
        pick = [
            part[torch.randint(len(part), (count,), generator=draw)]
            for part, count in ((objects, OBJECTS), (others, BATCH - OBJECTS))
        ]
        batch = torch.cat(pick)
        optimizer.zero_grad()
        loss(w.x[batch] @ weight + bias, w.labels[batch]).backward()
        optimizer.step()
    return weight.detach(), bias.detach()


@functools.cache
def _judge(folder: Path, unseen: bool, pictures: tuple[int, ...]) -> Judge:
    return Judge(windows(folder)[unseen], pictures)


def judged(folder: Path, unseen: bool, pictures: list[int], model: tuple[Tensor, Tensor]) -> list[float]:
    """Average precision of each class over some pictures, after suppression."""
    judge = _judge(folder, unseen, tuple(pictures))
    values: list[float] = judge(windows(folder)[unseen].x[judge.rows] @ model[0] + model[1]).tolist()
    return values


@functools.cache
def tuned(folder: Path, method: str) -> dict[str, float]:
    """Mean average precision of each candidate on the judging pictures."""
    w = windows(folder)[0]
    order = np.random.default_rng(1).permutation(len(w.ends)).tolist()
    judges, fit = order[:JUDGES], w.of(order[JUDGES:])
    start = None
    if method == AFTER:
        best = best_of(folder, SOFTMAX)
        start = trained(w, fit, best[1], best[2], 0)
    return {
        setting: float(np.nanmean(judged(folder, False, judges, trained(w, fit, loss, rate, 0, start))))
        for setting, loss, rate in CANDIDATES[method]
    }


def best_of(folder: Path, method: str) -> tuple[str, Loss, float]:
    values = tuned(folder, method)
    return max(CANDIDATES[method], key=lambda one: values[one[0]])


def cells(options: Options) -> list[Cell]:
    return [{"method": method, "seed": seed} for method in CANDIDATES for seed in range(options.seeds)]


def run(cell: Cell, options: Options) -> Result:
    folder, method, seed = data_folder(options, "voc2012_detection"), cell["method"], cell["seed"]
    known, unseen = windows(folder)
    everyone = known.of(list(range(len(known.ends))))
    setting, loss, rate = best_of(folder, method)
    start = None
    if method == AFTER:
        _, first, its_rate = best_of(folder, SOFTMAX)
        start = trained(known, everyone, first, its_rate, seed)
    model = trained(known, everyone, loss, rate, seed, start)
    values = judged(folder, True, list(range(len(unseen.ends))), model)
    return {"setting": setting, "validation": tuned(folder, method), "classes": values}


EXPERIMENT = Experiment("song_detection", TITLE, "Song 2016, Table 2", cells, run, report, seeds=5)
