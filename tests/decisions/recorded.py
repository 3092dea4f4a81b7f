"""A thousand questions and the answers on record: thresholds and verdicts that a change of the code must not move.

python tests/decisions/recorded.py        writes recorded.json anew: only where answers are meant to change
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

import aimfor
from aimfor.errors import InputError
from aimfor.rates import decide_labels, decide_or_abstain, parse, recall

CASES = 1000
FILE = Path(__file__).with_name("recorded.json")
#: Objectives and constraints; those that name a group need rows with groups.
PLAIN = [
    ("maximize", "recall", ["precision >= 0.8"]),
    ("maximize", "recall", ["precision >= 0.9"]),
    ("maximize", "precision", ["recall >= 0.7"]),
    ("maximize", "recall", ["fpr <= 0.1"]),
    ("minimize", "fnr", ["positive_rate <= 0.3"]),
    ("maximize", "accuracy", ["npv >= 0.9"]),
    ("maximize", "recall", ["precision >= 0.7", "fpr <= 0.2"]),
    ("maximize", "tnr", ["recall >= 0.6", "precision >= 0.5"]),
    ("maximize", "recall - 0.5*fpr", ["accuracy >= 0.8"]),
    ("maximize", "recall", ["recall - fpr >= 0.3"]),
    ("maximize", "recall", ["5*fnr + fpr <= 2"]),
    ("minimize", "fp", ["recall >= 0.6"]),
    ("maximize", "tp", ["fp <= 40"]),
    ("maximize", "recall", ["recall + precision - fpr >= 0.9"]),
    ("maximize", "recall", ["accuracy - 0.5*positive_rate >= 0.4"]),
]
GROUPED = [
    ("maximize", "accuracy", ["gap(fpr, a) <= 0.15"]),
    ("maximize", "recall", ["worst(precision, a) >= 0.7"]),
    ("maximize", "accuracy", ["gap(recall, a) <= 0.25", "fpr <= 0.3"]),
    ("maximize", "recall", ["recall[a=1] - recall[a=0] >= -0.2"]),
    ("maximize", "worst(recall, a)", ["precision >= 0.7"]),
    ("minimize", "error_rate", ["gap(positive_rate, a) <= 0.2"]),
]
KINDS = ("split", "other", "folds", "margin", "certificate", "several", "abstain")


def rows(rng: np.random.Generator, n: int, groups: int) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]:
    """Scores of a mixture of two normal distributions, rounded in a third of the cases."""
    targets = rng.random(n) < rng.choice([0.1, 0.3, 0.5])
    scores = rng.normal(size=n) + rng.choice([1.0, 2.0, 3.0]) * targets
    if rng.random() < 1 / 3:
        scores = np.round(scores, int(rng.integers(0, 2)))
    label = rng.integers(0, groups, n) if groups else np.zeros(n, dtype=np.int64)
    return scores + 0.2 * label, targets, {"a": label} if groups else {}


def answer(case: int, given: Any = lambda array: array) -> list[Any]:
    """The case's answer as plain data; ``given`` turns arrays into what is passed, such as tensors."""
    rng = np.random.default_rng([20261118, case])
    kind, n = KINDS[case % len(KINDS)], int(rng.choice([80, 200, 500, 1000, 3000]))
    groups = int(rng.choice([0, 2, 3]))
    pick = GROUPED if groups and rng.random() < 0.6 else PLAIN
    direction, objective, constraints = pick[int(rng.integers(len(pick)))]
    per_group = "a" if groups and n >= 500 and rng.random() < 0.4 else None
    confidence, starts = float(rng.choice([0.8, 0.9, 0.95])), int(rng.choice([1, 1, 2, 3]))
    problem = getattr(aimfor, direction)(parse(objective), [parse(one) for one in constraints])
    scores, targets, codes = rows(rng, n, groups)

    def passed(arrays: dict[str, np.ndarray]) -> dict[str, Any]:
        return {name: given(array) for name, array in arrays.items()}

    try:
        if kind in ("several", "abstain"):
            return _several(rng, kind, n, confidence, given)
        if kind == "certificate":
            cut = float(np.quantile(scores, rng.uniform(0.3, 0.95)))
            found = problem.certificate(given(scores - cut), given(targets), groups=passed(codes) or None)
            return [[f.verdict.value, _digits(f.low), _digits(f.high), f.more] for f in found.findings]
        options: dict[str, Any] = {"guarantee": confidence, "starts": starts, "learn": "split"}
        if kind == "other":
            learn = rows(rng, int(rng.choice([200, 1000])), groups)
            options["learn"] = (given(learn[0]), given(learn[1]), passed(learn[2]))
        elif kind == "folds":
            options["learn"] = given(rng.integers(0, 3, n))
        elif kind == "margin":
            margin = str(rng.choice(["none", "confident", "certify"]))
            options = {"margin": margin, "confidence": confidence}
        decision = problem.decide(
            given(scores), given(targets), groups=passed(codes) or None, per_group=per_group, **options
        )
    except InputError as error:
        return ["refused", error.argument]
    promise = decision.guarantee
    cuts = [decision.threshold, *decision.thresholds.values()]
    plain: list[Any] = [[_digits(cut) for cut in cuts], decision.margin]
    if promise is not None:
        assert decision.certificate is not None
        plain += [promise.rows, promise.steps, promise.more, list(promise.today), promise.copies]
    return plain


def _several(rng: np.random.Generator, kind: str, n: int, confidence: float, given: Any) -> list[Any]:
    targets = rng.integers(0, 3, n)
    scores = rng.normal(size=(n, 3)) + 2.5 * np.eye(3)[targets]
    if kind == "abstain":
        error = float(rng.choice([0.02, 0.05, 0.1]))
        rule = decide_or_abstain(given(scores), given(targets), error=error, guarantee=confidence)
        return [_digits(rule.decision.threshold), _digits(rule.coverage)]
    floors = [parse("precision[label=b] >= 0.8"), parse("precision[label=c] >= 0.7")]
    problem = aimfor.maximize(recall, floors)
    found = decide_labels(problem, given(scores), given(targets), ["a", "b", "c"], guarantee=confidence)
    return [[name, _digits(decision.threshold)] for name, decision in found.decisions.items()]


def _digits(value: float | None) -> str | None:
    return None if value is None else f"{value:.12g}"


def main() -> None:
    lines = [json.dumps(answer(case), separators=(",", ":")) for case in range(CASES)]
    FILE.write_text("[\n" + ",\n".join(lines) + "\n]\n")


if __name__ == "__main__":
    main()
