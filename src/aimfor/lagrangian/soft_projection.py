"""The differentiable Π_C of Ravi §7.6: a soft sort by optimal transport, then averages, k* and the threshold.

`project_cap` has exact gradients already, almost everywhere, at O(n log n). This one, at O(n²) per Sinkhorn pass, is
for the case where a gradient should also say which entries are *about* to enter the active set.
"""

from __future__ import annotations

import torch
from torch import Tensor

from .. import checks
from .projections import Capped, checked_point

#: Passes at each temperature on the way down to the one asked for, which is halved from 1.
ON_THE_WAY = 10


def soft_sort(x: Tensor, temperature: float = 1e-2, iterations: int = 50) -> Tensor:
    """``x`` in descending order, smoothly: entropic optimal transport onto n equally spaced ranks (Sinkhorn).

    The plan P minimises ``Σ P_ij (z_i − y_j)² + temperature Σ P log P`` with uniform marginals, z being ``x`` scaled to
    [0, 1] and y the ranks from 1 to 0; the result is ``n Pᵀx``. It tends to the sorted values as the temperature
    falls, and to their mean as it rises. From a cold start Sinkhorn needs O(1/temperature) passes; here the
    temperature is halved from 1 downwards and each potential starts the next: a smaller one costs a few passes more.

    Args:
        x: ``(n,)``.
        temperature: > 0, on the scale of squared distances in [0, 1].
        iterations: Sinkhorn passes at the last temperature, differentiated through, as are those before them.

    Example:
        >>> import torch
        >>> [round(v, 2) for v in soft_sort(torch.tensor([0.0, 2.0, 1.0]), 1e-3).tolist()]
        [2.0, 1.0, 0.0]

    References:
        Cuturi, Teboul and Vert, 2019.
    """
    temperature = checks.number("temperature", temperature, above=0)
    iterations = checks.integer("iterations", iterations, at_least=1)
    n = x.numel()
    if n < 2:
        return x
    plan = transport(scaled(x), torch.linspace(1.0, 0.0, n, dtype=x.dtype, device=x.device), temperature, iterations)
    return n * (plan.T @ x)


def scaled(x: Tensor) -> Tensor:
    """To [0, 1], by the smallest and the largest entry."""
    low, high = x.min(), x.max()
    return (x - low) / (high - low).clamp_min(torch.finfo(x.dtype).tiny)


def transport(z: Tensor, y: Tensor, temperature: float, iterations: int) -> Tensor:
    """The entropic plan between uniform masses at ``z`` and at ``y``, ``(n, m)``, in the log domain."""
    cost = (z[:, None] - y[None, :]) ** 2
    rows, columns = -torch.log(z.new_tensor(float(z.numel()))), -torch.log(z.new_tensor(float(y.numel())))
    warm, u, v = max(1.0, temperature), torch.zeros_like(z), torch.zeros_like(y)
    while True:
        for _ in range(iterations if warm == temperature else ON_THE_WAY):
            u = warm * (rows - torch.logsumexp((v[None, :] - cost) / warm, 1))
            v = warm * (columns - torch.logsumexp((u[:, None] - cost) / warm, 0))
        if warm == temperature:
            return torch.exp((u[:, None] + v[None, :] - cost) / temperature)
        warm = max(temperature, warm / 2.0)


def soft_project_cap(
    epsilon: Tensor, tau: Tensor, *, temperature: float = 1e-2, iterations: int = 50, weight: float = 1.0
) -> Capped:
    """Π_C with a smooth choice of the active set; tends to `project_cap` as the temperature falls.

    1. s = soft sort of τ, descending. 2. Top-i averages ``m_i = (weight·ε + s_1 + … + s_i)/(weight + i)``, m_0 = ε.
    3. Entry i is active where ``s_i > m_{i−1}``: the step function becomes a sigmoid, and k* the sum of it.
    4. Threshold = the average of ε and the entries, weighted by how active they are; ε = threshold₊ and
    τ = min(τ, ε). The paper's (18), ``max(max(τˢ − τ̄, 0), 1)``, is at least 1 everywhere and selects nothing; a step
    is what its text describes. Its averages leave out ε.

    Args:
        epsilon: Scalar tensor.
        tau: ``(n,)``; memory is O(n²).
        temperature: > 0, relative to the range of (ε, τ).
        iterations: Sinkhorn passes at the last temperature.
        weight: As in `project_cap`.

    Returns:
        ``(epsilon, tau)``, inside C at every temperature.

    Example:
        >>> import torch
        >>> exact = torch.tensor([1.5, 1.0, -2.0])
        >>> soft = soft_project_cap(torch.tensor(0.0), torch.tensor([3.0, 1.0, -2.0]), temperature=1e-3)
        >>> bool((soft.tau - exact).abs().max() < 0.01)
        True
    """
    epsilon, tau = checked_point(epsilon, tau)
    weight = checks.number("weight", weight, above=0)
    if tau.numel() == 0:
        return Capped(epsilon.clamp_min(0.0), tau)
    ordered = soft_sort(tau, temperature, iterations)
    k = torch.arange(1, tau.numel() + 1, dtype=tau.dtype, device=tau.device)
    means = (weight * epsilon + ordered.cumsum(0)) / (weight + k)
    before = torch.cat((epsilon[None], means[:-1]))
    everything = torch.cat((epsilon[None], tau))
    unit = (everything.max() - everything.min()).clamp_min(torch.finfo(tau.dtype).tiny)
    active = torch.sigmoid((ordered - before) / (temperature * unit))
    threshold = (weight * epsilon + torch.dot(active, ordered)) / (weight + active.sum())
    threshold = threshold.clamp_min(0.0)
    return Capped(threshold, torch.minimum(tau, threshold))
