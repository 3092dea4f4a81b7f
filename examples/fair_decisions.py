"""Equal false positive rates on Adult: train with the constraint, choose thresholds, certify on held-out data.

Uses the real data when AIMFOR_DATA points to them, otherwise a synthetic set with the same problem.
"""

import os
from pathlib import Path

import torch
from matplotlib.figure import Figure

import aimfor
from aimfor.rates import error_rate, fpr

torch.set_num_threads(1)
torch.manual_seed(0)


def synthetic(n: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """One group is positive more often, and a feature gives the group away."""
    sex = (torch.rand(n) < 0.5).long()
    y = (torch.rand(n) < 0.1 + 0.35 * sex).long()
    x = torch.randn(n, 6) + 1.3 * y[:, None] * torch.tensor([1.0, 0.5, 0.5, 0.0, 0.0, 0.0])
    x[:, 3] += 1.5 * sex
    return x, y, sex


def adult(path: Path) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    import numpy as np

    data = np.load(path)
    x = torch.tensor(data["X"])
    return x, torch.tensor(data["y"]), torch.tensor(data["sex"])


folder = os.environ.get("AIMFOR_DATA")
real = Path(folder) / "adult" if folder else None
if real is not None and real.is_dir():
    x, y, sex = adult(real / "train.npz")
    x_test, y_test, sex_test = adult(real / "test.npz")
else:
    (x, y, sex), (x_test, y_test, sex_test) = synthetic(12_000), synthetic(8_000)
mean, spread = x.mean(0), x.std(0) + 1e-6
x, x_test = (x - mean) / spread, (x_test - mean) / spread
held = torch.rand(len(y)) < 0.25

problem = aimfor.minimize(error_rate, fpr.gap("sex") <= 0.02, held_out=int(held.sum()))
print(problem, end="\n\n")

model = torch.nn.Linear(x.shape[1], 1)
cross_entropy = torch.nn.BCEWithLogitsLoss()
rates = {}
for stage, epochs, rate in (("cross-entropy", 4, 0.03), ("constrained", 10, 0.01)):
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    for _ in range(epochs):
        for rows in (~held).nonzero().squeeze(1)[torch.randperm(int((~held).sum()))].split(1024):
            scores = model(x[rows]).squeeze(1)
            if stage == "constrained":
                loss = problem(scores, y[rows], groups={"sex": sex[rows]})
            else:
                loss = cross_entropy(scores, y[rows].float())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        problem.end_epoch()  # the dual step; nothing to do before the constrained stage
    with torch.no_grad():
        decided = model(x_test).squeeze(1) > 0
        rates[stage] = [float(decided[(sex_test == group) & (y_test == 0)].float().mean()) for group in (0, 1)]
        print(f"after {stage}, one threshold at 0:")
        print(problem.certificate(model(x_test).squeeze(1), y_test, groups={"sex": sex_test}), end="\n\n")

with torch.no_grad():
    decision = problem.decide(model(x[held]).squeeze(1), y[held], groups={"sex": sex[held]}, per_group="sex")
    print(f"thresholds by group, margin {decision.margin}: {decision.to_dict()['thresholds']}")
    print(problem.certificate(model(x_test).squeeze(1), y_test, groups={"sex": sex_test}, decision=decision))
    decided = decision(model(x_test).squeeze(1), groups={"sex": sex_test})
    rates["thresholds by group"] = [float(decided[(sex_test == k) & (y_test == 0)].float().mean()) for k in (0, 1)]

figure = Figure(figsize=(5.5, 3.2), layout="constrained")
axes = figure.subplots()
for group in (0, 1):
    axes.bar(
        [place + 0.35 * group for place in range(3)],
        [pair[group] for pair in rates.values()],
        0.35,
        label=f"group {group}",
    )
axes.set(
    xticks=[0.17, 1.17, 2.17], xticklabels=list(rates), ylabel="false positive rate, new rows", title="A gap closes"
)
axes.legend()
figure.savefig("fair_decisions.svg")
