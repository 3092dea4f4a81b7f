"""Sums over all differences of scores by one sort, and O(l) after it: what is far is a count, the rest a few decays.

With ``u = exp(−|s_j − s_i|)``, at most 1, each of sigmoid, slope and softplus is a 0, a 1 or the difference itself, and
``u q(u)`` beside it. q has its pole at −1, so that a polynomial of degree d on [0, 1] is right to 5.8^−d: the dtype's
own error at 11 (float32) and 20 (float64). Powers of u are decays, and pass from block to block of the sorted scores,

    exp(−k(s_i − s_j)) = exp(−k(s_i − low)) exp(−k(low − high')) exp(−k(high' − s_j)),

where high' is the highest score in the block of j, and low the lowest in that of i, further up. Power 0 counts. No
factor is above 1, and differences within a block are taken one by one: neither time nor error depends on the scores.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache

import torch
from torch import Tensor
from torch.nn import functional

from ..engine import Number
from ..ordering import ordered
from .sums import DifferenceSums, Kernel, Term, bounded_scores, divided, kernel_of

#: The highest power of u.
DEGREE = {torch.float32: 11, torch.float64: 20}
#: Blocks that pass to each other one by one; more than so many do it in groups.
MOST_BLOCKS, GROUP = 48, 16
#: Decays below this are 0, so that their products are not denormal.
LEAST = 1e-40
#: Items of one block.
SIZE = 32
#: Numbers at a time, which stay in the cache; up to so many in all are kept instead of being found again.
BLOCK, KEPT = 1 << 19, 1 << 23


class Series(DifferenceSums):
    """The sums of one batch of lists.

    Args:
        scores: ``(b, l)``, finite.
        positions: ``(b, p)`` positions of the queries.
        temperature: What differences are divided by.
    """

    def __init__(self, scores: Tensor, positions: Tensor, temperature: Number = 1.0) -> None:
        self.temperature, self.degree = temperature, DEGREE[scores.dtype]
        (self.lists, self.items), self.blocks = scores.shape, -(-scores.shape[1] // SIZE)
        rows, self.order = ordered(scores)
        numbers = torch.arange(self.items, device=scores.device).expand(scores.shape)
        self.at = torch.empty_like(self.order).scatter_(1, self.order, numbers).gather(1, positions)
        # Equal scores have equal sums, bit by bit: metrics look at the differences of neighbours.
        new = functional.pad(rows[:, 1:] != rows[:, :-1], (1, 0))
        self.first = (numbers * new).cummax(1).values.gather(1, self.at)
        spare = self.blocks * SIZE - self.items
        rows = torch.cat((rows, rows[:, -1:].expand(-1, spare)), 1) if spare else rows  # of mass 0
        self.scores = rows.reshape(-1, SIZE)
        low, high = (self.scores[:, end].view(self.lists, -1).double() for end in (0, -1))
        self.passage = Passage(low, high, self.degree, temperature)
        self.width = 4 * self.degree + 2 + SIZE
        self._keeps = self.scores.numel() * self.width <= KEPT
        self._bases: dict[int, tuple[Tensor, Tensor]] = {}
        self._nears: dict[int, Tensor] = {}
        self._moved: tuple[Tensor, Tensor, Tensor] | None = None
        self._sums: dict[Kernel, Tensor] = {}

    def sums(self, kernel: Kernel, masses: Tensor) -> Tensor:
        own, states = self._states(masses)
        self._sums[kernel] = self._read(kernel, own, states)
        rows = self._listed(self._sums[kernel])
        return rows.gather(2, self.first.unsqueeze(1).expand(-1, rows.shape[1], -1)).mT

    def weighed(self, kernel: Kernel, masses: Tensor, weights: Tensor) -> Tensor:
        own, states = (rows[:, -weights.shape[2] :] for rows in self._states(masses))
        return (self._read(kernel, own, states) * self._of_queries(weights)).sum(dtype=torch.float64)

    def gradients(self, masses: Tensor, terms: Sequence[Term]) -> Tensor:
        counts = [weights.shape[2] for _, weights in terms]
        weights = self._of_queries(torch.cat([weights for _, weights in terms], 2))
        sent = self._passed(weights).split(counts, 1)
        total = torch.zeros_like(self.scores)
        for (slope, _), q, weight, state in zip(terms, counts, weights.split(counts, 1), sent, strict=True):
            own, states = (rows[:, -q:] for rows in self._states(masses))
            if slope == "steep":  # the same both ways
                both = self._read(slope, torch.cat((own, weight), 1), torch.cat((states, state), 1))
                at_queries, at_items = both.split(q, 1)
            else:
                sums = self._sums.get(slope)
                at_queries = self._read(slope, own, states) if sums is None else sums[:, -q:]
                at_items = self._read(slope, weight, state, backwards=True)
            total += (own * at_items).sub_(weight * at_queries).sum(1)  # of an item's own part nothing is left
        ascending = total.view(self.lists, -1)[:, : self.items]
        return torch.empty_like(ascending).scatter_(1, self.order, ascending)

    def _states(self, masses: Tensor) -> tuple[Tensor, Tensor]:
        """The masses in blocks, and what reaches each block; those of the last call are kept."""
        if self._moved is None or self._moved[0] is not masses:
            own = self._blocked(masses.mT.gather(2, self.order.unsqueeze(1).expand(-1, masses.shape[2], -1)))
            self._moved, self._sums = (masses, own, self._passed(own)), {}
        return self._moved[1:]

    def _of_queries(self, weights: Tensor) -> Tensor:
        """``(b, p, q)`` of the queries to ``(blocks, q, size)``."""
        rows = weights.new_zeros(self.lists, weights.shape[2], self.blocks * SIZE)
        return self._blocked(rows.scatter_add_(2, self.at.unsqueeze(1).expand(-1, weights.shape[2], -1), weights.mT))

    def _blocked(self, rows: Tensor) -> Tensor:
        """``(b, m, l)`` in the order of the scores to ``(blocks, m, size)``, the blocks of all lists."""
        spare = self.blocks * SIZE - rows.shape[2]
        rows = functional.pad(rows, (0, spare)) if spare else rows
        return rows.view(self.lists, -1, self.blocks, SIZE).transpose(1, 2).reshape(-1, rows.shape[1], SIZE)

    def _listed(self, blocks: Tensor) -> Tensor:
        """The other way round, to whole blocks."""
        return blocks.view(self.lists, self.blocks, -1, SIZE).transpose(1, 2).flatten(2)

    def _passed(self, own: Tensor) -> Tensor:
        """``(blocks, m, size)`` masses to float64 ``(blocks, m, 2 (d + 1))``: from lower blocks, and higher ones."""
        moments = [torch.bmm(own[rows], self._basis(rows)[1]) for rows in self._some_blocks()]
        powers = _joined(moments).double() @ to_powers(self.degree, own.device)
        sent = powers.view(self.lists, self.blocks, own.shape[1], 2, -1).permute(3, 4, 0, 1, 2).contiguous()
        return self.passage.pass_on(sent).permute(2, 3, 4, 0, 1).reshape(*own.shape[:2], -1)

    def _read(self, kernel: Kernel, own: Tensor, states: Tensor, backwards: bool = False) -> Tensor:
        """``(blocks, m, size)``: Σ w_j κ(s_j − s_i) over j at every i; backwards, of κ(s_i − s_j)."""
        own, states = own.contiguous(), states.contiguous()  # else products go one by one
        weights = (states @ worth(kernel, self.degree, backwards, own.device)).to(own.dtype)
        if backwards:  # κ is the sigmoid, and 1 less that of the difference the other way
            own, weights[..., -1] = -own, weights[..., -1] + own.sum(2)
        sums = []
        for rows in self._some_blocks():
            near = torch.bmm(own[rows], self._near(kernel, rows))  # `baddbmm_` takes six times as long
            sums.append(near.add_(torch.bmm(weights[rows], self._basis(rows)[0])))
        joined = _joined(sums)
        return joined.add_(self._straight(own)) if kernel == "softplus" else joined

    def _straight(self, own: Tensor) -> Tensor:
        """``Σ w_j (s_j − s_i)`` over the j above i: sums of what is ≥ 0, from the top down, in float64."""
        scores, masses = bounded_scores(self.scores).view(self.lists, 1, -1).double(), self._listed(own).double()
        above = masses[..., 1:].flip(2).cumsum(2)
        sums = (above * (scores[..., 1:] - scores[..., :-1]).flip(2)).cumsum(2).flip(2)
        sums = (sums / self.temperature).clamp_max_(0.125 * torch.finfo(own.dtype).max).to(own.dtype)
        return self._blocked(functional.pad(sums, (0, 1)))

    def _some_blocks(self) -> Iterator[slice]:
        """Some blocks of all lists."""
        some = max(1, BLOCK // (self.width * SIZE))
        return (slice(start, start + some) for start in range(0, len(self.scores), some))

    def _basis(self, rows: slice) -> tuple[Tensor, Tensor]:
        """``(blocks, 2 d + 1, size)``: `polynomials` of the decays from a block's lowest score, and to its highest.

        And the same the other way round, as products of many small matrices want it.
        """
        if rows.start in self._bases:
            return self._bases[rows.start]
        scores = self.scores[rows]
        ends = torch.stack((scores[:, :1] - scores, scores - scores[:, -1:]))
        table = polynomials(divided(ends, self.temperature, inplace=True).exp_(), self.degree)
        both = table.transpose(0, 1).contiguous(), table.permute(1, 2, 0).contiguous()
        if self._keeps:
            self._bases[rows.start] = both
        return both

    def _near(self, kernel: Kernel, rows: slice) -> Tensor:
        """``(blocks, size, size)``: κ of a row's item to a column's, within a block; softplus without `_straight`."""
        soft = self._nears.get(rows.start)
        if soft is None:
            scores = self.scores[rows]
            gaps = scores.unsqueeze(2) - scores.unsqueeze(1)
            soft = divided(gaps, self.temperature, inplace=True).sigmoid_()
            if self._keeps:
                self._nears[rows.start] = soft
        if kernel == "softplus":  # log(1 + u) is −log of the sigmoid of |gap|
            other = 1.0 - soft
            return torch.maximum(soft, other, out=other).log_().neg_()
        return kernel_of(kernel, soft, soft)


def _joined(blocks: list[Tensor]) -> Tensor:
    return blocks[0] if len(blocks) == 1 else torch.cat(blocks)


def polynomials(u: Tensor, degree: int) -> Tensor:
    """``(2, n, size)`` in [0, 1] to ``(2 d + 1, n, size)``: ±u T_k(2u − 1), k = 0 … d − 1, of either; and 1.

    Chebyshev's, as powers of u, which are all alike near 1, would lose two digits to the alternating `coefficients`.
    """
    table = u.new_empty(2 * degree + 1, *u.shape[1:])
    *rows, last = table.split(2)
    last.fill_(1.0)
    rows[0].copy_(u)
    twice = u.mul(4.0).sub_(2.0)
    torch.mul(u, twice, out=rows[1]).mul_(0.5)
    for k in range(2, degree):
        torch.addcmul(rows[k - 2], twice, rows[k - 1], value=1.0 if k % 2 else -1.0, out=rows[k])
    return table


@lru_cache
def to_powers(degree: int, device: torch.device) -> Tensor:
    """Float64 ``(2 d + 1, 2 (d + 1))``: sums of `polynomials` to those of powers 0 … d, of the second side first."""
    turn, matrix = _turn(degree), torch.zeros(2 * degree + 1, 2, degree + 1, dtype=torch.float64)
    matrix[1:-1:2, 0, 1:] = matrix[:-1:2, 1, 1:] = turn.T
    matrix[-1, :, 0] = 1.0
    return matrix.flatten(1).to(device)


@lru_cache
def worth(kernel: Kernel, degree: int, backwards: bool, device: torch.device) -> Tensor:
    """Float64 ``(2 (d + 1), 2 d + 1)``: decays from lower and higher items to the factors of `polynomials` in κ."""
    lower = higher = coefficients(kernel, degree)
    if kernel == "sigmoid":
        higher = functional.one_hot(torch.tensor(0), degree + 1) - lower
    turn, matrix = _turn(degree), torch.zeros(2, degree + 1, 2 * degree + 1, dtype=torch.float64)
    for side, powers in enumerate((higher, lower) if backwards else (lower, higher)):
        matrix[side, 1:, side:-1:2] = powers[1:, None] * turn
        matrix[side, 0, -1] = powers[0]
    return matrix.flatten(0, 1).to(device)


def coefficients(kernel: Kernel, degree: int) -> Tensor:
    """Float64 ``(d + 1,)``: κ(log u) as a polynomial of u in [0, 1] that is 0 at 0 and met at Chebyshev's points."""
    u = _nodes(degree)
    values = {"sigmoid": u / (1.0 + u), "steep": u / (1.0 + u).square(), "softplus": u.log1p()}[kernel]
    return functional.pad(torch.linalg.solve(u[:, None] ** torch.arange(1, degree + 1), values), (1, 0))


