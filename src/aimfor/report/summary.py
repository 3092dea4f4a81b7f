"""What a run found in a few lines, for the terminal."""

from __future__ import annotations

from typing import Any

from ..runs.evaluation import TEST_ROWS, AnyEvaluation, EnsembleEvaluation, NeighboursEvaluation, PixelsEvaluation
from ..targets.evaluate import or_undefined
from ..targets.results import Interval, RankedLists, TwoClasses
from .page import between
from .pictures import label_row

Lines = list[tuple[str, str]]


def verdict(evaluation: AnyEvaluation) -> str:
    """What to expect, in a sentence or two that need no other page."""
    if isinstance(evaluation, EnsembleEvaluation):
        return _expected(evaluation)
    value = f"{evaluation.metric} {or_undefined(evaluation.test.metric, 2)}{_within(evaluation.test.interval)}"
    if isinstance(evaluation, PixelsEvaluation):
        return f"On pictures that it has not seen it reaches {value}, with every pixel decided."
    if isinstance(evaluation, NeighboursEvaluation):
        before = or_undefined(evaluation.untrained.metric, 2)
        return f"Among classes that it has never seen it reaches {value}; before training it was {before}."
    return f"On pictures that it has not seen it reaches {value}, the mean over {len(evaluation.labels)} labels."


def _expected(evaluation: EnsembleEvaluation) -> str:
    """The metric beside the best constant; of two classes also what the threshold finds and how often it is right."""
    test, expected = evaluation.test, evaluation.expected
    where = "queries" if isinstance(test, RankedLists) else "rows"
    text = f"Expect {evaluation.metric} {or_undefined(expected.metric, 2)} on new {where}{_within(expected.interval)}; "
    text += f"without a model it would be {or_undefined(test.baseline, 2)}."
    if evaluation.guaranteed is False:
        text += " Its floor is not guaranteed."
    if not isinstance(test, TwoClasses) or not test.positives:
        return text
    hits, flagged = test.counts["tp"], test.counts["tp"] + test.counts["fp"]
    if not flagged:
        return text + " At its threshold it flags no row."
    shares = f"{100 * hits / test.positives:.0f} of 100 positives, and {100 * hits / flagged:.0f} of 100 that it flags"
    return f"{text} At its threshold it finds {shares} are right."


def _within(interval: Interval | None) -> str:
    return "" if interval is None else f" ({interval[0]:.2f} to {interval[1]:.2f} with 95 % confidence)"


def summary(evaluation: AnyEvaluation) -> Lines:
    """Titles and values, the metric first."""
    metric, test = evaluation.metric, evaluation.test
    if isinstance(evaluation, EnsembleEvaluation):
        return _ensemble(evaluation)
    if isinstance(evaluation, PixelsEvaluation):
        folds = evaluation.out_of_fold
        return [
            (f"{metric} on test pictures", _with_interval(test)),
            ("out of fold, argmax and decided", f"{or_undefined(folds.argmax)}, {or_undefined(folds.offsets)}"),
            ("decisions", folds.text),
        ]
    if isinstance(evaluation, NeighboursEvaluation):
        others = ", ".join(f"{name} {mean.value:.3f}" for name, mean in evaluation.test.all.items() if name != metric)
        return [
            (f"{metric} on test classes", _with_interval(test, "95 % over classes")),
            (f"{metric} before training", f"{evaluation.untrained.metric:.4f}"),
            ("also", others),
            ("embedding", f"{evaluation.chosen}, {evaluation.width} numbers"),
        ]
    rows = [label_row(row) for row in evaluation.labels]
    each = [(row["name"], f"{row['value']}, precision {row['precision']}, recall {row['recall']}") for row in rows]
    return [(f"mean {metric} on test pictures", _with_interval(test)), *each]


def _with_interval(estimate: Any, title: str = "95 %") -> str:
    return f"{or_undefined(estimate.metric)} ({title}: {between(estimate.interval)})"


def _ensemble(evaluation: EnsembleEvaluation) -> Lines:
    metric, test = evaluation.metric, evaluation.test
    lines = [(f"{metric} expected on new rows", _if_known(evaluation.expected))]
    if evaluation.part == TEST_ROWS:
        lines.append((f"{metric} on test rows", _if_known(test)))
    if isinstance(test, RankedLists):
        lines.append(("queries", f"{test.queries.counted} (of {test.n} rows)"))
    if isinstance(test, TwoClasses):
        both = ", ".join(f"{name} {or_undefined(test.rates[name], 3)}" for name in ("precision", "recall"))
        lines.append(("at the tuned threshold", both))
    lines.append(("members", ", ".join(f"{row.title} {row.weight:.2f}" for row in evaluation.ensemble.weighted)))
    lines.append(("decisions" if isinstance(test, RankedLists) else "threshold", evaluation.threshold_text))
    return lines


def _if_known(estimate: Any) -> str:
    return or_undefined(estimate.metric) if estimate.interval is None else _with_interval(estimate)
