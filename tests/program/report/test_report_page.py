"""The report as a reader sees it, in a real browser: what is shown, where it stands, and what moves."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from aimfor.report.ensemble import classes_section, importance_section, members_section
from aimfor.report.page import render
from aimfor.report.write import write_report
from aimfor.runs.evaluation import MemberRow, Members
from aimfor.targets.evaluate import evaluate
from aimfor.targets.importance import ColumnImportance, Importance
from aimfor.targets.objective import Objective

DRAWN = True
Visit = Callable[..., Any]
NASTY = "<script>document.title='owned'</script>"


@pytest.fixture(scope="module")
def comparison(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A comparison with long titles and wide numbers for two metrics, written as `compare` writes it."""
    rng = np.random.default_rng(0)
    y = torch.from_numpy((rng.random(300) < 0.3).astype(np.int64))
    scores = torch.from_numpy(rng.normal(size=300)) + y
    test = evaluate(Objective.of("recall@precision=0.5"), scores, y, 0.5)
    row = {"test": 0.9123, "deviation": 0.0123, "validation": 0.9, "seconds": 1234.5, "megabytes": 1234.0}
    apart = {"difference": -0.1234, "low": -12.3456, "high": 11.2345, "p": 0.034}
    names = ["best_rival", "best_of_all", "a", "b", "c"]
    table = [{**row, **(apart if i else {}), "name": n, "title": f"{n}: a title of many words, and more"} for i, n in
             enumerate(names)]  # fmt: skip
    curves = {f"run {i}": [test.curves] * 2 for i in range(9)}
    part = {
        "metric": "recall@precision=0.5", "seeds": 5, "rows": [1000, 300, 300], "table": table, "comparisons": 4,
        "level": 0.99, "skipped": [], "verdicts": ["No difference."], "curves": curves,
        "example": {"test": asdict(test), "threshold": 0.5, "classes": ["no", "yes"], "entrant": "a", "notes": []},
    }  # fmt: skip
    settings = {"model": "auto", "epochs": 0, "seed": 0}
    folder = tmp_path_factory.mktemp("comparison")
    document = {"data": "table.csv", "settings": settings, "parts": [part, part]}
    (folder / "comparison.json").write_text(json.dumps(document))
    write_report(folder)
    return folder


def cut(tab: Any) -> list[str]:
    """Tables of which a part lies outside their frame."""
    found: list[str] = tab.evaluate(
        "[...document.querySelectorAll('.wide')].filter(e => e.scrollWidth > e.clientWidth).map(e => e.innerText)"
    )
    return found


def test_no_table_is_cut_at_1300_pixels(comparison: Path, run: Path, open_page: Visit) -> None:
    for folder in (comparison, run):
        tab = open_page(folder / "report.html", width=1300)
        assert tab.locator("table").count() >= 3
        assert cut(tab) == []
        assert tab.problems == []


def test_nothing_leaves_the_page_at_420_pixels(comparison: Path, run: Path, open_page: Visit) -> None:
    for folder in (comparison, run):
        tab = open_page(folder / "report.html", width=420)
        assert tab.evaluate("document.documentElement.scrollWidth") <= 420
        assert {round(one.bounding_box()["width"]) <= 388 for one in tab.locator("svg").all()} == {True}
    # Tables of seven columns scroll inside their frame; all others fit.
    assert [text.split()[0] for text in cut(tab)] in ([], ["group"])


def test_letters_in_figures_can_be_read_on_a_phone(run: Path, open_page: Visit) -> None:
    tab = open_page(run / "report.html", width=420)
    heights = tab.evaluate("[...document.querySelectorAll('svg text')].map(e => e.getBoundingClientRect().height)")
    assert min(heights) >= 9


def test_curves_have_titles_and_the_operating_point(page: Any, run: Path) -> None:
    counts = json.loads((run / "metrics.json").read_text())["test"]["counts"]
    tp, fp, fn, tn = (counts[key] for key in ("tp", "fp", "fn", "tn"))
    wanted = {
        "ROC": (fp / (fp + tn), tp / (tp + fn)),
        "Precision and recall": (tp / (tp + fn), tp / (tp + fp)),
        "Gain": ((tp + fp) / (tp + fp + fn + tn), tp / (tp + fn)),
    }
    assert marks(page) == {title: pytest.approx(point, abs=0.01) for title, point in wanted.items()}


