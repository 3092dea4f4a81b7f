"""The first screen: a command on a file that ships, with the answer that it prints."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_decision_on_the_first_screen_is_what_the_command_prints(tmp_path: Path) -> None:
    found = re.search(r"```sh\n(aimfor decide .*?)\n```\n\n```text\n(.*?)```", README, re.DOTALL)
    assert found is not None
    (tmp_path / "examples").mkdir()
    shutil.copy(ROOT / "examples" / "scores.csv", tmp_path / "examples")
    words = shlex.split(found[1])[1:]
    done = subprocess.run([sys.executable, "-m", "aimfor", *words], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    said = [line for line in done.stdout.splitlines() if not line.startswith("page: ")]
    assert "\n".join(said) == found[2].rstrip("\n")


def test_it_is_short_and_names_its_file_early() -> None:
    assert len(README.split()) < 1200
    assert "examples/scores.csv" in "\n".join(README.splitlines()[:60])
