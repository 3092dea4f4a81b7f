"""``aimfor decide``."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..errors import InputError
from .words import Words, one_line

HELP = "Find a threshold for any scores that is guaranteed to keep its floors. Exit code 1: none can be guaranteed."
EXAMPLES = (
    'aimfor decide scores.csv --target y --score s --maximize recall --subject-to "precision >= 0.9"',
    'aimfor decide scores.csv --target y --score s --maximize accuracy --subject-to "gap(fpr, sex) <= 5%%"',
)


def decide(words: Sequence[str]) -> int:
    """Runs the command; returns its exit code."""
    return one_line(_decide, _parser(), words)


def _parser() -> Words:
    parser = Words("decide", HELP, EXAMPLES)
    add = parser.add_argument
    add(
        "data",
        type=Path,
        help="CSV or Parquet file with scores and labels of rows not trained on; - reads CSV from stdin.",
    )
    add("--target", required=True, metavar="COLUMN", help="Column of the labels.")
    add("--score", metavar="COLUMN", help="Column of the scores; higher means more positive.")
    add("--score-of", action="append", default=[], metavar="CLASS=COLUMN",
        help="Once per class, instead of --score for several classes.")  # fmt: skip
    add("--abstain", type=float, metavar="SHARE",
        help="Decide as many rows as possible with at most this share wrong; the rest go to a person.")  # fmt: skip
    add("--maximize", metavar="RATE", help='A rate, e.g. recall, or "recall - 0.5*fpr".')
    add("--minimize", metavar="RATE", help="Instead of --maximize.")
    add("--subject-to", action="append", default=[], metavar="CONSTRAINT",
        help='e.g. "precision >= 0.9", "gap(fpr, sex) <= 0.05".')  # fmt: skip
    add("--confidence", type=float, default=0.95, help="Confidence that all constraints hold on new rows.")
    add("--learn", type=Path, metavar="FILE",
        help="File of other rows, which set the order of the tests; by default 30 %% of DATA.")  # fmt: skip
    add("--group", metavar="COLUMN", help="Column whose values each get a threshold of their own.")
    add("--cluster", metavar="COLUMN",
        help="Column that names what rows belong to (patient, document): the promise is for new ones.")  # fmt: skip
    add("--positive", metavar="VALUE", help="The value of the target that is the positive class.")
    add("--out", type=Path, metavar="FOLDER",
        help="Folder for decision.json and decision.html, a new one by default; - prints JSON instead.")  # fmt: skip
    add("--json", action="store_true", help="Print the JSON document and nothing else.")
    add("--encoding", default="utf8", help="Of the CSV files, where it is not UTF-8.")
    add("--rows", type=int, metavar="N", help="Read only so many rows.")
    return parser


def _decide(given: Namespace) -> int:
    from .decide import command

    to_stdout = given.out == Path("-")
    folder = given.out or _new(Path("decisions") / given.data.name.split(".")[0])
    document, lines, promised = _answered(given)
    if not to_stdout:
        lines = [*lines, f"page: {command.write(document, folder)}"]
    print(command.as_json(document) if given.json or to_stdout else "\n".join(lines))
    return 0 if promised else 1


def _answered(given: Namespace) -> tuple[dict[str, Any], list[str], bool]:
    """The document, what the terminal shows of it, and whether there is a threshold."""
    from .decide import command, planned, several

    options = {name: value for name, value in vars(given).items() if name not in ("json", "out")}
    options["subject_to"], options["score_of"] = tuple(given.subject_to), tuple(given.score_of)
    if given.score_of or given.abstain is not None:
        unfit = {name: options.pop(name) for name in ("score", "group", "positive", "cluster")}
        other = next((name for name, value in unfit.items() if value is not None), None)
        if other is not None:
            raise InputError(other, "the option together with --score-of or --abstain", "one of them")
        if not options["score_of"]:
            raise InputError(
                "score-of", "nothing", "CLASS=COLUMN for every class", "--score-of yes=p_yes --score-of no=p_no"
            )
        found = several.answer(several.Several(**options))
        return found.document, several.as_text(found.document), found.given
    if planned.is_sheet(given.data):
        return _planned(given)
    if given.score is None:
        raise InputError("score", "nothing", "the column of the scores", "Or --score-of CLASS=COLUMN, once per class.")
    del options["score_of"], options["abstain"]
    answer = command.answer(command.Request(**options))
    return answer.document, command.as_text(answer), answer.decision.threshold is not None


def _planned(given: Namespace) -> tuple[dict[str, Any], list[str], bool]:
    """Labels that `aimfor plan` has drawn: the question is the plan's own."""
    from .decide import planned

    other = [name for name in ("minimize", "learn", "group", "cluster") if getattr(given, name) is not None]
    plan = planned.read_plan(given.data.with_name(planned.PLAN))
    if other:
        raise InputError(other[0], "the option with planned labels", "the plan's own question")
    if given.score not in (None, plan.score) or given.target != "label":
        raise InputError("score", repr(given.score), f"--target label --score {plan.score}, as planned")
    if given.subject_to and [repr(planned.bound_of(one)) for one in given.subject_to] != [plan.constraint]:
        raise InputError("subject-to", repr(given.subject_to[0]), f"{plan.constraint}, as planned", "Leave it out.")
    decision, document = planned.decided(given.data)
    cut = [] if decision.threshold is None else [f"positive for everyone: {plan.score} > {decision.threshold:.10g}"]
    return document, [*cut, str(decision.guarantee)], decision.threshold is not None


def _new(folder: Path) -> Path:
    """The folder, or the first of folder-2, folder-3, … that holds no decision: a new decision replaces no other."""
    number = 2
    free = folder
    while (free / "decision.json").exists():
        free, number = folder.with_name(f"{folder.name}-{number}"), number + 1
    return free
