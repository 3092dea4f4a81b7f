"""The one input gate: everything a user passes is checked and formatted here, and nowhere else.

Behind the gate the mathematics may assume finite float32/float64 scores in a known layout, labels in the
metric's domain, weights ≥ 0 and a boolean mask. Masked entries are not looked at: they may hold anything.

Reading a yes or no off the device costs one small synchronisation per check; `values=False` skips the checks
that need one (shapes, types and devices are always checked).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Any

import torch
from torch import Tensor

from .engine import Batch
from .errors import InputError

# ---------------------------------------------------------------- hyperparameters


def number(
    name: str,
    value: Any,
    *,
    above: float | None = None,
    at_least: float | None = None,
    below: float | None = None,
    at_most: float | None = None,
) -> float:
    """A finite real number inside the given bounds, as a float."""
    parts = []
    if above is not None:
        parts.append(f"> {above:g}")
    if at_least is not None:
        parts.append(f">= {at_least:g}")
    if below is not None:
        parts.append(f"< {below:g}")
    if at_most is not None:
        parts.append(f"<= {at_most:g}")
    expected = "a finite number" + (" " + " and ".join(parts) if parts else "")
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InputError(name, f"{value!r} of type {type(value).__name__}", expected)
    inside = (
        math.isfinite(value)
        and (above is None or value > above)
        and (at_least is None or value >= at_least)
        and (below is None or value < below)
        and (at_most is None or value <= at_most)
    )
    if not inside:
        raise InputError(name, repr(value), expected)
    return float(value)


def integer(name: str, value: Any, *, at_least: int | None = None) -> int:
    """A whole number, optionally bounded below."""
    expected = "a whole number" + (f" >= {at_least}" if at_least is not None else "")
    if isinstance(value, bool) or not isinstance(value, int):
        raise InputError(name, f"{value!r} of type {type(value).__name__}", expected)
    if at_least is not None and value < at_least:
        raise InputError(name, repr(value), expected)
    return value


def one_of(name: str, value: Any, options: Collection[Any]) -> Any:
    """One of a closed list of choices."""
    if value not in options:
        raise InputError(name, repr(value), "one of " + ", ".join(map(repr, options)))
    return value


# ---------------------------------------------------------------- tensors, one at a time


def _describe(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"a {str(value.dtype).removeprefix('torch.')} tensor of shape {tuple(value.shape)}"
    return f"a {type(value).__name__}"


def tensor(name: str, value: Any) -> Tensor:
    """A dense torch tensor; anything else is named and refused."""
    if not isinstance(value, Tensor):
        raise InputError(name, _describe(value), "a torch tensor", f"Convert it: torch.as_tensor({name}).")
    if value.layout != torch.strided:
        raise InputError(name, f"a {value.layout} tensor", "a dense tensor", f"Use {name}.to_dense().")
    return value


def floating_scores(value: Any) -> Tensor:
    """Real scores in float32 or float64 (half precision is widened: sums over pairs need the digits)."""
    scores = tensor("scores", value)
    if not scores.is_floating_point():
        raise InputError(
            "scores",
            _describe(scores),
            "real-valued scores (float16, bfloat16, float32 or float64)",
            "Pass the model's raw outputs, not decisions or class ids.",
        )
    return scores if scores.dtype in (torch.float32, torch.float64) else scores.float()


def _same_device(name: str, value: Tensor, scores: Tensor) -> None:
    if value.device != scores.device:
        raise InputError(
            name,
            f"a tensor on {value.device}",
            f"the device of scores, {scores.device}",
            f"Move it: {name}.to(scores.device).",
        )


def finite(name: str, value: Tensor) -> None:
    """No NaN and no infinity. The sum settles it in one pass: it is finite only if every term is."""
    if value.is_floating_point() and not math.isfinite(float(value.detach().sum())):
        good = torch.isfinite(value.detach())
        if not bool(good.all()):
            first = int((~good.reshape(-1)).nonzero()[0])
            worst = float(value.detach().reshape(-1)[first])
            raise InputError(
                name,
                f"{int((~good).sum())} of {good.numel()} values not finite (first: {worst} at position {first})",
                "finite values only",
                "Look for a diverged model (lower the learning rate) or missing data; mask entries with where=.",
            )


def _binary_values(targets: Tensor) -> None:
    if targets.dtype == torch.bool or torch.equal(targets * targets, targets):
        return
    found = targets.detach().unique()
    listed = ", ".join(f"{float(v):g}" for v in found[:6]) + (", …" if found.numel() > 6 else "")
    values = set(found[:3].tolist())
    if values == {-1, 1} or values == {-1.0, 1.0}:
        remedy = "For labels in {-1, 1} pass (targets > 0)."
    elif not targets.is_floating_point() or bool((targets == targets.round()).all()):
        remedy = "For class ids use a multi-class metric (auroc_ovr, auc_mu), or pass (targets == positive_class)."
    else:
        remedy = "For soft labels pass (targets > 0.5), with the confidence as weights=."
    raise InputError("targets", f"values {listed}", "0 or 1 only", remedy)


def _class_values(targets: Tensor, classes: int) -> None:
    if targets.numel() == 0:
        return
    low, high = (int(v) for v in targets.aminmax())
    if low < 0 or high >= classes:
        raise InputError(
            "targets",
            f"class ids from {low} to {high}",
            f"ids from 0 to {classes - 1}, one per column of scores",
            "Mask ignored entries with where=, or give scores one column per class.",
        )


def weights_like(weights: Any, shape: torch.Size, scores: Tensor, values: bool) -> Tensor | None:
    """Nonnegative finite weights of the given shape, in scores' dtype."""
    if weights is None:
        return None
    given = tensor("weights", weights)
    _same_device("weights", given, scores)
    if given.is_complex():
        raise InputError("weights", _describe(given), "real weights")
    given = _reshape("weights", given, shape).detach().to(scores.dtype)
    if values:
        finite("weights", given)
        if given.numel() and float(given.min()) < 0:
            raise InputError("weights", f"a negative value ({float(given.min()):g})", "weights >= 0")
    return given


