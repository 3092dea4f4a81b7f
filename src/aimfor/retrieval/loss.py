"""RetrievalLoss: every embedding asks for its class, and the lists of similarities are judged by the metric."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from .. import checks, distributed
from ..bank import ScoreBank
from ..engine import Batch, EngineOutput, undefined
from ..errors import InputError
from ..metrics import NDCG, AveragePrecision, HitAtK, MAPAtR, Metric, PrecisionAtK, ReciprocalRank, RPrecision
from ..smooth import HasSmooth
from ..smooth.form import Softness
from ..twice import once
from . import gate
from .evaluate import evaluate_metric

#: Similarities in one block of lists.
BLOCK = 1 << 20

NAMES: dict[str, Callable[[], Metric]] = {
    "ap": AveragePrecision,
    "map@r": MAPAtR,
    "r_precision": RPrecision,
    "mrr": ReciprocalRank,
}
NAMES_AT_K: dict[str, Callable[[int], Metric]] = {
    "recall@": HitAtK,
    "ndcg@": NDCG,
    "precision@": PrecisionAtK,
}


def retrieval_metric(name: str) -> Metric:
    """The metric of one list that a name stands for; recall@k is "a hit among the first k" (`HitAtK`)."""
    if name in NAMES:
        return NAMES[name]()
    for prefix, make in NAMES_AT_K.items():
        if isinstance(name, str) and name.startswith(prefix) and name.removeprefix(prefix).isdigit():
            return make(int(name.removeprefix(prefix)))
    raise InputError("metric", repr(name), "one of " + ", ".join([*NAMES, "recall@10", "ndcg@10", "precision@5"]))


class RetrievalLoss(nn.Module):
    """``1 − metric`` of the lists that embeddings make of each other, by soft ranks.

    Every example is a query. Its list is every other example of the batch (and of the memory), or the references that
    are given; items of its own class are the positives. Lists without a positive, or without a negative, have nothing
    to say: they are left out and counted. Memory is bounded: lists are made, ranked and forgotten in blocks.

    Args:
        metric: ``"map@r"``, ``"ap"``, ``"r_precision"``, ``"mrr"``, ``"recall@10"`` (a hit among the first 10),
            ``"ndcg@10"``, ``"precision@5"``.
        temperature: Of the soft ranks, in the unit of the similarities; > 0. Worth tuning: 0.01 to 0.1 for cosines.
        similarity: ``"cosine"`` or ``"dot"``.
        memory: Number of recent embeddings, detached, that every list is extended by (0: none); of recent references,
            where they are given. Pass ``index=``, one number for each of those, so that an example is not compared
            with its own past.
        anchor: Share in [0, 1] of softmax cross-entropy over the training classes, which sees all of them where a list
            sees those of the batch. 0.1 was better than 0 on both data sets of the evidence. Its last layer is trained
            with the network: give ``loss_fn.parameters()`` to the optimizer too.
        classes: With an anchor, the number of training classes; labels are 0 to ``classes − 1``.
        size: With an anchor, the length of an embedding.
        gather: Under ``torch.distributed``, every example asks the joined batch of all processes (training mode only,
            with exact gradients under DistributedDataParallel). False keeps every process to its own lists.
        process_group: Whose batches are joined; None is all processes.

    Shape:
        ``(embeddings (n, d), labels (n,), references (m, d), reference_labels (m,))``.

    Raises:
        InputError: NaN, zero vectors under cosine, labels that are not ids, references without labels, references
            where several processes train together; an anchor there, or one without classes and size.

    Example:
        >>> import torch, aimfor
        >>> embeddings = torch.randn(8, 16, requires_grad=True)
        >>> loss = aimfor.RetrievalLoss("map@r")(embeddings, torch.tensor([0, 0, 1, 1, 2, 2, 3, 3]))
        >>> loss.backward()

    References:
        Brown, Xie, Kalogeiton, Zisserman, Smooth-AP: smoothing the path towards large-scale image retrieval, 2020.
        Wang, Zhang, Huang, Scott, Cross-batch memory for embedding learning, 2020.
    """

    def __init__(
        self,
        metric: str = "map@r",
        *,
        temperature: float = 0.05,
        similarity: str = "cosine",
        memory: int = 0,
        anchor: float = 0.0,
        classes: int | None = None,
        size: int | None = None,
        gather: bool = True,
        process_group: Any = None,
    ) -> None:
        super().__init__()
        self.name, self.metric = metric, retrieval_metric(metric)
        self.temperature = checks.number("temperature", temperature, above=0)
        self.similarity = checks.one_of("similarity", similarity, gate.SIMILARITIES)
        remembered = checks.integer("memory", memory, at_least=0)
        self.memory = ScoreBank(remembered) if remembered else None
        self.anchor = checks.number("anchor", anchor, at_least=0, at_most=1)
        self.of_classes = _class_anchor(self.anchor, classes, size)
        self.gather = bool(checks.one_of("gather", gather, (True, False)))
        self._processes = distributed.Processes(process_group)

    def forward(
        self,
        embeddings: Tensor,
        labels: Tensor,
        references: Tensor | None = None,
        reference_labels: Tensor | None = None,
        *,
        index: Tensor | None = None,
    ) -> Tensor:
        """The loss, a scalar attached to the graph."""
        return self.detailed(embeddings, labels, references, reference_labels, index=index).loss

    def detailed(self, embeddings: Tensor, labels: Tensor, *rest: Any, index: Tensor | None = None) -> EngineOutput:
        """As `forward`, with the number of lists that counted (``lists``) and of those left out (``without``)."""
        references, reference_labels = (*rest, None, None)[:2]
        learning = self.training and torch.is_grad_enabled()
        together = self.gather and learning and self._processes.size() > 1
        if together and self.of_classes is not None:
            raise InputError(
                "anchor",
                f"{self.anchor:g}, while {self._processes.size()} processes train together",
                "0: the anchor's last layer would differ from process to process",
                "Put a last layer over the classes into the network, and add its cross-entropy to this loss.",
            )

        def check() -> tuple[gate.Queries, Batch]:
            search = gate.check(embeddings, labels, references, reference_labels, self.similarity)
            if together and not search.own:
                raise InputError(
                    "references",
                    f"some, while {self._processes.size()} processes train together",
                    "none: the lists are the joined batch of all processes",
                    "Use gather=False for lists of references of each process's own.",
                )
            given = checks.index_like(index, len(search.reference_labels), search.queries, True)
            return search, Batch(search.references, search.reference_labels, index=given)

        if together:
            batch = distributed.joined_batch(lambda: check()[1], (index is not None,), self._processes)
            search = gate.Queries(batch.scores, batch.targets, batch.scores, batch.targets, True)
        else:
            search, batch = check()
        joined, exists = search, None
        if self.memory is not None and learning:
            more, _ = self.memory.join(batch)
            joined = replace(search, references=more.scores, reference_labels=more.targets)
            exists = None if more.weights is None else more.weights > 0
        output = self._anchored(self._solve(joined, exists), embeddings, search.labels)
        if self.memory is not None and learning:
            self.memory.push(batch)
        return output

    def _anchored(self, output: EngineOutput, embeddings: Tensor, labels: Tensor) -> EngineOutput:
        """With the anchor's share; a batch whose lists say nothing still learns its classes."""
        if self.of_classes is None:
            return output
        entropy = self.of_classes(embeddings, labels).to(output.loss.dtype)
        loss = (1.0 - self.anchor) * output.loss + self.anchor * entropy
        return EngineOutput(loss, stats={**output.stats, "entropy": float(entropy.detach())})

    def _solve(self, search: gate.Queries, exists: Tensor | None) -> EngineOutput:
        lists = list_counts(search, exists)
        stats = {"lists": int(lists.sum()), "without": int((~lists).sum())}
        if not stats["lists"]:
            return undefined(search.queries, stats)
        loss = _Lists.apply(search.queries, search.references, search, exists, lists, self.metric, self.temperature)
        loss = once(loss, "the retrieval loss finds its gradient block by block.", search.queries, search.references)
        return EngineOutput(loss, stats=stats)

    def value(
        self,
        embeddings: Tensor,
        labels: Tensor,
        references: Tensor | None = None,
        reference_labels: Tensor | None = None,
    ) -> Tensor:
        """The exact metric: a float64 scalar, NaN where no list has a positive."""
        with torch.no_grad():
            search = gate.check(embeddings, labels, references, reference_labels, self.similarity)
            return evaluate_metric(self.metric, search)

    def extra_repr(self) -> str:
        memory = "" if self.memory is None else f", memory={self.memory.size}"
        anchor = f", anchor={self.anchor:g}" if self.anchor else ""
        return f"{self.name!r}, temperature={self.temperature:g}, similarity={self.similarity!r}{memory}{anchor}"


