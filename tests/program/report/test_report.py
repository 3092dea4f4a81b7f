"""The report is one file that works offline, escapes what users type, and counts as scikit-learn does."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn import metrics as sk
from typer.testing import CliRunner

from aimfor.cli.main import app
from aimfor.report.ensemble import certificate_section
from aimfor.report.page import render, script_json
from aimfor.report.write import write_report
from aimfor.targets.evaluate import curves, evaluate, rates
from aimfor.targets.intervals import exact_interval
from aimfor.targets.objective import Objective
from aimfor.targets.results import FindingRow, StoredCertificate

DRAWN = True
NASTY = "<script>document.title='owned'</script>"


def test_file_is_small_and_asks_nothing_of_the_network(run: Path) -> None:
    text = (run / "report.html").read_text()
    assert len(text.encode()) < 1_500_000
    outside = [url for url in re.findall(r'(?:src|href|action)="([^"#][^"]*)"', text) if not url.startswith("data:")]
    assert outside == []
    assert "@import" not in text


def test_user_text_is_escaped(run: Path) -> None:
    text = (run / "report.html").read_text()
    assert NASTY not in text
    assert "&lt;script&gt;document.title" in text
    for raw in ("<u>yes</u>", "<i>a</i>", "a<b>&.csv", "constant <b>"):
        assert raw not in text


def test_data_for_the_script_cannot_end_its_element() -> None:
    text = str(script_json({"a": "</script><!--&"}))
    assert "<" not in text
    assert json.loads(text) == {"a": "</script><!--&"}


def test_slider_moves_and_agrees_with_scikit_learn(page: Any, run: Path) -> None:
    scores, targets = held_out(run)
    steps = json.loads(page.locator("#data").text_content())["steps"]
    seen = set()
    for place in (0, len(steps) // 4, len(steps) // 2, len(steps) - 1):
        page.locator("#threshold").fill(str(place))
        decided = scores > steps[place][0]
        tn, fp, fn, tp = sk.confusion_matrix(targets, decided, labels=[False, True]).ravel()
        shown = {name: int(page.locator(f"#{name}").inner_text()) for name in ("tp", "fp", "fn", "tn")}
        assert shown == {"tp": tp, "fp": fp, "fn": fn, "tn": tn}
        wanted = {
            "precision": sk.precision_score(targets, decided, zero_division=np.nan),
            "recall": sk.recall_score(targets, decided),
            "specificity": sk.recall_score(~targets, ~decided),
            "false positive rate": fp / (fp + tn),
            "F1": sk.f1_score(targets, decided),
            "IoU": sk.jaccard_score(targets, decided, zero_division=0.0),
            "accuracy": sk.accuracy_score(targets, decided),
            "balanced accuracy": sk.balanced_accuracy_score(targets, decided),
        }
        for name, value in wanted.items():
            cell = page.locator(f'[data-rate="{name}"]').inner_text()
            assert cell == ("–" if np.isnan(value) else f"{value:.4f}"), name
        seen.add(tuple(shown.values()))
    assert len(seen) == 4
    page.locator("#reset").click()
    metrics = json.loads((run / "metrics.json").read_text())
    assert int(page.locator("#tp").inner_text()) == metrics["test"]["counts"]["tp"]
    assert page.problems == []
    assert page.title().startswith("a<b>&.csv")


def held_out(run: Path) -> tuple[Any, Any]:
    """Scores and labels of the test rows, by the way of `predict` instead of the report's own."""
    from aimfor.data.settings import Settings
    from aimfor.runs.finished import load_run
    from aimfor.runs.prepared import prepare

    config = json.loads((run / "config.json").read_text())
    ready = prepare(Settings(**config["settings"]))
    scores = load_run(run).scores(ready.source).double().numpy()[ready.parts.test]
    return scores, ready.ids.numpy()[ready.parts.test].astype(bool)


def test_readable_on_a_phone_and_in_print(page: Any) -> None:
    page.set_viewport_size({"width": 360, "height": 740})
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    for figure in page.locator("svg").all():
        assert figure.bounding_box()["width"] <= 360
    page.emulate_media(media="print")
    assert not page.locator("#threshold").is_visible()
    assert page.locator("#matrix").is_visible()
    page.emulate_media(media="screen")


def test_figures_have_text_alternatives_and_ids_of_their_own(page: Any) -> None:
    labels = [svg.get_attribute("aria-label") for svg in page.locator("svg[role=img]").all()]
    assert len(labels) >= 3
    assert all(labels)
    ids = page.evaluate("[...document.querySelectorAll('[id]')].map(e => e.id)")
    assert len(ids) == len(set(ids))


def test_group_table_and_certificate_match_independent_counts(run: Path) -> None:
    from aimfor.data.settings import Settings
    from aimfor.runs.prepared import prepare

    metrics = json.loads((run / "metrics.json").read_text())
    config = json.loads((run / "config.json").read_text())
    ready = prepare(Settings(**config["settings"]))
    assert ready.source.groups is not None
    groups = ready.source.groups[ready.parts.test]
    scores, targets = held_out(run)
    for row in metrics["test"]["groups"]:
        inside = groups == row["group"]
        decided = scores[inside] > metrics["threshold"]
        assert row["n"] == inside.sum()
        assert row["recall"] == pytest.approx(sk.recall_score(targets[inside], decided))
    counts = metrics["test"]["counts"]
    low, high = metrics["test"]["intervals"]["recall"]
    assert (low, high) == pytest.approx(clopper_pearson(counts["tp"], counts["tp"] + counts["fn"]))


def clopper_pearson(successes: int, trials: int, alpha: float = 0.025) -> tuple[float, float]:
    from scipy.stats import beta

    low = beta.ppf(alpha, successes, trials - successes + 1) if successes else 0.0
    high = beta.ppf(1 - alpha, successes + 1, trials - successes) if successes < trials else 1.0
    return float(low), float(high)


