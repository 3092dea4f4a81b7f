"""Every benchmark script can still be started by its path: what it imports exists, and nothing runs unasked."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import aimfor

FOLDER = Path(__file__).parent.parent.parent / "paper" / "benchmarks"
SCRIPTS = sorted(FOLDER.glob("*.py"))

#: Imports every script as Python would start it, with only its own folder and the package in sight.
STARTER = """
import runpy, sys
clean = list(sys.path)
for script in sys.argv[2:]:
    sys.path[:] = [sys.argv[1], *clean]
    for name in [name for name in sys.modules if name.split(".")[0] in ("paper", "common", "random_programs")]:
        del sys.modules[name]
    try:
        runpy.run_path(script, run_name="started")
        print("ok", script)
    except ModuleNotFoundError as missing:
        if missing.name.split(".")[0] in ("aimfor", "paper", "common", "random_programs"):
            raise
        print("without", missing.name, script)
"""


def test_every_script_imports_what_exists(tmp_path: Path) -> None:
    recorded = {path: path.read_bytes() for path in FOLDER.glob("results/*.json")}
    environment = {**os.environ, "PYTHONPATH": str(Path(aimfor.__file__).parent.parent)}
    arguments = [sys.executable, "-c", STARTER, str(FOLDER), *map(str, SCRIPTS)]
    done = subprocess.run(arguments, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert [re.split(r"[/\\]", line)[-1] for line in lines] == [script.name for script in SCRIPTS]
    assert sum(line.startswith("ok") for line in lines) >= 12
    assert {path: path.read_bytes() for path in FOLDER.glob("results/*.json")} == recorded


def test_every_recorded_row_names_a_script_that_is_there() -> None:
    for result in FOLDER.glob("results/*.json"):
        command = json.loads(result.read_text())["command"]
        (script,) = re.findall(r"\S+\.py", command)
        assert (FOLDER.parent.parent / script).exists(), f"{result.name}: {command}"
