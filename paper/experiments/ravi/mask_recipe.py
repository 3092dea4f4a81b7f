"""One mask task: every rival, the papers' regularizer, and aimfor's default, all chosen on validation data.

The default is a superset of the rivals' checkpoints: the network fine-tuned on IoU itself is a candidate beside them.
What validation data does not prefer is not used.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from aimfor import FBeta

from ...data.mask_data import MaskTask
from ...experiment import Cell, Options, Result
from ...networks.mask_networks import resized
from ...protocol.protocol import Contender
from ...rivals.mask_rivals import MASK_RIVALS, OURS
from .mask_judges import Judge, decided
from .mask_pictures import pictures
from .mask_training import Look, MaskBudget, Regularizer, mask_scores, train

ALPHAS = (1e-2, 1e-3, 1e-4)
#: Names of the papers' method in results: projections once per epoch, after every step, other size labels.
PAPER, FULL, SIZES = "α · F1(size)", "α · F1(size), projected every step", "α · F1(size), mean over size labels"
#: The metric by which rate and α of the papers' method are chosen, and which curves show.
MAIN = "mean_iou"


@dataclass
class Bench:
    """The settings of a cell, and the test scores of the networks that validation data chose."""

    task: MaskTask
    judges: dict[str, Judge]
    budget: MaskBudget
    seed: int
    read: dict[int, tuple[Look, Tensor, Tensor]] = field(default_factory=dict)

    def fit(self, method: Contender, rates: Iterable[float], **how: Any) -> list[Look]:
        return [
            look
            for rate in rates
            for look in train(self.task, self.judges, method, rate, self.budget, self.seed, **how)
        ]

    def best(self, looks: list[Look], metric: str) -> Look:
        """The look with the highest metric on validation data, the first of equals."""
        return max(looks, key=lambda look: look.judged[metric][0])

    def test(self, look: Look, metric: str) -> tuple[float, Tensor, Tensor]:
        """Its value on test data, at the rule validation chose; the masks it decides; its scores of the size."""
        if id(look) not in self.read:  # the look is kept with its scores, so that its id stays its own
            model = self.task.make_model()
            model.load_state_dict(look.state)
            self.read[id(look)] = (look, *mask_scores(model, self.task.test))
        _, pixels, sizes = self.read[id(look)]
        masks = self.task.test.fine
        scores = resized(pixels, masks.shape[1:]) + torch.tensor(look.judged[metric][1])[:, None, None]
        return self.judges[metric].value(scores, masks), decided(scores), sizes

    def chosen(self, looks: list[Look], metric: str) -> dict[str, Any]:
        look = self.best(looks, metric)
        return {"name": look.name, "validation": look.judged[metric][0], "test": self.test(look, metric)[0]}


def run_cell(task: MaskTask, judges: dict[str, Judge], budget: MaskBudget, cell: Cell, options: Options) -> Result:
    """`run_all` as the experiments call it: pictures of the first seed, and fewer rivals in small."""
    rivals = MASK_RIVALS if options.full else MASK_RIVALS[:4]  # without cross-entropy + Dice, for time
    return run_all(task, judges, budget, cell["seed"], rivals=rivals, show=3 if cell["seed"] == 0 else 0)


def run_all(
    task: MaskTask,
    judges: dict[str, Judge],
    budget: MaskBudget,
    seed: int,
    *,
    rivals: tuple[Contender, ...] = MASK_RIVALS,
    ours: tuple[Contender, ...] = OURS,
    alphas: tuple[float, ...] = ALPHAS,
    show: int = 0,
) -> dict[str, Any]:
    """Trains every method once, then answers for every metric.

    Returns:
        By metric: ``rivals`` and ``papers`` (name → test), ``rival`` and ``default`` (each with name, validation and
        test), ``ours``. The main metric has ``details`` too: curves, size, and ``show`` test images with their masks.
    """
    bench = Bench(task, judges, budget, seed)
    pools = {rival.name: bench.fit(rival, budget.rates) for rival in rivals}
    papers = _papers(bench, rivals[0], pools[rivals[0].name], alphas)
    everything = [look for pool in pools.values() for look in pool]
    again, tuned = _further(bench, bench.best(everything, MAIN), rivals, ours)
    rival_pool, default_pool = [*everything, *again], [*everything, *again, *tuned]
    found: dict[str, Any] = {}
    for metric in judges:
        means = {
            name: statistics.mean(bench.test(bench.best(pool, metric), metric)[0] for pool in group)
            for name, group in papers.items()
        }
        found[metric] = {
            "rivals": {name: bench.chosen(pool, metric)["test"] for name, pool in pools.items()},
            "papers": means,
            "rival": bench.chosen(rival_pool, metric),
            "default": bench.chosen(default_pool, metric),
            "ours": {"fine-tuned": bench.chosen(tuned, metric)},
        }
    found[MAIN]["details"] = _details(bench, pools, papers[PAPER][0], default_pool, show)
    return found


def _papers(bench: Bench, plain: Contender, pool: list[Look], alphas: tuple[float, ...]) -> dict[str, list[list[Look]]]:
    """The papers' method beside cross-entropy, at the rate that validation chose for cross-entropy.

    α is chosen on validation data with the first size label; the same α is used with the other labels, of whose
    results the papers report the mean, and with a projection after every step.
    """
    rate, sizes = bench.best(pool, MAIN).rate, list(bench.task.sizes)

    def fit(alpha: float, size: str, mode: str = "ravi") -> list[Look]:
        named = replace(plain, name=f"{plain.name} + {alpha:g} F1")
        return bench.fit(named, (rate,), regularizer=Regularizer(alpha, size, mode))

    tried = {alpha: fit(alpha, sizes[0]) for alpha in alphas}
    alpha = max(alphas, key=lambda a: bench.best(tried[a], MAIN).judged[MAIN][0])
    found = {PAPER: [[look for looks in tried.values() for look in looks]]}
    if len(sizes) > 1:
        found[SIZES] = [tried[alpha], *(fit(alpha, size) for size in sizes[1:])]
    else:
        found[FULL] = [fit(alpha, sizes[0], "ravi-full")]
    return found


def _further(
    bench: Bench, leader: Look, rivals: tuple[Contender, ...], ours: tuple[Contender, ...]
) -> tuple[list[Look], list[Look]]:
    """From the rivals' best checkpoint: its own loss again, and IoU; as many epochs, at the same rates."""
    own = next(rival for rival in rivals if rival.name == leader.name)
    rates = [leader.rate * share for share in bench.budget.extra_rates]
    again = bench.fit(replace(own, name=f"{own.name}, continued"), rates, start=leader)
    others = [method for method in ours if method.loss is not own.loss]  # the same loss again is "continued"
    return again, [look for method in others for look in bench.fit(method, rates, start=leader)]


