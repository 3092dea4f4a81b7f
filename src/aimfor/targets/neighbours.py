"""Who is nearest to whom, exactly: by faiss where it is installed, else block by block; and how good the lists are."""

from __future__ import annotations

import importlib
import importlib.util
import re
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from ..errors import InputError

#: Similarities held at a time: 64 MB in float32.
BLOCK = 1 << 24
_NAME = re.compile(r"map@r|r_precision|recall@([1-9]\d*)")


class Nearest(NamedTuple):
    """Places ``(n, k)`` among the references, the nearest first, and their cosines.

    Example:
        >>> Nearest(torch.tensor([[1, 0]]), torch.tensor([[1.0, 0.5]])).places.tolist()
        [[1, 0]]
    """

    places: Tensor
    cosines: Tensor


def is_retrieval(metric: str) -> bool:
    """Whether a name is a metric of neighbours: map@r, r_precision, recall@1, recall@10, …"""
    return _NAME.fullmatch(metric) is not None


def depth_of(metric: str) -> int:
    """How many neighbours recall@k looks at; 1 for the others, which look as far as a class is large."""
    found = _NAME.fullmatch(metric)
    return int(found[1]) if found is not None and found[1] else 1


def nearest(queries: Tensor, references: Tensor | None, k: int, *, block: int = BLOCK) -> Nearest:
    """The k references with the largest cosine; without references, of the other queries.

    Raises:
        InputError: Vectors of another width, or fewer references than k.

    Example:
        >>> x = torch.tensor([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0]])
        >>> nearest(x, None, 1).places.reshape(-1).tolist()
        [1, 0, 1]
    """
    own = references is None
    others = functional.normalize((queries if references is None else references).float())
    asked = functional.normalize(queries.float())
    if asked.shape[1] != others.shape[1]:
        raise InputError("query", f"vectors of length {asked.shape[1]}", f"length {others.shape[1]}, as those searched")
    if k > len(others) - int(own):
        raise InputError("k", repr(k), f"at most {len(others) - int(own)}, the vectors there are to find")
    found = _by_faiss(asked, others, k + int(own)) if importlib.util.find_spec("faiss") else None
    if found is None:
        found = _by_blocks(asked, others, k + int(own), block)
    return _without_self(found, k) if own else found


def _by_blocks(asked: Tensor, others: Tensor, k: int, block: int) -> Nearest:
    parts = [
        (part @ others.t()).topk(k, dim=1) for part in asked.split(max(1, block // max(1, len(others)))) if len(part)
    ]
    if not parts:
        return Nearest(torch.zeros(0, k, dtype=torch.long), torch.zeros(0, k))
    return Nearest(torch.cat([one.indices for one in parts]), torch.cat([one.values for one in parts]))


def _by_faiss(asked: Tensor, others: Tensor, k: int) -> Nearest:
    faiss: Any = importlib.import_module("faiss")
    index = faiss.IndexFlatIP(others.shape[1])
    index.add(others.contiguous().numpy())
    cosines, places = index.search(asked.contiguous().numpy(), k)
    return Nearest(torch.from_numpy(places).long(), torch.from_numpy(cosines))


def _without_self(found: Nearest, k: int) -> Nearest:
    """Each query's own place taken out; where copies pushed it off the list, the last place goes instead."""
    mine = found.places == torch.arange(len(found.places))[:, None]
    mine[:, -1] |= ~mine.any(1)
    return Nearest(found.places[~mine].reshape(-1, k), found.cosines[~mine].reshape(-1, k))


def query_values(vectors: Tensor, labels: Tensor, depths: tuple[int, ...]) -> dict[str, Tensor]:
    """``map@r``, ``r_precision`` and ``recall@k`` of each vector's list of all others, ``(n,)`` float64; NaN without a
    positive.

    Example:
        >>> x = torch.tensor([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.1, 0.9]])
        >>> query_values(x, torch.tensor([0, 0, 1, 1]), (1,))["recall@1"].tolist()
        [1.0, 1.0, 1.0, 1.0]
    """
    sizes = labels.bincount()[labels] - 1
    found = nearest(vectors, None, max(int(sizes.max()), *depths, 1))
    hit = labels[found.places] == labels[:, None]
    place = torch.arange(1, hit.shape[1] + 1)
    inside = hit & (place <= sizes[:, None])
    share = sizes.double()
    values = {
        "map@r": (inside * (hit.cumsum(1).double() / place)).sum(1) / share,
        "r_precision": inside.sum(1).double() / share,
        **{f"recall@{k}": hit[:, :k].any(1).double() for k in depths},
    }
    return {name: torch.where(sizes > 0, one, torch.nan) for name, one in values.items()}
