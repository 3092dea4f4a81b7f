"""What happened in each epoch, kept with the state and drawn on request."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import InputError, SolverError
from .bound import Surrogate, bound_from_scores, f_beta
from .duals import Duals

#: What a row holds; the meaning of each stands in `History`.
COLUMNS = (
    *("epoch", "sum_tau", "epsilon", "mu", "lambda_min", "lambda_max", "cap_violation", "margin_violation"),
    *("value", "bound", "f_beta", "dual_step", "projections"),
)


class History(nn.Module):
    """One row per epoch, as a buffer; indexing by a column's name gives a list over the epochs.

    With several groups a row holds means over the programs.

    =====================  ============================================================================
    ``sum_tau``            Στ, which should be 1
    ``epsilon``, ``mu``    n·ε and μ; at the optimum −μ is the program's value
    ``lambda_min/_max``    range of the multipliers, ≥ 0
    ``cap_violation``      mean of n(τ_i − ε)₊ as the epoch ended, before the projection
    ``margin_violation``   mean of (n·τ_i − score_i)₊
    ``value``              V at the current variables: β²nε + (1/n)Σφ
    ``bound``, ``f_beta``  what the last scores certify about F_β at threshold 0, and the truth
    ``dual_step``          size of the dual step taken, 0 if none
    ``projections``        how many so far
    =====================  ============================================================================

    ``seconds`` is the time spent in projections per epoch since this object was made; it is not saved.

    Example:
        >>> import torch, aimfor
        >>> engine = aimfor.LagrangianEngine(torch.tensor([1, 0]))
        >>> engine.end_epoch(torch.tensor([1.0, -1.0]))
        >>> engine.history["epoch"], engine.history.last()["f_beta"]
        ([1.0], 1.0)
    """

    rows: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("rows", torch.zeros(0, len(COLUMNS)))
        self.seconds: list[float] = []

    def append(self, row: Mapping[str, float], seconds: float) -> None:
        fresh = self.rows.new_tensor([[row[name] for name in COLUMNS]])
        self.rows = torch.cat((self.rows, fresh))
        self.seconds.append(seconds)

    def __getitem__(self, name: str) -> list[float]:
        if name not in COLUMNS:
            raise InputError("name", repr(name), "one of " + ", ".join(COLUMNS))
        column: list[float] = self.rows[:, COLUMNS.index(name)].tolist()
        return column

    def __len__(self) -> int:
        return self.rows.shape[0]

    def last(self) -> dict[str, float]:
        """The latest row by name; empty before the first epoch has ended."""
        return dict(zip(COLUMNS, self.rows[-1].tolist(), strict=True)) if len(self) else {}

    def plot(self, path: str | Path) -> Path:
        """Four panels over the epochs (Στ, violations, bound and truth, projections), written to ``path``.

        Raises:
            SolverError: matplotlib is not installed.
        """
        try:
            from matplotlib.figure import Figure
        except ImportError:
            raise SolverError("History.plot needs matplotlib: pip install matplotlib") from None
        panels = (
            ("Στ (should be 1)", ("sum_tau",)),
            ("violations", ("cap_violation", "margin_violation")),
            ("F_β", ("bound", "f_beta")),
            ("projections so far", ("projections",)),
        )
        figure = Figure(figsize=(10, 6), layout="constrained")
        for axes, (title, names) in zip(figure.subplots(2, 2).flat, panels, strict=True):
            for name in names:
                axes.plot(self["epoch"], self[name], label=name)
            axes.set_title(title)
            axes.set_xlabel("epoch")
            axes.legend()
        figure.savefig(path)
        return Path(path)

    def _load_from_state_dict(self, state_dict: Mapping[str, Any], prefix: str, *rest: Any) -> None:
        saved = state_dict.get(prefix + "rows")
        if saved is not None:  # as many rows as were saved
            self.rows = torch.empty_like(saved, device=self.rows.device)
        super()._load_from_state_dict(state_dict, prefix, *rest)


@torch.no_grad()
def diagnose(duals: Duals, beta: float, surrogate: Surrogate) -> dict[str, float]:
    """The figures of one program from its variables and the last scores seen."""
    up, down = duals.where_positive, duals.where_negative
    up, down = up[duals.seen[up]], down[duals.seen[down]]
    scores = torch.cat((duals.scores[up], duals.scores[down]))
    positive = torch.arange(scores.numel(), device=scores.device) < up.numel()
    tau, epsilon = duals.tau, duals.epsilon
    gap = (tau[duals.slot[up]] - duals.scores[up]).clamp_min(0.0)
    cost = surrogate(duals.scores[down], epsilon)[0].sum() / duals.positives
    return {
        "sum_tau": float(tau.mean()),
        "epsilon": float(epsilon),
        "mu": float(duals.mu),
        "lambda_min": float(duals.lam.min()),
        "lambda_max": float(duals.lam.max()),
        "cap_violation": float((tau - epsilon).clamp_min(0.0).mean()),
        "margin_violation": float(gap.mean()) if gap.numel() else 0.0,
        "value": beta * beta * float(epsilon) + float(cost),
        "bound": float(bound_from_scores(scores, positive, beta).bound),
        "f_beta": f_beta(scores, positive, beta),
    }
