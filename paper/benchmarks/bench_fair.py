"""A gap between the sexes by `aimfor.decide`: how often it is promised, what the promise costs, how often it is broken.

Logistic regression on a third of Adult and of COMPAS; the rest is the population. Rows are drawn from it with
replacement, so that accuracy and gap of any threshold are known exactly; "beside the draw" judges each answer on rows
of the population that were not drawn, where the gap of few rows is itself uncertain.

What nobody could beat stands beside: whoever knows every true rate picks, among thresholds within 3 points of the
accuracy without a promise, those where a test of the gap on as many rows as ours calibrates on (or on all rows) has
the best chance. For given thresholds no test at 5 % can accept more often than that of Neyman and Pearson against
two points of the hypothesis, so that the chance is an upper bound for every method; behind it stands the chance of
our own exact test there.

    python paper/benchmarks/bench_fair.py DATA
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from common import record
from scipy import stats

import aimfor
from aimfor.decisions.binomial import contrast_bound, critical_z

ROWS, DRAWS, GAP = {"adult": 5000, "compas": 3000}, 200, 0.1


def population(data: Path, name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Scores, targets and sexes of rows that took no part in training."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    parts = [np.load(data / name / f"{part}.npz", allow_pickle=True) for part in ("train", "test")]
    x, y, sex = (np.concatenate([part[key] for part in parts]) for key in ("X", "y", "sex"))
    order, cut = np.random.default_rng(0).permutation(len(y)), len(y) // 3
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=300)).fit(x[order[:cut]], y[order[:cut]])
    rest = order[cut:]
    return model.predict_proba(x[rest])[:, 1], y[rest].astype(int), sex[rest].astype(int)


def judged(decided: np.ndarray, y: np.ndarray, sex: np.ndarray, rate: str) -> tuple[float, float]:
    """Accuracy, and how far the sexes' rates are apart."""
    rates = [decided[(sex == one) & (y == (rate == "tpr"))].mean() for one in (0, 1)]
    return float((decided == y).mean()), abs(float(rates[0] - rates[1]))


def most_accurate(scores: np.ndarray, y: np.ndarray) -> float:
    """The threshold without any promise; scores above it are positive."""
    order = np.argsort(-scores, kind="stable")
    return float(scores[order][np.argmax((2 * y[order] - 1).cumsum()) + 1])


def upper_bound(p: tuple[float, float], n: tuple[int, int], alpha: float = 0.05) -> float:
    """No test at ``alpha`` of "the shares are more than GAP apart" accepts more often where they are p, from n rows."""
    variance = [max(q * (1.0 - q), 1e-9) / m for q, m in zip(p, n, strict=True)]
    first = variance[0] / sum(variance)
    density = [np.exp(np.add.outer(*(stats.binom.logpmf(np.arange(m + 1), m, q) for m, q in zip(n, at, strict=True))))
               for at in [p, *(_on_the_edge(p, sign * GAP, first) for sign in (1.0, -1.0))]]  # fmt: skip
    best = 1.0
    for weight in (0.0, 0.25, 0.5, 0.75, 1.0):
        null = weight * density[1] + (1.0 - weight) * density[2]
        order = np.argsort(-(density[0] / np.maximum(null, 1e-300)), axis=None)
        size, power = (one.ravel()[order].cumsum() for one in (null, density[0]))
        best = min(best, float(power[min(int(np.searchsorted(size, alpha)), len(size) - 1)]))
    return best


def own_chance(p: tuple[float, float], n: tuple[int, int], alpha: float = 0.05, draws: int = 2000) -> float:
    """How often our exact test accepts there."""
    rng, accepted = np.random.default_rng(0), np.ones(draws, dtype=bool)
    hits = [rng.binomial(m, q, draws).astype(float) for m, q in zip(n, p, strict=True)]
    for i, j in ((0, 1), (1, 0)):
        z = critical_z(n[i], n[j], (1.0, 1.0), 1.0 - GAP, alpha)
        accepted &= contrast_bound(hits[i], n[i], n[j] - hits[j], n[j], (1.0, 1.0), z) >= 1.0 - GAP
    return float(accepted.mean())


def _on_the_edge(p: tuple[float, float], gap: float, first: float) -> tuple[float, float]:
    """The shares nearest to p whose difference is the gap."""
    move = p[0] - p[1] - gap
    low = float(np.clip(p[0] - first * move, max(gap, 0.0), 1.0 + min(gap, 0.0)))
    return low, low - gap


