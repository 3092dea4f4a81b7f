"""A linear program as the user wrote it: checked, in float64, one flat batch dimension."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from .. import checks
from ..errors import InputError
from .operators.structured import PairRows

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

    def detached(self) -> Program:
        parts: dict[str, Any] = {name: getattr(self, name) for name in PARTS}
        loose: dict[str, Any] = {name: None if part is None else part.detach() for name, part in parts.items()}
        return replace(self, **loose)


def is_csr(value: Tensor) -> bool:
    return value.layout == torch.sparse_csr


def read_program(
    c: Any, A: Any, b: Any, A_eq: Any = None, b_eq: Any = None, lower: Any = None, upper: Any = None
) -> Program:
    """The one gate of `aimfor.lp`. Raises `InputError`; broadcasts only a part without batch dimensions."""
    pairs = A if isinstance(A, PairRows) else None
    c = _floating("c", c)
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
    leads = {name: part.shape[:-1] for name, part in vectors.items() if part is not None}
    leads |= {name: part.shape[:-2] for name, part in matrices.items()}
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
    for part in (*vectors.values(), *matrices.values()):
        dtype = dtype if part is None else torch.promote_types(dtype, part.dtype)
    items = shape.numel()
    wide = {name: None if part is None else _flat(part, shape, items, 1) for name, part in vectors.items()}
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


def _floating(name: str, value: Any, csr: bool = False) -> Tensor:
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
    matrix, rhs = _floating(name, matrix, csr=True), _floating(rhs_name, rhs)
    _on_device(name, matrix, c)
    _on_device(rhs_name, rhs, c)
    if matrix.ndim < 2 or matrix.shape[-1] != v:
        raise InputError(name, f"shape {tuple(matrix.shape)}", f"(…, m, {v}): one column per entry of c")
    if rhs.ndim < 1 or rhs.shape[-1] != matrix.shape[-2]:
        raise InputError(rhs_name, f"shape {tuple(rhs.shape)}", f"(…, {matrix.shape[-2]}): one entry per row of {name}")
    return matrix, rhs


def _structured(rows: PairRows, rhs: Any, A_eq: Any, c: Tensor) -> tuple[Tensor, Tensor]:
    features, rhs = _floating("A", rows.features), _floating("b", rhs)
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
    bound = given = _floating(name, bound)
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


def _flat(part: Tensor, shape: torch.Size, items: int, core: int) -> Tensor:
    """One batch dimension, in float64. A matrix without batch dimensions is kept once, a vector is expanded."""
    part = part.to(torch.float64)
    if is_csr(part):
        return part
    size = part.shape[part.ndim - core :]
    if part.ndim > core or not shape:
        return part.reshape(items, *size)
    return part.unsqueeze(0) if core == 2 else part.expand(items, *size)
