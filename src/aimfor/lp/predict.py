"""Predict, then optimise: losses for a network that predicts the costs of a program, by what its decisions cost."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import InputError
from .costs import Perturbed
from .layer import LinearProgram
from .oracle import Oracle, read_costs


class DecisionLoss(nn.Module, ABC):
    """A convex stand-in for the regret ``c·x*(ĉ) − c·x*(c)`` of deciding by predicted costs ĉ where c are true.

    Args:
        program: A `LinearProgram` without c, an `Oracle`, or a function from costs ``(v,)`` to a solution.
    """

    def __init__(self, program: LinearProgram | Oracle | Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.oracle = program if isinstance(program, Oracle) else Oracle(program)

    def forward(self, predicted: Tensor, true: Tensor, solution: Tensor | None = None) -> Tensor:
        """The mean over the batch.

        Args:
            predicted: ``(…, v)``.
            true: ``(…, v)``.
            solution: ``(…, v)``, the optimum for ``true`` where it is known: half of the solves are then saved.
        """
        guess, truth = read_costs("predicted", predicted), read_costs("true", true).detach()
        if truth.shape != guess.shape:
            raise InputError("true", f"shape {tuple(truth.shape)}", f"the shape of predicted, {tuple(guess.shape)}")
        guess, truth = guess.reshape(-1, guess.shape[-1]), truth.reshape(-1, guess.shape[-1])
        best = self.oracle.optima(truth) if solution is None else _known(solution, predicted).reshape(guess.shape)
        costs = self.costs(guess, truth)
        rivals = self.oracle.optima(costs.reshape(-1, costs.shape[-1])).reshape(costs.shape)
        # What an oracle skipped is taken out before it meets a cost, or its NaN would reach the gradient.
        solved = best.isfinite().all(-1) & rivals.isfinite().all(-1).all(0)
        rivals, best = (torch.where(solved[:, None], part, 0.0) for part in (rivals, best))
        each = (self.scored(guess, truth) * best).sum(-1) - (costs * rivals).sum(-1).mean(0)
        return (each.sum() / solved.sum().clamp_min(1)).to(predicted.dtype)

    @abstractmethod
    def costs(self, guess: Tensor, truth: Tensor) -> Tensor:
        """The costs whose optima compete with the true one, ``(samples, b, v)``."""

    @abstractmethod
    def scored(self, guess: Tensor, truth: Tensor) -> Tensor:
        """The costs at which the true optimum is counted, ``(b, v)``."""


class SPOPlus(DecisionLoss):
    """``(2ĉ − c)·(x*(c) − x*(2ĉ − c))``, a convex upper bound on the regret; subgradient ``2(x*(c) − x*(2ĉ − c))``.

    Example:
        >>> import torch, aimfor
        >>> one = {"A_eq": torch.ones(1, 2), "b_eq": torch.ones(1), "lower": 0.0}
        >>> loss_fn = SPOPlus(aimfor.lp.LinearProgram(**one))
        >>> predicted = torch.tensor([[1.0, 2.0]], requires_grad=True)
        >>> loss = loss_fn(predicted, true=torch.tensor([[2.0, 1.0]]))
        >>> loss.item()  # the regret is 1
        3.0
        >>> loss.backward()
        >>> predicted.grad.tolist()
        [[-2.0, 2.0]]

    References:
        Elmachtoub, Grigas, Smart "predict, then optimize", 2022.
    """

    def costs(self, guess: Tensor, truth: Tensor) -> Tensor:
        return self.scored(guess, truth)[None]

    def scored(self, guess: Tensor, truth: Tensor) -> Tensor:
        return 2.0 * guess - truth


class PerturbedFenchelYoung(DecisionLoss):
    """``ĉ·x*(c) − E min_x (ĉ + σZ)·x``, Z standard normal; gradient ``x*(c) − E x*(ĉ + σZ)``, zero at the best ĉ.

    Args:
        program: As for `SPOPlus`.
        samples: How many Z the mean is over.
        sigma: σ, in units of the costs.
        seed: Of the noise, which is drawn anew in each call.

    Example:
        >>> import torch, aimfor
        >>> one = {"A_eq": torch.ones(1, 2), "b_eq": torch.ones(1), "lower": 0.0}
        >>> loss_fn = PerturbedFenchelYoung(aimfor.lp.LinearProgram(**one), samples=20)
        >>> predicted = torch.tensor([[1.0, 2.0]], requires_grad=True)
        >>> loss_fn(predicted, true=torch.tensor([[2.0, 1.0]])).backward()
        >>> bool(predicted.grad[0, 0] < 0 < predicted.grad[0, 1])
        True

    References:
        Berthet, Blondel, Teboul, Cuturi, Vert, Bach, Learning with differentiable perturbed optimizers, 2020.
    """

    def __init__(
        self,
        program: LinearProgram | Oracle | Callable[[Tensor], Any],
        samples: int = 10,
        sigma: float = 1.0,
        seed: int = 0,
    ) -> None:
        super().__init__(program)
        self.rule = Perturbed(samples, sigma, seed)

    def costs(self, guess: Tensor, truth: Tensor) -> Tensor:
        return guess + self.rule.sigma * self.rule.noise(guess.detach())

    def scored(self, guess: Tensor, truth: Tensor) -> Tensor:
        return guess


def _known(solution: Any, predicted: Tensor) -> Tensor:
    known = read_costs("solution", solution).detach()
    if known.shape != predicted.shape:
        raise InputError("solution", f"shape {tuple(known.shape)}", f"the shape of predicted, {tuple(predicted.shape)}")
    return known
