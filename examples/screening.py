"""A screening test for several hospitals: each finds nine of ten ill patients, and calls back as few as it can.

One threshold with a floor on recall over all patients keeps it where most patients are, and misses ill ones where the
scanner is older. A floor for each hospital holds in all of them at once; a threshold of its own in each costs less. The
patients are made up; some come several times, so that patients are counted, not pictures.
"""

# %%
import numpy as np
from matplotlib.figure import Figure

import aimfor

#: Patients, and how clear the pictures are.
HOSPITALS = {"city": (3000, 2.6), "coast": (2000, 2.2), "hills": (1500, 1.5)}
FLOOR = 0.9


def draw(times: int, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    """Score, illness, hospital and patient of every picture."""
    parts = []
    for name, (patients, clear) in HOSPITALS.items():
        ill = rng.random(times * patients) < 0.15
        pictures = rng.integers(1, 4, len(ill))
        patient = np.repeat(np.arange(len(ill)), pictures)
        own = rng.normal(size=len(ill))  # what all pictures of a patient share
        score = clear * ill[patient] + 0.6 * own[patient] + 0.8 * rng.normal(size=len(patient))
        parts.append((score, ill[patient], np.full(len(patient), name), np.char.add(f"{name}-", patient.astype(str))))
    score, ill, hospital, patient = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    return score, ill, hospital, patient


rng = np.random.default_rng(3)
score, ill, hospital, patient = draw(1, rng)
everyone = draw(20, rng)  # the truth, as nearly as one can see it
print(f"{len(score)} pictures of {len(np.unique(patient))} patients, {ill.mean():.0%} of ill ones")

# %%
questions = {
    "one floor for all": {"subject_to": f"recall >= {FLOOR}"},
    "a floor for each": {"subject_to": f"worst(recall, hospital) >= {FLOOR}"},
    "thresholds of their own": {"subject_to": f"worst(recall, hospital) >= {FLOOR}", "per_group": "hospital"},
}
found, called = {}, {}
names, codes = np.unique(hospital, return_inverse=True)
for words, question in questions.items():
    decision = aimfor.decide(
        score, ill, minimize="fpr", groups={"hospital": codes}, cluster=patient, confidence=0.95, **question
    )
    print(f"\n{words}: {decision.guarantee}")
    positive = decision(everyone[0], groups={"hospital": np.searchsorted(names, everyone[2])})
    found[words] = [positive[(everyone[2] == name) & everyone[1]].mean() for name in names]
    called[words] = [positive[(everyone[2] == name) & ~everyone[1]].mean() for name in names]
    for name, right, wrong in zip(names, found[words], called[words], strict=True):
        cut = decision.thresholds.get(float(np.searchsorted(names, name)), decision.threshold)
        print(f"  {name:<6} threshold {cut:5.2f}: finds {right:.1%} of the ill, calls back {wrong:.1%} of the others")
    print(f"  together {positive[~everyone[1]].mean():.1%} of those who are not ill are called back")

# %%
figure = Figure(figsize=(5.5, 3.4), layout="constrained")
axes = figure.subplots()
for place, (words, shares) in enumerate(found.items()):
    axes.bar(np.arange(len(names)) + 0.27 * place, shares, 0.25, label=words)
axes.axhline(FLOOR, color="black", linewidth=0.8)
axes.set(
    xticks=np.arange(len(names)) + 0.27, xticklabels=names, ylim=(0.6, 1.0), ylabel="ill patients found",
    title="A floor for everyone, and for each",
)  # fmt: skip
figure.legend(loc="outside lower center", ncols=3, frameon=False)
figure.savefig("screening.svg")
assert min(found["one floor for all"]) < FLOOR <= min(min(found[words]) for words in list(questions)[1:])
