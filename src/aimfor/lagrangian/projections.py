"""Euclidean projections onto the cap C = {τ_i ≤ ε, ε ≥ 0}: exact, for two numbers, and from a sample.

All of them work jointly in (ε, τ), and in any metric ``weight·dε² + Σ dτ_i²``. The papers' projection has weight 1.
The engine uses ``weight = n``: its variables are averages over the n positives, and a projection must be taken in the
metric of the step that it follows, or the fixed point of "step, then project" is not the optimum.

The differentiable Π_C of Ravi §7.6 is here too: `project_cap` has exact gradients already, almost everywhere, at
O(n log n); `soft_project_cap`, at O(n²) per Sinkhorn pass, is for the case where a gradient should also say which
entries are *about* to enter the active set.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from .. import checks
from ..errors import InputError


class Capped(NamedTuple):
    """A point of C: ``epsilon`` is a scalar, ``tau`` has the shape it came with.

    Example:
        >>> import torch
        >>> project_cap(torch.tensor(0.0), torch.tensor([3.0, 1.0, -2.0]))
        Capped(epsilon=tensor(1.5000), tau=tensor([ 1.5000,  1.0000, -2.0000]))
    """

    epsilon: Tensor
    tau: Tensor


class SampledCap(NamedTuple):
    """A projection with an estimated threshold: feasible exactly, optimal up to ``error``.

    With probability ``confidence`` the exact projection's threshold differs by at most ``error``, and so does every
    entry of it.

    Example:
        >>> import torch
        >>> cap = project_cap_sampled(torch.tensor(0.5), torch.rand(1000), 200, weight=1000.0)
        >>> bool((cap.tau <= cap.epsilon).all()), 0.0 <= cap.error < 0.5
        (True, True)
    """

    epsilon: Tensor
    tau: Tensor
    error: float


def project_cap(epsilon: Tensor, tau: Tensor, *, weight: float = 1.0) -> Capped:
    """The nearest point of C = {τ_i ≤ ε for all i, ε ≥ 0}, exactly, in O(n log n).

    Sort τ descending and let ``m_k = (weight·ε + τ_(1) + … + τ_(k)) / (weight + k)``. The threshold is ``m_k`` for the
    first k with ``τ_(k+1) ≤ m_k`` (equivalently the largest m_k), or 0 where that is negative. Then ``ε`` becomes
    the threshold and ``τ`` becomes ``min(τ, threshold)``. Only entries above ε can move, so only those are sorted.
    Differentiable almost everywhere.

    Args:
        epsilon: Scalar tensor.
        tau: ``(n,)``, any n, also 0.
        weight: How much moving ε costs against moving one τ_i; 1 is the plain Euclidean distance.

    Returns:
        ``(epsilon, tau)`` inside C.

    Raises:
        InputError: Wrong shapes or types, a NaN or an infinity, ``weight`` not positive.

    Example:
        >>> import torch
        >>> epsilon, tau = project_cap(torch.tensor(0.0), torch.tensor([3.0, 1.0, -2.0]))
        >>> float(epsilon), tau.tolist()
        (1.5, [1.5, 1.0, -2.0])

    References:
        Ravi et al., 2020, Lemma 5 and Algorithms 2 and 4. Algorithm 4 as printed averages τ_t where τ_{t+1} was
        compared, and drops one entry from the part that is set: it is not the projection.
    """
    epsilon, tau = checked_point(epsilon, tau)
    weight = checks.number("weight", weight, above=0)
    threshold = _threshold(epsilon, tau, weight)
    return Capped(threshold, torch.minimum(tau, threshold))


def _threshold(epsilon: Tensor, tau: Tensor, weight: float) -> Tensor:
    above = tau[tau > epsilon]
    if above.numel() == 0:
        return epsilon.clamp_min(0.0)
    k = torch.arange(1, above.numel() + 1, dtype=above.dtype, device=above.device)
    means = (weight * epsilon + above.sort(descending=True).values.cumsum(0)) / (weight + k)
    # m_k rises while τ_(k+1) exceeds it and falls afterwards, so the first crossing is the maximum.
    return means.max().clamp_min(0.0)


def project_two(epsilon: Tensor, tau: Tensor) -> Capped:
    """The two-sample rule: the nearest point of C when a step has changed ε and one τ_i only.

    Element-wise, so that many pairs (one ε for each τ) go at once: ``τ ≤ ε`` stays, otherwise both become their mean;
    where that is negative, ``ε = 0`` and ``τ = min(τ, 0)``. The rule as printed (Ravi §3.2) leaves τ unchanged
    whenever ε < 0, which is infeasible for τ > 0. Exact for the pair; when the step has *lowered* ε, other entries of
    τ may have come to lie above it, and only `project_cap` mends those.

    Args:
        epsilon: Any shape.
        tau: The same shape.

    Returns:
        ``(epsilon, tau)``, each pair inside C.

    Example:
        >>> import torch
        >>> project_two(torch.tensor([1.0, -1.0, -3.0]), torch.tensor([2.0, 3.0, 1.0]))
        Capped(epsilon=tensor([1.5000, 1.0000, 0.0000]), tau=tensor([1.5000, 1.0000, 0.0000]))
    """
    if not isinstance(epsilon, Tensor) or not isinstance(tau, Tensor) or epsilon.shape != tau.shape:
        raise InputError("tau", "a different shape or type", "two tensors of one shape, one τ for each ε")
    threshold = torch.maximum(epsilon, 0.5 * (epsilon + tau)).clamp_min(0.0)
    return Capped(threshold, torch.minimum(tau, threshold))


def project_cap_sampled(
    epsilon: Tensor,
    tau: Tensor,
    sample: int,
    *,
    weight: float = 1.0,
    confidence: float = 0.99,
    generator: torch.Generator | None = None,
) -> SampledCap:
    """Π_C with its threshold estimated from ``sample`` entries of τ, and the error that this makes.

    The threshold θ is the root of the increasing function ``h(θ) = (weight/n)(θ − ε) − mean (τ − θ)₊``. The sample
    gives ĥ. By Hoeffding ``|ĥ(θ) − h(θ)| ≤ Δ = (max τ − ε)₊ √(log(2/(1−confidence)) / (2·sample))`` at the true
    threshold, so that θ lies between the roots of ``ĥ = ±Δ`` (and between ε₊ and max τ, always); the larger distance
    is the stated error. At ``weight = n`` it depends on the sample's size alone, whatever n; at weight 1 the threshold
    hangs on the few largest entries, a sample hardly knows them, and the stated error says so.

    Args:
        epsilon: Scalar tensor.
        tau: ``(n,)``.
        sample: How many entries to draw, with replacement; n or more means the exact projection.
        weight: As in `project_cap`.
        confidence: In (0, 1), of the stated error.
        generator: For draws that can be repeated.

    Returns:
        ``(epsilon, tau, error)``; the point is inside C, always.

    Example:
        >>> import torch
        >>> tau = torch.randn(100_000)
        >>> exact = project_cap(torch.tensor(0.0), tau, weight=100_000)
        >>> drawn = project_cap_sampled(torch.tensor(0.0), tau, 1000, weight=100_000)
        >>> bool((drawn.epsilon - exact.epsilon).abs() <= drawn.error)
        True

    References:
        Ravi et al., 2020, §7.5; Hoeffding, 1963.
    """
    epsilon, tau = checked_point(epsilon, tau)
    sample = checks.integer("sample", sample, at_least=1)
    confidence = checks.number("confidence", confidence, above=0, below=1)
    weight = checks.number("weight", weight, above=0)
    if sample >= tau.numel():
        return SampledCap(*project_cap(epsilon, tau, weight=weight), error=0.0)
    drawn = tau[torch.randint(tau.numel(), (sample,), generator=generator, device=tau.device)]
    # `sample` entries stand for all n, so ε weighs sample/n of what it did.
    scaled = weight * sample / tau.numel()
    spread = float((tau.max() - epsilon).clamp_min(0.0))
    slack = spread * math.sqrt(math.log(2.0 / (1.0 - confidence)) / (2 * sample))
    # ĥ(θ) = ±Δ is the same equation with ε moved by ±Δ·sample/scaled.
    shift = slack * sample / scaled
    low, threshold, high = (_threshold(epsilon + move, drawn, scaled) for move in (-shift, 0.0, shift))
    floor = epsilon.clamp_min(0.0)
    low, high = torch.maximum(low, floor), torch.minimum(high, torch.maximum(tau.max(), floor))
    error = max(float(high - threshold), float(threshold - low))
    return SampledCap(threshold, torch.minimum(tau, threshold), error)


def checked_point(epsilon: Tensor, tau: Tensor) -> tuple[Tensor, Tensor]:
    """A scalar and a vector of one floating type, all finite."""
    epsilon, tau = checks.tensor("epsilon", epsilon), checks.tensor("tau", tau)
    if epsilon.numel() != 1 or tau.ndim != 1:
        raise InputError(
            "tau", f"shapes {tuple(epsilon.shape)} and {tuple(tau.shape)}", "a scalar epsilon and a vector tau"
        )
    if not epsilon.is_floating_point() or epsilon.dtype != tau.dtype:
        raise InputError("tau", f"types {epsilon.dtype} and {tau.dtype}", "one floating type for both")
    checks.finite("epsilon", epsilon)
    checks.finite("tau", tau)
    return epsilon.reshape(()), tau


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
