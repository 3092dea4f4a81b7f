"""metrics.json read back, or refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from aimfor.errors import InputError
from aimfor.runs.evaluation import EnsembleEvaluation, Estimate, read_evaluation, write_evaluation
from aimfor.targets.results import GroupRow, TwoClasses

GOLDEN = Path(__file__).parents[2] / "golden" / "ensemble.json"
GROUP = GroupRow("f", n=10, positives=4, decided=3, recall=0.5, fpr=0.25, precision=0.75)


def _today(folder: Path) -> EnsembleEvaluation:
    (folder / "metrics.json").write_text(json.dumps(json.loads(GOLDEN.read_text())["metrics"]))
    found = read_evaluation(folder)
    assert isinstance(found, EnsembleEvaluation)
    assert isinstance(found.test, TwoClasses)
    return replace(found, expected=Estimate(0.5), test=replace(found.test, groups=[GROUP]))


def test_what_was_written_is_read(tmp_path: Path) -> None:
    wanted = _today(tmp_path)
    write_evaluation(tmp_path, wanted)
    assert repr(read_evaluation(tmp_path)) == repr(wanted)  # NaN is not equal to itself


@pytest.mark.parametrize("schema", [None, 0, 2, "1"])
def test_another_layout_is_one_line(schema: Any, tmp_path: Path) -> None:
    document = json.loads(GOLDEN.read_text())["metrics"]
    (tmp_path / "metrics.json").write_text(json.dumps({**document, "schema": schema}))
    with pytest.raises(InputError, match=r"metrics\.json of layout .*, expected layout 1\. Read it by the version"):
        read_evaluation(tmp_path)
