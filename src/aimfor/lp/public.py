"""`solve`, a differentiable linear program with a certificate; the same as a layer; and what both return."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from .. import checks
from ..engine import Status
from ..errors import InputError, SolverError
from .adjoint import Solved, value_with_envelope
from .gradients import GradientRule, VertexOrRefuse
from .operators.structured import PairRows
from .program import Layout, Program, Scaling, Standard, equilibrate, largest, positive, read_program, standard_form
from .solvers.base import INFEASIBLE, UNBOUNDED, Method, Residuals, SolverResult, firm_vertex
from .solvers.chain import Auto, solve_standard
from .solvers.interior import InteriorPoint
from .solvers.penalty import mangasarian_epsilon

#: From an equilibrated program to what was found, and how each item ended.
Rerun = Callable[[Standard], tuple[SolverResult, list[Status]]]

#: Worst first: the status of a batch is the first of these that any item has.
_SEVERITY = (Status.not_converged, Status.infeasible, Status.unbounded, Status.fallback, Status.ok)


@dataclass(frozen=True)
class LPSolution:
    """Optimum of ``min c·x, A x <= b, A_eq x = b_eq, lower <= x <= upper``, over the batch shape of the arguments.

    The duals satisfy ``c + Aᵀ dual_ineq + A_eqᵀ dual_eq − dual_lower + dual_upper = 0``, all but ``dual_eq``
    nonnegative.

    Attributes:
        x: ``(…, v)``, with the gradient rule's gradient. NaN where there is no optimum.
        value: ``(…)``, with the envelope gradient. inf where infeasible, −inf where unbounded.
        dual_ineq, dual_eq: ``(…, m)`` and ``(…, k)``, detached.
        dual_lower, dual_upper: ``(…, v)``, detached.
        residuals: Primal, dual and gap errors, ``(…)`` each, measured in the equilibrated program.
        statuses: How each item ended, in row-major order.
        iterations: ``(…)``, Newton steps.
        ray: ``(…, v)``; for an unbounded item a direction in which the objective falls for ever, zero elsewhere.
        active: ``(…, m)``, the inequalities that hold the optimum.
        unique: ``(…)``, False where the active constraints leave x or the duals some freedom (degenerate programs), or
            are so nearly parallel that they might: gradients are then one choice among several.

    For an infeasible item the duals are a Farkas certificate: they weigh the constraints into the contradiction
    ``0·x <= −1``, and its nonzero entries name the culprits.

    Example:
        >>> import torch, aimfor
        >>> solution = aimfor.lp.solve(torch.tensor([1.0, -1.0]), lower=0.0, upper=2.0)
        >>> solution.x.tolist(), solution.value.item(), solution.status.name
        ([0.0, 2.0], -2.0, 'ok')
        >>> solution.dual_lower.tolist(), solution.dual_upper.tolist()
        ([1.0, 0.0], [0.0, 1.0])
    """

    x: Tensor
    value: Tensor
    dual_ineq: Tensor
    dual_eq: Tensor
    dual_lower: Tensor
    dual_upper: Tensor
    residuals: Residuals
    statuses: tuple[Status, ...]
    iterations: Tensor
    ray: Tensor
    active: Tensor
    unique: Tensor

    @property
    def status(self) -> Status:
        """The worst status of the batch."""
        return next((status for status in _SEVERITY if status in self.statuses), Status.ok)


def assemble(
    program: Program,
    original: Standard,
    scaled: Standard,
    scaling: Scaling,
    layout: Layout,
    result: SolverResult,
    statuses: list[Status],
    rule: GradientRule,
    rerun: Rerun,
) -> LPSolution:
    point, outcome, m, k = result.point, result.outcome, layout.general, layout.equalities
    infeasible, unbounded = outcome == INFEASIBLE, outcome == UNBOUNDED
    good = ~(infeasible | unbounded)
    solved = Solved(scaled, scaling, layout, point, original, good, partial(_again, scaled, scaling, good, rerun))
    raw = scaling.primal(point.x)
    # Certificates are directions: only their proportions matter, so they keep the normalisation h·z + f·y = −1.
    shrink = torch.where(infeasible[:, None], 1.0 / (scaling.cost * scaling.size), 1.0)
    z, y = scaling.dual(point.z) * shrink, scaling.dual_equality(point.y) * shrink
    x = torch.where(good[:, None], raw, torch.nan)
    value = (program.c.detach() * x).sum(1)
    value = torch.where(infeasible, torch.inf, torch.where(unbounded, -torch.inf, value))
    lower, upper = torch.zeros_like(x), torch.zeros_like(x)
    lower.index_add_(1, layout.lower, z[:, m : m + layout.lower.numel()])
    upper.index_add_(1, layout.upper, z[:, m + layout.lower.numel() :])
    lower.index_add_(1, layout.fixed, -y[:, k:].clamp_max(0.0))
    upper.index_add_(1, layout.fixed, y[:, k:].clamp_min(0.0))
    ray = torch.where(unbounded[:, None], raw / positive(raw.abs().amax(1, keepdim=True)), 0.0)
    pins = (scaled.operator.pinned.coefficients != 0).sum(1)  # none where another item of the batch fixes a variable
    held = point.active.sum(1) + scaled.operator.equal + pins
    single = good & (held == x.shape[1])
    if bool(single.any()):
        single &= firm_vertex(scaled, point) if point.firm is None else point.firm
    shape, out = program.shape, program.out
    return LPSolution(
        out(rule.argmin(program, solved, x)),
        out(value_with_envelope(program, solved, value)),
        out(z[:, :m]),
        out(y[:, :k]),
        out(lower),
        out(upper),
        result.residuals.map(lambda error: error.reshape(shape)),
        tuple(statuses),
        result.steps.reshape(shape),
        out(ray),
        point.active[:, :m].reshape(*shape, m),
        single.reshape(shape),
    )


def at_costs(program: Standard, scaling: Scaling, rerun: Rerun, costs: Tensor) -> tuple[Tensor, list[Status], Tensor]:
    """The optima of other costs, s copies of the batch ``(s·b, v)``; how each ended; which item of the batch it is."""
    b = program.c.shape[0]
    items = torch.arange(b, device=costs.device).repeat(costs.shape[0] // b)
    copies = program if costs.shape[0] == b else program.take(items)
    with torch.no_grad():
        column = scaling.column[items]
        c = costs * column
        result, statuses = rerun(Standard(copies.operator, c / positive(largest(c)[:, None]), copies.h, copies.f))
        return result.point.x * column * scaling.size[items], statuses, items


def _again(program: Standard, scaling: Scaling, good: Tensor, rerun: Rerun, costs: Tensor) -> Tensor:
    """The optima of other costs, as `at_costs`; NaN for items that had none before."""
    x, statuses, items = at_costs(program, scaling, rerun, costs)
    for item, status in zip(items.tolist(), statuses, strict=True):
        if good[item] and status not in (Status.ok, Status.fallback):
            raise SolverError(
                f"item {item}: {status.message} at the costs that the gradient rule tries. Next: {status.remedy}."
            )
    return torch.where(good[items, None], x, torch.nan)


def solve(
    c: Tensor,
    A: Tensor | PairRows | None = None,
    b: Tensor | None = None,
    *,
    A_eq: Tensor | None = None,
    b_eq: Tensor | None = None,
    lower: Tensor | float | None = None,
    upper: Tensor | float | None = None,
    gradient: GradientRule | None = None,
    method: Method | str | None = None,
    tol: float = 1e-9,
    on_failure: str = "fallback",
) -> LPSolution:
    """Solves ``min c·x  s.t.  A x <= b, A_eq x = b_eq, lower <= x <= upper``, a batch at once.

    Computed in float64 whatever comes in, rounded to the arguments' dtype at the end. Variables are free unless
    bounded (there is no implicit ``x >= 0``).

    Args:
        c: ``(…, v)`` costs.
        A: ``(…, m, v)``, dense, or one sparse CSR matrix ``(m, v)``, or `PairRows`; None without inequalities.
        b: ``(…, m)``.
        A_eq: ``(…, k, v)``; None without equalities.
        b_eq: ``(…, k)``.
        lower: ``(…, v)`` or one number; −inf for no bound.
        upper: ``(…, v)`` or one number; inf for no bound.
        gradient: What ∂x is: `ActiveSet`, `Envelope`, `Implicit`, `Unrolled`, `BlackBox` or `Perturbed`. The default is
            `ActiveSet`, and refuses a backward pass that reaches c alone, for which its gradient is zero. The value's
            gradient is the envelope's under every rule.
        method: `InteriorPoint` (default), `Highs` or `PenaltyNewton`; ``"auto"`` takes `Highs` where it is installed
            and quicker by a measured rule, and the default elsewhere.
        tol: Largest residual that counts as solved.
        on_failure: What to do with an item that could not be certified: ``"fallback"`` hands it to HiGHS,
            ``"status"`` returns it as ``Status.not_converged``, ``"raise"`` is the fallback, then an exception if any
            item has no optimum.

    Every part has the same batch dimensions, or none; nothing of size 1 is broadcast.

    Returns:
        `LPSolution`.

    Raises:
        InputError: Wrong shapes, dtypes, devices, NaN, ``lower > upper``.
        SolverError: With ``on_failure="raise"``.

    Example:
        >>> import torch, aimfor
        >>> c = torch.tensor([-1.0, -2.0])
        >>> A = torch.tensor([[1.0, 1.0], [1.0, 3.0]])
        >>> b = torch.tensor([4.0, 6.0], requires_grad=True)
        >>> solution = aimfor.lp.solve(c, A, b, lower=0.0)
        >>> solution.x.tolist(), solution.value.item(), solution.status.name
        ([3.0, 1.0], -5.0, 'ok')
        >>> solution.value.backward()
        >>> b.grad.tolist()
        [-0.5, -0.5]
    """
    tol = checks.number("tol", tol, above=0, below=1e-2)
    checks.one_of("on_failure", on_failure, ("fallback", "status", "raise"))
    rule = VertexOrRefuse() if gradient is None else instance("gradient", gradient, GradientRule, "ActiveSet()")
    solver = read_method(method)
    program = read_program(c, A, b, A_eq, b_eq, lower, upper)
    with torch.no_grad():
        standard, layout = standard_form(program.detached())
        scaled, scaling = equilibrate(standard)
        rerun = partial(solve_standard, method=solver, tol=tol, fallback=on_failure != "status")
        result, statuses = rerun(scaled)
    if on_failure == "raise":
        raise_unless_solved(statuses)
    return assemble(program, standard, scaled, scaling, layout, result, statuses, rule, rerun)


def read_method(method: Any) -> Method:
    """The object that a method is given by."""
    if method is None:
        return InteriorPoint()
    result: Method = Auto() if method == "auto" else instance("method", method, Method, 'InteriorPoint() or "auto"')
    return result


def instance(name: str, value: Any, kind: type, example: str) -> Any:
    if not isinstance(value, kind):
        raise InputError(name, f"{value!r}", f"a {kind.__name__} object, such as {example}")
    return value


def without_optimum(statuses: list[Status]) -> dict[int, str]:
    """What to say of each item that has none."""
    bad = {i: s for i, s in enumerate(statuses) if s not in (Status.ok, Status.fallback)}
    return {i: f"{status.message}. Next: {status.remedy}." for i, status in bad.items()}


def raise_unless_solved(statuses: list[Status]) -> None:
    for item, sentence in (bad := without_optimum(statuses)).items():
        raise SolverError(f"{len(bad)} of {len(statuses)} programs have no certified optimum; item {item}: {sentence}")


def choose_epsilon(
    c: Tensor,
    A: Tensor | PairRows | None = None,
    b: Tensor | None = None,
    *,
    A_eq: Tensor | None = None,
    b_eq: Tensor | None = None,
    lower: Tensor | float | None = None,
    upper: Tensor | float | None = None,
) -> Tensor:
    """ε of the exterior penalty by Mangasarian's rule: the first at which the next smaller one gives the same dual.

    From there on the penalty's dual ``(Ay − b)₊ / ε`` is the exact least-norm dual of the equilibrated program.

    Returns:
        One ε for each item, over the batch shape; NaN where none was found (no optimum, or duals that are too large).

    Example:
        >>> import torch, aimfor
        >>> c, A, b = torch.tensor([-1.0, -2.0]), torch.tensor([[1.0, 1.0], [1.0, 3.0]]), torch.tensor([4.0, 6.0])
        >>> 0.0 < choose_epsilon(c, A, b, lower=0.0).item() <= 1.0
        True

    References:
        Mangasarian, A Newton method for linear programming, 2004.
    """
    program = read_program(c, A, b, A_eq, b_eq, lower, upper).detached()
    with torch.no_grad():
        scaled, _ = equilibrate(standard_form(program)[0])
        return mangasarian_epsilon(scaled)[0].reshape(program.shape)


PARTS = ("c", "A", "b", "A_eq", "b_eq", "lower", "upper")


class LinearProgram(nn.Module):
    """A linear program as a layer: what is given here is kept (and saved), the rest comes with each call.

    A tensor becomes a buffer, an ``nn.Parameter`` is learned.

    Args:
        gradient, method, tol, on_failure: As for `solve`.
        c, A, b, A_eq, b_eq, lower, upper: Those that all calls share, shaped as for `solve`.

    Example:
        >>> import torch, aimfor
        >>> layer = aimfor.lp.LinearProgram(A=torch.tensor([[1.0, 1.0]]), b=torch.tensor([1.0]), lower=0.0)
        >>> layer(c=torch.tensor([[-1.0, -2.0], [-3.0, -1.0]])).x.tolist()
        [[0.0, 1.0], [1.0, 0.0]]
    """

    def __init__(
        self,
        *,
        gradient: GradientRule | None = None,
        method: Method | str | None = None,
        tol: float = 1e-9,
        on_failure: str = "fallback",
        c: Tensor | None = None,
        A: Tensor | None = None,
        b: Tensor | None = None,
        A_eq: Tensor | None = None,
        b_eq: Tensor | None = None,
        lower: Tensor | float | None = None,
        upper: Tensor | float | None = None,
    ) -> None:
        super().__init__()
        self.gradient, self.tol, self.on_failure = gradient, tol, on_failure
        self.method = read_method(method)  # made once: what a method keeps between calls is kept here
        self.numbers: dict[str, float] = {}
        self._scaled: tuple[dict[str, Tensor], Standard, Scaling] | None = None
        for name, tensor in zip(PARTS, (c, A, b, A_eq, b_eq, lower, upper), strict=True):
            if tensor is None:
                continue
            if isinstance(tensor, nn.Parameter):
                self.register_parameter(name, tensor)
            elif isinstance(tensor, Tensor):
                self.register_buffer(name, tensor)
            elif isinstance(tensor, (int, float)) and not isinstance(tensor, bool):
                self.numbers[name] = float(tensor)
            else:
                raise InputError(name, f"a {type(tensor).__name__}", "a tensor, a parameter, or a number for a bound")

    def forward(
        self,
        *,
        c: Tensor | None = None,
        A: Tensor | PairRows | None = None,
        b: Tensor | None = None,
        A_eq: Tensor | None = None,
        b_eq: Tensor | None = None,
        lower: Tensor | float | None = None,
        upper: Tensor | float | None = None,
    ) -> LPSolution:
        """Solve with the kept parts and the given ones, which take precedence."""
        given: dict[str, Any] = {**self.numbers, **self._kept()}
        parts = zip(PARTS, (c, A, b, A_eq, b_eq, lower, upper), strict=True)
        given |= {name: tensor for name, tensor in parts if tensor is not None}
        if "c" not in given:
            raise InputError("c", "nothing", "costs, here or when the layer is made")
        return solve(**given, gradient=self.gradient, method=self.method, tol=self.tol, on_failure=self.on_failure)

    @torch.no_grad()
    def optima(self, costs: Tensor) -> tuple[Tensor, list[Status]]:
        """x in float64, detached, and how each item ended, for finite costs ``(s·b, v)``: s copies of the batch.

        b is what the kept parts stand for. They are checked and scaled once, and again when any of them has changed.
        """
        kept = {name: tensor.detach() for name, tensor in self._kept().items() if name != "c"}
        if self._scaled is None or not _unchanged(self._scaled[0], kept):
            c = costs.new_zeros(costs.shape[-1])
            program = read_program(c, *(kept.get(name, self.numbers.get(name)) for name in PARTS[1:]))
            copies = {name: tensor.clone() for name, tensor in kept.items()}
            self._scaled = (copies, *equilibrate(standard_form(program)[0]))
        _, scaled, scaling = self._scaled
        b = scaled.c.shape[0]
        if costs.shape[0] % b or costs.shape[-1] != scaled.c.shape[1]:
            expected = f"({b}, {scaled.c.shape[1]}) or whole copies of it, as the parts of the program"
            raise InputError("costs", f"shape {tuple(costs.shape)}", expected)
        rerun = partial(solve_standard, method=self.method, tol=self.tol, fallback=self.on_failure != "status")
        x, statuses, _ = at_costs(scaled, scaling, rerun, costs)
        if self.on_failure == "raise":
            raise_unless_solved(statuses)
        return x, statuses

    def _kept(self) -> dict[str, Tensor]:
        return {**dict(self.named_parameters()), **dict(self.named_buffers())}

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_scaled": None}

    def extra_repr(self) -> str:
        return "kept: " + (", ".join([*self.numbers, *self._kept()]) or "nothing")


def _unchanged(kept: dict[str, Tensor], parts: dict[str, Tensor]) -> bool:
    """Whether nothing has changed, by the numbers themselves: a version does not count what `.data` does."""
    return kept.keys() == parts.keys() and all(
        mine.device == tensor.device and all(map(torch.equal, _values(mine), _values(tensor)))
        for mine, tensor in zip(kept.values(), parts.values(), strict=True)
    )


def _values(tensor: Tensor) -> tuple[Tensor, ...]:
    if tensor.layout == torch.sparse_csr:
        return tensor.crow_indices(), tensor.col_indices(), tensor.values()
    return (tensor,)
