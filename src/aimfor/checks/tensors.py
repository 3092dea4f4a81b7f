"""Tensors, one at a time: type, device, shape, values. Each refusal names the argument and the next move."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from ..errors import InputError


def describe(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"a {str(value.dtype).removeprefix('torch.')} tensor of shape {tuple(value.shape)}"
    return f"a {type(value).__name__}"


def tensor(name: str, value: Any) -> Tensor:
    """A dense torch tensor; anything else is named and refused."""
    if not isinstance(value, Tensor):
        raise InputError(name, describe(value), "a torch tensor", f"Convert it: torch.as_tensor({name}).")
    if value.layout != torch.strided:
        raise InputError(name, f"a {value.layout} tensor", "a dense tensor", f"Use {name}.to_dense().")
    return value


def floating_scores(value: Any) -> Tensor:
    """Real scores in float32 or float64 (half precision is widened: sums over pairs need the digits)."""
    scores = tensor("scores", value)
    if not scores.is_floating_point():
        raise InputError(
            "scores",
            describe(scores),
            "real-valued scores (float16, bfloat16, float32 or float64)",
            "Pass the model's raw outputs, not decisions or class ids.",
        )
    if scores.is_meta:
        raise InputError(
            "scores",
            "a tensor on the meta device, which holds no values",
            "a tensor with values: metrics depend on them",
            "Move the model to a real device before it is evaluated.",
        )
    return scores if scores.dtype in (torch.float32, torch.float64) else scores.float()


def same_device(name: str, value: Tensor, scores: Tensor) -> None:
    if value.device != scores.device:
        raise InputError(
            name,
            f"a tensor on {value.device}",
            f"the device of scores, {scores.device}",
            f"Move it: {name}.to(scores.device).",
        )


def scores_and_targets(scores: Any, targets: Any) -> tuple[Tensor, Tensor]:
    """Real scores, and targets on their device."""
    given, labels = floating_scores(scores), tensor("targets", targets)
    same_device("targets", labels, given)
    return given, labels


def extremes(value: Tensor) -> tuple[float, float]:
    """The lowest and the highest entry; `aminmax` would copy a table whose columns are contiguous."""
    low, high = (value.mT if value.ndim == 2 and not value.is_contiguous() else value).aminmax()
    return float(low), float(high)


def finite(name: str, value: Tensor, limit: float = math.inf) -> None:
    """No NaN, no infinity, and nothing beyond ``limit``. The bounds settle it in one pass: NaN goes through to them."""
    if not value.is_floating_point() or not value.numel():
        return
    value = value.detach()
    low, high = extremes(value)
    largest = max(high, -low)
    if low == low and largest <= limit and largest < math.inf:
        return
    good = torch.isfinite(value)
    if not bool(good.all()):
        first = int((~good.reshape(-1)).nonzero()[0])
        worst = float(value.reshape(-1)[first])
        raise InputError(
            name,
            f"{int((~good).sum())} of {good.numel()} values not finite (first: {worst} at position {first})",
            "finite values only",
            "Look for a diverged model (lower the learning rate) or missing data; mask entries with where=.",
        )
    raise InputError(
        name,
        f"values up to {largest:.3g} in size",
        f"values up to {limit:g}, so that losses and gradients stay in the range of the dtype",
        "Divide them by their mean: only their ratios matter."
        if name == "weights"
        else "Look for a diverged model (lower the learning rate); mask entries that do not count with where=.",
    )


#: Pairs weigh the product of two weights, metrics are divided by sums of them: both must fit float32.
LARGEST_WEIGHT, SMALLEST_WEIGHT = 1e12, 1e-12
#: The largest score that a loss takes, by dtype: squares of differences and gradients as large as these must be finite.
_LARGEST = {torch.float16: 8e3, torch.bfloat16: 1e31, torch.float32: 1e31, torch.float64: 1e100}


def largest_score(scores: Any) -> float:
    """How large a score a loss takes, given what the user passed."""
    return _LARGEST.get(scores.dtype, math.inf) if isinstance(scores, Tensor) else math.inf


#: Types of which the bounds settle whether all is 0 or 1, in one pass.
_WHOLE = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)


def binary_values(targets: Tensor) -> None:
    if targets.dtype == torch.bool or not targets.numel():
        return
    if targets.dtype in _WHOLE:
        low, high = targets.aminmax()
        if int(low) >= 0 and int(high) <= 1:
            return
    elif torch.equal(targets * targets, targets):
        return
    distinct = targets.detach().unique()
    listed = ", ".join(f"{float(v):g}" for v in distinct[:6]) + (", …" if distinct.numel() > 6 else "")
    values = set(distinct[:3].tolist())
    if values == {-1, 1} or values == {-1.0, 1.0}:
        remedy = "For labels in {-1, 1} pass (targets > 0)."
    elif float(distinct[-1]) == 255 or values == {-1, 0, 1}:
        remedy = f"To leave a label out pass ignore_index={255 if float(distinct[-1]) == 255 else -1}."
    elif not targets.is_floating_point() or bool((targets == targets.round()).all()):
        remedy = "For class ids use a multi-class metric (auroc_ovr, auc_mu), or pass (targets == positive_class)."
    else:
        remedy = "For soft labels pass (targets > 0.5), or draw them for every batch: torch.bernoulli(targets)."
    raise InputError("targets", f"values {listed}", "0 or 1 only", remedy)


def class_values(targets: Tensor, classes: int) -> None:
    if targets.numel() == 0:
        return
    low, high = (int(v) for v in targets.aminmax())
    if low < 0 or high >= classes:
        raise InputError(
            "targets",
            f"class ids from {low} to {high}",
            f"ids from 0 to {classes - 1}, one per column of scores",
            "Name a label to ignore with ignore_index=, mask entries with where=, or give scores one column per class.",
        )


def weights_like(weights: Any, shape: torch.Size, scores: Tensor, values: bool) -> Tensor | None:
    """Nonnegative finite weights of the given shape, in scores' dtype."""
    if weights is None:
        return None
    given = tensor("weights", weights)
    same_device("weights", given, scores)
    if given.is_complex():
        raise InputError("weights", describe(given), "real weights")
    given = reshape_like("weights", given, shape).detach().to(scores.dtype)
    if values:
        finite("weights", given, LARGEST_WEIGHT)
        low, high = (float(bound) for bound in given.aminmax()) if given.numel() else (0.0, 0.0)
        if low < 0:
            raise InputError("weights", f"a negative value ({low:g})", "weights >= 0")
        if 0.0 < high < SMALLEST_WEIGHT:
            raise InputError(
                "weights",
                f"values of at most {high:.3g}",
                f"zeros, or a largest weight of at least {SMALLEST_WEIGHT:g}",
                "Divide them by their mean: only their ratios matter.",
            )
    return given


