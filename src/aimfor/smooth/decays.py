"""Decays ``u^k = exp(−k gap)``: of the items of a block, from block to block, and what each is worth in a sum."""

from __future__ import annotations

import math
from functools import lru_cache

import torch
from torch import Tensor
from torch.nn import functional

from .sums import Kernel

#: The highest power of u.
DEGREE = {torch.float32: 11, torch.float64: 20}
#: Blocks that pass to each other one by one; more than so many do it in groups.
MOST, GROUP = 48, 16
#: Decays below this are 0, so that their products are not denormal.
LEAST = 1e-40


def polynomials(u: Tensor, degree: int) -> Tensor:
    """``(2, n, size)`` in [0, 1] to ``(2 d + 1, n, size)``: ±u T_k(2u − 1), k = 0 … d − 1, of either; and 1.

    Chebyshev's, as powers of u, which are all alike near 1, would lose two digits to the alternating `coefficients`.
    """
    found = u.new_empty(2 * degree + 1, *u.shape[1:])
    *rows, last = found.split(2)
    last.fill_(1.0)
    rows[0].copy_(u)
    twice = u.mul(4.0).sub_(2.0)
    torch.mul(u, twice, out=rows[1]).mul_(0.5)
    for k in range(2, degree):
        torch.addcmul(rows[k - 2], twice, rows[k - 1], value=1.0 if k % 2 else -1.0, out=rows[k])
    return found


@lru_cache
def to_powers(degree: int, device: torch.device) -> Tensor:
    """Float64 ``(2 d + 1, 2 (d + 1))``: sums of `polynomials` to those of powers 0 … d, of the second side first."""
    turn, found = _turn(degree), torch.zeros(2 * degree + 1, 2, degree + 1, dtype=torch.float64)
    found[1:-1:2, 0, 1:] = found[:-1:2, 1, 1:] = turn.T
    found[-1, :, 0] = 1.0
    return found.flatten(1).to(device)


@lru_cache
def worth(kernel: Kernel, degree: int, backwards: bool, device: torch.device) -> Tensor:
    """Float64 ``(2 (d + 1), 2 d + 1)``: decays from lower and higher items to the factors of `polynomials` in κ."""
    lower = higher = coefficients(kernel, degree)
    if kernel == "sigmoid":
        higher = functional.one_hot(torch.tensor(0), degree + 1) - lower
    turn, found = _turn(degree), torch.zeros(2, degree + 1, 2 * degree + 1, dtype=torch.float64)
    for side, powers in enumerate((higher, lower) if backwards else (lower, higher)):
        found[side, 1:, side:-1:2] = powers[1:, None] * turn
        found[side, 0, -1] = powers[0]
    return found.flatten(0, 1).to(device)


def coefficients(kernel: Kernel, degree: int) -> Tensor:
    """Float64 ``(d + 1,)``: κ(log u) as a polynomial of u in [0, 1] that is 0 at 0 and met at Chebyshev's points."""
    u = _nodes(degree)
    values = {"sigmoid": u / (1.0 + u), "steep": u / (1.0 + u).square(), "softplus": u.log1p()}[kernel]
    return functional.pad(torch.linalg.solve(u[:, None] ** torch.arange(1, degree + 1), values), (1, 0))


def _turn(degree: int) -> Tensor:
    """``(d, d)``: this times the `polynomials` of one u is its powers 1 … d."""
    u = _nodes(degree)
    at_nodes = polynomials(u.expand(2, 1, -1), degree)[:-1:2, 0]
    found: Tensor = torch.linalg.solve(at_nodes.T, u[:, None] ** torch.arange(1, degree + 1))
    return found.T


def _nodes(degree: int) -> Tensor:
    return 0.5 + 0.5 * torch.cos((torch.arange(degree, dtype=torch.float64) + 0.5) * (math.pi / degree))


def _powers(u: Tensor, degree: int) -> Tensor:
    """``(…)`` to ``(d + 1, …)``: powers 0 … d by products, which cost a tenth of exponentials."""
    found = u.new_empty(degree + 1, *u.shape)
    found[0].fill_(1.0)
    found[1].copy_(u)
    known = 1
    while known < degree:
        more = min(known, degree - known)
        torch.mul(found[1 : more + 1], found[known], out=found[known + 1 : known + more + 1])
        known += more
    return functional.threshold(found, LEAST, 0.0, inplace=True)


class Passage:
    """What sorted blocks pass on to each other.

    Args:
        low: ``(b, n)`` float64, the lowest score of each block.
        high: The highest.
        degree: d, the highest power.
        temperature: What differences of scores are divided by.
    """

    def __init__(self, low: Tensor, high: Tensor, degree: int, temperature: float) -> None:
        (lists, self.blocks), self.outer = low.shape, None

        def decay(gaps: Tensor) -> Tensor:
            return _powers(gaps.div_(-temperature).clamp_max_(0.0).exp_(), degree)

        self.size = self.blocks if self.blocks <= MOST else GROUP
        self.groups = -(-self.blocks // self.size)
        if self.groups * self.size > self.blocks:
            last = high[:, -1:].expand(-1, self.groups * self.size - self.blocks)
            low, high = (torch.cat((ends, last), 1) for ends in (low, high))
        low, high = (ends.view(lists, self.groups, self.size) for ends in (low, high))
        # (2, d + 1, b, groups, size, size), from a column's block to a row's: from those below it, and those above.
        later = low.unsqueeze(3) - high.unsqueeze(2)
        ones = low.new_ones(self.size, self.size).tril_(-1)
        below = decay(later).mul_(ones)
        self.across = torch.stack((below, below.mT))
        if self.groups > 1:
            self.to_low, self.to_high = decay(torch.stack((low - low[..., :1], high[..., -1:] - high))).unbind(1)
            self.outer = Passage(low[..., 0], high[..., -1], degree, temperature)

    def pass_on(self, sent: Tensor) -> Tensor:
        """What reaches each block from all those below it, and from all those above.

        Args:
            sent: ``(2, d + 1, b, n, m)``: what each block sends up, as it is at its highest score; what it sends down,
                as it is at its lowest.

        Returns:
            The same shape: from below, as it is at the block's lowest score; from above, at its highest.
        """
        spare = self.groups * self.size - self.blocks
        sent = (functional.pad(sent, (0, 0, 0, spare)) if spare else sent).unflatten(3, (self.groups, self.size))
        found = self.across @ sent
        if self.outer is not None:
            ends = torch.stack((self.to_high, self.to_low)).unsqueeze(4)
            further = self.outer.pass_on((ends @ sent).squeeze(4)).unsqueeze(4)
            found.addcmul_(ends.flip(0).mT, further)
        return found.flatten(3, 4)[:, :, :, : self.blocks]
