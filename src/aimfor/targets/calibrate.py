"""Scores to probabilities: Platt's sigmoid, fitted on held-out scores."""

from __future__ import annotations

import numpy as np
import torch
from scipy.special import expit
from torch import Tensor


def platt(scores: Tensor, targets: Tensor, weights: Tensor | None = None) -> tuple[float, float]:
    """``(slope, offset)`` such that ``sigmoid(slope · score + offset)`` is the probability of the positive class.

    Maximum likelihood with Platt's smoothed targets ``(p + 1)/(p + 2)`` and ``1/(q + 2)``, by Newton's method on scaled
    scores. The slope is held at or above zero, so that probabilities never reverse the order of the scores.

    References:
        Platt, Probabilistic outputs for support vector machines, 1999.
        Lin, Lin, Weng, A note on Platt's probabilistic outputs, 2007.
    """
    x, y = scores.detach().double().numpy(), targets.numpy().astype(np.float64)
    mass = np.ones_like(y) if weights is None else weights.double().numpy()
    positives, negatives = float((mass * y).sum()), float((mass * (1 - y)).sum())
    wanted = np.where(y > 0, (positives + 1) / (positives + 2), 1 / (negatives + 2))
    center, scale = float(np.median(x)), float(x.std()) or 1.0
    z = (x - center) / scale
    slope, offset = 0.0, float(np.log((positives + 1) / (negatives + 1)))

    def cost(a: float, b: float) -> float:
        return float((mass * (np.logaddexp(0, a * z + b) - wanted * (a * z + b))).sum())

    for _ in range(100):
        p = 1 / (1 + np.exp(-np.clip(slope * z + offset, -500, 500)))
        residual, curvature = mass * (p - wanted), mass * p * (1 - p)
        gradient = np.array([(residual * z).sum(), residual.sum()])
        cross = (curvature * z).sum()
        hessian = np.array([[(curvature * z * z).sum(), cross], [cross, curvature.sum()]])
        step = np.linalg.solve(hessian + 1e-10 * np.eye(2), gradient)
        rate = 1.0
        while cost(slope - rate * step[0], offset - rate * step[1]) > cost(slope, offset) and rate > 1e-10:
            rate /= 2
        slope, offset = slope - rate * float(step[0]), offset - rate * float(step[1])
        if np.abs(gradient).max() < 1e-9 * max(1.0, float(mass.sum())):
            break
    if slope < 0:
        slope, offset = 0.0, float(np.log((positives + 1) / (negatives + 1)))
    return slope / scale, offset - slope * center / scale


def probability(scores: Tensor, calibration: tuple[float, float] = (1.0, 0.0)) -> Tensor:
    """``sigmoid(slope · score + offset)``, float64.

    By scipy, value by value: torch's own differs in the last bit between a row alone and the same row among others.
    """
    return torch.from_numpy(np.asarray(expit((calibration[0] * scores.detach().double() + calibration[1]).numpy())))


def class_scaling(scores: Tensor, targets: Tensor, weights: Tensor | None = None) -> tuple[float, list[float]]:
    """``(slope, offsets)`` such that ``softmax(slope · scores + offsets)`` are the class probabilities.

    Temperature scaling with one offset per class, because scores trained for a ranking metric have no common zero.
    Maximum likelihood with a ridge worth one row, by Newton's method (the problem is convex). The slope is held at or
    above zero; at zero the probabilities are the shares of the classes.

    References:
        Guo, Pleiss, Sun, Weinberger, On calibration of modern neural networks, 2017.
    """
    s = scores.detach().double()
    classes = s.shape[1]
    mass = torch.ones(len(s), dtype=torch.float64) if weights is None else weights.double()
    share = (mass / mass.sum())[:, None] / classes
    scale = float((share * (s - (share * s).sum()).square()).sum().sqrt()) or 1.0  # a weight counts as repetition
    s = s / scale

    def cost(theta: Tensor) -> Tensor:
        picked = (theta[0] * s + theta[1:]).log_softmax(1).gather(1, targets[:, None]).squeeze(1)
        return -(mass * picked).sum() + 0.5 * theta.square().sum()

    theta = torch.zeros(classes + 1, dtype=torch.float64)
    for _ in range(100):
        start = theta.clone().requires_grad_()
        value = cost(start)
        (gradient,) = torch.autograd.grad(value, start)
        if float(gradient.abs().max()) < 1e-10 * max(1.0, float(mass.sum())):
            break
        step = torch.linalg.solve(torch.autograd.functional.hessian(cost, theta), gradient)
        rate = 1.0
        while float(cost(theta - rate * step)) > float(value.detach()) and rate > 1e-10:
            rate /= 2
        theta = theta - rate * step
    if float(theta[0]) < 0:  # probabilities never reverse the order of the scores: without them, the classes' shares
        return class_scaling(torch.zeros_like(s), targets, weights)
    return float(theta[0]) / scale, theta[1:].tolist()
