"""One metric on one task: every rival, the best of them, and aimfor's default, all chosen on validation data.

The default starts at the rivals' best checkpoint and goes on from there, by the rival's own loss unless validation
data is convinced that the metric's loss, or the last layer refitted (`HeadFitter`), is better; not at all where going
on loses in every draw of validation data. What was allowed on training data alone is then repeated on **all labelled
data**, validation data included, which is done being asked; a threshold stays where training data alone had put it.
Any loss may have that last phase, so the rival is also shown with it (``rival_all``): what the default has above that
is due to the metric, and nothing else is.

On ranked lists the default is the rival: they were not in the search, and the last phase did not pay there.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from aimfor import Metric, metric_from_name

from .candidates import HEAD, METRIC, OWN, Refit, Way, ways_on
from .choosing import Chosen, best, chosen, judged, share_won, tuned_value
from .protocol import RIVALS, Budget, Checkpoint, Contender, Contest, Split
from .training import fine_tune, train_all

#: Going on is dropped when it wins in fewer of the draws of validation data than this: the rival's own value there is
#: the best of many looks and flatters it, so losing most draws is no reason to stop (docs/reproduce.md has the counts).
PLAINLY_WORSE = 0.01
#: The metric's candidates replace the rival's own loss only from here on: most validation sets hold few positives.
CONVINCING = 0.95


def run_all(
    task: Contest,
    metrics: list[str],
    budget: Budget,
    seed: int,
    *,
    rivals: tuple[Contender, ...] = RIVALS,
    papers: tuple[Contender, ...] = (),
) -> dict[str, Any]:
    """Trains every rival (and the papers' methods) once, then answers for every metric.

    Returns:
        By metric: ``rivals`` and ``papers`` (name → test), ``rival`` (the one validation chose), ``default`` and
        ``rival_all`` (the rival with the default's last phase, by its own loss), each with name, validation and test;
        ``ours``: each way to go on by itself, on training data alone.
    """
    pools = train_all(task, [*rivals, *papers], budget, seed)
    return {name: _one_metric(task, metric_from_name(name), budget, seed, pools, rivals, papers) for name in metrics}


def _one_metric(
    task: Contest,
    metric: Metric,
    budget: Budget,
    seed: int,
    pools: dict[str, list[Checkpoint]],
    rivals: tuple[Contender, ...],
    papers: tuple[Contender, ...],
) -> dict[str, Any]:
    everything = [point for rival in rivals for point in pools[rival.name]]
    leader, _, _ = best(metric, everything, task.validation)
    own = next(rival for rival in rivals if rival.name == leader.name)
    # The rival's own loss, for as many further steps on as large batches as ours get, at a low rate and (``trials``)
    # at the rate it had, with averaged weights.
    longer, further = replace(budget, extra=2 * budget.extra), replace(own, name=f"{own.name}, continued")
    again = fine_tune(task, leader, further, leader.rate / 10, longer, seed)
    ways = ways_on(metric, leader, own, budget, seed)
    trials = {name: way(task) for name, way in ways.items()}
    rival, _, _ = best(metric, [*everything, *again, trials[OWN]], task.validation)
    base = going_on(metric, rival, trials[OWN], task.validation)
    offered = {name: trials[name] for name in (METRIC, HEAD) if not _kept_original(ways[name])}
    pick = convinced(metric, base, rival if base is None else trials[base], offered, task.validation)
    rival_all = finished(task, metric, rival, base, trials, ways)
    default = rival_all if pick == base else finished(task, metric, rival, pick, trials, ways)
    as_it_is = chosen(task, metric, [rival])
    single = {name: chosen(task, metric, pool) for name, pool in pools.items()}
    return {
        "rivals": {method.name: single[method.name].test for method in rivals},
        "papers": {method.name: single[method.name].test for method in papers},
        "rival": vars(as_it_is),
        "rival_all": vars(rival_all),
        "default": vars(as_it_is if task.ranked else default),
        "ours": {name: vars(chosen(task, metric, [trial])) for name, trial in trials.items()},
    }


def going_on(metric: Metric, rival: Checkpoint, trial: Checkpoint, validation: Split) -> str | None:
    """`OWN`, or None when training on by the rival's own loss never beats the rival as it is."""
    return OWN if share_won(metric, trial, rival, validation) >= PLAINLY_WORSE else None


def convinced(
    metric: Metric, base: str | None, against: Checkpoint, offered: dict[str, Checkpoint], validation: Split
) -> str | None:
    """The offered way that beats the base convincingly on validation data (the more convincing of two), or the base."""
    shares = {name: share_won(metric, trial, against, validation) for name, trial in offered.items()}
    leading = max(shares, key=lambda name: shares[name])
    return leading if shares[leading] >= CONVINCING else base


def _kept_original(way: Way) -> bool:
    """Whether it is a head that kept its original layer: the rival's own checkpoint, and no candidate."""
    return isinstance(way, Refit) and way.objectives is None


def finished(
    task: Contest,
    metric: Metric,
    rival: Checkpoint,
    name: str | None,
    trials: dict[str, Checkpoint],
    ways: dict[str, Way],
) -> Chosen:
    """The rival as it is, or the way repeated on all labelled data, at the threshold of its trial."""
    if name is None:
        return chosen(task, metric, [rival])
    value, shift = tuned_value(metric, trials[name].validation, task.validation)
    final = ways[name](all_labelled(task))
    return judged(task, metric, replace(final, name=f"{final.name}, all data"), value, shift)


def all_labelled(task: Contest) -> Contest:
    """The task with validation data among the training data."""
    parts = (task.train, task.validation)
    return replace(task, train=Split(torch.cat([part.x for part in parts]), torch.cat([part.y for part in parts])))
