"""Several labels at once: an ensemble and a threshold each, unknown labels left out, one CSV of predictions."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from sklearn.metrics import average_precision_score
from typer.testing import CliRunner

from aimfor.cli.main import app
from aimfor.data import backbones
from aimfor.data.pictures import Pictures
from aimfor.runs.labels import LabelsTask
from aimfor.runs.sheets import label_sheets
from aimfor.targets.objective import Objective
from pictures_samples import picture, tiny


@pytest.fixture(autouse=True)
def _tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backbones, "_lite0", tiny)


def says(*words: object, code: int = 0) -> str:
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == code, result.output + repr(result.exception)
    return result.output


def table(folder: Path, n: int = 48) -> Path:
    """Bright above, bright below, and a label that nearly nobody has."""
    folder.mkdir()
    lines = ["file,below,noisy,rare"]
    for seed in range(n):
        picture(seed % 2, seed).save(folder / f"{seed}.png")
        noisy = "" if seed == 3 else str(int(seed % 5 > 2))
        lines.append(f"{seed}.png,{seed % 2},{noisy},{int(seed == 7)}")
    (folder / "labels.csv").write_text("\n".join(lines) + "\n")
    return folder / "labels.csv"


def test_each_label_has_its_own_ensemble_and_threshold(tmp_path: Path) -> None:
    data, out = table(tmp_path / "photos"), tmp_path / "runs" / "one"
    words = ("--metric", "ap", "--model", "efficientnet-lite0", "--image-size", 32, "--members", "linear")
    said = says("train", data, "--target", "below,noisy,rare", *words, "--out", out)
    assert "the label rare is left out" in said
    metrics = json.loads((out / "metrics.json").read_text())
    assert [one["label"] for one in metrics["labels"]] == ["below", "noisy"]
    assert metrics["labels"][0]["value"] > 0.9
    assert metrics["test"]["metric"] == pytest.approx(np.mean([one["value"] for one in metrics["labels"]]))
    assert metrics["test"]["metric"] == 1.0
    assert metrics["test"]["interval"] is None  # all draws agree
    page = (out / "report.html").read_text()
    assert "<td>noisy</td>" in page
    assert (out / "sheets.json").exists()
    rows = list(csv.DictReader(says("predict", out, data).splitlines()))
    assert len(rows) == 48
    truth = np.array([int(Path(row["row"]).stem) % 2 for row in rows])
    assert average_precision_score(truth, [float(row["score below"]) for row in rows]) > 0.95
    cut = json.loads((out / "labels.json").read_text())["thresholds"][0]
    assert [row["decision below"] for row in rows] == [str(int(float(row["score below"]) > cut)) for row in rows]
    assert says("report", out).strip() == str(out / "report.html")
    assert "finished" in says("train", "--resume", out, code=2)
    for damaged in ({"thresholds": {}}, {"labels": ["below"]}, {"thresholds": ["nan", 0.0]}, {"labels": [None] * 3}):
        (out / "labels.json").write_text(json.dumps({"labels": ["below", "noisy"], "thresholds": [0, 0], **damaged}))
        assert "labels.json, which is damaged" in says("predict", out, data, code=2)


def test_a_label_that_changed_is_noticed(tmp_path: Path) -> None:
    data, out = table(tmp_path / "photos"), tmp_path / "runs" / "one"
    words = ("--metric", "ap", "--model", "efficientnet-lite0", "--image-size", 32, "--members", "linear")
    says("train", data, "--target", "below,noisy", *words, "--out", out)
    (out / "metrics.json").unlink()  # as of a run that was stopped
    text = data.read_text()
    data.write_text(text.replace("\n5.png,1,0,", "\n5.png,1,1,"))
    assert data.read_text() != text
    assert "changed since" in says("train", "--resume", out, code=2)
    data.write_text(text)
    says("train", "--resume", out)


def test_what_does_not_go_with_several_labels_is_one_line(tmp_path: Path) -> None:
    data = table(tmp_path / "photos", 12)
    words = ("train", data, "--model", "efficientnet-lite0", "--image-size", 32, "--out", tmp_path / "runs" / "one")
    assert "a metric of two classes" in says(*words, "--target", "below,noisy", "--metric", "f1_macro", code=2)
    assert "too few pictures" in says(*words, "--target", "rare,rare", "--metric", "ap", code=2)
    assert not (tmp_path / "runs" / "one").exists()


def test_a_refused_option_leaves_no_folder(tmp_path: Path) -> None:
    data = table(tmp_path / "photos")
    words = ("train", data, "--target", "below,noisy", "--metric", "ap", "--model", "efficientnet-lite0")
    assert "--fast" in says(*words, "--image-size", 32, "--fast", "--out", tmp_path / "run", code=2)
    assert not (tmp_path / "run").exists()


def test_sheets_show_false_alarms_and_misses_the_surest_first() -> None:
    """Five test pictures: one alarm each of 2.0 and 0.5 above the threshold, one miss, one unknown, one hit."""
    names = [f"{one}.png" for one in range(7)]
    pixels = np.zeros((7, 8, 8, 3), dtype=np.uint8)
    y = torch.tensor([[0, 0], [0, 0], [1, 1], [-1, 1], [1, 1]])
    scores = torch.tensor([[1.5, -9.0], [3.0, -9.0], [0.2, 9.0], [9.0, 9.0], [4.0, 9.0]])
    margins = scores - torch.tensor([1.0, 0.0])
    sheets = label_sheets(Pictures(names, array=pixels), [1, 2, 3, 4, 5], y, margins, ["sea", "sky"])
    assert [one["title"] for one in sheets] == ["Mistakes about sea"]
    assert [tile["alt"] for tile in sheets[0]["tiles"]] == [
        "2.png: called sea, is not",
        "1.png: called sea, is not",
        "3.png: is sea, missed",
    ]
    assert sheets[0]["text"].startswith("2 false alarms and 1 misses")


def test_a_label_that_nobody_is_given_has_no_precision() -> None:
    task = SimpleNamespace(
        settings=SimpleNamespace(metric="f1", seed=0),
        objective=Objective.of("f1"),
        y=torch.tensor([[0, 1], [1, 0], [1, -1], [0, 0], [1, 1]]),
        test=torch.ones(5, dtype=torch.bool),
        labels=["a", "b"],
        notes=[],
    )
    evaluation = LabelsTask.evaluation_of(task, torch.zeros(5, 2), [0.5, -0.5])  # type: ignore[arg-type]
    none, all_of_them = evaluation.labels
    assert np.isnan(none.precision)
    assert none.recall == 0.0
    assert all_of_them.precision == 0.5  # two of four whose label is known
    assert all_of_them.recall == 1.0