def _mask_like(where: Any, shape: torch.Size, scores: Tensor) -> Tensor | None:
    if where is None:
        return None
    mask = tensor("where", where)
    _same_device("where", mask, scores)
    if mask.dtype != torch.bool:
        raise InputError("where", _describe(mask), "a bool tensor, True where an entry counts", "Use where.bool().")
    return _reshape("where", mask, shape)


def index_like(index: Any, n: int, scores: Tensor, values: bool, size: int | None = None) -> Tensor | None:
    """Positions in the data set: one whole number per example, no duplicates, within ``[0, size)``."""
    if index is None:
        return None
    given = tensor("index", index)
    _same_device("index", given, scores)
    if given.is_floating_point() or given.is_complex() or given.dtype == torch.bool:
        raise InputError("index", _describe(given), "whole numbers: the positions in the data set")
    given = _reshape("index", given, torch.Size([n])).long()
    if values and n:
        low, high = (int(v) for v in given.aminmax())
        if low < 0 or (size is not None and high >= size):
            bound = "at least 0" if size is None else f"from 0 to {size - 1}"
            raise InputError("index", f"values from {low} to {high}", f"positions {bound}")
        if given.unique().numel() != n:
            raise InputError("index", "the same position more than once", "each example at most once in a batch")
    return given


def _reshape(name: str, value: Tensor, shape: torch.Size) -> Tensor:
    """To the wanted shape when only singleton dimensions at the end (or a missing one) differ; never broadcasts."""
    if value.shape == shape:
        return value
    if _core(value.shape) != _core(shape):
        raise InputError(
            name,
            f"shape {tuple(value.shape)}",
            f"shape {tuple(shape)}, as scores",
            "Nothing is broadcast: reshape it so that each score has its own entry.",
        )
    return value.reshape(shape)


def _core(shape: torch.Size) -> tuple[int, ...]:
    """Shape without trailing singletons, so that () = (1,) = (1, 1) and (n,) = (n, 1)."""
    core = list(shape)
    while core and core[-1] == 1:
        core.pop()
    return tuple(core)


def _groups_like(groups: Any, n: int, scores: Tensor) -> Mapping[str, Tensor]:
    if groups is None:
        return {}
    if not isinstance(groups, Mapping):
        raise InputError("groups", _describe(groups), "a dict from attribute name to a tensor of group labels")
    checked = {}
    for name, labels in groups.items():
        labels = tensor(f"groups[{name!r}]", labels)
        _same_device(f"groups[{name!r}]", labels, scores)
        checked[str(name)] = _reshape(f"groups[{name!r}]", labels, torch.Size([n]))
    return checked


