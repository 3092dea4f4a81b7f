"""The base install as a stranger meets it: `aimfor.decide`, `aimfor decide` and `check` without torch, weighed."""

from __future__ import annotations

import subprocess
import sys
import time
from importlib.metadata import distributions
from pathlib import Path

import numpy as np

import aimfor
from aimfor.constraints import precision

rng = np.random.default_rng(0)
y = rng.random(10_000) < 0.3
scores = rng.normal(size=10_000) + 2.0 * y
decision = aimfor.decide(scores, y, maximize="recall", subject_to=[precision >= 0.8])
assert decision.threshold is not None
said = subprocess.run([sys.executable, "-c", "import aimfor; aimfor.MetricLoss"], capture_output=True, text=True)
wanted = "ModuleNotFoundError: aimfor.MetricLoss needs torch. Install it with: pip install torch"
assert said.stderr.splitlines()[-1] == wanted, said.stderr

for name, part in (("scores.csv", slice(0, 8000)), ("new.csv", slice(8000, None))):
    lines = [f"{s:.6f},{int(label)}" for s, label in zip(scores[part], y[part], strict=True)]
    Path(name).write_text("\n".join(["s,y", *lines]) + "\n")
words = [sys.executable, "-m", "aimfor"]
floor = ["--target", "y", "--score", "s", "--maximize", "recall", "--subject-to", "precision >= 0.75"]
began = time.perf_counter()
subprocess.run([*words, "decide", "scores.csv", *floor, "--out", "decided"], check=True, capture_output=True)
seconds = time.perf_counter() - began
checked = subprocess.run([*words, "check", "decided", "new.csv"], capture_output=True, text=True)
assert checked.returncode in (0, 3), checked.stderr
trained = subprocess.run([*words, "train", "scores.csv", "--target", "y"], capture_output=True, text=True)
assert (trained.returncode, len(trained.stderr.splitlines())) == (2, 1), trained.stderr
found = list(distributions())
bytes_ = sum(file.locate().stat().st_size for one in found for file in one.files or [] if file.locate().is_file())
print(f"        {len(found)} packages, {bytes_ / 1e6:.0f} MB; `aimfor decide` on 8,000 rows took {seconds:.2f} s")
