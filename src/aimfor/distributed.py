"""Ranking needs all scores: gather them from every process, with exact gradients.

Under DistributedDataParallel each process computes the loss of the joined batch. The gradient that flows back to a
process's own scores is the sum over processes, and DDP's average over processes makes it the gradient of one
process holding the whole batch. (Gathering and putting one's own slice back, as is common, is 1/world_size of it.)

Examples, lists and images are joined one after the other; one ranked list, cut among the processes, is joined to one
list again. Processes may hold different numbers of rows, even none, and lists of different lengths.
"""

from __future__ import annotations

import itertools
import math
import zlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn import functional

from .engine import Batch
from .errors import AimforError, InputError


class Processes:
    """The processes that train together: a process group, or None for all. Copies share it; pickles refuse it."""

    def __init__(self, group: Any = None) -> None:
        if group is not None and not (dist.is_available() and isinstance(group, dist.ProcessGroup)):
            raise InputError(
                "process_group",
                f"a {type(group).__name__}",
                "a torch.distributed process group that this process belongs to",
                "Make one with torch.distributed.new_group(ranks); None takes all processes.",
            )
        self.group = group

    def size(self) -> int:
        return world_size(self.group)

    def __deepcopy__(self, memo: Any) -> Processes:
        return self

    def __reduce__(self) -> Any:
        if self.group is None:
            return Processes, ()
        raise InputError(
            "process_group",
            "a loss with a process group to pickle",
            "a loss without one: a group belongs to the running job",
            "Save loss_fn.state_dict() instead.",
        )


def world_size(group: Any = None) -> int:
    """Number of processes in the group (None: all); 1 when torch.distributed is not in use."""
    return dist.get_world_size(group) if dist.is_available() and dist.is_initialized() else 1


def joined_batch(check: Callable[[], Batch], given: tuple[bool, ...], processes: Processes) -> Batch:
    """The joined batch of all processes.

    An error in one process becomes an error in all: the others would wait for it forever. So does disagreement about
    the kind of input, which a collective operation would answer with an abort.

    Args:
        check: Makes this process's own batch; may raise `AimforError`.
        given: Which optional arguments this process was called with.
        processes: Who takes part.
    """
    error, batch = None, None
    try:
        batch = check()
    except AimforError as caught:
        error = caught
    aspects = {} if batch is None else _aspects(batch, given)
    sizes = (0, 0) if batch is None else _sizes(batch)
    header = [int(error is not None), *sizes, *(zlib.crc32(repr(value).encode()) for value in aspects.values())]
    every = all_gather_numbers(header + [0] * (3 + len(_ASPECTS) - len(header)), processes)
    if error is not None:
        raise error
    assert batch is not None
    _agree(every)
    return _join(batch, [(rows, length) for _, rows, length, *_ in every], processes)


#: What all processes must agree on: (argument, what came, the next move).
_ASPECTS = {
    "given": (
        "weights, where, index",
        "different sets of optional arguments in different processes",
        "Pass weights of one, or a mask of True, where a process has nothing to say.",
    ),
    "dtype": ("scores", "different dtypes in different processes", "Convert them to one dtype."),
    "shape": (
        "scores",
        "shapes of different kinds in different processes",
        "One list, in a row or a column, is not the same as lists as rows; classes must be the same number.",
    ),
    "weights": ("weights", "a weight per list in one process and per item in another", "Use one kind everywhere."),
    "groups": ("groups", "different attributes in different processes", "Name the same attributes everywhere."),
}


def _aspects(batch: Batch, given: tuple[bool, ...]) -> dict[str, Any]:
    return {
        "given": given,
        "dtype": batch.scores.dtype,
        "shape": (batch.one_list, batch.targets.ndim, tuple(batch.scores.shape[batch.targets.ndim :])),
        "weights": _per_list(batch),
        "groups": [(name, labels.dtype) for name, labels in sorted(batch.groups.items())],
    }


def _per_list(batch: Batch) -> bool:
    weights = batch.weights
    return weights is not None and weights.ndim == 2 and weights.shape != batch.targets.shape


def _sizes(batch: Batch) -> tuple[int, int]:
    """(rows to join, length of each row), where the entries of one list are its rows."""
    if batch.one_list:
        return batch.targets.shape[1], 0
    return batch.targets.shape[0], batch.targets.shape[1] if batch.targets.ndim == 2 else 0


def _agree(every: list[list[int]]) -> None:
    refused = [rank for rank, header in enumerate(every) if header[0]]
    if refused:
        raise InputError(
            "scores",
            f"an input that process {refused[0]} refused",
            "valid input in every process",
            "Its own message says what was wrong.",
        )
    for position, (argument, came, remedy) in enumerate(_ASPECTS.values(), start=3):
        if len({header[position] for header in every}) > 1:
            raise InputError(argument, came, "the same set in every process", remedy)


