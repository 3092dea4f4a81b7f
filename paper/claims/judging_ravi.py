"""Judges of Ravi's and Venkatesh's claims about the algorithm itself: on linear problems, and by curves of S-MNIST."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from itertools import pairwise
from typing import Any

from ..report.statistics import paired, paired_by_seed
from .judging import Entries, Judge, Judgement, as_good, by_seed, verdict_of

#: Certified values are in units of the optimum; a change of this share of it is called serious.
SERIOUS = 0.01
AGAINST = 'minus "1 always", share of the optimum'
ONCE_AGAINST_EVERY = "certified value, once minus every step"


def _interval(text: str) -> tuple[float, float]:
    """The two ends of "mean [low, high]"."""
    low, high = text.split("[")[1].rstrip("]").split(", ")
    return float(low), float(high)


def inner_schedules(entries: Entries) -> Judgement:
    """Growing numbers of inner loops against one always: lower is better, and `SERIOUS` is what counts."""
    growing = [row for row in entries if row["kind"] == "growing"]
    text = "; ".join(f"{row['inner loops']}: {row[AGAINST]}" for row in growing)
    serious = [row for row in growing if _interval(row[AGAINST])[1] < -SERIOUS]
    problems = growing[0]["problems"]
    numbers = f"distance from the optimum, growing minus constant ({problems} problems): {text}"
    return Judgement(numbers, "not confirmed" if serious else "confirmed")


def projections_on_programs(entries: Entries) -> Judgement:
    """One projection per epoch against one per step where the optimum is known: as good within `SERIOUS`."""
    once, every = entries
    gap = once[ONCE_AGAINST_EVERY]
    numbers = (
        f"distance from the optimum, once minus every step {gap} ({once['problems']} problems), "
        f"{once['projections per run']} projections against {every['projections per run']}, margin ± {SERIOUS:g}"
    )
    return Judgement(numbers, as_good(gap, SERIOUS))


def projections_by_batch(entries: Entries) -> Judgement:
    """The claim has two halves: every batch is cheaper at B = log n, and once an epoch at B = √n."""
    text = "; ".join(f"n = {row['n']}, B = {row['B']}: {row['ratio']}" for row in entries)
    few, many = ([float(row["ratio"]) for row in entries if row["B"].startswith(name)] for name in ("log n", "√n"))
    cheap, dear = max(few) < 1, min(many) > 1
    part = "at √n alone" if dear else "at log n alone"
    verdict = "confirmed" if cheap and dear else f"partly confirmed: {part}" if cheap or dear else "not confirmed"
    return Judgement(f"time of every batch's projections over that of one of all: {text}", verdict)


def sky_varies_most(entries: Entries) -> Judgement:
    """The rank of the sky among the classes of each set, by the deviation of its share; rows come in that order."""
    sets: dict[str, list[str]] = {}
    for row in entries:
        sets.setdefault(row["set"], []).append(row["class"])
    ranks = {name: kinds.index("sky") + 1 for name, kinds in sets.items()}
    text = "; ".join(f"{name}: sky is {rank} of {len(sets[name])}" for name, rank in ranks.items())
    verdict = "confirmed" if set(ranks.values()) == {1} else "not confirmed"
    return Judgement(f"classes by the deviation of their share of an image: {text}", verdict)


def rate_of_convergence(entries: Entries) -> Judgement:
    """Theorem 6 is an upper bound: confirmed where the distance falls at least as fast on every problem."""
    text = "; ".join(
        f"{row['Lagrangian']}: {row['power of T, median (quartiles)']}, −1/2 or less on {row['−1/2 or less']}"
        for row in entries
    )
    within, of = (int(number) for number in entries[1]["−1/2 or less"].split(" of "))
    if within == of:
        verdict = "confirmed"
    else:
        more = (
            f"on {within} of {of} by the plain Lagrangian, which circles or has no certificate at some T on the others"
        )
        verdict = f"partly confirmed: {more}" if 2 * within > of else "not confirmed"
    return Judgement(f"power of T: {text}", verdict)


#: From a run's stored curves to a number.
Measure = Callable[[dict[str, Any]], float]


def apart(run: dict[str, Any]) -> float:
    """How unlike small and large digits are treated, after the last epoch."""
    return abs(float(run["small"][-1]) - float(run["big"][-1]))


def unrest(run: dict[str, Any]) -> float:
    """How much accuracy moves from epoch to epoch, over the second half of training."""
    late = run["accuracy"][len(run["accuracy"]) // 2 :]
    return float(statistics.pstdev(b - a for a, b in pairwise(late)))


def final_accuracy(run: dict[str, Any]) -> float:
    return float(run["accuracy"][-1])


def s_mnist_gap(
    model: str,
    first: tuple[float, str],
    second: tuple[float, str],
    measure: Measure = final_accuracy,
    words: str = "difference in accuracy",
) -> Judge:
    """A measure of one (α, mode) less that of another, over paired seeds: above zero where the claim holds."""

    def judge(entries: Entries) -> Judgement:
        both = [by_seed(entries, {"model": model, "alpha": alpha, "mode": mode}) for alpha, mode in (first, second)]
        gap = paired_by_seed(*({seed: measure(found) for seed, found in runs.items()} for runs in both))
        return Judgement(f"{words} {gap} ({gap.pairs} seeds)", verdict_of(gap))

    return judge


def s_mnist_throughout(mode: str, alpha: float = 1e-2) -> Judge:
    """Ours less the baseline at the epoch where that is least: above zero where ours is better at every epoch."""

    def judge(entries: Entries) -> Judgement:
        ours, base = (by_seed(entries, {"model": "hidden", "alpha": a, "mode": mode}) for a in (alpha, 0.0))
        seeds = sorted(ours.keys() & base.keys())
        gaps = [[a - b for a, b in zip(ours[s]["accuracy"], base[s]["accuracy"], strict=True)] for s in seeds]
        means = [statistics.fmean(at) for at in zip(*gaps, strict=True)]
        worst = means.index(min(means))
        gap = paired([one[worst] for one in gaps], [0.0] * len(gaps))
        ahead = sum(mean > 0 for mean in means)
        text = f"ahead in the mean at {ahead} of {len(means)} epochs; least ahead at epoch {worst + 1}: {gap}"
        return Judgement(f"{text} ({gap.pairs} seeds)", verdict_of(gap))

    return judge