def _class_anchor(share: float, classes: int | None, size: int | None) -> ClassAnchor | None:
    if share == 0.0:
        for name, value in (("classes", classes), ("size", size)):
            if value is not None:
                raise InputError(
                    name, repr(value), "None without an anchor", "Pass anchor=0.1 as well, or leave it out."
                )
        return None
    for name, value in (("classes", classes), ("size", size)):
        if value is None:
            raise InputError(name, "None", f"a whole number, for anchor={share:g}", "Pass classes= and size=.")
    return ClassAnchor(classes, size)  # type: ignore[arg-type]


def list_counts(search: gate.Queries, exists: Tensor | None) -> Tensor:
    """``(n,)`` True where a list has both a positive and a negative."""
    present = search.reference_labels if exists is None else search.reference_labels[exists]
    classes, counts = present.unique(return_counts=True)
    at = torch.searchsorted(classes, search.labels).clamp_max(max(len(classes) - 1, 0))
    own = classes[at] == search.labels if len(classes) else None
    same = torch.zeros_like(search.labels) if own is None else torch.where(own, counts[at], 0)
    return (same - int(search.own) > 0) & (len(present) - same > 0)


def blocks_of_lists(search: gate.Queries, kept: Tensor, exists: Tensor | None, block: int) -> Any:
    """Row numbers, and for them ``(b, m)``: which references are of the same class, and which are in the list."""
    m = len(search.references)
    rows = kept.nonzero().squeeze(1)
    for some in rows.split(max(1, block // max(m, 1))):
        there = torch.ones(len(some), m, dtype=torch.bool, device=rows.device)
        if exists is not None:
            there &= exists
        if search.own:
            there[torch.arange(len(some), device=rows.device), some] = False
        yield some, search.labels[some, None] == search.reference_labels, there


class _Lists(torch.autograd.Function):
    """Mean over the lists of 1 − smooth metric; the gradient is found with it, block by block."""

    @staticmethod
    def forward(
        ctx: Any,
        queries: Tensor,
        references: Tensor,
        search: gate.Queries,
        exists: Tensor | None,
        kept: Tensor,
        metric: HasSmooth,
        temperature: float,
    ) -> Tensor:
        queries, references = queries.detach(), references.detach()
        total, of_queries, of_references = 0.0, torch.zeros_like(queries), torch.zeros_like(references)
        everyone = int(kept.sum())
        for rows, same, there in blocks_of_lists(search, kept, exists, BLOCK):
            with torch.enable_grad():
                scores = (queries[rows] @ references.t()).requires_grad_()
                batch = Batch(scores, same & there, where=there)
                loss = metric.smooth_form(batch).loss(Softness(temperature))[0]
                (slope,) = torch.autograd.grad(loss, scores)
            share = len(rows) / everyone
            total += share * float(loss.detach())
            of_queries[rows] += share * (slope @ references)
            of_references.addmm_(slope.t(), queries[rows], alpha=share)
        ctx.save_for_backward(of_queries, of_references)
        return queries.new_tensor(total)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        of_queries, of_references = ctx.saved_tensors
        return of_queries * grad, of_references * grad, None, None, None, None, None


class ClassAnchor(nn.Module):
    """A last layer over the training classes and its cross-entropy, which sees all of them, not the batch's alone.

    Args:
        classes: Number of training classes, >= 2; labels are 0 to ``classes − 1``.
        size: Length of an embedding.

    Shape:
        ``(embeddings (n, size), labels (n,))`` to a scalar.

    Raises:
        InputError: Too few classes, embeddings of another length, or a label that is no training class.

    Example:
        >>> import torch
        >>> from aimfor.retrieval import ClassAnchor
        >>> ClassAnchor(3, 4)(torch.zeros(2, 4), torch.tensor([0, 2])).shape
        torch.Size([])
    """

    def __init__(self, classes: int, size: int) -> None:
        super().__init__()
        self.layer = nn.Linear(checks.integer("size", size, at_least=1), checks.integer("classes", classes, at_least=2))

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        classes, size = self.layer.weight.shape
        if embeddings.shape[1] != size:
            raise InputError("embeddings", f"vectors of length {embeddings.shape[1]}", f"length {size}, which is size=")
        outside = (labels < 0) | (labels >= classes)
        if bool(outside.any()):
            raise InputError(
                "labels",
                f"the class {int(labels[outside][0])}",
                f"0 to {classes - 1}, the training classes (classes={classes})",
                "Number the training classes from 0: labels.unique(return_inverse=True)[1].",
            )
        # Float64 embeddings stay so; half precision is computed in the layer's.
        x = embeddings.to(torch.promote_types(embeddings.dtype, self.layer.weight.dtype))
        scores = functional.linear(x, self.layer.weight.to(x), self.layer.bias.to(x))
        return functional.cross_entropy(scores, labels)