def oracle(rate: str, attribute: str | None, whole: tuple[np.ndarray, ...], rows: int, points: float = 0.03) -> str:
    """The best chance to be promised the gap at thresholds that cost at most so many points of accuracy."""
    scores, y, sex = whole
    cuts = np.quantile(scores, np.linspace(0.02, 0.98, 97))
    right = np.array([[((scores > cut) == y)[sex == one].sum() for cut in cuts] for one in (0, 1)]) / len(y)
    rates = np.array([[(scores > cut)[(sex == one) & (y == (rate == "tpr"))].mean() for cut in cuts] for one in (0, 1)])
    n = [round(rows * float(((sex == one) & (y == (rate == "tpr"))).mean())) for one in (0, 1)]
    a, b = np.indices((len(cuts), len(cuts))).reshape(2, -1) if attribute else (np.arange(len(cuts)),) * 2
    near = right[0][a] + right[1][b] >= ((scores > most_accurate(scores, y)) == y).mean() - points
    a, b = a[near], b[near]
    spread = np.sqrt(sum(rates[k][at] * (1 - rates[k][at]) / n[k] for k, at in ((0, a), (1, b))))
    z = (GAP - np.abs(rates[0][a] - rates[1][b])) / np.maximum(spread, 1e-9)
    best = [i for i in np.argsort(-z)[:20] if z[i] > 0]  # elsewhere the promise is false
    pairs = list(zip(rates[0][a[best]].tolist(), rates[1][b[best]].tolist(), strict=True))
    if not pairs:
        return "never true"
    bound, own = (max(chance(pair, (n[0], n[1])) for pair in pairs) for chance in (upper_bound, own_chance))
    return f"{bound:.0%}, our test {own:.0%}"


def row(name: str, rate: str, attribute: str | None, whole: tuple[np.ndarray, ...]) -> dict[str, Any]:
    costs, broken, beside, nearly = [], 0, 0, 0
    for draw in range(DRAWS):
        rows = np.random.default_rng([draw, ROWS[name]]).integers(0, len(whole[0]), ROWS[name])
        scores, y, sex = (part[rows] for part in whole)
        decision = aimfor.decide(
            scores, y, maximize="accuracy", subject_to=f"gap({rate}, sex) <= {GAP}", groups={"sex": sex},
            per_group=attribute,
        )  # fmt: skip
        if not decision.feasible:
            continue
        decided = np.asarray(decision(whole[0], *([{"sex": whole[2]}] if attribute else [])))
        kept, gap = judged(decided, whole[1], whole[2], rate)
        left = np.setdiff1d(np.arange(len(whole[0])), rows)
        costs.append(judged(whole[0] > most_accurate(scores, y), whole[1], whole[2], rate)[0] - kept)
        broken += gap > GAP
        beside += judged(decided[left], whole[1][left], whole[2][left], rate)[1] > GAP
        price = decision.guarantee.price if decision.guarantee else None
        nearly += bool(price and price.nearly)
    chances = [oracle(rate, attribute, whole, round(part * ROWS[name])) for part in (0.7, 1.0)]
    low, middle, high = np.quantile(costs, (0.05, 0.5, 0.95)) if costs else (np.nan,) * 3
    return {
        "scores of": f"{name}, {ROWS[name]:,} rows",
        "promise": f"gap({rate}, sex) <= {GAP}",
        "thresholds": "one for each sex" if attribute else "one",
        "given": f"{len(costs)} of {DRAWS}",
        "at most, within 3 points, by an oracle (by one that needs no learning rows)":
            f"{chances[0]} ({chances[1]})",
        "called nearly nobody or everybody": nearly,
        "points of accuracy less than without it, median [5 %, 95 %]":
            f"{100 * middle:.1f} [{100 * low:.1f}, {100 * high:.1f}]",
        "broken": broken,
        "broken beside the draw": beside,
    }  # fmt: skip


def main(data: Path) -> None:
    warnings.simplefilter("ignore")
    rows = []
    for name in ROWS:
        whole = population(data, name)
        for rate in ("tpr", "fpr"):
            rows += [row(name, rate, attribute, whole) for attribute in (None, "sex")]
            print(rows[-2:], flush=True)
    record(
        "fair",
        f"A guaranteed gap between the sexes by `aimfor.decide`: {DRAWS} draws, judged on the population",
        "python paper/benchmarks/bench_fair.py DATA",
        rows,
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
