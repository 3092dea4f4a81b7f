"""``aimfor plan``."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

from .words import Words, one_line

HELP = (
    "Which rows to label next for a bound on a rate (precision, recall, npv, tnr, fpr, fnr): labels are drawn where "
    "they decide. The first round places the tests; fill in the column label of to_label.csv and call the same command "
    "again for the next round, as often as you like. aimfor decide FOLDER/to_label.csv --target label --score COLUMN "
    "says what the labels so far guarantee for the rows of the file."
)


def plan(words: Sequence[str]) -> int:
    """Runs the command; returns its exit code."""
    example = 'aimfor plan scores.csv --score s --subject-to "precision >= 0.9" --budget 200'
    parser = Words("plan", HELP, (example,))
    add = parser.add_argument
    add("data", type=Path, help="CSV or Parquet file with a score in every row; no labels are needed.")
    add("--score", required=True, metavar="COLUMN", help="Column of the scores; higher means more positive.")
    add("--subject-to", required=True, metavar="CONSTRAINT", help='One bound, e.g. "precision >= 0.9".')
    add("--budget", type=int, required=True, metavar="N", help="Labels of a round; the first two share one budget.")
    add("--confidence", type=float, default=0.95, help="Confidence that the bound holds, whenever you stop.")
    add("--out", type=Path, metavar="FOLDER", help="Folder of to_label.csv and plan.json; by default plans/DATA.")
    add("--seed", type=int, default=0, help="Of the draw.")
    add("--encoding", default="utf8", help="Of the CSV file, where it is not UTF-8.")
    return one_line(_plan, parser, words)


def _plan(given: Namespace) -> int:
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
