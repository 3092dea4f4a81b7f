"""A layer that allocates: learn what each task is worth from the allocations an expert chose.

Tasks share machines with known capacities. An expert fills the machines with the tasks that are worth most; we see the
tasks' features and the chosen allocations, never the worths. The program is a layer, and its `Implicit` gradient lets a
linear model of the worths learn from the allocations alone (the true derivative of a vertex w.r.t. costs is zero).
"""

import torch
from matplotlib.figure import Figure

from aimfor.lp import Implicit, solve

torch.manual_seed(0)
tasks, machines, days, features = 6, 3, 40, 4
use = torch.rand(machines, tasks, dtype=torch.float64)
capacity = torch.full((machines,), 1.2, dtype=torch.float64)
true_model = torch.randn(features, dtype=torch.float64)
x = torch.randn(days, tasks, features, dtype=torch.float64)
expert = solve(-(x @ true_model), use, capacity.expand(days, -1), lower=0.0, upper=1.0).x

model = torch.zeros(features, dtype=torch.float64, requires_grad=True)
optimizer = torch.optim.Adam([model], lr=0.05)


def regret(worth_model: torch.Tensor) -> float:
    """How much true worth the learned allocation leaves on the table, relative to the expert's."""
    chosen = solve(-(x @ worth_model), use, capacity.expand(days, -1), lower=0.0, upper=1.0).x
    worth = x @ true_model
    return float(1 - (worth * chosen).sum() / (worth * expert).sum())


with torch.no_grad():
    before = regret(model + 0.1 * torch.randn(features, dtype=torch.float64))
losses = []
for _ in range(50):
    optimizer.zero_grad()
    plan = solve(-(x @ model), use, capacity.expand(days, -1), lower=0.0, upper=1.0, gradient=Implicit(0.3))
    loss = (plan.x - expert).square().mean()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
with torch.no_grad():
    after = regret(model)
print(f"worth lost against the expert: random model {before:.1%}, learned from allocations {after:.1%}")

figure = Figure(figsize=(5.5, 3.2), layout="constrained")
axes = figure.subplots()
axes.plot(losses)
axes.set(
    xlabel="step",
    ylabel="squared distance from the expert's plans",
    title=f"Worth lost: {before:.0%} before, {after:.0%} after",
)
figure.savefig("lp_allocation.svg")
assert after < 0.15 < before
