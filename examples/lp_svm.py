"""A 1-norm support vector machine as a layer: the data make the constraints, the features learn through the optimum.

    min |w|₁ + C Σ ξ   s.t.   y_i (w·x_i + b) >= 1 − ξ_i,  ξ >= 0

Mangasarian's own application of the penalty method. Here a small network learns features of two interleaved half
circles whose best sparse linear separator is good: the loss is the optimal value, its gradient the envelope's.
"""

import torch
from matplotlib.figure import Figure
from torch import nn

from aimfor.lp import Envelope, solve

torch.manual_seed(0)


def half_moons(n: int) -> tuple[torch.Tensor, torch.Tensor]:
    angle, y = torch.pi * torch.rand(n), torch.arange(n) % 2
    x = torch.stack((torch.cos(angle), torch.sin(angle)), 1) * torch.where(y == 0, 1.0, -1.0)[:, None]
    return x + torch.where(y == 0, 0.0, 1.0)[:, None] * torch.tensor([1.0, 0.5]) + 0.1 * torch.randn(
        n, 2
    ), 2.0 * y - 1.0


def svm(features: torch.Tensor, y: torch.Tensor, c: float = 1.0) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Optimal value, weights and offset; variables w⁺, w⁻ (d each), b, ξ (n)."""
    n, d = features.shape
    signed = y[:, None] * features
    rows = -torch.cat((signed, -signed, y[:, None], torch.eye(n)), 1)
    cost = torch.cat((torch.ones(2 * d), torch.zeros(1), torch.full((n,), c)))
    lower = torch.zeros_like(cost)
    lower[2 * d] = -torch.inf
    s = solve(cost, rows, -torch.ones(n), lower=lower, gradient=Envelope(), on_failure="raise")
    x = s.x.detach()
    return s.value, x[:d] - x[d : 2 * d], x[2 * d]


def errors(net: nn.Module, w: torch.Tensor, b: torch.Tensor, x: torch.Tensor, y: torch.Tensor) -> float:
    with torch.no_grad():
        return float(((net(x) @ w + b) * y <= 0).float().mean())


net = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 6))
optimizer = torch.optim.Adam(net.parameters(), lr=0.02)
train, test = half_moons(60), half_moons(400)
first = None
for _ in range(40):
    optimizer.zero_grad()
    value, w, b = svm(net(train[0]), train[1])
    first = errors(net, w, b, *test) if first is None else first
    value.backward()
    optimizer.step()
_, w, b = svm(net(train[0]), train[1])
last = errors(net, w, b, *test)
used = int((w.abs() > 1e-6).sum())
print(f"test error: random features {first:.1%}, learned features {last:.1%}; {used} of {w.numel()} of them are in use")

figure = Figure(figsize=(5.5, 3.4), layout="constrained")
axes = figure.subplots()
across, up = torch.meshgrid(torch.linspace(-1.5, 2.5, 80), torch.linspace(-1.2, 1.7, 60), indexing="xy")
with torch.no_grad():
    heights = (net(torch.stack((across, up), -1).reshape(-1, 2)) @ w + b).reshape(across.shape)
axes.contour(across, up, heights, levels=[-1.0, 0.0, 1.0], colors="black", linewidths=[0.6, 1.4, 0.6])
axes.scatter(*train[0].t(), c=train[1], cmap="coolwarm", s=14)
axes.set(title=f"Test error {first:.0%} with random features, {last:.0%} with learned ones", xticks=[], yticks=[])
figure.savefig("lp_svm.svg")
assert last < first