def mask_like(where: Any, shape: torch.Size, scores: Tensor) -> Tensor | None:
    if where is None:
        return None
    mask = tensor("where", where)
    same_device("where", mask, scores)
    if mask.dtype != torch.bool:
        raise InputError("where", describe(mask), "a bool tensor, True where an entry counts", "Use where.bool().")
    return reshape_like("where", mask, shape)


def index_like(index: Any, n: int, scores: Tensor, values: bool, size: int | None = None) -> Tensor | None:
    """Positions in the data set: one whole number per example, no duplicates, within ``[0, size)``."""
    if index is None:
        return None
    given = tensor("index", index)
    same_device("index", given, scores)
    if given.is_floating_point() or given.is_complex() or given.dtype == torch.bool:
        raise InputError("index", describe(given), "whole numbers: the positions in the data set")
    given = reshape_like("index", given, torch.Size([n])).long()
    if values and n:
        # Read once as Python numbers: cheaper than three kernels for a batch, and one wait for the device, not three.
        listed = set(given.tolist())
        if min(listed) < 0 or (size is not None and max(listed) >= size):
            bound = "at least 0" if size is None else f"from 0 to {size - 1}"
            raise InputError("index", f"values from {min(listed)} to {max(listed)}", f"positions {bound}")
        if len(listed) != n:
            raise InputError("index", "the same position more than once", "each example at most once in a batch")
    return given


def reshape_like(name: str, value: Tensor, shape: torch.Size) -> Tensor:
    """To the wanted shape when only singleton dimensions at the end (or a missing one) differ; never broadcasts."""
    if value.shape == shape:
        return value
    if core_shape(value.shape) != core_shape(shape):
        raise InputError(
            name,
            f"shape {tuple(value.shape)}",
            f"shape {tuple(shape)}, as scores",
            "Nothing is broadcast: reshape it so that each score has its own entry.",
        )
    return value.reshape(shape)


def core_shape(shape: torch.Size) -> tuple[int, ...]:
    """Shape without trailing singletons, so that () = (1,) = (1, 1) and (n,) = (n, 1)."""
    core = list(shape)
    while core and core[-1] == 1:
        core.pop()
    return tuple(core)


def pixels_of(shape: torch.Size) -> int:
    """Entries of one example: those of a picture, for masks ``(b, h, w)``, else 1."""
    core = core_shape(shape)
    return max(1, math.prod(core[1:])) if len(core) > 2 else 1


def groups_like(groups: Any, n: int, scores: Tensor) -> Mapping[str, Tensor]:
    if groups is None:
        return {}
    if not isinstance(groups, Mapping):
        raise InputError("groups", describe(groups), "a dict from attribute name to a tensor of group labels")
    checked = {}
    for name, labels in groups.items():
        labels = tensor(f"groups[{name!r}]", labels)
        same_device(f"groups[{name!r}]", labels, scores)
        checked[str(name)] = reshape_like(f"groups[{name!r}]", labels, torch.Size([n]))
    return checked


def blank_masked(scores: Tensor, targets: Tensor, where: Tensor | None) -> tuple[Tensor, Tensor]:
    """Masked entries become harmless constants: whatever stood there cannot leak into value or gradient."""
    if where is None:
        return scores, targets
    return torch.where(where, scores, scores.new_zeros(())), targets.masked_fill(~where, 0)


def relevance_values(targets: Tensor) -> None:
    finite("targets", targets)
    if targets.dtype != torch.bool and targets.numel() and float(targets.min()) < 0:
        raise InputError("targets", f"a negative grade ({float(targets.min()):g})", "relevance >= 0")