def _details(
    bench: Bench, pools: dict[str, list[Look]], paper: list[Look], candidates: list[Look], show: int
) -> dict[str, Any]:
    """Curves on validation data, how well the size is known on test data, and masks to look at."""
    task, plain = bench.task, next(iter(pools))
    best = {name: bench.best(pool, MAIN) for name, pool in {**pools, PAPER: paper}.items()}
    curves = {
        name: [look.judged[MAIN][0] for look in pool if (look.rate, look.name) == (best[name].rate, best[name].name)]
        for name, pool in {**pools, PAPER: paper}.items()
    }
    rule = next(iter(task.sizes.values()))
    big = rule(task.test.fine)
    _, baseline, _ = bench.test(best[plain], MAIN)
    _, papers, node = bench.test(best[PAPER], MAIN)
    _, ours, _ = bench.test(bench.best(candidates, MAIN), MAIN)
    decided_by = {plain: baseline, PAPER: papers, "default": ours}

    def f1(scores: Tensor) -> float:
        return float(FBeta(1.0).value(scores.double(), big).nan_to_num())  # 0 where nothing is big, nor said to be

    return {
        "curves": curves,
        "alpha": float(best[PAPER].name.split(" + ")[1].split()[0]),
        "size_f1": {**{name: f1(rule(masks).float() - 0.5) for name, masks in decided_by.items()}, "node": f1(node)},
        "node_train": best[PAPER].facts,
        "pictures": pictures(task.test, {"cross-entropy": baseline, "ours": ours}, show) if show else None,
    }
