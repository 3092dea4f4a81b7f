"""What `fit_ensemble` refuses, before anything is done."""

from __future__ import annotations

import torch
from torch import Tensor

from ...errors import InputError
from ...targets.objective import Objective


def check_lists(
    objective: Objective, lists: Tensor | None, y: Tensor, weights: Tensor | None, groups: Tensor | None
) -> None:
    """Raises `InputError` unless lists and objective belong together."""
    if objective.ranked != (lists is not None):
        came = "none for an objective of lists" if objective.ranked else f"some for {objective.name!r} of rows"
        raise InputError("lists", came, "lists with Objective.by_list(), and only there")
    if lists is None:
        return
    if lists.shape != y.shape or lists.dtype != torch.int64:
        raise InputError("lists", f"{lists.dtype} of shape {tuple(lists.shape)}", "one int64 list number for each row")
    if weights is not None or groups is not None:
        raise InputError("weights" if groups is None else "groups", "some with ranked lists", "none")
    if not objective.graded and len(y) and int(y.max()) > 1:
        raise InputError("y", f"grades up to {int(y.max())}", f"0 and 1 for {objective.name}", "Use (y > 0).long().")


def check_rows(
    x: Tensor, y: Tensor, weights: Tensor | None, groups: Tensor | None, outputs: int, notes: list[str]
) -> Tensor:
    """Numbers of the rows that count. Raises `InputError` before anything is done."""
    if x.ndim not in (2, 4) or x.dtype != torch.float32 or x.shape[1] == 0:
        wanted = "(n, d) float32 with at least one column, or pictures (n, c, h, w)"
        raise InputError("x", f"shape {tuple(x.shape)}, {x.dtype}", wanted)
    if not bool(x.isfinite().all()):
        raise InputError(
            "x", "values that are not finite", "an encoded matrix: missing values are filled by the encoder"
        )
    for name, part in (("y", y), ("weights", weights), ("groups", groups)):
        if part is not None and part.shape != (len(x),):
            raise InputError(name, f"shape {tuple(part.shape)}", f"({len(x)},), one for each row of x")
    last = max(2, outputs) - 1
    if y.dtype != torch.int64 or not len(y) or int(y.min()) < 0 or int(y.max()) > last:
        came = f"{y.dtype} {y.min().item()} … {y.max().item()}" if len(y) else "no rows"
        raise InputError("y", came, f"int64 class ids 0 … {last}")
    if weights is None:
        return torch.arange(len(x))
    if not bool((weights.isfinite() & (weights >= 0)).all()):
        raise InputError("weights", "negative or infinite ones", "numbers of at least 0")
    kept = (weights > 0).nonzero().reshape(-1)
    if len(kept) < len(x):
        notes.append(f"{len(x) - len(kept)} rows of weight 0 left out")
    return kept
