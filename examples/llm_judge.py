"""A machine judges, a few people check: a threshold for its scores whose promise holds for new documents.

A judge's score looks better over two sources together than in either, because it also tells the sources apart. A floor
on both together is kept by the easy one and broken in the hard one without a word: a floor for each says so. Uses the
human verdicts of FRANK when AIMFOR_DATA points to them, otherwise made-up ones with the same problem.
"""

# %%
import csv
import json
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from matplotlib.figure import Figure
from sklearn.metrics import roc_auc_score

import aimfor

FLOOR = 0.65  # of the summaries that no person reads any more, at least so many are free of errors
VERDICTS = 200


def aimfor_(*words: object) -> str:
    """What the program prints; its exit code 1 says that nothing can be guaranteed."""
    done = subprocess.run([sys.executable, "-m", "aimfor", *map(str, words)], stdout=subprocess.PIPE, text=True)
    assert done.returncode in (0, 1)
    return done.stdout


def made_up(rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    """Summaries of 350 documents from two sources; those of one document are alike."""
    document = np.repeat(np.arange(350), 4)
    source = np.where(document < 175, "news", "blog")
    hard = rng.normal(size=350)[document] + rng.normal(size=1400) + np.where(source == "news", -0.3, 2.1)
    right = hard < 0
    score = 0.02 * (0.7 * right - 0.9 * (source == "blog") + rng.normal(size=1400)) + 0.86
    return score, right, source, document


def frank(path: Path) -> tuple[np.ndarray, ...]:
    with path.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    columns = ((row["bertscore_p_art"], row["verdict"], row["dataset"], row["document"]) for row in rows)
    score, right, source, document = zip(*columns, strict=True)
    return np.array(score, dtype=float), np.array(right) == "1", np.array(source), np.array(document)


folder = os.environ.get("AIMFOR_DATA")
real = Path(folder) / "frank" / "frank.csv" if folder else None
has_real = real is not None and real.exists()
score, right, source, document = frank(real) if has_real else made_up(np.random.default_rng(1))
sources = np.unique(source).tolist()
print(f"{len(score)} summaries, {np.mean(right):.0%} without an error, AUROC {roc_auc_score(right, score):.2f}")
for name in sources:
    here = source == name
    print(f"  {name}: {np.mean(right[here]):.0%} without an error, AUROC {roc_auc_score(right[here], score[here]):.2f}")

# %%
print(f"\nA floor of {FLOOR} for all summaries together, counted by document:")
together = aimfor.decide(score, right, maximize="recall", subject_to=f"precision >= {FLOOR}", cluster=document)
print(together.guarantee)
passed = together(score)
for name in sources:
    here = passed & (source == name)
    print(f"  {name}: {here.sum()} pass unread, {np.mean(right[here]):.0%} of them without an error")

# %%
print("\nA floor for each source, both at 95 % confidence together:")
cuts = {}
for name in sources:
    here = source == name
    alone = aimfor.decide(
        score[here], right[here], maximize="recall", subject_to=f"precision >= {FLOOR}", cluster=document[here],
        confidence=1 - 0.05 / len(sources),
    )  # fmt: skip
    cuts[name] = alone.threshold
    print(f"  {name}: {alone.guarantee}" if alone.threshold is not None else f"  {name}: no threshold, people read all")

# %%
# Few verdicts: `aimfor plan` draws the summaries that people should read. Its promise is about the summaries of the
# file, and it is the draw that makes it true: that those of one document are alike does not matter.
easy = source == max(sources, key=lambda name: right[source == name].mean())
with TemporaryDirectory() as place:
    table, sheet = Path(place) / "judged.csv", Path(place) / "plan" / "to_label.csv"
    table.write_text("judge\n" + "".join(f"{one}\n" for one in score[easy]))
    for _ in range(2):  # the first round places the tests, the second makes them
        aimfor_("plan", table, "--score", "judge", "--subject-to", f"precision >= {FLOOR}", "--budget", VERDICTS,
                "--out", sheet.parent)  # fmt: skip
        with sheet.open(newline="") as file:
            asked = list(csv.DictReader(file))
        with sheet.open("w", newline="") as file:  # what people would fill in
            writer = csv.DictWriter(file, asked[0], lineterminator="\n")
            writer.writeheader()
            writer.writerows(one | {"label": int(right[easy][int(one["row"]) - 1])} for one in asked)
    answer = json.loads(aimfor_("decide", sheet, "--target", "label", "--score", "judge", "--out", place, "--json"))
print(f"\nWith {len(asked)} verdicts, drawn where they decide:\n  {answer['decision']['guarantee']['sentence']}")

# %%
# Does the promise hold? Documents are drawn again from these, so that the truth is known.
ids = np.unique(document, return_inverse=True)[1]
rows_of = np.split(np.argsort(ids, kind="stable"), np.cumsum(np.bincount(ids))[:-1])
rng = np.random.default_rng(0)
kept = {"the threshold that looks best": 0, "the promise": 0}
DRAWS = 40
for _ in range(DRAWS):
    drawn = [rows_of[one] for one in rng.integers(0, len(rows_of), len(rows_of))]
    rows, new = np.concatenate(drawn), np.repeat(np.arange(len(drawn)), [len(one) for one in drawn])
    order = rows[np.argsort(-score[rows])]
    good = np.flatnonzero(np.cumsum(right[order]) >= FLOOR * np.arange(1, len(order) + 1))
    looks_best = score[order[good[-1]]] if len(good) else np.inf
    floor = f"precision >= {FLOOR}"
    promise = aimfor.decide(score[rows], right[rows], maximize="recall", subject_to=floor, cluster=new)
    for name, passed in (
        ("the threshold that looks best", score >= looks_best),
        ("the promise", score > (np.inf if promise.threshold is None else promise.threshold)),
    ):
        kept[name] += not passed.any() or right[passed].mean() >= FLOOR
print(f"\nThe floor truly holds in {DRAWS} draws of documents:")
for name, times in kept.items():
    print(f"  {name}: {times} times")

# %%
figure = Figure(figsize=(5.5, 3.4), layout="constrained")
axes = figure.subplots()
for name in ["all", *sources]:
    here = np.ones(len(score), bool) if name == "all" else source == name
    order = np.flatnonzero(here)[np.argsort(-score[here])]
    share = np.cumsum(right[order]) / np.arange(1, len(order) + 1)
    axes.plot(score[order][20:], share[20:], label=name, color="black" if name == "all" else None)
axes.axhline(FLOOR, color="grey", linewidth=0.8)
if together.threshold is not None:
    axes.axvline(together.threshold, color="black", linestyle="--", linewidth=0.8)
axes.set(xlabel="threshold for the judge's score", ylabel="share without an error", title="One floor, two sources")
axes.legend(frameon=False)
figure.savefig("llm_judge.svg")
assert kept["the promise"] >= 0.9 * DRAWS
