"""Sums over all differences of scores in O(l) instead of O(p l): a one-dimensional multipole method.

The nearest pole of the sigmoid, its slope and softplus is π away, so that on cells of scores each side of
``κ(s_j − s_i)`` can be interpolated at d Chebyshev points: masses are moved to the points of their cell, the points are
summed against each other, and every item reads its answer off the points of its own cell. On a cell of width r the
error falls as ρ^−d with ``ρ = 2π/r + √(1 + (2π/r)²)``: 12.6 for r = 1, 2 for r = 8. Scores that lie close together are
one cell, for which all this is a few products of matrices; others are cells of width 1. There are so many points that
the error is that of the dtype.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache

import torch
from torch import Tensor

from .sums import DifferenceSums, Kernel, kernel_of

#: The interpolation's error, as a share of the summed mass.
ERROR = {torch.float32: 3e-8, torch.float64: 3e-15}
#: So many points of one cell cost as much as those of several cells.
ONE_CELL = 32
#: Points of a list in all, so that their matrix stays at 8 MB.
MOST = 1024
#: Fewer differences than this are summed one by one.
FEWEST = 1 << 17
#: Items at a time; the polynomials of more than these are found anew for every sum.
BLOCK = 1 << 13


@dataclass(frozen=True)
class Cells:
    """How the scores of a list are cut into cells: ``count`` of them, each ``width`` wide, with ``points`` each."""

    count: int
    width: float
    points: int

    def kernel(self, kernel: Kernel, like: Tensor) -> Tensor:
        """Square: κ of the row's point (an item's) minus the column's (an asked item's)."""
        places = (0.5 * self.width) * interpolation(self.points)[0].to(like.device)
        apart = torch.arange(1 - self.count, self.count, device=like.device, dtype=torch.float64) * self.width
        # Cells equally far apart are alike.
        found = kernel_of(kernel, apart[:, None, None] + (places[:, None] - places))
        if self.count == 1:
            return found[0]
        ids = torch.arange(self.count, device=like.device)
        blocks = found[ids[:, None] - ids + (self.count - 1)]
        return blocks.transpose(1, 2).reshape(self.count * self.points, -1)


class Points:
    """The items of b lists as combinations of the points of their cells.

    Args:
        cells: The cells of every list.
        cell: ``(b, k)`` the item's cell, counted through all lists.
        local: ``(b, k)`` where in its cell the item is, from −1 to 1, in the scores' dtype.
    """

    def __init__(self, cells: Cells, cell: Tensor, local: Tensor) -> None:
        self.cells, self.cell, self.local = cells, cell, local

    def take(self, places: Tensor) -> Points:
        """The items at ``places`` ``(b, p)``."""
        return Points(self.cells, self.cell.gather(1, places), self.local.gather(1, places))

    def gathered(self, mass: Tensor) -> Tensor:
        """``(b, k, m)`` masses of the items to float64 ``(b, m, g · d)`` masses of the points."""
        b, _, m = mass.shape
        d, inverse = self.cells.points, interpolation(self.cells.points)[1].to(mass.device)
        table = inverse.new_zeros(b, self.cells.count, m, d)
        for some, basis in self._blocks():
            # Each block in the scores' own dtype, their sum in float64.
            if self.cells.count == 1:
                table[:, 0] += mass[:, some].mT @ basis
            else:
                part = basis.new_zeros(b * self.cells.count, m * d)
                moved = (mass[:, some, :, None] * basis[:, :, None, :]).reshape(-1, m * d)
                table += part.index_add_(0, self.cell[:, some].reshape(-1), moved).view_as(table)
        return (table @ inverse).transpose(1, 2).flatten(2)

    def read(self, values: Tensor) -> Tensor:
        """``(b, m, g · d)`` values at the points to ``(b, k, m)`` values at the items, in the scores' dtype."""
        b, m, _ = values.shape
        d, inverse = self.cells.points, interpolation(self.cells.points)[1].to(values.device)
        table = (values.reshape(b, m, -1, d) @ inverse.T).to(self.local.dtype)
        found = []
        for some, basis in self._blocks():
            if self.cells.count == 1:
                found.append(basis @ table[:, :, 0].mT)
            else:
                rows = table.transpose(1, 2).reshape(-1, m * d).index_select(0, self.cell[:, some].reshape(-1))
                found.append((rows.view(b, -1, m, d) * basis[:, :, None, :]).sum(-1))
        return found[0] if len(found) == 1 else torch.cat(found, 1)

    def _blocks(self) -> Iterator[tuple[slice, Tensor]]:
        """Some items of every list, and ``(b, k, d)``: the polynomials at their places in their cells."""
        lists, items = self.local.shape
        if lists * items <= BLOCK:
            yield slice(0, items), self._basis
            return
        length = max(1, BLOCK // lists)
        for start in range(0, items, length):
            some = slice(start, min(start + length, items))
            yield some, polynomials(self.local[:, some], self.cells.points)

    @cached_property
    def _basis(self) -> Tensor:
        return polynomials(self.local, self.cells.points)


class Grid(DifferenceSums):
    """Sums over the points of cells.

    Args:
        points: All items of the lists.
        places: ``(b, p)`` positions of the asked items.
        hits: The first mass is 0 off the asked items, which saves a pass over the others.
    """

    def __init__(self, points: Points, places: Tensor, hits: bool = False) -> None:
        self.points, self.asked, self.places, self.hits = points, points.take(places), places, hits
        self._last: tuple[Tensor, Tensor] | None = None

    def sums(self, kernel: Kernel, masses: Tensor) -> Tensor:
        return self.asked.read(self._gathered(masses) @ self.points.cells.kernel(kernel, masses))

    def gradient(self, slope: Kernel, masses: Tensor, asked: Tensor) -> Tensor:
        matrix = self.points.cells.kernel(slope, masses)
        of_asked = self.asked.read(self._gathered(masses) @ matrix).mul_(asked).sum(-1).neg_()
        values = self.asked.gathered(asked) @ matrix.T
        if self.hits and masses.shape[2] > 1:
            of_asked += masses[..., 0].gather(1, self.places) * self.asked.read(values[:, :1])[..., 0]
            masses, values = masses[..., 1:], values[:, 1:]
        of_items = self.points.read(values).mul_(masses)
        of_items = of_items[..., 0] if masses.shape[2] == 1 else of_items.sum(-1)
        return of_items.scatter_add_(1, self.places, of_asked)

    def _gathered(self, masses: Tensor) -> Tensor:
        """The items' masses at the points; those of the last call are kept."""
        if self._last is None or self._last[0] is not masses:
            if self.hits and masses.shape[2] > 1:
                first = masses[..., 0].gather(1, self.places)
                parts = self.asked.gathered(first[..., None]), self.points.gathered(masses[..., 1:])
                self._last = masses, torch.cat(parts, 1)
            else:
                self._last = masses, self.points.gathered(masses)
        return self._last[1]


def points_of(scores: Tensor, asked: int) -> Points | None:
    """``(b, l)`` scores in units of the temperature; None where summing one by one costs less."""
    if scores.numel() * asked < FEWEST or scores.device.type == "mps":
        return None
    lowest, highest = scores.aminmax(dim=1, keepdim=True)
    cells = cells_of(float((highest - lowest).max()), ERROR[scores.dtype])
    if cells is None or (cells.count * cells.points) ** 2 > 0.25 * scores.numel() * asked:
        return None
    return placed(scores - lowest, cells)


def placed(scores: Tensor, cells: Cells) -> Points:
    """``(b, l)`` scores, counted from the lowest of their list, in their cells."""
    offset = scores / cells.width
    cell = offset.long().clamp_max_(cells.count - 1)
    local = offset.sub_(cell).mul_(2.0).sub_(1.0)
    if len(scores) > 1:
        cell += torch.arange(len(scores), device=scores.device)[:, None] * cells.count
    return Points(cells, cell, local)


def cells_of(spread: float, error: float) -> Cells | None:
    """Cells for scores that lie ``spread`` apart; None if they need too many."""

    def enough(width: float) -> int:
        return math.ceil(-math.log(error) / math.asinh(2.0 * math.pi / width))

    if not spread < MOST:
        return None
    spread = max(spread, 1.0)
    if enough(spread) <= ONE_CELL:
        return Cells(1, spread, enough(spread))
    cells = Cells(int(spread) + 1, 1.0, enough(1.0))
    return cells if cells.count * cells.points <= MOST else None


def polynomials(x: Tensor, d: int) -> Tensor:
    """``(…)`` to ``(…, d)``: Chebyshev's polynomials of degree 0 to d − 1."""
    found = x.new_empty((d, *x.shape))
    rows = found.unbind(0)
    rows[0].fill_(1.0)
    rows[1].copy_(x)
    double = 2.0 * x
    for degree in range(2, d):
        torch.mul(double, rows[degree - 1], out=rows[degree])
        rows[degree].sub_(rows[degree - 2])
    return found.movedim(0, -1)


@lru_cache
def interpolation(d: int) -> tuple[Tensor, Tensor]:
    """d Chebyshev points in (−1, 1), and ``(d, d)``: polynomials at x times this are the shares of the points in x."""
    points = torch.cos((torch.arange(d, dtype=torch.float64) + 0.5) * (math.pi / d))
    inverse = (2.0 / d) * polynomials(points, d).T
    inverse[0] *= 0.5
    return points, inverse.contiguous()