def _join(batch: Batch, sizes: list[tuple[int, int]], processes: Processes) -> Batch:
    counts = [rows for rows, _ in sizes]
    if batch.one_list:
        return _join_one_list(batch, counts, processes)
    lengths = {length for _, length in sizes}
    batch = _padded(batch, max(lengths)) if len(lengths) > 1 else batch
    names = sorted(batch.groups)
    tensors = [batch.scores, batch.targets, batch.weights, batch.where, batch.index, *(batch.groups[n] for n in names)]
    scores, targets, weights, where, index, *groups = gather(tensors, counts, processes)
    assert scores is not None
    assert targets is not None
    labels = {name: tensor for name, tensor in zip(names, groups, strict=True) if tensor is not None}
    return Batch(scores, targets, weights, where, index, labels, joined=True, pixels=batch.pixels)


def _join_one_list(batch: Batch, counts: list[int], processes: Processes) -> Batch:
    """Entry by entry."""
    per_list = _per_list(batch)
    tensors = [batch.scores, batch.targets, None if per_list else batch.weights, batch.where]
    rows = gather([None if tensor is None else tensor[0] for tensor in tensors], counts, processes)
    scores, targets, weights, where = (None if tensor is None else tensor[None] for tensor in rows)
    assert scores is not None
    assert targets is not None
    if per_list:
        # All processes hold a piece of the same list: it weighs the most that any of them says.
        (every,) = gather([batch.weights], [1] * len(counts), processes)
        weights = None if every is None else every.amax(0, keepdim=True)
    return Batch(scores, targets, weights, where, one_list=True, joined=True)


def _padded(batch: Batch, longest: int) -> Batch:
    """Lists (or images) of the length of the longest anywhere; what is added does not count."""
    more = longest - batch.targets.shape[1]
    where = torch.ones_like(batch.targets, dtype=torch.bool) if batch.where is None else batch.where
    weights = batch.weights if batch.weights is None or _per_list(batch) else functional.pad(batch.weights, (0, more))
    beyond = (0,) * (2 * (batch.scores.ndim - 2))
    return replace(
        batch,
        scores=functional.pad(batch.scores, (*beyond, 0, more)),
        targets=functional.pad(batch.targets, (0, more)),
        weights=weights,
        where=functional.pad(where, (0, more)),
    )


def all_gather_numbers(numbers: list[int], processes: Processes) -> list[list[int]]:
    """Every process's numbers, in rank order."""
    backend = dist.get_backend(processes.group)
    device = torch.device("cuda", torch.cuda.current_device()) if backend == "nccl" else torch.device("cpu")
    own = torch.tensor(numbers, dtype=torch.int64, device=device)
    every = [torch.empty_like(own) for _ in range(processes.size())]
    dist.all_gather(every, own, group=processes.group)
    return [numbers.tolist() for numbers in every]


class _Gather(torch.autograd.Function):
    """Rows of all processes; backward sums the gradients of the first part over processes and returns the own slice."""

    @staticmethod
    def forward(ctx: Any, counts: list[int], group: Any, *tensors: Tensor) -> tuple[Tensor, ...]:
        ctx.rank, ctx.counts, ctx.group = dist.get_rank(group), counts, group
        joined = _exchange(tensors, counts, group)
        ctx.mark_non_differentiable(*joined[1:])
        return tuple(joined)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        total = grads[0].contiguous().clone()
        dist.all_reduce(total, group=ctx.group)
        start = sum(ctx.counts[: ctx.rank])
        own = total[start : start + ctx.counts[ctx.rank]]
        return (None, None, own, *(None for _ in grads[1:]))


def _exchange(tensors: tuple[Tensor, ...], counts: list[int], group: Any) -> list[Tensor]:
    """All parts in one collective, as bytes: each has its place, with room for as many rows as any process holds."""
    longest, rank = max(counts), dist.get_rank(group)
    widths = [math.prod(tensor.shape[1:]) * tensor.element_size() for tensor in tensors]
    ends = list(itertools.accumulate(-(-longest * width // 8) * 8 for width in widths))  # places that any type may use
    starts = [0, *ends[:-1]]
    own = torch.zeros(ends[-1], dtype=torch.uint8, device=tensors[0].device)
    for tensor, start, width in zip(tensors, starts, widths, strict=True):
        own[start : start + counts[rank] * width] = tensor.detach().contiguous().view(-1).view(torch.uint8)
    every = [torch.empty_like(own) for _ in counts]
    dist.all_gather(every, own, group=group)
    joined = []
    for tensor, start, width in zip(tensors, starts, widths, strict=True):
        pieces = [received[start : start + count * width] for received, count in zip(every, counts, strict=True)]
        joined.append(torch.cat(pieces).view(tensor.dtype).view(sum(counts), *tensor.shape[1:]))
    return joined


def gather(tensors: Sequence[Tensor | None], counts: list[int], processes: Processes) -> list[Tensor | None]:
    """Rows of all processes, in rank order; ``counts`` is how many each of them holds, and None stays None.

    Gradients flow to the first part alone.
    """
    joined = iter(_Gather.apply(counts, processes.group, *(tensor for tensor in tensors if tensor is not None)))
    return [None if tensor is None else next(joined) for tensor in tensors]
