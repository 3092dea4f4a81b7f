"""``aimfor decide``."""

from __future__ import annotations

import shlex
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..errors import InputError
from .words import Words, one_line, readable

#: What `aimfor plan` writes.
PLAN, SHEET = "plan.json", "to_label.csv"
HELP = "Find a threshold for any scores that is guaranteed to keep its floors. Exit code 1: none can be guaranteed."
EXAMPLES = (
    'aimfor decide scores.csv --target y --score s --maximize recall --subject-to "precision >= 0.9"',
    'aimfor decide scores.csv --target y --score s --maximize accuracy --subject-to "gap(fpr, sex) <= 5%"',
)


def decide(words: Sequence[str]) -> int:
    """Runs the command; returns its exit code."""
    return one_line(lambda given: _decide(given, shlex.join(["aimfor", "decide", *words])), _parser(), words)


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
    add("--accept", metavar="BOUND",
        help='With --reject: two thresholds, and a person decides between them. e.g. "precision >= 0.95".')  # fmt: skip
    add("--reject", metavar="BOUND", help='About the rows below the lower one, e.g. "npv >= 0.99".')
    add("--maximize", metavar="RATE", help='A rate, e.g. recall, or "recall - 0.5*fpr".')
    add("--minimize", metavar="RATE", help='Instead of --maximize; "5*fnr + fpr" needs no constraint.')
    add("--subject-to", action="append", default=[], metavar="CONSTRAINT",
        help='e.g. "precision >= 0.9", "gap(fpr, sex) <= 0.05".')  # fmt: skip
    add("--confidence", type=float, default=0.95, help="Confidence that all constraints hold on new rows.")
    add("--learn", type=Path, metavar="FILE",
        help="File of other rows, which set the order of the tests; by default 30 %% of DATA.")  # fmt: skip
    add("--group", metavar="COLUMN", help="Column whose values each get a threshold of their own.")
    add("--category", metavar="COLUMN",
        help="Column whose values are decided one by one, all promises together.")  # fmt: skip
    add("--cluster", metavar="COLUMN",
        help="Column that names what rows belong to (patient, document): the promise is for new ones.")  # fmt: skip
    add("--positive", metavar="VALUE", help="The value of the target that is the positive class.")
    add("--out", type=Path, metavar="FOLDER",
        help="Folder for decision.json and decision.html, a new one by default; - prints JSON instead.")  # fmt: skip
    add("--json", action="store_true", help="Print the JSON document and nothing else.")
    add("--encoding", default="utf8", help="Of the CSV files, where it is not UTF-8.")
    add("--rows", type=int, metavar="N", help="Read only so many rows.")
    return parser


def _decide(given: Namespace, made_by: str) -> int:
    from .decide import command, page
    from .decide.question import Request

    to_stdout = given.out == Path("-")
    folder = given.out or _new(Path("decisions") / given.data.name.split(".")[0])
    if given.data.name == SHEET and given.data.with_name(PLAN).exists():
        document = _planned(given)
    else:
        options = {name: value for name, value in vars(given).items() if name not in ("json", "out")}
        document = command.answer(Request(**options))
    lines = page.as_text(document)
    if not to_stdout:
        lines = [*lines, f"page: {page.write(document, folder, made_by)}"]
    print(page.as_json(document) if given.json or to_stdout else readable("\n".join(lines)))
    return 0 if page.given(document) else 1


def _planned(given: Namespace) -> dict[str, Any]:
    """Labels that `aimfor plan` has drawn: the question is the plan's own."""
    from .decide import planned

    others = ("minimize", "learn", "group", "cluster", "category", "accept", "reject", "abstain", "score_of")
    other = next((name for name in others if getattr(given, name) not in (None, [])), None)
    plan = planned.read_plan(given.data.with_name(PLAN))
    if other is not None:
        raise InputError(other, "the option with planned labels", "the plan's own question")
    if given.score not in (None, plan.score) or given.target != "label":
        raise InputError("score", repr(given.score), f"--target label --score {plan.score}, as planned")
    if given.subject_to and [repr(planned.bound_of(one)) for one in given.subject_to] != [plan.constraint]:
        raise InputError("subject-to", repr(given.subject_to[0]), f"{plan.constraint}, as planned", "Leave it out.")
    return planned.decided(given.data)


def _new(folder: Path) -> Path:
    """The folder, or the first of folder-2, folder-3, … that holds no decision: a new decision replaces no other."""
    number = 2
    free = folder
    while (free / "decision.json").exists():
        free, number = folder.with_name(f"{folder.name}-{number}"), number + 1
    return free
