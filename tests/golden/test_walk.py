"""How many files a reader of one call has to open: the figures may fall, and never rise unnoticed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
#: Files that each walk enters at most.
MOST = {"loss": 20, "train": 76, "decide": 31, "masks": 35, "predict": 36}


def test_no_walk_is_longer_than_it_was() -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    words = [sys.executable, str(ROOT / "tools" / "walk.py")]
    done = subprocess.run(words, capture_output=True, text=True, env=environment, check=True)
    found = {line.split(":")[0]: int(line.split()[1]) for line in done.stdout.splitlines()}
    assert found.keys() == MOST.keys()
    assert {name: files for name, files in found.items() if files > MOST[name]} == {}