def _blank_masked(scores: Tensor, targets: Tensor, where: Tensor | None) -> tuple[Tensor, Tensor]:
    """Masked entries become harmless constants: whatever stood there cannot leak into value or gradient."""
    if where is None:
        return scores, targets
    return torch.where(where, scores, scores.new_zeros(())), targets.masked_fill(~where, 0)


# ---------------------------------------------------------------- whole batches, by layout


def binary(
    scores: Any,
    targets: Any,
    *,
    weights: Any = None,
    where: Any = None,
    index: Any = None,
    groups: Any = None,
    values: bool = True,
) -> Batch:
    """Layout "binary": one score and one 0/1 label per entry, flattened to ``(n,)``; ``targets`` become bool."""
    scores, targets = floating_scores(scores), tensor("targets", targets)
    _same_device("targets", targets, scores)
    if scores.ndim == 2 and scores.shape[1] != 1 and _core(targets.shape) == _core(scores.shape[:1]):
        raise InputError(
            "scores",
            f"shape {tuple(scores.shape)} with targets of shape {tuple(targets.shape)}",
            f"one score per example, ({scores.shape[0]},) or ({scores.shape[0]}, 1)",
            "For a two-column output pass scores[:, 1] - scores[:, 0]; for classes use auroc_ovr or auc_mu.",
        )
    if targets.is_complex():
        raise InputError("targets", _describe(targets), "0/1 labels")
    shape, targets = scores.shape, _reshape("targets", targets, scores.shape)
    mask, checked = _mask_like(where, shape, scores), weights_like(weights, shape, scores, False)
    scores, targets = _blank_masked(scores, targets, mask)
    if checked is not None and mask is not None:
        checked = torch.where(mask, checked, checked.new_zeros(()))
    if values:
        finite("scores", scores)
        _binary_values(targets)
        weights_like(checked, shape, scores, True)
    n = scores.numel()
    return Batch(
        scores.reshape(-1),
        targets.reshape(-1).bool(),
        None if checked is None else checked.reshape(-1),
        None if mask is None else mask.reshape(-1),
        index_like(index, n, scores, values),
        _groups_like(groups, n, scores),
    )


def multiclass(
    scores: Any,
    targets: Any,
    *,
    weights: Any = None,
    where: Any = None,
    index: Any = None,
    groups: Any = None,
    values: bool = True,
) -> Batch:
    """Layout "multiclass": ``(n, c)`` scores and ``(n,)`` class ids; more dimensions are flattened to it."""
    scores, targets = floating_scores(scores), tensor("targets", targets)
    _same_device("targets", targets, scores)
    if scores.ndim < 2 or scores.shape[1] < 2:
        raise InputError(
            "scores",
            f"shape {tuple(scores.shape)}",
            "one column per class, (n, c) with c >= 2",
            "For one score per example use a binary metric such as auroc.",
        )
    if targets.is_floating_point() or targets.is_complex() or targets.dtype == torch.bool:
        raise InputError(
            "targets", _describe(targets), "class ids as whole numbers", "For one-hot use targets.argmax(1)."
        )
    classes = scores.shape[1]
    shape = torch.Size([scores.shape[0], *scores.shape[2:]])
    targets = _reshape("targets", targets, shape).reshape(-1).long()
    scores = scores.movedim(1, -1).reshape(-1, classes)
    mask = _mask_like(where, shape, scores)
    checked = weights_like(weights, shape, scores, False)
    if mask is not None:
        mask = mask.reshape(-1)
        targets = targets.masked_fill(~mask, 0)
        scores = torch.where(mask[:, None], scores, scores.new_zeros(()))
    if checked is not None:
        checked = checked.reshape(-1)
        checked = checked if mask is None else torch.where(mask, checked, checked.new_zeros(()))
    if values:
        finite("scores", scores)
        _class_values(targets, classes)
        weights_like(checked, targets.shape, scores, True)
    n = targets.numel()
    return Batch(scores, targets, checked, mask, index_like(index, n, scores, values), _groups_like(groups, n, scores))


