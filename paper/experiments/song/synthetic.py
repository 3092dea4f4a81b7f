"""Song's synthetic experiments: nine methods on data whose model is known to fit (Figures 3, 4 and 5).

Three tasks in ten dimensions, half of the points for training and half for testing:

* ``nonlinear``: a random 4-layer ReLU network scores the points, the top 20 % are positive; the student has the same
  architecture.
* ``linear``: positive where the coordinates sum to more than 0; the student is linear.
* ``noisy``: the same with 20 % of all labels flipped.

As in the paper every method's parameters are chosen by the best AP on the *training* set, and the whole training set
is one batch. The paper names neither optimizer, grid nor width: here Adam, the grid below, and width 10. Where a method
has no ε (perceptron, logistic) its grid of step sizes is as long as the others' whole grid.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from aimfor import Accuracy, AveragePrecision, MetricLoss
from aimfor.direct import DirectEngine

from ...claims.judging import by_seed
from ...experiment import Cell, Experiment, Options, Result
from ...report.figures import COLOURS, drawing, tidy
from ...report.pages import write_table
from ...report.scoreboard import markdown

TASKS = ("nonlinear", "linear", "noisy")
#: Name in the paper: (metric, sign, mode); logistic is cross-entropy.
METHODS: dict[str, tuple[str, int, str] | None] = {
    "pos-AP": ("ap", 1, "direct"),
    "neg-AP": ("ap", -1, "direct"),
    "hinge-AP": ("ap", 1, "hinge"),
    "per-AP": ("ap", 1, "perceptron"),
    "pos-01": ("accuracy", 1, "direct"),
    "neg-01": ("accuracy", -1, "direct"),
    "hinge-01": ("accuracy", 1, "hinge"),
    "per-01": ("accuracy", 1, "perceptron"),
    "logistic": None,
}
EPSILONS = (0.01, 0.1, 1.0, 10.0)
RATES = (0.01, 0.03)
#: For methods without ε: as many settings as the others have.
FINE_RATES = (0.001, 0.002, 0.003, 0.006, 0.01, 0.02, 0.03, 0.1)
EVERY = 10


def cells(options: Options) -> list[Cell]:
    points, steps = (20_000, 500) if options.full else (3_000, 200)
    return [
        {"task": task, "method": method, "points": points, "steps": steps, "seed": seed}
        for task in TASKS
        for seed in range(options.seeds)
        for method in METHODS
    ]


def network(task: str) -> nn.Module:
    """The student; the nonlinear task's teacher has the same layers."""
    if task != "nonlinear":
        return nn.Linear(10, 1, bias=False)
    sizes = (10, 10, 10, 10)
    layers: list[nn.Module] = []
    for width, following in itertools.pairwise(sizes):
        layers += [nn.Linear(width, following), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(10, 1))


