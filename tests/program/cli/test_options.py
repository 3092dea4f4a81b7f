"""Every option of `aimfor train` acts on a kind of run or is refused by name: no third word."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

from aimfor.cli.options import TRAIN
from aimfor.data.settings import Settings
from aimfor.errors import InputError
from aimfor.runs import kinds
from aimfor.runs.kinds import ACTS, KINDS, check_options, flag

#: Options that every run has.
GENERAL = {"data", "metric", "out", "resume", "seed", "json", "quiet"}
DATA = {"text": "t.csv", "binary": "t.parquet", "array": "iris", "tables": "rows", "pictures": "photos"}


def test_every_option_is_declared_once() -> None:
    assert set(TRAIN) == GENERAL | set(ACTS)
    assert all(set(acts) <= set(KINDS) and acts for acts in ACTS.values())
    fields = {
        "budget_minutes" if name == "budget" else name for name in set(TRAIN) - {"out", "resume", "json", "quiet"}
    }
    assert fields == set(Settings.model_fields)


@pytest.mark.parametrize("option", sorted(ACTS))
@pytest.mark.parametrize("kind", KINDS)
def test_it_acts_or_is_refused_with_the_kinds_that_have_it(
    option: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    form = kinds._FORMS.get(option, ("text",))[0]
    monkeypatch.setattr(kinds, "form_of", lambda data: form)
    if kind in ACTS[option]:
        check_options([option], (kind,), "data")
        return
    with pytest.raises(InputError) as caught:
        check_options([option], (kind,), "data")
    assert caught.value.argument == flag(option)
    assert KINDS[kind].title in caught.value.came
    assert KINDS[ACTS[option][0]].title in caught.value.expected


@pytest.mark.parametrize(
    ("option", "form", "fine"),
    [
        ("encoding", "text", True),
        ("encoding", "binary", False),
        ("encoding", "pictures", False),
        ("rows", "array", False),
        ("target", "pictures", False),
        ("target", "array", True),
        ("group", "pictures", False),
        ("cluster", "pictures", False),
        ("skip_corrupt", "pictures", True),
        ("skip_corrupt", "array", False),
    ],
)
def test_an_option_about_a_file_needs_such_a_file(option: str, form: str, fine: bool, tmp_path: Path) -> None:
    for name in ("t.csv", "t.parquet"):
        (tmp_path / name).touch()
    (tmp_path / "rows").mkdir()
    (tmp_path / "rows" / "0.csv").touch()
    (tmp_path / "photos").mkdir()
    data = DATA[form] if form == "array" else str(tmp_path / DATA[form])
    assert kinds.form_of(data) == form
    kind = (ACTS[option][-1] if option not in ("group", "cluster") else "pixels",)
    if fine:
        check_options([option], kind, data)
        return
    with pytest.raises(InputError, match=f"{flag(option)}: got the option for"):
        check_options([option], kind, data)


def test_the_page_shows_the_matrix() -> None:
    tool: dict[str, Any] = runpy.run_path(str(Path(__file__).parents[3] / "tools" / "options.py"))
    assert tool["page"]() == tool["PAGE"].read_text(encoding="utf8")
    assert kinds.matrix().count("| acts ") + kinds.matrix().count("| refused ") == len(ACTS) * len(KINDS)
