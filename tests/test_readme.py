"""README is short, and names its file early; test_command_lines compares what its command prints."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_it_is_short_and_names_its_file_early() -> None:
    assert len(README.split()) < 1200
    assert "examples/scores.csv" in "\n".join(README.splitlines()[:60])
