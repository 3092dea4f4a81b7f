"""Runs the left-hand code of the migration pages where the peer is installed, and writes which ran into their index.

    python tools/run_migrations.py [--python PATH]

`--python` names the interpreter of an environment that has the peers (they ask for versions that ours should not have).
The blocks of a page marked ``py`` are the peer's, those marked ``python`` ours; each side runs in a process of its own.
Where both sides leave a number, called ``left`` and ``right``, the index shows them beside each other.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGES = ROOT / "docs" / "migrate"
#: page → (the peer as it is called, its distribution, the module that must be there)
PEERS = {
    "libauc": ("LibAUC", "libauc", "libauc"),
    "tfco": ("TFCO", "tensorflow-constrained-optimization", "tensorflow_constrained_optimization"),
    "pytorch_metric_learning": ("pytorch-metric-learning", "pytorch-metric-learning", "pytorch_metric_learning"),
    "gradcache": ("GradCache", "gradcache", "grad_cache"),
    "sentence_transformers": ("sentence-transformers", "sentence-transformers", "sentence_transformers"),
    "ap_perf": ("AP-Perf", "ap-perf", "ap_perf"),
    "cvxpylayers": ("cvxpylayers", "cvxpylayers", "cvxpylayers"),
    "pyepo": ("PyEPO", "pyepo", "pyepo"),
    "mapie": ("MAPIE", "mapie", "mapie"),
}
_MARKS = ("<!-- runs: begin (written by tools/run_migrations.py) -->", "<!-- runs: end -->")
_TAIL = """
import importlib.metadata, json
try:
    version = importlib.metadata.version({distribution!r})
except importlib.metadata.PackageNotFoundError:
    version = ""
value = globals().get({name!r})
print(json.dumps({{"version": version, "value": None if value is None else float(value)}}))
"""


def code(page: str, side: str) -> str:
    """All blocks of one side: ``"py"`` (theirs) or ``"python"`` (ours)."""
    blocks = re.findall(rf"^```{side}\n(.*?)^```", (PAGES / f"{page}.md").read_text(), re.DOTALL | re.MULTILINE)
    return "\n".join(blocks)


def installed(python: str, module: str) -> bool:
    look = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({module!r}) is None)"
    return subprocess.run([python, "-c", look], check=False).returncode == 0


def run(python: str, text: str, distribution: str, name: str) -> dict[str, object]:
    """What the code left behind, or the last line of its complaint."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    source = text + _TAIL.format(distribution=distribution, name=name)
    done = subprocess.run(
        [python, "-W", "ignore", "-c", source], capture_output=True, text=True, env=environment, check=False
    )
    if done.returncode:
        return {"error": done.stderr.strip().splitlines()[-1]}
    return dict(json.loads(done.stdout.strip().splitlines()[-1]))


def row(page: str, python: str, today: str) -> list[str]:
    peer, distribution, module = PEERS[page]
    if not installed(python, module):
        return [f"[{peer}]({page}.md)", "–", "not installed here: written from its documentation", "", ""]
    left = run(python, code(page, "py"), distribution, "left")
    right = run(sys.executable, code(page, "python"), "aimfor", "right")
    values = ["" if side.get("value") is None else f"{side['value']:.4f}" for side in (left, right)]
    outcome = f"ran, {today}" if "error" not in left else f"failed, {today}: {left['error']}"
    if "error" in right:
        raise SystemExit(f"our side of {page} failed: {right['error']}")
    return [f"[{peer}]({page}.md)", str(left.get("version", "")), outcome, *values]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=sys.executable, help="interpreter of an environment that has the peers")
    arguments = parser.parse_args()
    today = datetime.date.today().isoformat()
    lines = ["| from | version | left-hand code | left | right |", "|---|---|---|---|---|"]
    for page in PEERS:
        cells = row(page, arguments.python, today)
        print(" | ".join(cells), flush=True)
        lines.append("| " + " | ".join(cells) + " |")
    index = PAGES / "index.md"
    before, rest = index.read_text().split(_MARKS[0])
    after = rest.split(_MARKS[1])[1]
    index.write_text(f"{before}{_MARKS[0]}\n" + "\n".join(lines) + f"\n{_MARKS[1]}{after}")


if __name__ == "__main__":
    main()
