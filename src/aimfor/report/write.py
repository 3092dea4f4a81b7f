"""What a run found: in a few lines for the terminal, and report.html of whatever a folder holds."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from pathlib import Path
from shlex import quote
from typing import Any

from ..data import checkpoint
from ..data.settings import Settings
from ..runs.evaluation import (
    FINISHED,
    TEST_ROWS,
    AnyEvaluation,
    EnsembleEvaluation,
    LabelsEvaluation,
    NeighboursEvaluation,
    PixelsEvaluation,
    read_evaluation,
)
from ..runs.folder import check_sealed
from ..runs.sheets import SHEETS, read_sheets
from ..targets.evaluate import or_undefined
from ..targets.results import Interval, RankedLists, TwoClasses
from .comparison import comparison_page
from .ensemble import ensemble_page
from .page import between, number, render
from .pictures import label_row, labels_page, masks_page, neighbours_page

PAGES: dict[type, Callable[[Any, dict[str, Any]], dict[str, Any]]] = {
    EnsembleEvaluation: ensemble_page,
    LabelsEvaluation: labels_page,
    PixelsEvaluation: masks_page,
    NeighboursEvaluation: neighbours_page,
}


def write_report(folder: Path) -> Path:
    """Writes report.html anew. Raises `InputError` when the folder holds neither a finished run nor a comparison."""
    path, of_comparison = folder / "report.html", folder / "comparison.json"
    if of_comparison.exists():
        document = checkpoint.read_json(of_comparison)
        with checkpoint.reading(of_comparison):
            page = render(**comparison_page(document))
    else:
        check_sealed(folder)
        page = _page_of_run(folder)
    checkpoint.write_text(path, page)
    return path


def _page_of_run(folder: Path) -> str:
    evaluation, config = read_evaluation(folder), checkpoint.read_json(folder / "config.json")
    with checkpoint.reading(folder / FINISHED):
        page, settings = PAGES[type(evaluation)](evaluation, config), config["settings"]
        day = date.fromtimestamp((folder / FINISHED).stat().st_mtime).isoformat()
        facts = [("seconds", number(evaluation.seconds, 1)), ("command", command(settings)), ("finished", day)]
        page |= {"title": f"{Path(settings['data']).name}: {page['title']}", "facts": [*page["facts"], *facts]}
        page |= {"remark": verdict(evaluation), "metric": evaluation.metric, "notes": evaluation.notes}
        return render(**page, sheets=read_sheets(folder) if (folder / SHEETS).exists() else [])


def command(settings: dict[str, Any]) -> str:
    """The words of `aimfor train` that these settings stand for; those that are as by default are left out.

    Example:
        >>> command({"data": "a b.csv", "metric": "f1", "target": "y", "members": ["linear", "trees"], "fast": True})
        "aimfor train 'a b.csv' --metric f1 --target y --members linear,trees --fast"
    """
    words = ["aimfor", "train", quote(str(settings["data"]))]
    for name, field in Settings.model_fields.items():
        value, default = settings.get(name, field.default), field.default
        value = tuple(value) if isinstance(value, list) else value
        option = "--" + name.removesuffix("_minutes").replace("_", "-")
        if name == "data" or value == default:
            continue
        if isinstance(value, bool):
            words.append(option if value else option.replace("--", "--no-", 1))
        elif name == "column":
            words += [word for entry in value for word in (option, quote(entry))]
        else:
            words += [option, quote(",".join(value) if isinstance(value, tuple) else str(value))]
    return " ".join(words)


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


def summary(evaluation: AnyEvaluation) -> list[tuple[str, str]]:
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


def _ensemble(evaluation: EnsembleEvaluation) -> list[tuple[str, str]]:
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
