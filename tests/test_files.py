"""Files that aimfor wrote, damaged: one sentence, whatever Python raises at their content."""

from __future__ import annotations

from pathlib import Path

import pytest

from aimfor.errors import InputError
from aimfor.files import read_json, reading

RAISED = (KeyError, TypeError, ValueError, IndexError, AttributeError, RuntimeError, OverflowError)


@pytest.mark.parametrize("kind", RAISED)
def test_what_strange_content_raises_is_one_sentence(kind: type[Exception], tmp_path: Path) -> None:
    with (
        pytest.raises(InputError, match=r"labels\.json, which is damaged \(.*strange.*\)"),
        reading(tmp_path / "labels.json"),
    ):
        raise kind("strange\n content")
    with pytest.raises(InputError, match="run: got mine"), reading(tmp_path / "labels.json"):
        raise InputError("run", "mine", "yours")
    with pytest.raises(MemoryError), reading(tmp_path / "labels.json"):
        raise MemoryError


@pytest.mark.parametrize("text", ["{", "[1]", "", '{"a": NaN}', '{"a": -Infinity}', '{"a": 1e999}', "[" * 100_000])
def test_damaged_json_is_one_sentence(text: str, tmp_path: Path) -> None:
    path = tmp_path / "metrics.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=r"metrics\.json, which is damaged") as caught:
        read_json(path)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_no_text_or_not_there(tmp_path: Path) -> None:
    (tmp_path / "metrics.json").write_bytes(b'{"a": "\xff"}')
    (tmp_path / "folder.json").mkdir()
    for name, came in (("metrics.json", "damaged"), ("folder.json", "damaged"), ("none.json", r"without none\.json")):
        with pytest.raises(InputError, match=came):
            read_json(tmp_path / name)
