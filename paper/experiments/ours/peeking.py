"""Is the anytime check wrong too often when one looks at every row? Streams of rows whose true rates are known.

The decision is made; rows arrive one by one, and after each the constraints are checked (`sequence_lower`, the bound of
``aimfor check``). Every bound lies a hair on the other side of the truth, which is the hardest case: a stream counts
as fooled if *any* constraint is *ever* called met though it is false, or missed though it is true.

All streams are followed at once: a rate's bound lies beyond b exactly where the gambler's wealth against b has reached
1/α. Tests hold these verdicts against those of its certificate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from aimfor.constraints.counts import Counts
from aimfor.constraints.expressions import Expression, Gap, Worst
from aimfor.constraints.inequalities import rates_by_group
from aimfor.decisions.certificate import plain_value
from aimfor.rates import Constraint, Decision, Rate, accuracy, fpr, npv, positive_rate, precision, recall

from ...experiment import Cell, Experiment, Options, Result
from ...report.pages import write_table
from ...report.statistics import least_share
from .validity import GROUPS, RARE, Population

Array = NDArray[Any]
STREAMS, ALPHA, HAIR = 2000, 0.05, 1e-9
PLAIN = Population()
#: Rows of all streams that are held at a time.
AT_ONCE = 2_000_000


@dataclass(frozen=True)
class Watch:
    """Left sides with the sense in which they are bounded, at a threshold for everyone, over so many rows."""

    sides: tuple[tuple[Expression, str], ...]
    rows: int
    population: Population = PLAIN
    threshold: float = 1.5

    def truth(self) -> Counts:
        """Shares of the population, ``(2, 4)``: by group, tp fp fn tn."""
        return self.population.truth(Decision(self.threshold))

    def constraints(self, wrong: str) -> list[Constraint]:
        """Each a hair out of reach (to call it "met" is wrong), or a hair kept (to call it "missed" is wrong)."""
        found = []
        for left, sense in self.sides:
            beyond = HAIR if (sense == ">=") == (wrong == "met") else -HAIR
            found.append(Constraint(left, sense, plain_value(left, self.truth(), sense) + beyond))
        return found


SETTINGS: dict[str, Watch] = {
    "precision >=, 200 rows": Watch(((precision, ">="),), 200),
    "precision >=, 2,000 rows": Watch(((precision, ">="),), 2000),
    "precision >=, 20,000 rows": Watch(((precision, ">="),), 20_000),
    "precision >=, prevalence 0.5 %, 20,000 rows": Watch(((precision, ">="),), 20_000, RARE, 3.0),
    "recall >=, 500 rows": Watch(((recall, ">="),), 500),
    "recall >=, prevalence 0.5 %, 20,000 rows": Watch(((recall, ">="),), 20_000, RARE, 3.0),
    "fpr <=, 1,000 rows": Watch(((fpr, "<="),), 1000),
    "npv >=, 2,000 rows": Watch(((npv, ">="),), 2000),
    "accuracy >=, 5,000 rows": Watch(((accuracy, ">="),), 5000),
    "positive rate <=, 5,000 rows": Watch(((positive_rate, "<="),), 5000, threshold=2.5),
    "three constraints, 2,000 rows": Watch(((precision, ">="), (recall, ">="), (positive_rate, "<=")), 2000),
    "precision of the worst group >=, 5,000 rows": Watch(((precision.worst("group"), ">="),), 5000, GROUPS),
    "gap(fpr) <=, 1,000 rows": Watch(((fpr.gap("group"), "<="),), 1000, GROUPS),
    "precision >= and gap(recall) <=, 1,000 rows": Watch(
        ((precision, ">="), (recall.gap("group"), "<=")), 1000, GROUPS
    ),
}


class Streams:
    """Rows of many streams as cells ``(streams, rows)`` of the table by group, and their running counts."""

    def __init__(self, cells: Array) -> None:
        self.cells = cells
        self.half = special.gammaln(np.arange(cells.shape[1] + 1) + 0.5)
        self.whole = special.gammaln(np.arange(cells.shape[1] + 1) + 1.0)

    def counts(self, rate: Rate) -> tuple[Array, Array]:
        """Successes and trials so far."""
        groups = [int(label) for name, label in rate.conditions if name == "group"] or [0, 1]
        inside = np.zeros((2, 8), dtype=bool)
        for row, kinds in enumerate((rate.numerator, rate.denominator)):
            inside[row, [4 * group + kind for group in groups for kind in kinds]] = True
        k, n = (lookup[self.cells].cumsum(1, dtype=np.int32) for lookup in inside)
        return k, n

    def mixed(self, k: Array, n: Array) -> Array:
        """The part of the gambler's logarithmic wealth that does not depend on the share."""
        wealth: Array = self.half[k] + self.half[n - k] - self.whole[n] - np.log(np.pi)
        return wealth

    def above(self, k: Array, n: Array, share: float, alpha: float) -> Array:
        """Whether the lower end of the confidence sequence is at or above ``share``."""
        if share <= 0.0:
            return np.ones(k.shape, dtype=bool)
        wealth = self.mixed(k, n) - k * np.log(share) - (n - k) * np.log1p(-share)
        found: Array = (wealth >= -np.log(alpha)) & (k > share * n)
        return found

    def lower(self, k: Array, n: Array, alpha: float) -> Array:
        """The lower end itself, by bisection."""
        low, high = np.zeros(k.shape), np.where(n > 0, k / np.maximum(n, 1), 0.0).clip(0.0, 1.0 - 1e-15)
        mixed = self.mixed(k, n) + np.log(alpha)
        for _ in range(30):
            middle = 0.5 * (low + high)
            safe = middle.clip(1e-300)
            rich = mixed - k * np.log(safe) - (n - k) * np.log1p(-middle) >= 0
            low, high = np.where(rich, middle, low), np.where(rich, high, middle)
        return low

    def says(self, constraint: Constraint, verdict: str, alpha: float, truth: Counts) -> Array:
        """Where the constraint is called so, ``(streams, rows)``."""
        left, floor = constraint.left, constraint.sense == ">="
        if isinstance(left, Rate):
            return self._rate_says(left, constraint.bound, floor == (verdict == "met"), alpha)
        assert isinstance(left, Gap | Worst)
        members = rates_by_group(left, truth.levels)
        if isinstance(left, Worst):
            share = alpha if verdict == "met" else alpha / len(members)
            each = [self._rate_says(one, constraint.bound, floor == (verdict == "met"), share) for one in members]
            return _all(each) if verdict == "met" else ~_all([~one for one in each])
        share = alpha / 2 if verdict == "met" else alpha / (2 * len(members))
        ends = []
        for one in members:
            k, n = self.counts(one)
            ends.append((self.lower(k, n, share), 1.0 - self.lower(n - k, n, share)))
        pairs = [(a, b) for a in ends for b in ends if a is not b]
        if verdict == "met":
            return _all([a[1] - b[0] <= constraint.bound for a, b in pairs])
        return ~_all([a[0] - b[1] <= constraint.bound for a, b in pairs])

    def _rate_says(self, rate: Rate, bound: float, above: bool, alpha: float) -> Array:
        k, n = self.counts(rate)
        return self.above(k, n, bound, alpha) if above else self.above(n - k, n, 1.0 - bound, alpha)