def _turn(degree: int) -> Tensor:
    """``(d, d)``: this times the `polynomials` of one u is its powers 1 … d."""
    u = _nodes(degree)
    at_nodes = polynomials(u.expand(2, 1, -1), degree)[:-1:2, 0]
    matrix: Tensor = torch.linalg.solve(at_nodes.T, u[:, None] ** torch.arange(1, degree + 1))
    return matrix.T


def _nodes(degree: int) -> Tensor:
    return 0.5 + 0.5 * torch.cos((torch.arange(degree, dtype=torch.float64) + 0.5) * (math.pi / degree))


def _powers(u: Tensor, degree: int) -> Tensor:
    """``(…)`` to ``(d + 1, …)``: powers 0 … d by products, which cost a tenth of exponentials."""
    powers = u.new_empty(degree + 1, *u.shape)
    powers[0].fill_(1.0)
    powers[1].copy_(u)
    highest = 1
    while highest < degree:
        more = min(highest, degree - highest)
        torch.mul(powers[1 : more + 1], powers[highest], out=powers[highest + 1 : highest + more + 1])
        highest += more
    return functional.threshold(powers, LEAST, 0.0, inplace=True)


class Passage:
    """What sorted blocks pass on to each other.

    Args:
        low: ``(b, n)`` float64, the lowest score of each block.
        high: The highest.
        degree: d, the highest power.
        temperature: What differences of scores are divided by.
    """

    def __init__(self, low: Tensor, high: Tensor, degree: int, temperature: Number) -> None:
        (lists, self.blocks), self.outer = low.shape, None

        def decay(gaps: Tensor) -> Tensor:
            return _powers(gaps.div_(-temperature).clamp_max_(0.0).exp_(), degree)

        self.size = self.blocks if self.blocks <= MOST_BLOCKS else GROUP
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
        received = self.across @ sent
        if self.outer is not None:
            ends = torch.stack((self.to_high, self.to_low)).unsqueeze(4)
            further = self.outer.pass_on((ends @ sent).squeeze(4)).unsqueeze(4)
            received.addcmul_(ends.flip(0).mT, further)
        return received.flatten(3, 4)[:, :, :, : self.blocks]