def make_data(task: str, points: int, seed: int) -> tuple[Tensor, Tensor]:
    """``(points, 10)`` standard Gaussian inputs and their labels."""
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randn((points, 10), generator=generator)
    if task == "nonlinear":
        teacher = network(task)
        with torch.no_grad():
            for parameter in teacher.parameters():
                parameter.copy_(torch.randn(parameter.shape, generator=generator))
            scores = teacher(inputs).squeeze(1)
        order = scores.argsort(descending=True)
        labels = torch.zeros(points, dtype=torch.bool)
        labels[order[: points // 5]] = True
        return inputs, labels
    labels = inputs.sum(1) > 0
    if task == "noisy":
        labels = labels ^ (torch.rand(points, generator=generator) < 0.2)
    return inputs, labels


def run(cell: Cell, options: Options) -> Result:
    inputs, labels = make_data(cell["task"], cell["points"], cell["seed"])
    inputs, labels = inputs.to(options.device), labels.to(options.device)
    kind = METHODS[cell["method"]]
    if kind is None or kind[2] == "perceptron":
        grid: list[tuple[float, float | None]] = [(rate, None) for rate in FINE_RATES]
    else:
        grid = [(rate, epsilon) for rate in RATES for epsilon in EPSILONS]
    tried = [_train(cell, inputs, labels, rate, _loss(kind, epsilon)) for rate, epsilon in grid]
    best = max(range(len(grid)), key=lambda i: tried[i]["train_ap"])
    rates = [{"rate": rate, "epsilon": epsilon} for rate, epsilon in grid]
    return {
        **rates[best],
        **tried[best],
        "grid": [{**setting, "test_ap": one["test_ap"][-1]} for setting, one in zip(rates, tried, strict=True)],
    }


def _loss(kind: tuple[str, int, str] | None, epsilon: float | None) -> Callable[[Tensor, Tensor], Tensor]:
    if kind is None:
        return lambda scores, labels: functional.binary_cross_entropy_with_logits(scores, labels.float())
    metric, sign, mode = kind
    return MetricLoss(metric, DirectEngine("auto" if epsilon is None else epsilon, sign, mode))


def _train(
    cell: Cell, inputs: Tensor, labels: Tensor, rate: float, loss_fn: Callable[[Tensor, Tensor], Tensor]
) -> dict[str, Any]:
    half = cell["points"] // 2
    torch.manual_seed(1000 + cell["seed"])  # the same start for every method and setting
    model = network(cell["task"]).to(inputs.device)
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    curve_ap, curve_accuracy = [], []
    for step in range(cell["steps"] + 1):
        if step % EVERY == 0:
            with torch.no_grad():
                scores = model(inputs).squeeze(1)
                curve_ap.append(float(AveragePrecision().value(scores[half:], labels[half:])))
                # Average precision fixes no threshold: every method gets the one that is best on the training set.
                threshold, _ = Accuracy().best_threshold(scores[:half], labels[:half])
                curve_accuracy.append(float(Accuracy().value(scores[half:] - threshold, labels[half:])))
        optimizer.zero_grad()
        loss_fn(model(inputs[:half]).squeeze(1), labels[:half]).backward()
        optimizer.step()
    with torch.no_grad():
        train_ap = float(AveragePrecision().value(model(inputs[:half]).squeeze(1), labels[:half]))
    return {"train_ap": train_ap, "test_ap": curve_ap, "test_accuracy": curve_accuracy, "threshold": "tuned"}


# ---------------------------------------------------------------- report


def report(results: list[dict[str, Any]], folder: Path) -> None:
    lines = ["# Song's synthetic experiments", "", __doc__.split("\n\n")[0] if __doc__ else "", ""]
    lines += [
        "Accuracy is at the threshold that is best on the training set; older runs read it at 0, where AP fixes none.",
        "",
    ]
    for task in TASKS:
        lines += [f"## {task}", "", _table(results, task), ""]
        _figure(results, task, folder / f"{task}.svg")
        lines += [f"![test AP and accuracy by iteration]({task}.svg)", ""]
    write_table(folder, lines[:-1])


def _final(runs: dict[int, dict[str, Any]], key: str) -> dict[int, float]:
    return {seed: one[key][-1] for seed, one in runs.items()}


def _decides(method: str, runs: dict[int, dict[str, Any]]) -> bool:
    """Whether there is an accuracy to tell: at a tuned threshold, or of a loss that fixes one."""
    kind = METHODS[method]
    return kind is None or kind[0] != "ap" or all(one.get("threshold") == "tuned" for one in runs.values())


def _table(results: list[dict[str, Any]], task: str) -> str:
    rows = []
    rival = _final(by_seed(results, {"task": task, "method": "logistic"}), "test_ap")
    for method in METHODS:
        runs = by_seed(results, {"task": task, "method": method})
        if not runs:
            continue
        ap = _final(runs, "test_ap")
        accuracy = _mean(_final(runs, "test_accuracy")) if _decides(method, runs) else "–"
        paired = [ap[seed] - rival[seed] for seed in ap if seed in rival]
        versus = f"{statistics.fmean(paired):+.4f} ({sum(d > 0 for d in paired)} of {len(paired)})" if paired else ""
        chosen = "; ".join(f"{one['epsilon'] or '–'}, {one['rate']}" for one in runs.values())
        rows.append((method, _mean(ap), "" if method == "logistic" else versus, accuracy, chosen))
    return markdown(("method", "test AP", "AP − logistic (wins)", "test accuracy", "chosen ε, step size"), rows)


def _mean(values: dict[int, float]) -> str:
    spread = f" ± {statistics.stdev(values.values()):.4f}" if len(values) > 1 else ""
    return f"{statistics.fmean(values.values()):.4f}{spread}"


def _figure(results: list[dict[str, Any]], task: str, path: Path) -> None:
    with drawing(path, (9.0, 3.4)) as figure:
        axes = figure.subplots(1, 2)
        for colour, method in zip(COLOURS, METHODS, strict=False):
            found = by_seed(results, {"task": task, "method": method})
            runs = list(found.values())
            for axis, key in zip(axes, ("test_ap", "test_accuracy"), strict=True):
                mean = [statistics.fmean(at) for at in zip(*(one[key] for one in runs), strict=True)]
                if mean and (key == "test_ap" or _decides(method, found)):
                    axis.plot([EVERY * i for i in range(len(mean))], mean, label=method, linewidth=1.2, color=colour)
        for axis, title in zip(axes, ("test average precision", "test accuracy"), strict=True):
            tidy(axis, "iteration", title=title)
        if axes[1].get_lines():
            axes[1].legend(fontsize=7, ncols=2)


EXPERIMENT = Experiment(
    name="song_synthetic",
    title="Direct loss minimisation against eight other methods on synthetic data",
    paper="Song 2016, Figures 3 to 5",
    cells=cells,
    run=run,
    report=report,
    seeds=3,
)
