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
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from .sums import DifferenceSums, Kernel, Term, added, kernel_of, last

#: The interpolation's error, as a share of the summed mass.
ERROR = {torch.float32: 3e-8, torch.float64: 3e-15}
#: So many points of one cell cost as much as those of several cells.
ONE_CELL = 32
#: Points of a list in all, so that their matrix stays at 8 MB.
MOST = 1024
#: Fewer differences than this are summed one by one.
FEWEST = 1 << 17
#: Items times points at a time; the polynomials of more than these are found anew for every sum.
BLOCK = 1 << 18
#: Up to so many points of a list in all, their matrices are kept: 12 of them, 6 MB.
KEPT_POINTS = 256


@dataclass(frozen=True)
class Cells:
    """How the scores of a list are cut into cells: ``count`` of them, each ``width`` wide, with ``points`` each."""

    count: int
    width: float
    points: int

    def kernel(self, kernel: Kernel, device: torch.device) -> Tensor:
        """Square, for an item's polynomials as a row and an asked item's as a column: their κ, of the interpolation."""
        # The width of one cell is that batch's own. Many cells are the next batch's too, and found once.
        if self.count == 1 or self.count * self.points > KEPT_POINTS:
            return kernel_matrix(self, kernel, device)
        return _kept_kernel_matrix(self, kernel, device)


