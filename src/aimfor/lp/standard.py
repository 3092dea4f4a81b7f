"""The program as solvers see it: ``min c·x, Gx <= h, Ex = f``, equilibrated so that all sizes are about one."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ..errors import InputError
from .operators.base import Bounds, Operator
from .operators.dense import DenseOperator
from .operators.sparse import Csr, SparseOperator
from .operators.structured import PairOperator
from .problem import INFINITE, Program, is_csr


@dataclass(frozen=True)
class Standard:
    """``min c·x`` with ``Gx <= h`` and ``Ex = f``, b programs at once."""

    operator: Operator
    c: Tensor
    h: Tensor
    f: Tensor

    def take(self, items: Tensor) -> Standard:
        return Standard(self.operator.take(items), self.c[items], self.h[items], self.f[items])


@dataclass(frozen=True)
class Layout:
    """Where the user's rows and bounds stand in G and E.

    G holds the general rows, then one row per column in ``lower``, then one per column in ``upper``. E holds the
    equality rows, then one row per column in ``fixed``: a variable whose bounds coincide is an equality, because two
    opposite inequalities would leave the feasible set without an inside.
    """

    general: int
    equalities: int
    lower: Tensor
    upper: Tensor
    fixed: Tensor


@dataclass(frozen=True)
class Scaling:
    """How the equilibrated program (hatted) comes from the original: ``Ĝ = R G C``, ``ĉ = C c / γ``, ``ĥ = R h / σ``.

    Attributes:
        row: R, ``(b, inequalities)``.
        equality_row: The same for E, ``(b, equalities)``.
        column: C, ``(b, v)``.
        cost: γ, ``(b, 1)``.
        size: σ, ``(b, 1)``.
    """

    row: Tensor
    equality_row: Tensor
    column: Tensor
    cost: Tensor
    size: Tensor

    def primal(self, x: Tensor) -> Tensor:
        """x̂ to x."""
        return x * self.column * self.size

    def dual(self, z: Tensor) -> Tensor:
        """ẑ to z."""
        return z * self.row * self.cost

    def dual_equality(self, y: Tensor) -> Tensor:
        """ŷ to y."""
        return y * self.equality_row * self.cost


def standard_form(program: Program) -> tuple[Standard, Layout]:
    """Bounds become rows of one entry, fixed variables become equalities. Expects a detached program."""
    c, none = program.c, torch.zeros(0, dtype=torch.int64, device=program.c.device)
    lower = torch.full_like(c, -torch.inf) if program.lower is None else program.lower
    upper = torch.full_like(c, torch.inf) if program.upper is None else program.upper
    equal = (lower == upper) & (lower.abs() < INFINITE)
    has_lower, has_upper = (lower > -INFINITE) & ~equal, (upper < INFINITE) & ~equal
    layout = Layout(
        program.rhs.shape[1],
        program.equality_rhs.shape[1],
        _any(has_lower) if program.lower is not None else none,
        _any(has_upper) if program.upper is not None else none,
        _any(equal),
    )
    left, right = has_lower[:, layout.lower], has_upper[:, layout.upper]
    # Where an item of the batch lacks a bound that another has, its row reads 0·x <= 1.
    one = c.new_ones(())
    h = torch.cat(
        (
            program.rhs,
            torch.where(left, -lower[:, layout.lower], one),
            torch.where(right, upper[:, layout.upper], one),
        ),
        1,
    )
    runs = [part.numel() // c.shape[1] for part in (layout.lower, layout.upper) if part.numel()]
    columns, signs = torch.cat((layout.lower, layout.upper)), torch.cat((-left.to(c.dtype), right.to(c.dtype)), 1)
    bounds = Bounds(columns, signs, sum(runs) if all(runs) else 0)
    pinned = equal[:, layout.fixed]
    f = torch.cat((program.equality_rhs, torch.where(pinned, lower[:, layout.fixed], 0.0)), 1)
    return Standard(_operator(program, bounds, layout, pinned), c, h, f), layout


def _any(mask: Tensor) -> Tensor:
    return mask.any(0).nonzero().squeeze(1)


def _operator(program: Program, bounds: Bounds, layout: Layout, pinned: Tensor) -> Operator:
    b = program.c.shape[0]
    pins = Bounds(layout.fixed, pinned.to(program.c.dtype))
    if program.pairs is not None:
        if layout.fixed.numel():
            raise InputError("lower", "a bound equal to upper beside PairRows", "lower < upper")
        return PairOperator(program.rows, program.pairs.positives, bounds, b)
    if program.sparse:  # A or A_eq is CSR; the other may be one dense matrix
        rows, equality = (
            Csr(part if is_csr(part) else part[0].to_sparse_csr()) for part in (program.rows, program.equality_rows)
        )
        return SparseOperator(rows, equality, bounds, pins, b)
    return DenseOperator(program.rows, program.equality_rows, bounds, pins, b)


def largest(a: Tensor) -> Tensor:
    """Largest absolute entry of each item, 0 for an empty one: ``(b, k)`` to ``(b,)``."""
    return a.abs().amax(1) if a.shape[1] else a.new_zeros(a.shape[0])


def equilibrate(program: Standard, passes: int = 2) -> tuple[Standard, Scaling]:
    """Rows and columns to a largest entry near one (Ruiz), then costs and right-hand sides to size one.

    Tolerances measured after this mean the same whatever the units, and rows of sizes 1e-6 and 1e6 live together.
    """
    operator = program.operator
    rows, equality_rows, columns = (_root(size) for size in operator.largest())
    scaled = operator.scaled(rows, equality_rows, columns)
    for step in range(1, passes):
        sizes = scaled.largest()
        last = step == passes - 1
        more_rows, more_equality, more_columns = (_root(size) for size in sizes)
        if last:  # rows end at exactly one
            more_columns = torch.ones_like(more_columns)
            more_rows, more_equality = more_rows.square(), more_equality.square()
        scaled = scaled.scaled(more_rows, more_equality, more_columns)
        rows, equality_rows, columns = rows * more_rows, equality_rows * more_equality, columns * more_columns
    b, bound_columns = program.c.shape[0], operator.bounds.columns
    columns = columns.expand(b, -1)
    bound_rows = torch.where(operator.bounds.coefficients != 0, 1.0 / columns[:, bound_columns], 1.0)
    rows = torch.cat((rows.expand(b, -1), bound_rows), 1)
    equality_rows = equality_rows.expand(b, -1)
    c, h, f = program.c * columns, program.h * rows, program.f * equality_rows
    cost, size = positive(largest(c)[:, None]), _typical(torch.cat((h, f), 1))
    return Standard(scaled, c / cost, h / size, f / size), Scaling(rows, equality_rows, columns, cost, size)


def positive(size: Tensor) -> Tensor:
    """The size itself, and 1 for zero: a divisor that is always safe."""
    return torch.where(size > 0, size, 1.0)


def _root(size: Tensor) -> Tensor:
    """1/√size, and 1 for an empty row or column."""
    return positive(size).rsqrt()


def _typical(rhs: Tensor) -> Tensor:
    """The median size of the nonzero right-hand sides: one huge slack must not shrink all the others."""
    if not rhs.shape[1]:
        return rhs.new_ones(rhs.shape[0], 1)
    size = rhs.abs()
    middle = torch.where(size > 0, size, torch.nan).nanmedian(1, keepdim=True).values
    return torch.where(middle.isfinite(), middle, 1.0)