@pytest.mark.parametrize("name", ["recall@precision=0.5", "precision@recall=0.4", "tpr@fpr=0.1"])
def test_certificate_of_a_floor_matches_independent_counts(run: Path, tmp_path: Path, name: str) -> None:
    words = ["train", str(run.parent / "a<b>&.csv"), "--target", "label", "--positive", "<u>yes</u>", "--metric", name]
    words += ["--holdout", "0.2"]
    words += ["--members", "linear", "-q", "--out", str(tmp_path / "run")]
    result = CliRunner().invoke(app, words)
    assert result.exit_code in (0, 4), result.output  # 4: finished, and the floor is not guaranteed
    scores, targets = held_out(tmp_path / "run")
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    threshold = json.loads((tmp_path / "run" / "threshold.json").read_text())["threshold"]
    tn, fp, fn, tp = (int(n) for n in sk.confusion_matrix(targets, scores > threshold).ravel())
    of, bound = {"rec": ((tp, tp + fp), 0.5), "pre": ((tp, tp + fn), 0.4), "tpr": ((fp, fp + tn), 0.1)}[name[:3]]
    low, high = clopper_pearson(*of, alpha=0.05)
    (found,) = metrics["test"]["certificate"]["findings"]
    value, sign = of[0] / of[1], -1 if name.startswith("tpr") else 1
    assert (found["value"], found["bound"]) == pytest.approx((value, bound))
    assert found["slack"] == pytest.approx(sign * (value - bound))
    assert (found["low"], found["high"]) == pytest.approx((low, high))
    worse, better = sorted([sign * (low - bound), sign * (high - bound)])
    assert found["verdict"] == ("met" if worse >= 0 else "missed" if better < 0 else "undecided")
    text = (tmp_path / "run" / "report.html").read_text()
    for part in (f"<b>{found['verdict']}</b>", f"<td>{low:.4f}</td><td>{high:.4f}</td>", found["note"]):
        assert part in text
    assert f"certificate, {found['verdict']}: " in result.stderr
    assert found["note"] in result.stderr


@pytest.mark.parametrize(
    ("right", "of", "verdict", "note"),
    [
        (200, 200, "met", ""),
        (100, 200, "missed", "choose another threshold"),
        (185, 200, "undecided", "more examples like these 300 would decide it"),
        (0, 0, "undecided", "nothing to measure precision on"),
    ],
)
def test_report_says_each_verdict(right: int, of: int, verdict: str, note: str) -> None:
    decided = torch.arange(300) < of
    targets = ((torch.arange(300) < right) | (torch.arange(300) >= 290)).long()
    test = evaluate(Objective.of("recall@precision=0.9"), decided.float(), targets, 0.5)
    page = render(title="", subtitle="", headline=[], facts=[], certificate=certificate_section(test.certificate))
    assert f"precision &gt;= 0.9: <b>{verdict}</b>" in page
    assert note in page


def test_certificate_text_is_escaped_and_infeasible_is_said() -> None:
    nan = float("nan")
    finding = {"value": nan, "bound": 0.9, "slack": nan, "low": 0.0, "high": 1.0, "examples": 0, "more": None}
    finding |= {"constraint": NASTY, "verdict": "infeasible", "note": "<i>loosen one</i>"}
    made = {"objective": NASTY, "objective_value": nan, "confidence": 0.95, "examples": 3, "verdict": ""}
    found = StoredCertificate(**made, findings=[FindingRow(**finding)], text="")  # type: ignore[arg-type]
    page = render(title="", subtitle="", headline=[], facts=[], certificate=certificate_section(found))
    assert "<b>infeasible</b>" in page
    assert "<td>–</td><td>–</td>" in page
    assert NASTY not in page
    assert "<i>" not in page


def test_metric_without_a_floor_keeps_the_intervals_and_has_no_certificate(run: Path) -> None:
    assert json.loads((run / "metrics.json").read_text())["test"]["certificate"] is None
    text = (run / "report.html").read_text()
    assert "two-sided 95 % intervals" in text
    assert "<h2>Certificate</h2>" not in text


def test_interval_at_the_ends() -> None:
    assert exact_interval(0, 10) == pytest.approx(clopper_pearson(0, 10))
    assert exact_interval(10, 10) == pytest.approx(clopper_pearson(10, 10))
    assert exact_interval(0, 0) == (0.0, 1.0)


def test_curves_agree_with_scikit_learn_on_the_grid() -> None:
    rng = np.random.default_rng(0)
    scores, targets = rng.normal(size=500).round(1), (rng.random(500) < 0.2).astype(float)
    found = curves(scores, targets)
    fpr, tpr, _ = sk.roc_curve(targets, scores, drop_intermediate=False)
    grid = np.linspace(0, 1, 101)
    np.testing.assert_allclose(found["roc"], np.interp(grid, fpr, tpr), atol=1e-12)
    precision, recall, _ = sk.precision_recall_curve(targets, scores)
    best = [precision[recall >= r - 1e-12].max() for r in grid]
    np.testing.assert_allclose(found["pr"][1:], best[1:], atol=1e-12)


def test_rates_of_empty_cells_are_undefined_not_zero() -> None:
    assert np.isnan(rates({"tp": 0, "fp": 0, "fn": 3, "tn": 4})["precision"])


def test_report_can_be_written_again_and_a_strange_folder_is_refused(run: Path, tmp_path: Path) -> None:
    before = (run / "report.html").read_text()
    assert write_report(run).read_text() == before
    result = CliRunner().invoke(app, ["report", str(tmp_path)])
    assert result.exit_code == 2
    assert "aimfor: run: got" in result.stderr
