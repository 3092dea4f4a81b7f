"""Sums over all differences of scores without a sort: on those cells, each as wide as the temperature, that have items.

The nearest pole of the sigmoid, its slope and softplus is π away, so that on a cell each side of ``κ(s_j − s_i)`` can
be interpolated at d Chebyshev points, with an error that falls as 12.6^−d. Masses become sums of polynomials in their
cell, `Cells.between` takes those of the cells near by to the factors of polynomials in each cell, and every item reads
its answer off them. Beyond some cells κ is 0, 1 or the difference itself, and a running sum has it all.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from .sums import DifferenceSums, Kernel, Term, added, kernel_of, last

#: Polynomials of a cell, of degree 0 to 6 and 13: the error is 3e-8 of the summed mass, and 3e-15.
POLYNOMIALS = {torch.float32: 7, torch.float64: 14}
#: So many cells away a sigmoid is 0 or 1.
FAR = {torch.float32: 17, torch.float64: 36}
#: For each item so many cells in all, and of those with items. More cost more than a sort.
EMPTY, FULL, LEAST = 4, 1 / 32, 64
#: Up to so many polynomials of a list, one matrix takes those of all cells to those of all; 12 of them are kept, 6 MB.
WHOLE = 256
#: Items times polynomials at a time; the polynomials of more than these are found anew for every sum.
BLOCK = 1 << 18


class Cells(NamedTuple):
    """The cells of all lists that have an item of any.

    Attributes:
        number: ``(g,)`` their numbers, in order.
        near: ``(g, 2 far + 1)`` which of them are up to ``far`` numbers below and above each; g for none.
        below: ``(g,)`` how many there are further below each.
        upto: How many there are but those further above.
    """

    number: Tensor
    near: Tensor
    below: Tensor
    upto: Tensor

    def between(self, moments: Tensor, kernel: Kernel, backwards: bool = False) -> Tensor:
        """``(b, m, g, d)`` sums of polynomials of the items j to the factors of polynomials of Σ_j w_j κ(s_j − s_i).

        Backwards, of κ(s_i − s_j).
        """
        b, m, g, d = moments.shape
        around = functional.pad(moments, (0, 0, 0, 1)).flatten(0, 1).index_select(1, self.near.view(-1))
        factors = around.view(b * m * g, -1) @ interactions(kernel, d, self.near.shape[1] // 2, backwards)
        factors = factors.view(b, m, g, d)
        if kernel == "steep":
            return factors
        sums = functional.pad(moments[..., 0].cumsum(2), (1, 0))
        if backwards:
            factors[..., 0] += sums.index_select(2, self.below)
            return factors
        far = sums[..., -1:] - sums.index_select(2, self.upto)
        if kernel == "sigmoid":
            factors[..., 0] += far
            return factors
        at = self.number + 0.5
        sums = functional.pad((moments[..., 0] * at + 0.5 * moments[..., 1]).cumsum(2), (1, 0))
        factors[..., 0] += sums[..., -1:] - sums.index_select(2, self.upto) - far * at
        factors[..., 1] -= 0.5 * far
        return factors


@lru_cache(maxsize=12)
def between_all(count: int, kernel: Kernel, d: int, far: int, backwards: bool) -> Tensor:
    """`Cells.between` of so many cells that all have items, as a matrix."""
    each = torch.eye(count * d, dtype=torch.float64).view(1, -1, count, d)
    return with_items(torch.arange(count), count, far)[0].between(each, kernel, backwards).view(count * d, -1)


class Points:
    """Items of b lists in their cells.

    Args:
        cell: ``(b, k)`` the item's cell, counted through all lists.
        local: ``(b, k)`` where in its cell the item is, from −1 to 1, in the scores' dtype.
        cells: How many a list has.
        basis: ``(d, b, k)`` the polynomials there, where they are known.
    """

    def __init__(self, cell: Tensor, local: Tensor, cells: int, basis: Tensor | None = None) -> None:
        self.cell, self.local, self.cells, self.degrees = cell, local, cells, POLYNOMIALS[local.dtype]
        self.basis = basis
        if basis is None and local.numel() * self.degrees <= BLOCK:
            self.basis = polynomials(local, self.degrees)

    def take(self, positions: Tensor) -> Points:
        """The items at ``positions`` ``(b, p)``."""
        basis = self.basis
        if basis is not None:
            basis = basis.gather(2, positions.expand(len(basis), *positions.shape))
        return Points(self.cell.gather(1, positions), self.local.gather(1, positions), self.cells, basis)

    def gathered(self, mass: Tensor) -> Tensor:
        """``(b, k, m)`` masses of the items to float64 ``(b, m, g, d)``: sums of their polynomials in each cell."""
        (b, _, m), d = mass.shape, self.degrees
        table = mass.new_zeros(m * d, b * self.cells, dtype=torch.float64)
        for some, basis in self._blocks():
            moved = mass[:, some].permute(2, 0, 1).unsqueeze(1) * basis
            table.index_add_(1, self.cell[:, some].reshape(-1), moved.reshape(m * d, -1).double())
        return table.view(m, d, b, self.cells).permute(2, 0, 3, 1).contiguous()

    def read(self, factors: Tensor) -> Tensor:
        """``(b, m, g, d)`` factors of the polynomials to ``(b, k, m)`` values at the items, in the scores' dtype."""
        (b, m, _, d), values = factors.shape, []
        flat = factors.to(self.local.dtype).permute(1, 3, 0, 2).reshape(m * d, -1)
        # Items with equal scores must have equal values, bit by bit: metrics look at the differences of neighbours. A
        # sum along the degrees would add them in an order that hangs on the place.
        for some, basis in self._blocks():
            terms = flat.index_select(1, self.cell[:, some].reshape(-1)).view(m, d, b, -1).unbind(1)
            rows = basis.unbind(0)
            sums = terms[0] * rows[0]
            for term, row in zip(terms[1:], rows[1:], strict=True):
                sums.addcmul_(term, row)
            values.append(sums.permute(1, 2, 0))
        return values[0] if len(values) == 1 else torch.cat(values, 1)

    def _blocks(self) -> Iterator[tuple[slice, Tensor]]:
        """Some items of every list, and ``(d, b, k)``: the polynomials at their positions in their cells."""
        lists, items = self.local.shape
        if self.basis is not None:
            yield slice(0, items), self.basis
            return
        length = max(1, BLOCK // (lists * self.degrees))
        for start in range(0, items, length):
            some = slice(start, min(start + length, items))
            yield some, polynomials(self.local[:, some], self.degrees)


class Grid(DifferenceSums):
    """Sums over the polynomials of cells.

    Args:
        points: All items of the lists.
        positions: ``(b, p)`` positions of the queries.
        cells: Of all lists; None where empty ones are counted with them.
    """

    def __init__(self, points: Points, positions: Tensor, cells: Cells | None = None) -> None:
        self.cells, self.points = cells, points
        self.queried, self.positions = points.take(positions), positions
        self._moments: tuple[Tensor, Tensor] | None = None
        self._sums: dict[Kernel, Tensor] = {}
        self._weight: tuple[Tensor, Tensor] | None = None

    def _between(self, moments: Tensor, kernel: Kernel, backwards: bool = False) -> Tensor:
        if self.cells is not None:
            return self.cells.between(moments, kernel, backwards)
        far = FAR[self.points.local.dtype]
        matrix = between_all(moments.shape[2], kernel, moments.shape[3], far, backwards)
        return (moments.flatten(2) @ matrix).view(moments.shape)

    def sums(self, kernel: Kernel, masses: Tensor) -> Tensor:
        moments = self._gathered(masses)  # first: it forgets the sums of other masses
        if kernel not in self._sums:
            self._sums[kernel] = self.queried.read(self._between(moments, kernel))
        return self._sums[kernel]

    def weighed(self, kernel: Kernel, masses: Tensor, weights: Tensor) -> Tensor:
        """The single sums are not needed, so that all is done by cells."""
        moments = self._gathered(masses)[:, masses.shape[2] - weights.shape[2] :]
        self._weight = weights, self.queried.gathered(weights)
        return (self._between(moments, kernel) * self._weight[1]).sum()

    def gradients(self, masses: Tensor, terms: Sequence[Term]) -> Tensor:
        moments = self._gathered(masses)
        values = [self._between(self._of_queries(weights), slope, backwards=True) for slope, weights in terms]
        total = max(values, key=lambda value: value.shape[1])
        for value in values:
            if value is not total:  # the items read the sum of all terms
                total[:, total.shape[1] - value.shape[1] :] += value
        for slope in {slope for slope, _ in terms if slope not in self._sums}:
            self._sums[slope] = self.queried.read(self._between(moments, slope))
        of_queries = [added(last(self._sums[slope], weights.shape[2]) * weights) for slope, weights in terms]
        of_items = added(self.points.read(total) * last(masses, total.shape[1]))
        return of_items.scatter_add_(1, self.positions, sum(of_queries[1:], of_queries[0]).neg_())

    def _of_queries(self, weights: Tensor) -> Tensor:
        """The weights of the queries by cells."""
        cached = self._weight
        return cached[1] if cached is not None and cached[0] is weights else self.queried.gathered(weights)

    def _gathered(self, masses: Tensor) -> Tensor:
        """The items' masses by cells; those of the last call are kept."""
        if self._moments is None or self._moments[0] is not masses:
            self._sums, self._moments = {}, (masses, self.points.gathered(masses))
        return self._moments[1]


def grid_of(scores: Tensor, positions: Tensor, temperature: float) -> Grid | None:
    """The sums of ``(b, l)`` scores on a CPU, where it costs nothing to look at them; None if they need many cells."""
    lowest, highest = scores.amin(1, keepdim=True), scores.amax(1, keepdim=True)  # `aminmax` along rows is slow
    widest = float((highest.double() - lowest).max()) / temperature
    items = scores.shape[1]
    if not widest < EMPTY * items:
        return None
    offset = scores - lowest
    offset = offset if temperature == 1.0 else offset.div_(temperature)
    cell, count, cells = offset.long(), int(widest) + 2, None
    local = offset.sub_(cell).mul_(2.0).sub_(1.0)
    if count * POLYNOMIALS[scores.dtype] > WHOLE:
        number = torch.bincount(cell.view(-1), minlength=count).nonzero().squeeze(1)
        if len(number) > max(LEAST, FULL * items):
            return None
        cells, which = with_items(number, count, FAR[scores.dtype])
        cell, count = which[cell], len(number)
    if len(scores) > 1:
        cell += torch.arange(len(scores))[:, None] * count
    return Grid(Points(cell, local, count), positions, cells)


def with_items(number: Tensor, count: int, far: int) -> tuple[Cells, Tensor]:
    """Those cells, and for each of all how many of them are below it."""
    which = number.new_full((count + 2 * far,), len(number))
    which[number + far] = torch.arange(len(number))
    near = which.unfold(0, 2 * far + 1, 1)[number]
    below, upto = torch.searchsorted(number, torch.stack((number - far, number + far + 1)))
    return Cells(number, near, below, upto), which[far : far + count]


def polynomials(x: Tensor, d: int) -> Tensor:
    """``(…)`` to ``(d, …)``: Chebyshev's polynomials of degree 0 to d − 1."""
    table = x.new_empty((d, *x.shape))
    rows = table.unbind(0)
    rows[0].fill_(1.0)
    rows[1].copy_(x)
    double = 2.0 * x
    for degree in range(2, d):
        torch.mul(double, rows[degree - 1], out=rows[degree])
        rows[degree].sub_(rows[degree - 2])
    return table


@lru_cache
def interactions(kernel: Kernel, d: int, far: int, backwards: bool) -> Tensor:
    """``((2 far + 1) · d, d)``: polynomials in the cells from far below to far above, to those of κ in one cell."""
    nodes = torch.cos((torch.arange(d, dtype=torch.float64) + 0.5) * (math.pi / d))
    inverse = (2.0 / d) * polynomials(nodes, d)  # polynomials at x times this: the shares of the nodes in x
    inverse[0] *= 0.5
    gaps = 0.5 * (nodes[:, None] - nodes) + torch.arange(-far, far + 1.0, dtype=torch.float64)[:, None, None]
    return (inverse @ kernel_of(kernel, -gaps if backwards else gaps) @ inverse.T).view(-1, d)
