"""tools/clones.py on a project of one line: every condition is met, counted and written; a red run is kept."""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

TOOL = Path(__file__).parents[1] / "tools" / "clones.py"
SHOWN = "@echo \"$$LANG $$TZ $$(pwd) $$(python3 -c 'import os; print(len(os.sched_getaffinity(0)))')\" >> $(SEEN)"


@pytest.fixture
def clones(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    spec = importlib.util.spec_from_file_location("clones", TOOL)
    assert spec is not None
    assert spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    monkeypatch.setattr(found, "ROOT", tmp_path / "project")
    monkeypatch.setattr(found, "PAGE", tmp_path / "project" / "CONTRIBUTING.md")
    monkeypatch.setattr(sys, "argv", ["clones.py", "--out", str(tmp_path / "out")])
    return found


def project(folder: Path, result: str, code: int) -> None:
    folder.mkdir(exist_ok=True)
    lines = ["test:", SHOWN.replace("$(SEEN)", str(folder.parent / "seen")), f"@echo '{result}'", f"@exit {code}"]
    (folder / "Makefile").write_text("\n\t".join(lines) + "\n", encoding="utf-8")
    page = "before\n<!-- clones -->\nnot run yet\n<!-- clones end -->\nafter\n"
    (folder / "CONTRIBUTING.md").write_text(page, encoding="utf-8")
    git = ["git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@b"]
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "one"]):
        subprocess.run([*git, *words], check=True)


@pytest.mark.skipif(not all(map(shutil.which, ("git", "make", "taskset"))), reason="needs git, make and taskset")
def test_every_condition_is_met_and_counted(clones: Any, tmp_path: Path) -> None:
    project(clones.ROOT, "1201 passed, 3 skipped, 2 warnings in 0.10s (0:00:00)", 0)
    assert clones.main() == 0
    seen = [line.rsplit(" ", 1) for line in (tmp_path / "seen").read_text().splitlines()]
    assert len(seen) == 10
    assert seen[8][1] == "1"  # one core
    assert seen[9][0].startswith("C Asia/Kolkata ")
    assert seen[9][0].endswith("/a clone elsewhere")
    page = clones.PAGE.read_text(encoding="utf-8")
    assert page.startswith("before\n<!-- clones -->\n| run |")
    assert page.endswith("<!-- clones end -->\nafter\n")
    assert "| 5 of 5 | 1,201 | 3 | 0 |" in page
    assert page.count("1 of 1") == 2
    assert clones.main() == 0  # all are kept: nothing runs again
    assert len((tmp_path / "seen").read_text().splitlines()) == 10


@pytest.mark.skipif(not all(map(shutil.which, ("git", "make"))), reason="needs git and make")
def test_a_red_run_is_red(clones: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project(clones.ROOT, "2 failed, 9 passed, 1 error in 3.00s", 1)
    monkeypatch.setattr(sys, "argv", [*sys.argv, "--runs", "quiet=1"])
    assert clones.main() == 1
    (kept,) = (tmp_path / "out").glob("*.json")
    (row,) = json.loads(kept.read_text(encoding="utf-8"))
    assert [row[kind] for kind in ("passed", "skipped", "failed", "error")] == [9, 0, 2, 1]
    assert "| 0 of 1 | 9 | 0 | 3 |" in clones.PAGE.read_text(encoding="utf-8")
    assert (tmp_path / "out" / "clone-quiet").exists()  # to be looked at