def marks(page: Any) -> dict[str, tuple[float, float]]:
    """Title → the mark's place in units of the axes, measured on the screen against the drawn frame of ticks."""
    found = {}
    for name, title in (("roc", "ROC"), ("pr", "Precision and recall"), ("gain", "Gain")):
        figure = page.locator(f"svg:has(#{name}-point)")
        assert title in figure.text_content()
        mark, frame = (page.locator(f"#{name}-{part}").bounding_box() for part in ("point use", "patch_2"))
        x = (mark["x"] + mark["width"] / 2 - frame["x"]) / frame["width"]
        y = 1 - (mark["y"] + mark["height"] / 2 - frame["y"]) / frame["height"]
        found[title] = (x, 1.02 * y)  # the axis ends at 1.02
    return found


def test_operating_point_follows_the_threshold(page: Any) -> None:
    data = json.loads(page.locator("#data").text_content())
    for place in (0, len(data["steps"]) // 3, len(data["steps"]) - 1):
        page.locator("#threshold").fill(str(place))
        _, tp, fp = data["steps"][place]
        recall, fpr = tp / data["positives"], fp / data["negatives"]
        precision = tp / (tp + fp) if tp + fp else 1.0
        share = (tp + fp) / (data["positives"] + data["negatives"])
        wanted = {"ROC": (fpr, recall), "Precision and recall": (recall, precision), "Gain": (share, recall)}
        assert marks(page) == {title: pytest.approx(point, abs=0.01) for title, point in wanted.items()}


def test_legends_stand_outside_the_figures(comparison: Path, page: Any, open_page: Visit) -> None:
    for tab in (page, open_page(comparison / "report.html")):
        assert tab.locator("svg [id*=legend]").count() == 0
        assert tab.locator(".legend li").count() >= 3
        for box in (one.bounding_box() for one in tab.locator(".legend").all()):
            for figure in (one.bounding_box() for one in tab.locator("svg").all()):
                apart = (
                    box["y"] >= figure["y"] + figure["height"] - 0.5 or box["y"] + box["height"] <= figure["y"] + 0.5
                )
                assert apart


def test_price_slider_agrees_with_a_search_over_all_thresholds(page: Any) -> None:
    data = json.loads(page.locator("#data").text_content())
    positives, rows = data["positives"], data["positives"] + data["negatives"]
    for exponent in (-20, -7, 0, 13):
        miss = 10 ** (exponent / 10)
        costs = [1000 * (fp + miss * (positives - tp)) / rows for _, tp, fp in data["steps"]]
        page.locator("#threshold").fill(str(data["start"]))
        page.locator("#price").fill(str(exponent))
        shown = {name: float(page.locator(f"#cost-{name}").inner_text()) for name in ("here", "least", "all", "none")}
        assert shown == {
            "here": pytest.approx(costs[data["start"]], abs=0.051),
            "least": pytest.approx(min(costs), abs=0.051),
            "all": pytest.approx(1000 * data["negatives"] / rows, abs=0.051),
            "none": pytest.approx(1000 * miss * positives / rows, abs=0.051),
        }
        assert float(page.locator("#price-value").inner_text()) == pytest.approx(miss, rel=0.05)
        page.locator("#cheapest").click()
        place = int(page.locator("#threshold").input_value())
        assert costs[place] == pytest.approx(min(costs))
        assert page.locator("#cost-here").inner_text() == page.locator("#cost-least").inner_text()
    assert page.problems == []


def test_numbers_with_their_intervals_and_the_baseline_are_on_the_page(page: Any, run: Path) -> None:
    test = json.loads((run / "metrics.json").read_text())["test"]
    low, high = test["interval"]
    assert low < test["metric"] < high
    assert f"95 %: {low:.4f} to {high:.4f}" in page.locator(".numbers").inner_text()
    assert f"{test['baseline']:.4f}" in page.locator(".numbers").inner_text()
    rows = [row.locator("td").all_inner_texts() for row in page.locator("#beside tr").all()[1:]]
    assert [row[0] for row in rows] == [
        "f1", "AUROC", "average precision", "Brier score (lower is better)", "log loss (lower is better)",
    ]  # fmt: skip
    for row, stored in zip(rows[1:], test["beside"], strict=True):
        low, high = stored["interval"]
        assert row[1:] == [f"{stored['value']:.4f}", f"{low:.4f} to {high:.4f}", f"{stored['constant']:.4f}"]


def test_reliability_importance_and_learning_curves_are_drawn(page: Any, run: Path) -> None:
    metrics = json.loads((run / "metrics.json").read_text())
    assert page.locator("#reliability-bins use").count() == len(metrics["test"]["reliability"]) >= 2
    names = page.locator("svg[aria-label^='Permutation importance']").text_content()
    assert "x" in names.split()
    assert metrics["importance"]["columns"][0]["column"] == "x"
    assert {one["column"] for one in metrics["importance"]["columns"]} == {"x", f"group{NASTY}"}
    assert page.get_by_text("One line per fold").count() == 1


def test_importance_says_what_it_left_out() -> None:
    assert importance_section(Importance(left_out="900 columns"), "f1", "test rows") == {
        "importance_text": "Not computed: 900 columns."
    }
    rows = [ColumnImportance(f"$c_{i}<b>$", 0.1, None, None) for i in range(30)]
    found = importance_section(Importance(rows, 9, 5, 0.5), "f1", "test rows")
    assert "first 20 of 30 columns" in found["importance_text"]
    drawn = re.sub(r"<!--.*?-->", "", found["importance"])  # matplotlib repeats texts in comments
    assert "$c_19&lt;b&gt;$" in drawn  # as it is, not as a formula
    assert "<b>" not in found["importance"]


def test_several_classes_have_a_confusion_matrix_and_a_row_each() -> None:
    rng = np.random.default_rng(0)
    y = torch.from_numpy(rng.integers(0, 3, 90))
    scores = torch.from_numpy(rng.normal(size=(90, 3)))
    test = evaluate(Objective.of("auroc_ovr"), scores, y, 0.0)
    names = ["<b>a", "b", "c"]
    page = render(title="", subtitle="", headline=[], facts=[], classes=classes_section(test, names))
    for i, row in enumerate(test.confusion):
        marked = [' class="right"' if i == j else "" for j in range(3)]
        cells = "".join(f"<td{mark}>{count}</td>" for mark, count in zip(marked, row, strict=True))
        assert cells in page
    for row in test.per_class:
        numbers = "".join(f"<td>{getattr(row, key):.4f}</td>" for key in ("precision", "recall", "f1", "auroc"))
        assert f"<td>{row.support}</td><td>{row.decided}</td>{numbers}" in page
    assert "&lt;b&gt;a" in page
    assert "<b>a" not in page


def test_many_classes_show_their_most_frequent_confusions() -> None:
    y = torch.arange(120) % 30
    scores = torch.nn.functional.one_hot((y + (torch.arange(120) >= 60)) % 30, 30).double()
    test = evaluate(Objective.of("auroc_ovr"), scores, y, 0.0)
    found = classes_section(test, [str(k) for k in range(30)])
    assert found["matrix"] is None
    assert len(found["mistakes"]) == 20
    assert found["mistakes"][0] == {"truth": "0", "decided": "1", "rows": 2}
    assert 'id="mistakes"' in render(title="", subtitle="", headline=[], facts=[], classes=found)


def test_committee_section_names_members_by_weight(run: Path, tmp_path: Path) -> None:
    members = [
        {"name": "linear", "title": "<i>linear", "weight": 0.25, "out_of_fold": 0.81, "seconds": 1.0},
        {"name": "trees", "title": "boosted trees", "weight": 0.75, "out_of_fold": 0.86, "seconds": 2.0},
    ]
    metrics = json.loads((run / "metrics.json").read_text())
    metrics["ensemble"] = {"members": members, "folds": 5, "rule": "weights by greedy selection"}
    metrics["rows"] = {"train": 320, "validation": 0, "test": 80}
    metrics["threshold_text"] = "chosen on <b>out-of-fold</b> rows"
    (tmp_path / "metrics.json").write_text(json.dumps(metrics))
    (tmp_path / "config.json").write_text((run / "config.json").read_text())
    text = write_report(tmp_path).read_text()
    first, second = (
        text.index("<td>boosted trees</td><td>0.750</td>"),
        text.index("<td>&lt;i&gt;linear</td><td>0.250</td>"),
    )
    assert first < second
    assert "<td>0.8600</td><td>2.0</td>" in text
    assert "weights by greedy selection" in text
    assert "320 training, 80 test rows" in text
    assert "the tuned threshold: chosen on &lt;b&gt;out-of-fold&lt;/b&gt; rows." in text
    assert "5 folds" in text
    only = Members([MemberRow("only", "", 1.0, float("nan"))], 1, "")
    assert members_section(only)["members"][0] == {
        "title": "only",
        "weight": "1.000",
        "width": "8.00",
        "out_of_fold": "–",
        "seconds": "0.0",
    }


BARE = """[...document.querySelectorAll('th, button, summary, h1, h2')].filter(e => !e.innerText.trim())
    .map(e => e.outerHTML)
    .concat([...document.querySelectorAll('input')].filter(e => e.labels.length === 0).map(e => e.outerHTML))
    .concat(document.querySelectorAll('main').length === 1 ? [] : ['main'])
    .concat(document.querySelectorAll('h1').length === 1 ? [] : ['h1'])"""
#: The contrast of each text with the page, after WCAG.
FAINT = """(() => {
    const light = rgb => rgb.slice(0, 3).map(v => v / 255)
        .map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
        .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
    const of = (e, name) => getComputedStyle(e)[name].match(/[0-9.]+/g).map(Number);
    const paper = light(of(document.body, 'backgroundColor'));
    return [...document.querySelectorAll('p, td, th, li, h1, h2, small, label, summary')].filter(e => {
        const [high, low] = [light(of(e, 'color')), paper].sort((a, b) => b - a);
        return (high + 0.05) / (low + 0.05) < 4.5;
    }).map(e => e.outerHTML.slice(0, 80));
})()"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_labels_landmarks_and_contrast(comparison: Path, run: Path, open_page: Visit, scheme: str) -> None:
    for folder in (comparison, run):
        tab = open_page(folder / "report.html", color_scheme=scheme)
        assert tab.evaluate(BARE) == []
        assert tab.evaluate(FAINT) == []


def test_the_verdict_is_first_and_details_are_folded(comparison: Path, run: Path, browser: Any) -> None:
    for folder in (comparison, run):
        tab = browser.new_page()
        tab.goto((folder / "report.html").as_uri())
        assert tab.evaluate("document.querySelector('main').firstElementChild.className") == "verdict"
        fold = tab.locator("details")
        assert fold.count() == 1
        assert not fold.locator("table").first.is_visible()
        fold.locator("summary").click()
        assert fold.locator("table").first.is_visible()
        tab.close()


def test_a_run_says_its_command_its_day_and_the_threshold_as_a_probability(page: Any, run: Path) -> None:
    facts = page.locator(".facts").inner_text()
    assert "aimfor train" in facts
    assert "--metric f1" in facts
    assert "--members linear" in facts
    assert re.search(r"finished\s+20\d\d-\d\d-\d\d", facts)
    threshold = json.loads((run / "threshold.json").read_text())["threshold"]
    assert float(page.locator("#threshold-probability").inner_text()) == pytest.approx(
        1 / (1 + np.exp(-threshold)), abs=2e-3
    )


def test_rows_of_a_wide_table_are_cards_on_a_phone(comparison: Path, open_page: Visit) -> None:
    tab = open_page(comparison / "report.html", width=420)
    first = tab.locator("table.comparison tr").nth(1).locator("td")
    names = [cell.get_attribute("data-name") for cell in first.all()]
    assert names[0] == "model"
    assert names[-2:] == ["seconds", "peak MB"]
    places = [one.bounding_box()["y"] for one in first.all() if one.is_visible()]
    assert places == sorted(set(places))  # one below the other