class Points:
    """The items of b lists as combinations of the points of their cells.

    Args:
        cells: The cells of every list.
        cell: ``(b, k)`` the item's cell, counted through all lists.
        local: ``(b, k)`` where in its cell the item is, from −1 to 1, in the scores' dtype.
        basis: ``(d, b, k)`` the polynomials there, where they are known.
    """

    def __init__(self, cells: Cells, cell: Tensor, local: Tensor, basis: Tensor | None = None) -> None:
        self.cells, self.cell, self.local, self._basis = cells, cell, local, basis

    def take(self, places: Tensor) -> Points:
        """The items at ``places`` ``(b, p)``."""
        basis = None
        if self.local.numel() * self.cells.points <= BLOCK:
            basis = self._whole_basis()
            basis = basis.gather(2, places.expand(len(basis), *places.shape))
        return Points(self.cells, self.cell.gather(1, places), self.local.gather(1, places), basis)

    def gathered(self, mass: Tensor) -> Tensor:
        """``(b, k, m)`` masses of the items to float64 ``(b, m, d · g)``: sums of their polynomials in each cell."""
        (b, _, m), d, count = mass.shape, self.cells.points, self.cells.count
        parts = []
        for some, basis in self._blocks():
            if count == 1:
                parts.append(torch.bmm(mass[:, some].mT, basis.permute(1, 2, 0)))
            else:
                moved = mass[:, some].permute(2, 0, 1).unsqueeze(1) * basis
                found = mass.new_zeros(m * d, b * count)
                found.index_add_(1, self.cell[:, some].reshape(-1), moved.reshape(m * d, -1))
                parts.append(found)
        # Each block in the scores' own dtype, their sum in float64.
        table = parts[0].double() if len(parts) == 1 else torch.stack(parts).sum(0, dtype=torch.float64)
        return table if count == 1 else table.view(m, d, b, count).permute(2, 0, 1, 3).reshape(b, m, -1)

    def read(self, values: Tensor) -> Tensor:
        """``(b, m, d · g)`` factors of the polynomials to ``(b, k, m)`` values at the items, in the scores' dtype."""
        (b, m, _), d, count = values.shape, self.cells.points, self.cells.count
        values = values.to(self.local.dtype)
        flat = values if count == 1 else values.view(b, m, d, count).permute(1, 2, 0, 3).reshape(m * d, -1)
        found = []
        # Items with equal scores must have equal values, bit by bit: metrics look at the differences of neighbours. A
        # sum along the degrees, and a product the other way round, would add them in an order that hangs on the place.
        for some, basis in self._blocks():
            if count == 1:
                found.append(torch.bmm(basis.permute(1, 2, 0), flat.mT))
            else:
                terms = flat.index_select(1, self.cell[:, some].reshape(-1)).view(m, d, b, -1).unbind(1)
                rows = basis.unbind(0)
                part = terms[0] * rows[0]
                for term, row in zip(terms[1:], rows[1:], strict=True):
                    part.addcmul_(term, row)
                found.append(part.permute(1, 2, 0))
        return found[0] if len(found) == 1 else torch.cat(found, 1)

    def _blocks(self) -> Iterator[tuple[slice, Tensor]]:
        """Some items of every list, and ``(d, b, k)``: the polynomials at their places in their cells."""
        lists, items = self.local.shape
        if lists * items * self.cells.points <= BLOCK:
            yield slice(0, items), self._whole_basis()
            return
        length = max(1, BLOCK // (lists * self.cells.points))
        for start in range(0, items, length):
            some = slice(start, min(start + length, items))
            yield some, polynomials(self.local[:, some], self.cells.points)

    def _whole_basis(self) -> Tensor:
        if self._basis is None:
            self._basis = polynomials(self.local, self.cells.points)
        return self._basis


class Grid(DifferenceSums):
    """Sums over the points of cells.

    Args:
        points: All items of the lists.
        places: ``(b, p)`` positions of the asked items.
        hits: The first mass is 0 off the asked items, which saves a pass over the others.
    """

    def __init__(self, points: Points, places: Tensor, hits: bool = False) -> None:
        self.points, self.asked, self.places, self.hits = points, points.take(places), places, hits
        self._moments: tuple[Tensor, Tensor] | None = None
        self._sums: dict[Kernel, Tensor] = {}
        self._weight: tuple[Tensor, Tensor] | None = None

    def sums(self, kernel: Kernel, masses: Tensor) -> Tensor:
        moments = self._gathered(masses)  # first: it forgets the sums of other masses
        if kernel not in self._sums:
            self._sums[kernel] = self.asked.read(moments @ self._kernel(kernel))
        return self._sums[kernel]

    def weighed(self, kernel: Kernel, masses: Tensor, asked: Tensor) -> Tensor:
        """Nobody asks for the single sums, so that all is done at the points."""
        moments = self._gathered(masses)[:, masses.shape[2] - asked.shape[2] :]
        self._weight = asked, self.asked.gathered(asked)
        return ((moments @ self._kernel(kernel)) * self._weight[1]).sum()

    def gradients(self, masses: Tensor, terms: Sequence[Term]) -> Tensor:
        values = [self._of_asked(asked) @ self._kernel(slope).T for slope, asked in terms]
        total = max(values, key=lambda part: part.shape[1])
        for value in values:
            if value is not total:  # the items read the sum of all terms
                total[:, total.shape[1] - value.shape[1] :] += value
        hits = self.hits and total.shape[1] == masses.shape[2] > 1
        at_asked = self._read_all(masses, [slope for slope, _ in terms], total[:, :1] if hits else None)
        parts = [added(last(self._sums[slope], asked.shape[2]) * asked) for slope, asked in terms]
        of_asked = sum(parts[1:], parts[0]).neg_()
        if at_asked is not None:
            of_asked.addcmul_(masses[..., 0].gather(1, self.places), at_asked)
            total = total[:, 1:]
        of_items = added(self.points.read(total) * last(masses, total.shape[1]))
        return of_items.scatter_add_(1, self.places, of_asked)

    def _of_asked(self, asked: Tensor) -> Tensor:
        """The weights of the asked items at the points."""
        known = self._weight
        return known[1] if known is not None and known[0] is asked else self.asked.gathered(asked)

    def _read_all(self, masses: Tensor, kernels: list[Kernel], more: Tensor | None) -> Tensor | None:
        """All sums of these kernels, and ``(b, p)`` of one row more, read at the asked items at once."""
        moments = self._gathered(masses)
        new = [kernel for kernel in kernels if kernel not in self._sums]
        tables = [moments @ self._kernel(kernel) for kernel in new] + ([] if more is None else [more])
        if not tables:
            return None
        found = self.asked.read(tables[0] if len(tables) == 1 else torch.cat(tables, 1))
        m = masses.shape[2]
        self._sums |= {kernel: found[..., at * m : (at + 1) * m] for at, kernel in enumerate(new)}
        return None if more is None else found[..., -1]

    def _kernel(self, kernel: Kernel) -> Tensor:
        return self.points.cells.kernel(kernel, self.places.device)

    def _gathered(self, masses: Tensor) -> Tensor:
        """The items' masses at the points; those of the last call are kept."""
        if self._moments is None or self._moments[0] is not masses:
            self._sums = {}
            if self.hits and masses.shape[2] > 1:
                first = masses[..., 0].gather(1, self.places)
                parts = self.asked.gathered(first[..., None]), self.points.gathered(masses[..., 1:])
                self._moments = masses, torch.cat(parts, 1)
            else:
                self._moments = masses, self.points.gathered(masses)
        return self._moments[1]


def points_of(scores: Tensor, asked: int) -> Points | None:
    """``(b, l)`` scores in units of the temperature; None where summing one by one costs less."""
    if scores.numel() * asked < FEWEST or scores.device.type == "mps":
        return None
    lowest, highest = scores.amin(1, keepdim=True), scores.amax(1, keepdim=True)  # `aminmax` along rows is slow
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
    """``(…)`` to ``(d, …)``: Chebyshev's polynomials of degree 0 to d − 1."""
    found = x.new_empty((d, *x.shape))
    rows = found.unbind(0)
    rows[0].fill_(1.0)
    rows[1].copy_(x)
    double = 2.0 * x
    for degree in range(2, d):
        torch.mul(double, rows[degree - 1], out=rows[degree])
        rows[degree].sub_(rows[degree - 2])
    return found


def kernel_matrix(cells: Cells, kernel: Kernel, device: torch.device) -> Tensor:
    """Float64: κ of all differences of points, between what takes polynomials to points and points to polynomials."""
    points, inverse = interpolation(cells.points, device)
    places = (0.5 * cells.width) * points
    gaps = places[:, None] - places
    if cells.count == 1:
        return inverse @ kernel_of(kernel, gaps) @ inverse.T
    apart = torch.arange(1 - cells.count, cells.count, device=device, dtype=torch.float64) * cells.width
    # Cells equally far apart are alike.
    found = inverse @ kernel_of(kernel, apart[:, None, None] + gaps) @ inverse.T
    ids = torch.arange(cells.count, device=device)
    blocks = found[ids[:, None] - ids + (cells.count - 1)]  # (cell, cell, degree, degree)
    return blocks.permute(2, 0, 3, 1).reshape(cells.count * cells.points, -1)


_kept_kernel_matrix = lru_cache(maxsize=12)(kernel_matrix)


@lru_cache
def interpolation(d: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """d Chebyshev points in (−1, 1), and ``(d, d)``: polynomials at x times this are the shares of the points in x."""
    points = torch.cos((torch.arange(d, dtype=torch.float64) + 0.5) * (math.pi / d))
    inverse = (2.0 / d) * polynomials(points, d)
    inverse[0] *= 0.5
    return points.to(device), inverse.to(device)
