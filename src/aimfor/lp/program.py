"""A linear program as the user wrote it, and as solvers see it: ``min c·x, Gx <= h, Ex = f``, all sizes about one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from .. import checks
from ..errors import InputError
from .operators.base import Bounds, Operator
from .operators.dense import DenseOperator
from .operators.sparse import Csr, SparseOperator
from .operators.structured import PairOperator, PairRows

#: Bounds of this size or more mean "no bound", as in most solvers.
INFINITE = 1e20

#: The fields of a `Program` that carry numbers, in the order of `solve`'s arguments.
PARTS = ("c", "rows", "rhs", "equality_rows", "equality_rhs", "lower", "upper")


@dataclass(frozen=True)
class Program:
    """``min c·x  s.t.  A x <= b, A_eq x = b_eq, lower <= x <= upper``; every part float64, attached to the graph.

    Attributes:
        c: ``(b, v)``.
        rows: A, ``(b, m, v)``, or ``(1, m, v)`` when the batch shares it, or one sparse CSR ``(m, v)``, or the features
            of `PairRows`, ``(p + q, d)``.
        rhs: b, ``(b, m)``.
        equality_rows: A_eq, ``(b or 1, k, v)`` or CSR ``(k, v)``.
        equality_rhs: b_eq, ``(b, k)``.
        lower, upper: ``(b, v)``, infinite where there is no bound; None without any.
        shape: The batch shape of the arguments.
        dtype: What results are rounded to.
        pairs: The structure of ``rows`` when it is `PairRows`.
    """

    c: Tensor
    rows: Tensor
    rhs: Tensor
    equality_rows: Tensor
    equality_rhs: Tensor
    lower: Tensor | None
    upper: Tensor | None
    shape: torch.Size
    dtype: torch.dtype
    pairs: PairRows | None = None

    @property
    def parts(self) -> tuple[Tensor | None, ...]:
        return tuple(getattr(self, name) for name in PARTS)

    @property
    def sparse(self) -> bool:
        return is_csr(self.rows) or is_csr(self.equality_rows)

    def out(self, result: Tensor) -> Tensor:
        """``(b, …)`` in the shape and dtype of the arguments."""
        return result.reshape(self.shape + result.shape[1:]).to(self.dtype)

    def detached(self) -> Program:
        parts = zip(PARTS, self.parts, strict=True)
        loose: dict[str, Any] = {name: None if tensor is None else tensor.detach() for name, tensor in parts}
        return replace(self, **loose)


def is_csr(value: Tensor) -> bool:
    return value.layout == torch.sparse_csr


def read_program(
    c: Any, A: Any, b: Any, A_eq: Any = None, b_eq: Any = None, lower: Any = None, upper: Any = None
) -> Program:
    """The one gate of `aimfor.lp`. Raises `InputError`; broadcasts only a part without batch dimensions."""
    pairs = A if isinstance(A, PairRows) else None
    c = floating("c", c)
    if c.ndim == 0:
        raise InputError("c", "a scalar", "costs of shape (…, v)")
    v = c.shape[-1]
    if v == 0:
        raise InputError("c", "no variables", "at least one")
    A, b = _pair("A", A, "b", b, c) if pairs is None else _structured(pairs, b, A_eq, c)
    A_eq, b_eq = _pair("A_eq", A_eq, "b_eq", b_eq, c)
    lower, upper = _bound("lower", lower, c, -1.0), _bound("upper", upper, c, 1.0)
    vectors = {"c": c, "b": b, "b_eq": b_eq, "lower": lower, "upper": upper}
    matrices = {"A": A, "A_eq": A_eq}
    leads = {name: tensor.shape[:-1] for name, tensor in vectors.items() if tensor is not None}
    leads |= {name: tensor.shape[:-2] for name, tensor in matrices.items()}
    shape = max(leads.values(), key=len)
    for name, lead in leads.items():
        if lead not in (shape, torch.Size()):
            raise InputError(
                name,
                f"batch dimensions {tuple(lead)}",
                f"{tuple(shape)}, as the other arguments, or none at all",
                f"Expand it yourself: nothing of size 1 is broadcast ({name}.expand(...)).",
            )
    if lower is not None and upper is not None and bool((lower > upper).any()):
        gap = (lower - upper).detach()
        *item, variable = torch.unravel_index(gap.argmax(), gap.shape)
        where = f" at variable {int(variable)}" + (f" of item {[int(i) for i in item]}" if item else "")
        raise InputError("lower", f"a bound above upper by {float(gap.max()):g}{where}", "lower <= upper everywhere")
    dtype = c.dtype
    for tensor in (*vectors.values(), *matrices.values()):
        dtype = dtype if tensor is None else torch.promote_types(dtype, tensor.dtype)
    items = shape.numel()
    wide = {name: None if tensor is None else _flat(tensor, shape, items, 1) for name, tensor in vectors.items()}
    return Program(
        wide["c"],  # type: ignore[arg-type]
        _flat(A, shape, items, 2) if pairs is None else A.to(torch.float64),
        wide["b"],  # type: ignore[arg-type]
        _flat(A_eq, shape, items, 2),
        wide["b_eq"],  # type: ignore[arg-type]
        wide["lower"],
        wide["upper"],
        shape,
        dtype if dtype in (torch.float32, torch.float64) else torch.float32,
        pairs,
    )


def floating(name: str, value: Any, csr: bool = False) -> Tensor:
    if csr and isinstance(value, Tensor) and is_csr(value):
        if value.ndim != 2:
            raise InputError(name, f"a sparse batch of shape {tuple(value.shape)}", "one sparse matrix (m, v)")
        if value.device.type not in ("cpu", "cuda"):
            raise InputError(name, f"a sparse tensor on {value.device}", "the CPU or CUDA", f"Use {name}.to_dense().")
        checks.finite(name, value.detach().values())
        return value
    if csr and isinstance(value, Tensor) and value.layout != torch.strided:
        raise InputError(name, f"a {value.layout} tensor", "a dense or CSR tensor", f"Use {name}.to_sparse_csr().")
    dense: Tensor = checks.tensor(name, value)
    if not dense.is_floating_point():
        raise InputError(name, f"dtype {dense.dtype}", "floating point", f"Use {name}.double().")
    if dense.device.type == "mps":
        raise InputError(name, "a tensor on mps", "a device with float64", f"Use {name}.cpu().")
    if name not in ("lower", "upper"):
        checks.finite(name, dense)
    return dense


def _pair(name: str, matrix: Any, rhs_name: str, rhs: Any, c: Tensor) -> tuple[Tensor, Tensor]:
    v = c.shape[-1]
    if (matrix is None) != (rhs is None):
        raise InputError(name if matrix is None else rhs_name, "None", f"{name} and {rhs_name} together, or neither")
    if matrix is None:
        return c.new_zeros(0, v), c.new_zeros(0)
    matrix, rhs = floating(name, matrix, csr=True), floating(rhs_name, rhs)
    _on_device(name, matrix, c)
    _on_device(rhs_name, rhs, c)
    if matrix.ndim < 2 or matrix.shape[-1] != v:
        raise InputError(name, f"shape {tuple(matrix.shape)}", f"(…, m, {v}): one column per entry of c")
    if rhs.ndim < 1 or rhs.shape[-1] != matrix.shape[-2]:
        raise InputError(rhs_name, f"shape {tuple(rhs.shape)}", f"(…, {matrix.shape[-2]}): one entry per row of {name}")
    return matrix, rhs


def _structured(rows: PairRows, rhs: Any, A_eq: Any, c: Tensor) -> tuple[Tensor, Tensor]:
    features, rhs = floating("A", rows.features), floating("b", rhs)
    if A_eq is not None:
        raise InputError("A_eq", "equalities beside PairRows", "None", "Use A=rows.dense() or a CSR matrix.")
    if rows.shape[1] != c.shape[-1]:
        raise InputError("A", f"PairRows of shape {rows.shape}", f"{c.shape[-1]} columns: one per entry of c")
    if rhs.ndim < 1 or rhs.shape[-1] != rows.shape[0]:
        raise InputError("b", f"shape {tuple(rhs.shape)}", f"(…, {rows.shape[0]}): one entry per pair")
    return features, rhs


def _bound(name: str, bound: Any, c: Tensor, direction: float) -> Tensor | None:
    if bound is None:
        return None
    if isinstance(bound, (int, float)) and not isinstance(bound, bool):
        bound = torch.full_like(c.detach(), float(bound))
    bound = given = floating(name, bound)
    _on_device(name, given, c)
    if bound.ndim < 1 or bound.shape[-1] != c.shape[-1]:
        raise InputError(
            name, f"shape {tuple(bound.shape)}", f"(…, {c.shape[-1]}), one bound per variable, or a number"
        )
    wrong = bound.isnan() | (bound * direction <= -INFINITE)
    if bool(wrong.any()):
        open_end = "inf" if direction > 0 else "-inf"
        raise InputError(name, f"{float(bound[wrong][0])}", f"finite numbers, or {open_end} for no bound")
    return given


def _on_device(name: str, value: Tensor, c: Tensor) -> None:
    if value.device != c.device:
        raise InputError(name, f"a tensor on {value.device}", f"the device of c, {c.device}")


def _flat(tensor: Tensor, shape: torch.Size, items: int, core: int) -> Tensor:
    """One batch dimension, in float64. A matrix without batch dimensions is kept once, a vector is expanded."""
    tensor = tensor.to(torch.float64)
    if is_csr(tensor):
        return tensor
    size = tensor.shape[tensor.ndim - core :]
    if tensor.ndim > core or not shape:
        return tensor.reshape(items, *size)
    return tensor.unsqueeze(0) if core == 2 else tensor.expand(items, *size)


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
    unit = c.new_ones(())
    h = torch.cat(
        (
            program.rhs,
            torch.where(left, -lower[:, layout.lower], unit),
            torch.where(right, upper[:, layout.upper], unit),
        ),
        1,
    )
    runs = [tensor.numel() // c.shape[1] for tensor in (layout.lower, layout.upper) if tensor.numel()]
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
        both = (program.rows, program.equality_rows)
        rows, equality = (Csr(matrix if is_csr(matrix) else matrix[0].to_sparse_csr()) for matrix in both)
        return SparseOperator(rows, equality, bounds, pins, b)
    return DenseOperator(program.rows, program.equality_rows, bounds, pins, b)


def largest(a: Tensor) -> Tensor:
    """Largest absolute entry of each item, 0 for an empty one: ``(b, k)`` to ``(b,)``."""
    return a.abs().amax(1) if a.shape[1] else a.new_zeros(a.shape[0])


def equilibrate(program: Standard) -> tuple[Standard, Scaling]:
    """Rows and columns to a largest entry near one (Ruiz), then costs and right-hand sides to size one.

    Tolerances measured after this mean the same whatever the units, and rows of sizes 1e-6 and 1e6 live together.
    """
    operator = program.operator
    rows, equality_rows, columns = (positive(size).rsqrt() for size in operator.largest())
    scaled = operator.scaled(rows, equality_rows, columns)
    more_rows, more_equality = (positive(size).reciprocal() for size in scaled.largest()[:2])  # they end at one
    scaled = scaled.scaled(more_rows, more_equality, torch.ones_like(columns))
    rows, equality_rows = rows * more_rows, equality_rows * more_equality
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


def _typical(rhs: Tensor) -> Tensor:
    """The median size of the nonzero right-hand sides: one huge slack must not shrink all the others."""
    if not rhs.shape[1]:
        return rhs.new_ones(rhs.shape[0], 1)
    size = rhs.abs()
    middle = torch.where(size > 0, size, torch.nan).nanmedian(1, keepdim=True).values
    return torch.where(middle.isfinite(), middle, 1.0)
