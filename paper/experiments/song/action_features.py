"""Song's Table 1 on `voc2012_action_large`: the paper's crops and protocol, on frozen features of a pretrained network.

One linear layer per action on EfficientNet-Lite0's features (the paper fine-tunes all of AlexNet): the entire training
part as one batch, 300 iterations. Learning rate and ε of every method are chosen by mean average precision on a third
of the training images, drawn anew by each seed; the method is then trained on all training persons and read once on
the val part.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import aimfor
from aimfor.data.components import Components

from ...data import frozen, voc
from ...experiment import Cell, Experiment, Options, Result, data_folder
from ...report.action_board import TITLE, report
from .multilabel import entropies, hinge, label_aps, mean_ap, ranked, weighted

SIDE, STEPS = 160, 300
RATES = (1e-3, 3e-3, 1e-2)
#: "auto" and the paper's own 0.1 among them.
EPSILONS: tuple[float | str, ...] = ("auto", 0.1, 3.0, 10.0)
LOGISTIC, HINGE, DIRECT = "logistic", "hinge", "direct AP"

Loss = Callable[[Tensor, Tensor], Tensor]


def direct(epsilon: float | str, mode: str = "direct") -> Loss:
    return ranked(aimfor.DirectEngine(epsilon, 1, mode))


def balanced(scores: Tensor, targets: Tensor) -> Tensor:
    return weighted(targets)(scores, targets, targets)


#: Method → its candidates: (setting, loss, learning rate).
CANDIDATES: dict[str, list[tuple[str, Loss, float]]] = {
    LOGISTIC: [(f"rate {rate:g}", entropies, rate) for rate in RATES],
    HINGE: [(f"rate {rate:g}", hinge, rate) for rate in RATES],
    "weighted": [(f"rate {rate:g}", balanced, rate) for rate in RATES[1:]],
    "smooth AP": [(f"rate {rate:g}", ranked(aimfor.SmoothEngine()), rate) for rate in RATES[1:]],
    DIRECT: [(f"ε {e}, rate {rate:g}", direct(e), rate) for e in EPSILONS for rate in RATES[1:]],
    "hinge-AP": [(f"ε {e}, rate {rate:g}", direct(e, "hinge"), rate) for e in (10.0,) for rate in RATES[1:]],
}
#: Fixed beforehand: direct AP from where logistic ended, at a third of its rate.
AFTER = "direct AP after logistic"


@functools.cache
def features(folder: Path) -> tuple[Tensor, Tensor, Tensor, Tensor, voc.Persons]:
    known, unseen = (voc.load_large(folder, split) for split in ("train", "val"))
    raw = [frozen.features(one.crops, SIDE) for one in (known, unseen)]
    components = Components.fit(raw[0])
    y, y_test = (torch.from_numpy(one.labels).long() for one in (known, unseen))
    return components(raw[0]), y, components(raw[1]), y_test, known


def trained(
    x: Tensor, y: Tensor, loss: Loss, rate: float, seed: int, start: tuple[Tensor, Tensor] | None = None
) -> tuple[Tensor, Tensor]:
    """Weights ``(d, c)`` and biases ``(c,)`` after `STEPS` steps of Adam on the whole part."""
    draw = torch.Generator().manual_seed(seed)
    begin = (0.01 * torch.randn(x.shape[1], y.shape[1], generator=draw), torch.zeros(y.shape[1]))
    weight, bias = (part.clone().requires_grad_() for part in (start or begin))
    optimizer = torch.optim.Adam([weight, bias], lr=rate)
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss(x @ weight + bias, y).backward()
        optimizer.step()
    return weight.detach(), bias.detach()


def cells(options: Options) -> list[Cell]:
    return [{"seed": seed} for seed in range(options.seeds)]


def run(cell: Cell, options: Options) -> Result:
    x, y, x_test, y_test, persons = features(data_folder(options, "voc2012_action_large"))
    seed = cell["seed"]
    fit, judge = (torch.from_numpy(rows) for rows in voc.by_image(persons, 1 / 3, seed))
    found: dict[str, Any] = {}
    for method, candidates in CANDIDATES.items():
        values = {}
        for setting, loss, rate in candidates:
            weight, bias = trained(x[fit], y[fit], loss, rate, seed)
            values[setting] = mean_ap(x[judge] @ weight + bias, y[judge])
        best = max(values, key=values.__getitem__)
        _, loss, rate = next(one for one in candidates if one[0] == best)
        weight, bias = trained(x, y, loss, rate, seed)
        found[method] = {"setting": best, "validation": values, "classes": label_aps(x_test @ weight + bias, y_test)}
        if method == LOGISTIC:
            logistic = weight, bias, rate
    epsilon = str(found[DIRECT]["setting"]).split(",")[0].removeprefix("ε ")
    again = direct(epsilon if epsilon == "auto" else float(epsilon))
    weight, bias = trained(x, y, again, logistic[2] / 3, seed, logistic[:2])
    found[AFTER] = {"setting": f"ε {epsilon}", "validation": {}, "classes": label_aps(x_test @ weight + bias, y_test)}
    return found


EXPERIMENT = Experiment("song_action", TITLE, "Song 2016, Table 1", cells, run, report, seeds=5)
