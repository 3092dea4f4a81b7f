"""``aimfor decide``, ``aimfor plan`` and ``aimfor check``: the words of each command, and what it prints."""

from __future__ import annotations

import shlex
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import InputError
from .terminal import Words, one_line, readable

if TYPE_CHECKING:
    from .decide.result import Result

#: What `aimfor plan` writes.
PLAN, SHEET = "plan.json", "to_label.csv"
HELP = (
    "Find a threshold for any scores that is guaranteed to keep its floors. Exit code 1: something that was asked for "
    "cannot be guaranteed."
)
EXAMPLES = (
    'aimfor decide scores.csv --target y --score s --maximize recall --subject-to "precision >= 0.9"',
    'aimfor decide scores.csv --target y --score s --maximize accuracy --subject-to "gap(fpr, sex) <= 5%"',
)
PLAN_HELP = (
    "Which rows to label next for a bound on a rate (precision, recall, npv, tnr, fpr, fnr): labels are drawn where "
    "they decide. The first round places the tests; fill in the column label of to_label.csv and call the same command "
    "again for the next round, as often as you like. aimfor decide FOLDER/to_label.csv --target label --score COLUMN "
    "says what the labels so far guarantee for the rows of the file."
)
CHECK_HELP = "Do the floors still hold on what arrived since? Exit code 0: met, 1: missed, 3: undecided so far."


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
    from .decide import answer, page

    to_stdout = given.out == Path("-")
    folder = given.out or _new(Path("decisions") / given.data.name.split(".")[0])
    if given.data.name == SHEET and given.data.with_name(PLAN).exists():
        result = _planned(given)
    else:
        options = {name: value for name, value in vars(given).items() if name not in ("json", "out")}
        result = answer.answer(answer.Request(**options))
    lines = result.lines()
    if not to_stdout:
        lines.append(f"page: {page.write(result, folder, made_by)}")
    print(page.as_json(result) if given.json or to_stdout else readable("\n".join(lines)))
    return 0 if result.complete else 1


def _planned(given: Namespace) -> Result:
    """Labels that `aimfor plan` has drawn: the question is the plan's own."""
    from .decide import planned

    others = ("minimize", "learn", "group", "cluster", "category", "accept", "reject", "abstain", "score_of")
    other = next((name for name in others if getattr(given, name) not in (None, [])), None)
    plan = planned.read_plan(given.data.with_name(PLAN))
    if other is not None:
        raise InputError(other, "the option with planned labels", "the plan's own question")
    if given.score not in (None, plan.score) or given.target != "label":
        raise InputError("score", repr(given.score), f"--target label --score {plan.score}, as planned")
    if given.subject_to and [repr(planned.bound_of(text)) for text in given.subject_to] != [plan.constraint]:
        raise InputError("subject-to", repr(given.subject_to[0]), f"{plan.constraint}, as planned", "Leave it out.")
    return planned.decided(given.data)


def _new(folder: Path) -> Path:
    """The folder, or the first of folder-2, folder-3, … that holds no decision: a new decision replaces no other."""
    number = 2
    free = folder
    while (free / "decision.json").exists():
        free, number = folder.with_name(f"{folder.name}-{number}"), number + 1
    return free


def plan(words: Sequence[str]) -> int:
    """Runs the command; returns its exit code."""
    example = 'aimfor plan scores.csv --score s --subject-to "precision >= 0.9" --budget 200'
    parser = Words("plan", PLAN_HELP, (example,))
    add = parser.add_argument
    add("data", type=Path, help="CSV or Parquet file with a score in every row; no labels are needed.")
    add("--score", required=True, metavar="COLUMN", help="Column of the scores; higher means more positive.")
    add("--subject-to", required=True, metavar="CONSTRAINT", help='One bound, e.g. "precision >= 0.9".')
    add("--budget", type=int, required=True, metavar="N", help="Labels of a round; the first two share one budget.")
    add("--confidence", type=float, default=0.95, help="Confidence that the bound holds, whenever you stop.")
    add("--out", type=Path, metavar="FOLDER", help="Folder of to_label.csv and plan.json; by default plans/DATA.")
    add("--seed", type=int, default=0, help="Of the draw.")
    add("--encoding", default="utf8", help="Of the CSV file, where it is not UTF-8.")
    return one_line(_next_plan, parser, words)


def _next_plan(given: Namespace) -> int:
    from .decide.planned import PlanRequest, next_plan, write_plan

    out = given.out or Path("plans") / given.data.name.split(".")[0]
    request = PlanRequest(
        given.data, given.score, given.subject_to, given.budget, out, given.confidence, given.seed, given.encoding
    )
    made, sheet = next_plan(request)
    path = write_plan(made, sheet, out)
    number = len(made.rounds[-1].ranks)
    what = "they place the tests" if len(made.rounds) == 1 else f"round {len(made.rounds) - 1} of the tests"
    print(f"{number} rows to label in {path}: {what}")
    print(f"then: aimfor decide {path} --target label --score {made.score}, or aimfor plan again for more")
    return 0


def check(words: Sequence[str]) -> int:
    """Runs the command; returns its exit code."""
    parser = Words("check", CHECK_HELP, ("aimfor check decisions/scores new_scores.csv",))
    add = parser.add_argument
    add("decision", type=Path, help="decision.json of `aimfor decide` or its folder, or a run of `aimfor train`.")
    add("data", type=Path, help="CSV or Parquet file of new rows with their labels.")
    add("--confidence", type=float, default=0.95, help="Confidence of all verdicts together, however often you check.")
    add("--log", type=Path, metavar="FILE", help="By default check.jsonl in the folder.")
    add("--encoding", default="utf8", help="Of the CSV file, where it is not UTF-8.")
    return one_line(_check, parser, words)


def _check(given: Namespace) -> int:
    from .decide import check as checking

    done = checking.check(given.decision, given.data, given.log, given.confidence, given.encoding)
    print(f"{done.new} new rows, {done.rows} in all; log: {done.log}")
    print(done)
    return {"met": 0, "missed": 1}.get(done.certificate.verdict.value, 3)
