"""Run beside the installed wheel with `[train,images]`: the backbone and its weights load, a folder trains."""

import csv
import subprocess
import sys
from pathlib import Path

import numpy as np
from PIL import Image

aimfor = Path(sys.executable).parent / "aimfor"
for seed in range(40):
    noise = np.random.default_rng(seed).integers(0, 120, (48, 48, 3), dtype=np.uint8)
    kind, stripe = ("rows", np.s_[::8]) if seed % 2 else ("columns", np.s_[:, ::8])
    noise[stripe] = 250
    Path("photos", kind).mkdir(parents=True, exist_ok=True)
    Image.fromarray(noise).save(Path("photos", kind, f"{seed}.png"))
words = (
    "--metric",
    "ap",
    "--model",
    "efficientnet-lite0",
    "--image-size",
    "64",
    "--members",
    "linear",
    "--out",
    "runs/one",
)
subprocess.run([aimfor, "train", "photos", *words, "--quiet"], check=True)
predict = [aimfor, "predict", "runs/one", "photos"]
rows = list(csv.DictReader(subprocess.run(predict, check=True, capture_output=True, text=True).stdout.splitlines()))
right = sum(Path(next(iter(row.values()))).parent.name == row["decision"] for row in rows)
assert (len(rows), right >= 36) == (40, True), (len(rows), right, rows[:2])
print(f"         {right} of {len(rows)} pictures decided rightly")
