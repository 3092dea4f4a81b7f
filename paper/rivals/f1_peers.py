"""The two rivals of Meng's F1 paragraph, where their packages are installed: CVXPY-SCS and AP-Perf.

CVXPY-SCS is the program of `lp.ratio` in CVXPY's words, solved by SCS to its default accuracy and differentiated by
cvxpylayers (diffcp's default mode, "lsqr"), through the solution and not by the envelope. Only the solver differs from
`LPEngine`: where the bound is trivial at threshold 0, so that the program has no gradient, and where a class is
missing, the engine's answer is taken.

AP-Perf (Fathony and Kolter 2020) plays a game: an adversary picks labels, within what the scores allow, against the
best answer to them. The package is called as its documentation says, and decides at score 0.

Neither is required by anything: ``pip install cvxpylayers`` and ``pip install --no-deps ap_perf numba llvmlite``.
"""

from __future__ import annotations

import importlib
import importlib.util
import warnings
from functools import cache
from typing import Any

import torch
from torch import Tensor

from aimfor import FBeta, MetricLoss
from aimfor.lp import LPEngine

from ..protocol.protocol import Loss

CVXPY, AP_PERF = "CVXPY-SCS", "AP-Perf"
#: Of a method whose program has threshold and scale as variables.
UNBOUND = ", free threshold"
#: How cvxpylayers solves and differentiates.
SCS = {"solve_method": "SCS", "mode": "lsqr"}


def installed(*packages: str) -> bool:
    return all(importlib.util.find_spec(package) is not None for package in packages)


def peer_losses() -> dict[str, Loss]:
    """By name, the losses whose packages are there; made anew at each call."""
    found: dict[str, Loss] = {}
    if installed("cvxpy", "cvxpylayers", "diffcp", "scs"):
        found |= {CVXPY: cvxpy_loss(free=False), CVXPY + UNBOUND: cvxpy_loss(free=True)}
    if installed("ap_perf", "numba"):
        found[AP_PERF] = ap_perf_loss()
    return found


# ---------------------------------------------------------------- CVXPY-SCS


def f1_program(positives: int, negatives: int, free: bool) -> tuple[Any, list[Any], Any]:
    """The bound on F1 (see `lp.ratio`, margin 1) as a CVXPY problem.

    Args:
        positives, negatives: Numbers of examples.
        free: Whether threshold and scale are variables too.

    Returns:
        The problem, its two parameters (scores of the positives, of the negatives), and the variable u: the bound is
        2 Σ u.
    """
    cp = importlib.import_module("cvxpy")
    high, low = cp.Parameter(positives), cp.Parameter(negatives)
    u, v, t = cp.Variable(positives), cp.Variable(negatives, nonneg=True), cp.Variable(nonneg=True)
    scale, shift = (cp.Variable(nonneg=True), cp.Variable()) if free else (t, 0.0)
    rows = [u <= t, u <= scale * high + shift, v >= t + scale * low + shift, positives * t + cp.sum(u) + cp.sum(v) == 1]
    return cp.Problem(cp.Maximize(2 * cp.sum(u)), rows), [high, low], u


@cache
def _layer(positives: int, negatives: int, free: bool) -> Any:
    problem, parameters, u = f1_program(positives, negatives, free)
    layers = importlib.import_module("cvxpylayers.torch")
    return layers.CvxpyLayer(problem, parameters=parameters, variables=[u], solver="DIFFCP")


def cvxpy_loss(free: bool, **settings: Any) -> Loss:
    """One minus the bound, by cvxpylayers; ``settings`` of its solver go before `SCS`."""
    ours = MetricLoss(FBeta(1.0), LPEngine(threshold="free" if free else "zero"))

    def loss(scores: Tensor, targets: Tensor, shares: Tensor) -> Tensor:
        leaf = scores.detach().double().requires_grad_()
        high, low = leaf[targets == 1], leaf[targets == 0]
        trivial = not free and bool(high.detach().clamp_max(1.0).sum() <= 0)
        if trivial or min(high.numel(), low.numel()) == 0:
            value: Tensor = ours(scores, targets)
            return value
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # cvxpylayers calls numpy the old way
            (u,) = _layer(high.numel(), low.numel(), free)(high, low, solver_args={**SCS, **settings})
            bound = 2.0 * u.sum()
            (gradient,) = torch.autograd.grad(-bound, leaf)
        return attached(scores, 1.0 - float(bound.detach()), gradient)

    return loss


# ---------------------------------------------------------------- AP-Perf


def ap_perf_loss() -> Loss:
    """One minus the value of AP-Perf's game for F1."""
    layers, metrics = (importlib.import_module(f"ap_perf.{part}") for part in ("layer", "common_metrics"))
    metric = metrics.F1Score()
    metric.initialize()
    metric.enforce_special_case_positive()
    layer = layers.MetricLayer(metric)

    def loss(scores: Tensor, targets: Tensor, shares: Tensor) -> Tensor:
        leaf = scores.detach().requires_grad_()
        value = layer(leaf, targets.to(leaf.dtype)).sum()
        # Its backward pass gives this gradient whatever the factor before the loss; `attached` heeds the factor.
        (gradient,) = torch.autograd.grad(value, leaf)
        return attached(scores, 1.0 + float(value.detach()), gradient)

    return loss


def attached(scores: Tensor, value: float, gradient: Tensor) -> Tensor:
    """A loss with this value and this gradient, both found elsewhere."""
    return value + ((scores - scores.detach()) * gradient.to(scores.dtype)).sum()