def masks(scores: Any, targets: Any, *, by_class: bool, index: Any = None, groups: Any = None, **rest: Any) -> Batch:
    """Layout "masks": one image per row, ``(b, l)`` with 0/1 labels, or ``(b, l, c)`` with class ids when ``by_class``.

    Comes in as ``(b, h, w)`` with ``(b, h, w)``, or ``(b, c, h, w)`` with ``(b, h, w)``.
    """
    scores = floating_scores(scores)
    least = 3 if by_class else 2
    if scores.ndim < least:
        wanted = "(b, c, h, w)" if by_class else "(b, h, w)"
        raise InputError("scores", f"shape {tuple(scores.shape)}", f"images along the first dimension, {wanted}")
    if index is not None or groups is not None:
        raise InputError("index" if index is not None else "groups", "a value", "None: masks carry no example index")
    flat = (multiclass if by_class else binary)(scores, targets, **rest)
    rows = (scores.shape[0], flat.targets.numel() // max(scores.shape[0], 1))
    return Batch(
        flat.scores.reshape(*rows, *flat.scores.shape[1:]),
        flat.targets.reshape(rows),
        None if flat.weights is None else flat.weights.reshape(rows),
        None if flat.where is None else flat.where.reshape(rows),
    )


def lists(
    scores: Any,
    targets: Any,
    *,
    weights: Any = None,
    where: Any = None,
    index: Any = None,
    groups: Any = None,
    values: bool = True,
    graded: bool = False,
) -> Batch:
    """Layout "lists": ``(b, l)`` ranked lists, or one list ``(l,)``; 0/1 labels, or relevance >= 0 when ``graded``.

    ``weights`` may have one entry per list, ``(b,)``, or (not when graded) one per item, ``(b, l)``; it comes out
    as ``(b, 1)`` or ``(b, l)``. ``targets`` come out as bool, or in scores' dtype when graded.
    """
    scores, targets = floating_scores(scores), tensor("targets", targets)
    _same_device("targets", targets, scores)
    if scores.ndim > 2:
        raise InputError("scores", f"shape {tuple(scores.shape)}", "lists as rows, (b, l), or one list, (l,)")
    if index is not None or groups is not None:
        raise InputError(
            "index" if index is not None else "groups", "a value", "None: ranked lists carry no example index"
        )
    if targets.is_complex():
        raise InputError("targets", _describe(targets), "labels or relevance grades")
    shape = scores.shape
    targets, mask = _reshape("targets", targets, shape), _mask_like(where, shape, scores)
    rows = torch.Size([1, scores.numel()]) if scores.ndim < 2 else shape
    scores, targets = scores.reshape(rows), targets.reshape(rows)
    mask = None if mask is None else mask.reshape(rows)
    scores, targets = _blank_masked(scores, targets, mask)
    checked = _list_weights(weights, rows, mask, scores, graded)
    if values:
        finite("scores", scores)
        if checked is not None:
            weights_like(checked, checked.shape, scores, True)
        if graded:
            _relevance_values(targets)
        else:
            _binary_values(targets)
    return Batch(scores, targets.to(scores.dtype) if graded else targets.bool(), checked, mask)


def _list_weights(weights: Any, rows: torch.Size, mask: Tensor | None, scores: Tensor, graded: bool) -> Tensor | None:
    if weights is None:
        return None
    weights = tensor("weights", weights)
    per_list = weights.numel() == rows[0] and (graded or rows[0] > 1) and weights.shape != rows
    if per_list:
        return weights_like(weights.reshape(-1), torch.Size([rows[0]]), scores, False).reshape(-1, 1)  # type: ignore[union-attr]
    if graded:
        raise InputError(
            "weights",
            f"shape {tuple(weights.shape)}",
            f"one weight per list, ({rows[0]},)",
            "An item's weight has no meaning in a discounted gain; put it into the relevance.",
        )
    weights = weights.reshape(rows) if weights.numel() == rows.numel() and weights.ndim <= 1 else weights
    checked = weights_like(weights, rows, scores, False)
    assert checked is not None
    return checked if mask is None else torch.where(mask, checked, checked.new_zeros(()))


def _relevance_values(targets: Tensor) -> None:
    finite("targets", targets)
    if targets.dtype != torch.bool and targets.numel() and float(targets.min()) < 0:
        raise InputError("targets", f"a negative grade ({float(targets.min()):g})", "relevance >= 0")
