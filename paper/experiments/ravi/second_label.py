"""A second label as the papers' regularizer: F₁ of a protected attribute, and of the size of a box.

*adult*: income above 50,000; the second label is sex (Ravi, Fig. 1; Venkatesh, Fig. 4). A perceptron of 32 units, 18
epochs of batches of 512. Beside it a bound on the gap of false positive rates (0.02), by `maximize`: its multipliers
swing before they settle, and after 6 epochs two of five seeds stood at gaps of 0.24 and 0.30. *box*: ten actions
of VOC 2012 on frozen features of EfficientNet-Lite0; the second label is whether a person's box covers more of the
picture than the mean box (Ravi, Example 1). A perceptron of 64 units, 15 epochs of batches of 128. Adam at 0.003, the
same seeds, starts and batches for every α; the last epoch is read on test rows at threshold 0.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

import aimfor
from aimfor.lagrangian import size_labels
from aimfor.rates import accuracy, fpr

from ...data import voc
from ...experiment import Cell, Experiment, Options, Result, data_folder
from ...protocol.training import by_epochs
from ...report.pages import report_of
from ...report.scoreboard import markdown
from ...report.statistics import mean_and_gap
from ..ours.adult_constraints import load as load_table
from ..song.action_features import features
from ..song.multilabel import entropies, label_aps

ALPHAS = (0.0, 0.01, 0.1)
BOUND, GAP = "bound on the gap", 0.02
RATE = 3e-3
#: Outputs, hidden units, epochs and rows of a batch.
SIZES = {"adult": (1, 32, 18, 512), "box": (10, 64, 15, 128)}

Data = tuple[Tensor, Tensor, Tensor]
#: From outputs (the second label's last) and rows to a loss.
Loss = Callable[[Tensor, Tensor], Tensor]


def cells(options: Options) -> list[Cell]:
    return [{"task": task, "seed": seed} for task in SIZES for seed in range(options.seeds)]


def data(task: str, folder: Path, seed: int) -> tuple[Data, Data]:
    """Training and test part, each inputs, targets and the second label."""
    if task == "adult":
        known, _, unseen = load_table(folder, "adult", seed)
        return tuple((x, y.long(), groups["sex"] == 1) for x, y, groups in (known, unseen))  # type: ignore[return-value]
    x, y, x_test, y_test, _ = features(folder)
    sizes = [torch.from_numpy(voc.box_sizes(folder, split)) for split in ("train", "val")]
    mean = float(sizes[0].mean())
    big, big_test = (size_labels(one, mean) for one in sizes)
    return (x, y, big), (x_test, y_test, big_test)


def trained(task: str, part: Data, loss: Loss, end_epoch: Callable[[], None], seed: int) -> nn.Module:
    torch.manual_seed(seed)
    outputs, hidden, epochs, batch = SIZES[task]
    model = nn.Sequential(nn.Linear(part[0].shape[1], hidden), nn.ReLU(), nn.Linear(hidden, outputs + 1))
    return by_epochs(model, part[0], loss, end_epoch, seed, epochs=epochs, batch=batch, rate=RATE)


def _entropy(scores: Tensor, y: Tensor) -> Tensor:
    return functional.binary_cross_entropy_with_logits(scores, y.to(scores))


def regularized(task: str, part: Data, alpha: float) -> tuple[Loss, Callable[[], None]]:
    _, y, second = part
    own: Any = (lambda out, y: _entropy(out[:, 0], y)) if task == "adult" else entropies
    engine = aimfor.LagrangianEngine(second)
    objective = aimfor.Regularized(own, aimfor.MetricLoss("f1", engine), alpha)

    def loss(out: Tensor, rows: Tensor) -> Tensor:
        value: Tensor = objective(out[:, :-1], y[rows], out[:, -1], second[rows], index=rows)
        return value

    return loss, objective.end_epoch


def bounded(part: Data) -> tuple[Loss, Callable[[], None]]:
    _, y, second = part
    problem = aimfor.maximize(accuracy, [fpr.gap("sex") <= GAP])

    def loss(out: Tensor, rows: Tensor) -> Tensor:
        value: Tensor = problem(out[:, 0], y[rows], groups={"sex": second[rows]})
        return value

    return loss, problem.end_epoch


@torch.no_grad()
def judged(task: str, model: nn.Module, part: Data) -> dict[str, float]:
    x, y, second = part
    out = model(x)
    found = {"F1 of the second label": float(aimfor.FBeta(1.0).value(out[:, -1], second))}
    if task == "box":
        values = torch.tensor(label_aps(out[:, :-1], y))
        small, big = (torch.tensor(label_aps(out[rows, :-1], y[rows])) for rows in (~second, second))
        means = zip(("mean AP", "of small", "of big"), (values, small, big), strict=True)
        return {**{name: float(one.nanmean()) for name, one in means}, **found}
    passed, right = out[:, 0] > 0, (out[:, 0] > 0) == (y == 1)

    def gap(among: Tensor) -> float:
        return abs(float(passed[among & second].double().mean() - passed[among & ~second].double().mean()))

    return {"accuracy": float(right.double().mean()), "gap of FPR": gap(y == 0), "gap of TPR": gap(y == 1), **found}


def run(cell: Cell, options: Options) -> Result:
    task, seed = cell["task"], cell["seed"]
    part, test = data(task, data_folder(options), seed)
    ways: dict[str, Any] = {f"α = {alpha:g}": partial(regularized, task, part, alpha) for alpha in ALPHAS}
    if task == "adult":
        ways[BOUND] = partial(bounded, part)
    found = {}
    for name, way in ways.items():
        loss, end_epoch = way()
        found[name] = judged(task, trained(task, part, loss, end_epoch, seed), test)
    return found


def lines(results: list[dict[str, Any]]) -> list[str]:
    page = [(__doc__ or "").split("\n\n", 1)[1]]
    for task in SIZES:
        found = [one["result"] for one in results if one["cell"]["task"] == task]
        if not found:
            continue
        base, rows = f"α = {ALPHAS[0]:g}", []
        for name in found[0]:
            both = [[[one[way][measure] for one in found] for way in (name, base)] for measure in found[0][name]]
            rows.append((name, *(mean_and_gap(mine, None if name == base else plain) for mine, plain in both)))
        head = (f"{task}, {len(found)} seeds", *(f"{measure} (− α = 0)" for measure in found[0][base]))
        page += [markdown(head, rows), ""]
    return page


TITLE = "F1 of a second label as a regularizer: sex, and the size of a box"
EXPERIMENT = Experiment(
    "second_label", TITLE, "Ravi 2020, Fig. 1 and Example 1; Venkatesh, Fig. 4", cells, run, report_of(TITLE, lines)
)
