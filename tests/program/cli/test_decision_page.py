"""The page about a decision: its words, the grid behind its sliders by another route, and what a browser shows."""

from __future__ import annotations

import json
import math
import re
import shlex
from collections.abc import Callable
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats
from typer.testing import CliRunner

from aimfor.cli.decide.described import choices
from aimfor.cli.decide.result import Answer, Beside, in_a_clause, out_of
from aimfor.cli.main import app
from aimfor.constraints.parse import parse_constraint, parse_objective
from aimfor.decisions import Problem
from aimfor.decisions.band import band
from aimfor.decisions.rows import checked_rows

Visit = Callable[..., Any]
NASTY = "</script><script>document.title='owned'</script>"


def draw(n: int, seed: int, shift: float = 2.0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = rng.random(n) < 0.3
    return rng.normal(size=n) + shift * y, y


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A decision under a floor and a ceiling, its rows in ``cal.csv``, the order learned from ``learn.csv``."""
    folder = tmp_path_factory.mktemp("decision")
    for name, seed in (("cal", 0), ("learn", 1)):
        lines = [f"{s!r},{int(y)}" for s, y in zip(*(column.tolist() for column in draw(2000, seed)), strict=True)]
        (folder / f"{name}.csv").write_text("\n".join([f"s{NASTY},y", *lines]) + "\n")
    words = ["decide", str(folder / "cal.csv"), "--learn", str(folder / "learn.csv"), "--target", "y", "--score"]
    words += [f"s{NASTY}", "--maximize", "recall", "--subject-to", "precision >= 0.8", "--subject-to", "fpr <= 0.1"]
    result = CliRunner().invoke(app, [*words, "--out", str(folder)])
    assert result.exit_code == 0, result.output
    (folder / "words.json").write_text(json.dumps(words[1:] + ["--out", str(folder)]))
    return folder


@pytest.fixture(scope="module")
def found(folder: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((folder / "decision.json").read_text())
    return document


def counted(folder: Path, cuts: list[float]) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """tp, fp, positives and negatives above every threshold, from the file."""
    table = np.genfromtxt(folder / "cal.csv", delimiter=",", skip_header=1)
    above = table[:, 0] > np.array(cuts)[:, None]
    y = table[:, 1] == 1
    return (above & y).sum(1), (above & ~y).sum(1), y.sum(), (~y).sum()


def test_the_page_says_its_command(folder: Path) -> None:
    (shown,) = re.findall(r"<code>(aimfor decide .*)</code></p>", (folder / "decision.html").read_text())
    assert shlex.split(unescape(shown))[2:] == json.loads((folder / "words.json").read_text())


def test_every_cell_is_the_best_threshold_whose_exact_bounds_keep_everything(
    folder: Path, found: dict[str, Any]
) -> None:
    grid = found["choices"]
    cuts = grid["thresholds"]
    tp, fp, positives, negatives = counted(folder, cuts)
    floor, ceiling = grid["constraints"]
    assert (floor["line"], ceiling["line"]) == ("precision >=", "fpr <=")
    several = 0
    for place, sure in enumerate(grid["confidences"]):
        alpha = (1 - sure) / (2 * len(cuts))
        with np.errstate(invalid="ignore"):
            low = np.nan_to_num(stats.beta.ppf(alpha, tp, fp + 1))
        high = stats.beta.ppf(1 - alpha, fp + 1, negatives - fp)
        for one, kept in (
            (floor, lambda bound, low=low, high=high: (low >= bound) & (high <= 0.1)),
            (ceiling, lambda bound, low=low, high=high: (low >= 0.8) & (high <= bound)),
        ):
            for bound, (chosen, _) in zip(one["bounds"], one["cells"][place], strict=True):
                recall = np.where(kept(bound) & (tp + fp > 0), tp / positives, -1)
                assert chosen == (int(recall.argmax()) if recall.max() >= 0 else None)
                several += chosen is not None
    assert several > 100


def test_what_is_given_up_is_the_best_of_all_thresholds(folder: Path, found: dict[str, Any]) -> None:
    table = np.genfromtxt(folder / "cal.csv", delimiter=",", skip_header=1)
    tp, fp, positives, negatives = counted(folder, [*table[:, 0].tolist(), -1e9])
    floor = found["choices"]["constraints"][0]
    with np.errstate(invalid="ignore"):
        best = [
            (tp / positives)[(tp / (tp + fp) >= bound) & (fp / negatives <= 0.1)].max() for bound in floor["bounds"]
        ]
    assert [float(text.split()[0]) for text in floor["without"]] == pytest.approx([100 * one for one in best], abs=0.51)


def test_the_sliders_stand_where_the_question_was(found: dict[str, Any]) -> None:
    grid = found["choices"]
    assert grid["confidences"] == [0.8, 0.9, 0.95, 0.99]
    assert grid["confidences"][grid["confidence"]] == 0.95
    assert [one["bounds"][one["asked"]] for one in grid["constraints"]] == [0.8, 0.1]


def test_so_many_more_labels_are_about_enough() -> None:
    """With the labels that are said to be missing, a threshold is found in a good part of new files."""
    problem = Problem("maximize", parse_objective("recall"), [parse_constraint("precision >= 0.9")])

    def cell(n: int, seed: int) -> list[int | None]:
        rows, other = checked_rows("s", *draw(n, seed)), draw(1000, 10_000 + seed)
        one = choices(problem, 0.95, rows, n, {}, [band(problem, rows, 0.95, other)])["constraints"][0]
        found: list[int | None] = one["cells"][0][one["asked"]]
        return found

    said = [labels for place, labels in (cell(150, seed) for seed in range(40)) if place is None and labels]
    assert len(said) >= 10
    more = round(float(np.median(said)))
    before = sum(cell(150, seed)[0] is not None for seed in range(100, 140))
    after = sum(cell(150 + more, seed)[0] is not None for seed in range(100, 140))
    assert before < 10 <= after


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("precision >= 0.9", "at least 90 of 100 flagged cases are right"),
        ("recall >= 0.995", "at least 995 of 1,000 positive cases are found"),
        ("fnr <= 5%", "at most 5 of 100 positive cases are missed"),
        ("recall[sex=1] >= 0.6", "where sex is male, at least 60 of 100 positive cases are found"),
        ("worst(tnr, sex) >= 0.8", "for every value of sex, at least 80 of 100 other cases are left alone"),
        ("gap(fpr, sex) <= 0.05", "the share of other cases that are flagged differs by at most 5 points between any "
         "two values of sex"),
        ("fp <= 40", "fp <= 40"),
        ("recall - fpr >= 0.3", "recall - fpr >= 0.3"),
    ],
)  # fmt: skip
def test_a_promise_in_words(text: str, words: str) -> None:
    assert in_a_clause(parse_constraint(text), {"sex": ["female", "male"]}) == words


def test_shares_are_so_many_of_a_round_number() -> None:
    assert [out_of(share) for share in (0.5, 0.29, 0.125, 1e-4)] == [
        "50 of 100",
        "29 of 100",
        "125 of 1,000",
        "1 of 10,000",
    ]


VERDICTS = [
    (
        ("recall", "precision >= 0.7", 2000),
        r"Use -?[\d.]+\. At least 70 of 100 flagged cases are right, with 95 % confidence\. It finds \d\d % of the "
        r"positive cases; without the promise it would find \d\d %\.",
    ),
    (
        ("accuracy", "recall >= 0.8", 2000),
        r"Use .* It is right in \d\d % of all cases; without the promise it would be right in \d\d %\.",
    ),
    (
        ("recall - fpr", "recall >= 0.8", 2000),
        r"Use .* Recall - fpr is 0\.\d+; without the promise it would be 0\.\d+\.",
    ),
    (
        ("recall", "precision >= 0.98", 150),
        r"No threshold can be promised\. Not shown with 95 % confidence: at least 98 of 100 flagged cases are right.*",
    ),
    (("accuracy", "positive_rate <= 0.02", 20_000), r"Careful, this is nearly nobody\. Use .*"),
]


@pytest.mark.parametrize(("question", "words"), VERDICTS)
def test_the_verdict_is_what_a_manager_reads(question: tuple[str, str, int], words: str) -> None:
    goal, floor, n = question
    problem = Problem("maximize", parse_objective(goal), [parse_constraint(floor)])
    decision = problem.decide(*draw(n, 3), guarantee=0.95)
    said = Answer(problem, decision, ["everyone"], Beside({})).verdict({})
    assert re.fullmatch(words, said), said


def test_copies_of_rows_are_said_before_the_threshold() -> None:
    scores, y = draw(1000, 0)
    problem = Problem("maximize", parse_objective("recall"), [parse_constraint("precision >= 0.7")])
    decision = problem.decide(scores.repeat(5), y.repeat(5), guarantee=0.95)
    said = Answer(problem, decision, ["everyone"], Beside({})).verdict({})
    assert re.match(
        r"Not yet: \d,\d{3} rows are copies of others, which breaks the promise; leave them out\. Use ", said
    )


def test_numbers_of_the_verdict_are_those_of_the_price(found: dict[str, Any]) -> None:
    price = found["decision"]["guarantee"]["price"]
    assert f"{100 * price['kept']:.0f} % of the positive cases" in found["verdict"]
    assert f"would find {100 * price['without']:.0f} %" in found["verdict"]
    assert f"Use {found['decision']['threshold']:.10g}." in found["verdict"]


def test_sliders_by_keyboard_say_what_the_document_holds(folder: Path, found: dict[str, Any], open_page: Visit) -> None:
    tab = open_page(folder / "decision.html")
    grid, floor = found["choices"], found["choices"]["constraints"][0]
    tab.locator(".bound").focus()
    for step in (0, -1, -1, -1, 5):
        for _ in range(abs(step)):
            tab.keyboard.press("ArrowRight" if step > 0 else "ArrowLeft")
        place = int(tab.locator(".bound").input_value())
        chosen, labels = floor["cells"][grid["confidence"]][place]
        words = floor["words"][place]
        assert tab.locator(".bound").get_attribute("aria-valuetext") == words
        said = tab.locator(".said").inner_text()
        assert words[1:] in said
        assert tab.locator(".n-without").inner_text() == floor["without"][place]
        assert tab.locator(".n-labels").inner_text() == ("–" if labels is None else f"{labels:,}")
        if chosen is None:
            assert said.startswith("No threshold keeps this")
        else:
            assert said.startswith(f"Use {grid['thresholds'][chosen]:.10g}. ")
            assert tab.locator(".n-kept").inner_text() == grid["objective"][chosen]
    tab.locator(".sure").focus()
    tab.keyboard.press("Home")
    assert tab.locator(".sure").get_attribute("aria-valuetext") == "80 %"
    assert "with 80 % confidence" in tab.locator(".said").inner_text()
    assert tab.locator(".n-before").inner_text() == "–"  # asked at 95 %
    tab.locator(".which").select_option("1")
    assert "other cases are flagged" in tab.locator(".said").inner_text()
    assert tab.title() != "owned"
    assert tab.problems == []


def test_the_marks_stand_at_the_answers(folder: Path, found: dict[str, Any], open_page: Visit) -> None:
    tab = open_page(folder / "decision.html")
    grid, floor = found["choices"], found["choices"]["constraints"][0]
    chosen = grid["thresholds"][floor["cells"][grid["confidence"]][floor["asked"]][0]]
    curve = found["curve"]["threshold"][1:-1]  # the ends are thresholds outside the scores
    share = (chosen - curve[0]) / (curve[-1] - curve[0])
    axis = tab.locator("svg .axis").first.bounding_box()
    late = tab.locator("svg .late").bounding_box()
    assert late["x"] + late["width"] / 2 == pytest.approx(axis["x"] + share * axis["width"], abs=2)
    assert tab.locator("svg .band:not(.off)").count() == 1


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [420, 1300])
def test_it_is_read_on_a_phone_and_at_night(folder: Path, open_page: Visit, scheme: str, width: int) -> None:
    tab = open_page(folder / "decision.html", width=width, color_scheme=scheme)
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    ink, paper = tab.evaluate("(s => [s.color, s.backgroundColor])(getComputedStyle(document.body))")
    light = [sum(map(int, colour[4:-1].split(","))) for colour in (ink, paper)]
    assert (light[0] < 200 and light[1] > 700) == (scheme == "light")
    assert (light[0] > 600 and light[1] < 150) == (scheme == "dark")
    heights = tab.evaluate("[...document.querySelectorAll('svg text')].map(e => e.getBoundingClientRect().height)")
    assert min(heights) >= 9
    assert tab.problems == []


def test_a_screen_reader_meets_the_verdict_first_and_every_control_has_a_name(
    folder: Path, found: dict[str, Any], open_page: Visit
) -> None:
    tab = open_page(folder / "decision.html")
    assert tab.locator("main > :first-child").evaluate("e => e.tagName") == "H1"
    assert tab.locator("h1").inner_text() == found["verdict"]
    assert tab.evaluate("[...document.querySelectorAll('input, select')].filter(e => !e.labels.length).length") == 0
    assert tab.locator(".said").get_attribute("aria-live") == "polite"
    assert tab.locator("svg").get_attribute("aria-label")


def test_without_a_script_the_verdict_and_the_prices_are_there(folder: Path, open_page: Visit) -> None:
    tab = open_page(folder / "decision.html", java_script_enabled=False)
    assert tab.locator(".panel").is_hidden()
    assert tab.locator("h1").is_visible()
    assert "precision >= 0.7" in tab.locator("body").inner_text()


def test_thresholds_of_their_own_and_rows_in_clusters_have_a_page(tmp_path: Path, open_page: Visit) -> None:
    rng = np.random.default_rng(0)
    s, y = draw(900, 0, 3.0)
    cells = zip(s.tolist(), y.tolist(), rng.choice(["a", "b"], 900), (np.arange(900) // 3).tolist(), strict=True)
    (tmp_path / "d.csv").write_text("s,y,g,c\n" + "".join(f"{a!r},{int(b)},{c},{d}\n" for a, b, c, d in cells))
    base = ["decide", str(tmp_path / "d.csv"), "--target", "y", "--score", "s", "--maximize", "recall"]
    base += ["--subject-to", "precision >= 0.7"]
    for number, (words, confidences) in enumerate(((["--group", "g"], None), (["--cluster", "c"], [0.95]))):
        out = tmp_path / str(number)
        assert CliRunner().invoke(app, [*base, *words, "--out", str(out)]).exit_code == 0
        grid = json.loads((out / "decision.json").read_text())["choices"]
        assert (None if grid is None else grid["confidences"]) == confidences
        tab = open_page(out / "decision.html", width=420)
        assert tab.locator(".choose").count() == (grid is not None)
        assert tab.locator(".sure").is_hidden() if grid else True
        assert tab.problems == []


def test_the_document_is_json_everywhere(found: dict[str, Any]) -> None:
    def check(value: Any) -> None:
        for one in value.values() if isinstance(value, dict) else value if isinstance(value, list) else []:
            check(one)
        assert not (isinstance(value, float) and not math.isfinite(value))

    check(found)
