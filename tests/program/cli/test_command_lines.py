"""Every `aimfor` line of the pages is one that the program takes; where its file ships, its answer is what is shown."""

from __future__ import annotations

import importlib
import re
import shlex
import shutil
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path

import pytest
import typer.main

from aimfor.__main__ import BASE, main
from aimfor.cli.main import app

ROOT = Path(__file__).parents[3]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "docs" / "migrate").glob("*.md"))]
SHELL = re.compile(r"^ *```(?:sh|bash|console)\n(.*?)^ *```\n(?:\n```text\n(.*?)^```)?", re.DOTALL | re.MULTILINE)


def lines_of(block: str) -> list[list[str]]:
    """The words behind `aimfor` on each line, without comments and up to what the shell does with them."""
    found = []
    for line in block.replace("\\\n", " ").splitlines():
        words = shlex.split(line.strip().removeprefix("$ "), comments=True)
        if words[:1] == ["aimfor"]:
            end = next((place for place, word in enumerate(words) if word in ("|", ">", ">>", "<", "&&")), len(words))
            found.append(words[1:end])
    return found


COMMANDS = [
    (page.name, words) for page in PAGES for block, _ in SHELL.findall(page.read_text()) for words in lines_of(block)
]
SHOWN = [
    (page.name, lines_of(block)[0], said)
    for page in PAGES
    for block, said in SHELL.findall(page.read_text())
    if said and len(lines_of(block)) == 1 and "examples/" in block
]


def test_there_are_many() -> None:
    assert len(COMMANDS) > 40
    assert SHOWN


@pytest.mark.parametrize(("page", "words"), COMMANDS, ids=[f"{page}: {' '.join(words)}" for page, words in COMMANDS])
def test_the_program_takes_the_line(page: str, words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    name, *rest = words
    if name in BASE:
        home = importlib.import_module("aimfor.cli.deciding")

        def parsed(_command: object, parser: ArgumentParser, given: Sequence[str]) -> int:
            parser.parse_args(list(given))
            return 0

        monkeypatch.setattr(home, "one_line", parsed)
        assert getattr(home, name)(rest) == 0
    elif name not in ("--version", "--help", "support"):
        command = typer.main.get_command(app).commands[name]  # type: ignore[attr-defined]
        command.make_context(name, list(rest))


@pytest.mark.parametrize(("page", "words", "said"), SHOWN, ids=[page for page, *_ in SHOWN])
def test_it_prints_what_the_page_shows(
    page: str,
    words: list[str],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    shutil.copytree(ROOT / "examples", tmp_path / "examples", ignore=shutil.ignore_patterns("*.py", "notebooks"))
    monkeypatch.chdir(tmp_path)
    assert main(words) == 0
    printed = [line for line in capsys.readouterr().out.splitlines() if not line.startswith("page: ")]
    assert "\n".join(printed) == said.rstrip("\n")
