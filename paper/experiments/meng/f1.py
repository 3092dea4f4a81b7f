"""Meng's F1 paragraph and Fig. 3a: does training on F1 help accuracy, who ends at "all positive", what is predicted?

Balanced data, half of the classes positive. Every method trains the same network with the same batches, steps and
rates. Each is read twice: with decisions at score 0, and with the threshold that validation data chose.

The paper's own program for F1 stands in an appendix that could not be had. Ours is the bound of `lp.ratio`: at the
threshold 0, and with threshold and scale as variables of the program (which only a solver answers). The paper's two
rivals, CVXPY-SCS and AP-Perf, train as well where their packages are installed (`f1_peers`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import Tensor

from aimfor import Accuracy, FBeta, MetricLoss
from aimfor.direct import DirectEngine
from aimfor.lp import LPEngine

from ...data.images import CLASSES, binary_parts
from ...experiment import Cell, Experiment, Options, Result, data_folder
from ...networks.models import NETWORKS, network
from ...protocol.candidates import metric_loss
from ...protocol.choosing import best, scores_on_test, tuned_value
from ...protocol.protocol import Budget, Checkpoint, Contender, Contest, Loss, Split, cross_entropy, of_batches
from ...protocol.training import train_all
from ...rivals.f1_peers import peer_losses
from .f1_report import DIRECT, FREE, PLAIN, PROGRAM, SOFT, TITLE, UNBOUND, WARM, WINDOW, report

F1, ACCURACY = FBeta(1.0), Accuracy()


class Warm:
    """Cross-entropy for the first half of every ``steps`` steps, then another loss."""

    def __init__(self, loss: Loss, steps: int) -> None:
        self.loss, self.steps, self.step = loss, steps, 0

    def __call__(self, scores: Tensor, targets: Tensor, shares: Tensor) -> Tensor:
        early = self.step % self.steps < self.steps // 2
        self.step += 1
        return (cross_entropy if early else self.loss)(scores, targets, shares)


class Predicting:
    """A loss beside which a prediction of F1, one minus ``predict``, is kept with the true F1 of every batch.

    Args:
        predict: One minus it is the prediction.
        tuned: Whether it is for the batch's best threshold, or for threshold 0.
        loss: What is trained on; None: ``predict`` itself.
    """

    def __init__(self, predict: Loss, tuned: bool = False, loss: Loss | None = None) -> None:
        self.predict, self.tuned, self.loss = predict, tuned, loss
        self.pairs: list[tuple[float, float]] = []

    def __call__(self, scores: Tensor, targets: Tensor, shares: Tensor) -> Tensor:
        value = self.predict(scores, targets, shares)
        true, _ = tuned_value(F1, scores.detach(), Split(scores.detach(), targets), self.tuned)
        self.pairs.append((1.0 - float(value.detach()), true))
        return value if self.loss is None else self.loss(scores, targets, shares)


def engine_loss(engine: LPEngine | DirectEngine) -> Loss:
    return of_batches(MetricLoss(F1, engine))


def methods(steps: int) -> list[Contender]:
    """Made anew for each cell, because they count steps and keep what they see."""

    def f1_losses() -> dict[str, Loss]:
        return {
            PROGRAM: Predicting(engine_loss(LPEngine())),
            FREE: Predicting(engine_loss(LPEngine(threshold="free")), tuned=True),
            DIRECT: engine_loss(DirectEngine()),
            SOFT: Predicting(metric_loss(F1)),
        }

    def peers() -> dict[str, Loss]:
        return {name: Predicting(loss, name.endswith(UNBOUND)) for name, loss in peer_losses().items()}

    return [
        Contender(PLAIN, Predicting(engine_loss(LPEngine()), loss=cross_entropy)),
        *(Contender(name, loss) for name, loss in f1_losses().items()),
        *(Contender(name + WARM, Warm(loss, steps)) for name, loss in f1_losses().items()),
        *(Contender(name, loss) for name, loss in peers().items()),
        *(Contender(name + WARM, Warm(loss, steps)) for name, loss in peers().items()),
    ]


def cells(options: Options) -> list[Cell]:
    return [{"set": name, "seed": seed} for seed in range(options.seeds) for name in CLASSES]


def budget(options: Options) -> Budget:
    if options.full:
        return Budget(4000, 0, batch=128, rates=(3e-4, 1e-3, 3e-3), looks=8)
    return Budget(500, 0, batch=64, rates=(2e-3,), looks=6)


def run(cell: Cell, options: Options) -> Result:
    return measure(cell, options, methods(budget(options).steps))


def measure(cell: Cell, options: Options, every: list[Contender]) -> Result:
    """What came of these methods. Each starts from the same weights and sees the same batches, whoever else runs."""
    parts = binary_parts(data_folder(options), cell["set"], 0.5, cell["seed"], None)
    task = Contest(*parts, network(options))
    spent = budget(options)
    pools = train_all(task, every, spent, cell["seed"])
    return {method.name: _read(task, method, pools[method.name], spent) for method in every}


def _read(task: Contest, method: Contender, pool: list[Checkpoint], spent: Budget) -> Result:
    """Four readings (what validation chose), where the run at the rate chosen for F1 ended, and what was predicted."""
    found: Result = {}
    by_rate = [pool[at : at + spent.looks] for at in range(0, len(pool), spent.looks)]
    pool = [point for points in by_rate for point in points[spent.looks // 2 :]]
    for metric, name in ((ACCURACY, "accuracy"), (F1, "f1")):
        for tune in (False, True):
            point, value, shift = best(metric, pool, task.validation, tune)
            scores = scores_on_test(task, point) + shift
            found[name + (", tuned" if tune else "")] = {
                "validation": value,
                "test": float(metric.value(scores, task.test.y)),
                "positive": float((scores > 0).float().mean()),
            }
    rate = best(F1, pool, task.validation, tune=False)[0].rate
    last = [point for point in pool if point.rate == rate][-1]
    found["last"] = {"positive": float((scores_on_test(task, last) > 0).float().mean())}
    kept = method.loss.loss if isinstance(method.loss, Warm) else method.loss
    if isinstance(kept, Predicting):
        runs = np.array_split(np.array(kept.pairs), len(spent.rates))
        found["predicted"] = _followed(runs[spent.rates.index(rate)])
    return found


def _followed(pairs: Any) -> Result:
    """Correlation over the steps of one run, the mean gap, how often the prediction was too high, and both curves."""
    predicted, true = pairs.T
    windows = np.array_split(pairs, max(1, len(pairs) // WINDOW))
    curves = np.stack([window.mean(0) for window in windows])
    moving = min(true.std(), predicted.std()) > 1e-9
    return {
        "correlation": float(np.corrcoef(predicted, true)[0, 1]) if moving else None,
        "gap": float((true - predicted).mean()),
        "above": float((predicted > true + 1e-6).mean()),
        "curve": {"predicted": curves[:, 0].round(4).tolist(), "true": curves[:, 1].round(4).tolist()},
    }


EXPERIMENT = Experiment(
    "meng_f1",
    TITLE,
    "Meng 2021, §5 F1 and Fig. 3a",
    cells,
    run,
    report,
    seeds=3,
    networks=NETWORKS,
)