def _all(verdicts: Sequence[Array]) -> Array:
    """Where every one of them holds."""
    together: Array = np.logical_and.reduce(list(verdicts))
    return together


def drawn(watch: Watch, streams: int, rng: np.random.Generator) -> Streams:
    shares = watch.truth().table.flatten()
    edges = (shares / shares.sum()).cumsum()[:-1]
    return Streams(np.searchsorted(edges, rng.random((streams, watch.rows))).astype(np.int8))


def cells(options: Options) -> list[Cell]:
    return [{"setting": name} for name in SETTINGS]


def run(cell: Cell, options: Options) -> Result:
    watch, fooled = SETTINGS[cell["setting"]], {"met": 0, "missed": 0}
    rng, truth, alpha = np.random.default_rng(17), watch.truth(), ALPHA / len(watch.sides)
    chunk = max(1, min(STREAMS, AT_ONCE // watch.rows))
    for first in range(0, STREAMS, chunk):
        streams = drawn(watch, min(chunk, STREAMS - first), rng)
        for verdict in fooled:
            ever = [streams.says(one, verdict, alpha, truth).any(1) for one in watch.constraints(verdict)]
            fooled[verdict] += int(np.logical_or.reduce(ever).sum())
    return {"streams": STREAMS, "rows": watch.rows, **fooled}


def report(rows: Sequence[dict[str, Any]], folder: Path) -> None:
    lines = [
        "# The anytime check, looked at after every row",
        "",
        f"{STREAMS:,} streams a setting. Share of streams in which a false constraint was ever called met, and a true",
        "one ever called missed; each may be 5 %. Beside them the exact 95 % lower bound on the larger share.",
        "",
        "| setting | wrongly met | wrongly missed | lower bound |",
        "|---|---|---|---|",
    ]
    results = {row["cell"]["setting"]: row["result"] for row in rows}
    for name in SETTINGS:
        if name in results:
            found = results[name]
            streams, most = found["streams"], max(found["met"], found["missed"])
            low = least_share(most, streams)
            lines.append(f"| {name} | {found['met'] / streams:.2%} | {found['missed'] / streams:.2%} | {low:.2%} |")
    write_table(folder, lines)


EXPERIMENT = Experiment(
    "peeking",
    "the anytime check looked at after every row, on streams with known truth",
    "aimfor",
    cells,
    run,
    report,
    seeds=1,
)
