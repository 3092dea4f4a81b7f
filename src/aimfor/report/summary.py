"""What a run found in a few lines, for the terminal."""

from __future__ import annotations

from typing import Any

from ..runs.evaluation import (
    TEST_ROWS,
    AnyEvaluation,
    EnsembleEvaluation,
    LabelsEvaluation,
    NeighboursEvaluation,
    PixelsEvaluation,
)
from ..targets.evaluate import or_undefined
from ..targets.evaluate.results import RankedLists, TwoClasses
from .page import between
from .pictures import label_row

Lines = list[tuple[str, str]]


def verdict(found: AnyEvaluation) -> str:
    """What to expect, in a sentence or two that need no other page."""
    if isinstance(found, EnsembleEvaluation):
        return _expected(found)
    part = found.test
    value = f"{found.metric} {or_undefined(part.metric, 2)}{_within(part.interval)}"
    if isinstance(found, PixelsEvaluation):
        return f"On pictures that it has not seen it reaches {value}, with every pixel decided."
    if isinstance(found, NeighboursEvaluation):
        before = or_undefined(found.untrained.metric, 2)
        return f"Among classes that it has never seen it reaches {value}; before training it was {before}."
    return f"On pictures that it has not seen it reaches {value}, the mean over {len(found.labels)} labels."


def _expected(found: EnsembleEvaluation) -> str:
    """The metric beside the best constant; of two classes also what the threshold finds and how often it is right."""
    test, expected = found.test, found.expected
    where = "queries" if isinstance(test, RankedLists) else "rows"
    text = f"Expect {found.metric} {or_undefined(expected.metric, 2)} on new {where}{_within(expected.interval)}; "
    text += f"without a model it would be {or_undefined(test.baseline, 2)}."
    if found.guaranteed is False:
        text += " Its floor is not guaranteed."
    if isinstance(test, TwoClasses) and test.positives:
        hits, flagged = test.counts["tp"], test.counts["tp"] + test.counts["fp"]
        if not flagged:
            return text + " At its threshold it flags no row."
        shares = (
            f"{100 * hits / test.positives:.0f} of 100 positives, and {100 * hits / flagged:.0f} of 100 that it flags"
        )
        text += f" At its threshold it finds {shares} are right."
    return text


def _within(interval: tuple[float, float] | None) -> str:
    return "" if interval is None else f" ({interval[0]:.2f} to {interval[1]:.2f} with 95 % confidence)"


def summary(found: AnyEvaluation) -> Lines:
    """Titles and values, the metric first."""
    lines: dict[type, Any] = {
        EnsembleEvaluation: _ensemble,
        LabelsEvaluation: _labels,
        PixelsEvaluation: _pixels,
        NeighboursEvaluation: _neighbours,
    }
    return lines[type(found)](found)  # type: ignore[no-any-return]


def _ensemble(found: EnsembleEvaluation) -> Lines:
    metric, test = found.metric, found.test
    lines = [(f"{metric} expected on new rows", _with_interval(found.expected))]
    if found.part == TEST_ROWS:
        lines.append((f"{metric} on test rows", _with_interval(test)))
    if isinstance(test, RankedLists):
        lines.append(("queries", f"{test.queries.counted} (of {test.n} rows)"))
    if isinstance(test, TwoClasses):
        both = ", ".join(f"{name} {or_undefined(test.rates[name], 3)}" for name in ("precision", "recall"))
        lines.append(("at the tuned threshold", both))
    lines.append(("members", ", ".join(f"{one.title} {one.weight:.2f}" for one in found.ensemble.weighted)))
    lines.append(("decisions" if isinstance(test, RankedLists) else "threshold", found.threshold_text))
    return lines


def _with_interval(found: Any) -> str:
    value = or_undefined(found.metric)
    return value if found.interval is None else f"{value} (95 %: {between(found.interval)})"


def _labels(found: LabelsEvaluation) -> Lines:
    head = f"{found.test.metric:.4f} (95 %: {between(found.test.interval)})"
    rows = [label_row(one) for one in found.labels]
    each = [(row["name"], f"{row['value']}, precision {row['precision']}, recall {row['recall']}") for row in rows]
    return [(f"mean {found.metric} on test pictures", head), *each]


def _pixels(found: PixelsEvaluation) -> Lines:
    test, folds = found.test, found.out_of_fold
    return [
        (f"{found.metric} on test pictures", f"{test.metric:.4f} (95 %: {between(test.interval)})"),
        ("out of fold, argmax and decided", f"{or_undefined(folds.argmax)}, {or_undefined(folds.offsets)}"),
        ("decisions", folds.text),
    ]


def _neighbours(found: NeighboursEvaluation) -> Lines:
    metric, test = found.metric, found.test
    rest = ", ".join(f"{name} {one.value:.3f}" for name, one in test.all.items() if name != metric)
    return [
        (f"{metric} on test classes", f"{test.metric:.4f} (95 % over classes: {between(test.interval)})"),
        (f"{metric} before training", f"{found.untrained.metric:.4f}"),
        ("also", rest),
        ("embedding", f"{found.chosen}, {found.width} numbers"),
    ]
