"""A kind of run is one line: a task of one's own goes through the driver like any other."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from aimfor.data import checkpoint
from aimfor.data.settings import Settings
from aimfor.errors import InputError
from aimfor.report.write import summary, write_report
from aimfor.runs import driver, kinds
from aimfor.runs.evaluation import Estimate, LabelsEvaluation, read_evaluation
from aimfor.runs.kinds import Step, Stop, Task, Tell


@dataclass
class Constant(Task):
    """Numbers in a file × their mean × nothing that learns."""

    reading: kinds.Reading
    kind = "constant"
    name = "numbers"
    notes = ("a note",)  # type: ignore[assignment]

    @property
    def settings(self) -> Settings:  # type: ignore[override]
        return self.reading.settings

    @property
    def facts(self) -> dict[str, Any]:
        return {"labels": ["mean"]}

    @property
    def fingerprint(self) -> str:
        return Path(self.settings.data).read_text()

    def fit(self, folder: Path, tell: Tell, stop: Stop) -> float:
        tell(Step("adding", "1 of 1", 1, 1))
        return float(torch.tensor([float(line) for line in self.fingerprint.split()]).mean())

    def evaluate(self, fitted: float, tell: Tell, stop: Stop) -> LabelsEvaluation:
        found = Estimate(fitted, None)
        return LabelsEvaluation(
            metric="ap", notes=list(self.notes), test=found, labels=[], pictures={"train": 1, "test": 1}
        )

    def save(self, folder: Path, fitted: float, evaluation: Any) -> None:
        checkpoint.write_json(folder / "mean.json", {"mean": fitted})


def test_a_new_kind_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    task, suits = f"{__name__}:Constant", lambda settings: settings.data.endswith(".num")
    line = kinds.Kind("numbers", "rows", "labels", "an ensemble a label", task, "tabular-regression", suits)
    monkeypatch.setattr(kinds, "KINDS", {"constant": line})
    (tmp_path / "a.num").write_text("1\n2\n6")
    given = Settings(data=str(tmp_path / "a.num"), metric="ap", model="auto")
    folder, task = driver.start(given, tmp_path / "run")
    steps: list[Step] = []
    driver.finish(folder, task, steps.append)
    assert [step.doing for step in steps] == ["adding"]
    assert json.loads((folder / "config.json").read_text())["kind"] == "constant"
    assert read_evaluation(folder).test.metric == 3.0
    assert summary(read_evaluation(folder))[0] == ("mean ap on test pictures", "3.0000 (95 %: –)")
    assert "3.0000" in (folder / "README.md").read_text()
    assert "3.0000" in write_report(folder).read_text()
    (tmp_path / "b.num").write_text("1")
    folder, _ = driver.start(given.model_copy(update={"data": str(tmp_path / "b.num")}), tmp_path / "two")
    (tmp_path / "b.num").write_text("2")
    with pytest.raises(InputError, match="data has changed"):
        driver.reopen(folder)
