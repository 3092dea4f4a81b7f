"""Sums over all differences of scores by one sort, and O(l) after it: what is far is a count, the rest a few decays.

With ``u = exp(−|s_j − s_i|)``, at most 1, each of sigmoid, slope and softplus is a 0, a 1 or the difference itself, and
``u q(u)`` beside it. q has its pole at −1, so that a polynomial of degree d on [0, 1] is right to 5.8^−d: the dtype's
own error at 11 (float32) and 20 (float64). Powers of u are decays, and pass from block to block of the sorted scores,

    exp(−k(s_i − s_j)) = exp(−k(s_i − low)) exp(−k(low − high')) exp(−k(high' − s_j)),

where high' is the highest score in the block of j, and low the lowest in that of i, further up. Power 0 counts. No
factor is above 1, and differences within a block are taken one by one: neither time nor error depends on the scores.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor
from torch.nn import functional

from ..ordering import ordered
from .decays import DEGREE, Passage, polynomials, to_powers, worth
from .sums import DifferenceSums, Kernel, Term, bounded_scores, kernel_of

#: Items of one block.
SIZE = 32
#: Numbers at a time, which stay in the cache; up to so many in all are kept instead of being found again.
PART, KEPT = 1 << 19, 1 << 23


class Series(DifferenceSums):
    """The sums of one batch of lists.

    Args:
        scores: ``(b, l)``, finite.
        places: ``(b, p)`` positions of the asked items.
        temperature: What differences are divided by.
    """

    def __init__(self, scores: Tensor, places: Tensor, temperature: float = 1.0) -> None:
        self.temperature, self.degree = temperature, DEGREE[scores.dtype]
        (self.lists, self.items), self.blocks = scores.shape, -(-scores.shape[1] // SIZE)
        rows, self.order = ordered(scores)
        numbers = torch.arange(self.items, device=scores.device).expand(scores.shape)
        self.at = torch.empty_like(self.order).scatter_(1, self.order, numbers).gather(1, places)
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
        found = self._listed(self._sums[kernel])
        return found.gather(2, self.first.unsqueeze(1).expand(-1, found.shape[1], -1)).mT

    def weighed(self, kernel: Kernel, masses: Tensor, asked: Tensor) -> Tensor:
        own, states = (part[:, -asked.shape[2] :] for part in self._states(masses))
        return (self._read(kernel, own, states) * self._asked(asked)).sum(dtype=torch.float64)

    def gradients(self, masses: Tensor, terms: Sequence[Term]) -> Tensor:
        counts = [asked.shape[2] for _, asked in terms]
        weights = self._asked(torch.cat([asked for _, asked in terms], 2))
        sent = self._passed(weights).split(counts, 1)
        total = torch.zeros_like(self.scores)
        for (slope, _), q, weight, state in zip(terms, counts, weights.split(counts, 1), sent, strict=True):
            own, states = (part[:, -q:] for part in self._states(masses))
            if slope == "steep":  # the same both ways
                both = self._read(slope, torch.cat((own, weight), 1), torch.cat((states, state), 1))
                at_asked, at_items = both.split(q, 1)
            else:
                known = self._sums.get(slope)
                at_asked = self._read(slope, own, states) if known is None else known[:, -q:]
                at_items = self._read(slope, weight, state, backwards=True)
            total += (own * at_items).sub_(weight * at_asked).sum(1)  # of an item's own part nothing is left
        found = total.view(self.lists, -1)[:, : self.items]
        return torch.empty_like(found).scatter_(1, self.order, found)

    def _states(self, masses: Tensor) -> tuple[Tensor, Tensor]:
        """The masses in blocks, and what reaches each block; those of the last call are kept."""
        if self._moved is None or self._moved[0] is not masses:
            own = self._blocked(masses.mT.gather(2, self.order.unsqueeze(1).expand(-1, masses.shape[2], -1)))
            self._moved, self._sums = (masses, own, self._passed(own)), {}
        return self._moved[1:]

    def _asked(self, asked: Tensor) -> Tensor:
        """``(b, p, q)`` of the asked items to ``(blocks, q, size)``."""
        found = asked.new_zeros(self.lists, asked.shape[2], self.blocks * SIZE)
        return self._blocked(found.scatter_add_(2, self.at.unsqueeze(1).expand(-1, asked.shape[2], -1), asked.mT))

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
        moments = [torch.bmm(own[rows], self._basis(rows)[1]) for rows in self._parts()]
        powers = joined(moments).double() @ to_powers(self.degree, own.device)
        sent = powers.view(self.lists, self.blocks, own.shape[1], 2, -1).permute(3, 4, 0, 1, 2).contiguous()
        return self.passage.pass_on(sent).permute(2, 3, 4, 0, 1).reshape(*own.shape[:2], -1)

    def _read(self, kernel: Kernel, own: Tensor, states: Tensor, backwards: bool = False) -> Tensor:
        """``(blocks, m, size)``: Σ w_j κ(s_j − s_i) over j at every i; backwards, of κ(s_i − s_j)."""
        own, states = own.contiguous(), states.contiguous()  # else products go one by one
        weights = (states @ worth(kernel, self.degree, backwards, own.device)).to(own.dtype)
        if backwards:  # κ is the sigmoid, and 1 less that of the difference the other way
            own, weights[..., -1] = -own, weights[..., -1] + own.sum(2)
        parts = []
        for rows in self._parts():
            part = torch.bmm(own[rows], self._near(kernel, rows))  # `baddbmm_` takes six times as long
            parts.append(part.add_(torch.bmm(weights[rows], self._basis(rows)[0])))
        found = joined(parts)
        return found.add_(self._straight(own)) if kernel == "softplus" else found

    def _straight(self, own: Tensor) -> Tensor:
        """``Σ w_j (s_j − s_i)`` over the j above i: sums of what is ≥ 0, from the top down, in float64."""
        scores, masses = bounded_scores(self.scores).view(self.lists, 1, -1).double(), self._listed(own).double()
        above = masses[..., 1:].flip(2).cumsum(2)
        found = (above * (scores[..., 1:] - scores[..., :-1]).flip(2)).cumsum(2).flip(2)
        found = (found / self.temperature).clamp_max_(0.125 * torch.finfo(own.dtype).max).to(own.dtype)
        return self._blocked(functional.pad(found, (0, 1)))

    def _parts(self) -> Iterator[slice]:
        """Some blocks of all lists."""
        some = max(1, PART // (self.width * SIZE))
        return (slice(start, start + some) for start in range(0, len(self.scores), some))

    def _basis(self, rows: slice) -> tuple[Tensor, Tensor]:
        """``(blocks, 2 d + 1, size)``: `polynomials` of the decays from a block's lowest score, and to its highest.

        And the same the other way round, as products of many small matrices want it.
        """
        if rows.start in self._bases:
            return self._bases[rows.start]
        scores = self.scores[rows]
        ends = torch.stack((scores[:, :1] - scores, scores - scores[:, -1:]))
        found = polynomials((ends if self.temperature == 1.0 else ends.div_(self.temperature)).exp_(), self.degree)
        both = found.transpose(0, 1).contiguous(), found.permute(1, 2, 0).contiguous()
        if self._keeps:
            self._bases[rows.start] = both
        return both

    def _near(self, kernel: Kernel, rows: slice) -> Tensor:
        """``(blocks, size, size)``: κ of a row's item to a column's, within a block; softplus without `_straight`."""
        soft = self._nears.get(rows.start)
        if soft is None:
            scores = self.scores[rows]
            gaps = scores.unsqueeze(2) - scores.unsqueeze(1)
            soft = (gaps if self.temperature == 1.0 else gaps.div_(self.temperature)).sigmoid_()
            if self._keeps:
                self._nears[rows.start] = soft
        if kernel == "softplus":  # log(1 + u) is −log of the sigmoid of |gap|
            other = 1.0 - soft
            return torch.maximum(soft, other, out=other).log_().neg_()
        return kernel_of(kernel, soft, soft)


def joined(parts: list[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(parts)
