"""metrics.json read back: as it is written today, and as 0.2 wrote it at first."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from aimfor.errors import InputError
from aimfor.runs.evaluation import EnsembleEvaluation, Estimate, read_evaluation, write_evaluation
from aimfor.targets.evaluate.results import GroupRow, TwoClasses

GOLDEN = Path(__file__).parents[2] / "golden" / "ensemble.json"
GROUP = GroupRow("f", n=10, positives=4, decided=3, recall=0.5, fpr=0.25, precision=0.75)


def _today(folder: Path) -> EnsembleEvaluation:
    (folder / "metrics.json").write_text(json.dumps(json.loads(GOLDEN.read_text())["metrics"]))
    found = read_evaluation(folder)
    assert isinstance(found, EnsembleEvaluation)
    assert isinstance(found.test, TwoClasses)
    return replace(found, expected=Estimate(0.5), test=replace(found.test, groups=[GROUP]))


def _as_it_was(document: dict[str, Any]) -> dict[str, Any]:
    """Without a number of the layout, the ensemble by its first name, and rates of groups by their long ones."""
    document["committee"] = document.pop("ensemble")
    document["validation"] = document.pop("expected")["metric"]
    del document["schema"]
    for row in document["test"]["groups"]:
        row["false positive rate"] = row.pop("fpr")
    return document


def test_the_first_layout_reads_as_todays(tmp_path: Path) -> None:
    wanted = _today(tmp_path)
    write_evaluation(tmp_path, wanted)
    path = tmp_path / "metrics.json"
    assert repr(read_evaluation(tmp_path)) == repr(wanted)  # NaN is not equal to itself
    path.write_text(json.dumps(_as_it_was(json.loads(path.read_text()))))
    assert repr(read_evaluation(tmp_path)) == repr(wanted)


@pytest.mark.parametrize("test", [None, [], {"groups": None}, {"groups": 3}, {"groups": [3]}])
def test_a_first_layout_without_sense_is_one_line(test: Any, tmp_path: Path) -> None:
    (tmp_path / "metrics.json").write_text(json.dumps({"committee": {}, "test": test}))
    with pytest.raises(InputError, match=r"metrics\.json"):
        read_evaluation(tmp_path)
