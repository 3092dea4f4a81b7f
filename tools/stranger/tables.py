"""Run beside the installed wheel with `[train]`: the program on a table, away from any repository."""

import csv
import random
import subprocess
import sys
from pathlib import Path

aimfor = Path(sys.executable).parent / "aimfor"
draw = random.Random(0)
with open("people.csv", "w", newline="") as file:
    table = csv.writer(file)
    table.writerow(["age", "town", "bought"])
    for _ in range(240):
        age, town = draw.randint(18, 80), draw.choice(["Ulm", "Bonn", "Kiel"])
        table.writerow([age, town, "yes" if age + draw.gauss(0, 8) + 12 * (town == "Ulm") > 60 else "no"])
words = ("--target", "bought", "--positive", "yes", "--metric", "f1", "--members", "linear,trees", "--out", "run")
subprocess.run([aimfor, "train", "people.csv", *words, "--quiet"], check=True)
said = subprocess.run([aimfor, "predict", "run", "people.csv"], check=True, capture_output=True, text=True).stdout
rows = list(csv.DictReader(said.splitlines()))
with open("people.csv", newline="") as file:
    right = sum(row["decision"] == truth["bought"] for row, truth in zip(rows, csv.DictReader(file), strict=True))
assert right > 190, right
assert Path("run/report.html").stat().st_size > 10_000
print(f"         {right} of {len(rows)} rows decided rightly")
