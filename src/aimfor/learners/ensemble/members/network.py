"""The network by cross-entropy: small perceptrons in one pass over columns and their pieces, and how networks learn.

The perceptrons share all weights but a scaling of their inputs and their last layer (TabM-mini), by the package `tabm`
(Apache 2.0 licence, 17 kB). The running mean of the weights is judged now and then on the held-out rows.

References:
    Gorishniy, Kotelnikov, Babenko, TabM: advancing tabular deep learning with parameter-efficient ensembling, 2025.
"""

from __future__ import annotations

import copy
import itertools
import math
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from ....data.components import in_blocks
from ....targets.folds import rows_of_each
from ....targets.objective import Objective
from ...networks import losses
from ...networks.loop import descend
from ...networks.losses import loss_on_logits
from ...networks.sampler import BalancedBatchSampler
from .base import Fitted, Job, Member, Rows, over, under
from .linear import Design

#: Perceptrons in one network; their mean speaks.
HEADS = 8
WIDTH, BLOCKS = 64, 2
#: Of the inputs, once for all heads: a mask for every head would cost more time than the heads.
DROPOUT = 0.1


class TabularNetwork(nn.Module):
    """``(n, width)`` rows of a `Design` to ``(n, k, outputs)`` scores of its k heads."""

    def __init__(self, width: int, outputs: int, heads: int = HEADS) -> None:
        from tabm import EnsembleView, LinearEnsemble, make_tabm_backbone

        super().__init__()
        self.dropout, self.view = nn.Dropout(DROPOUT), EnsembleView(k=heads)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the package warns about old names of torch
            self.backbone = make_tabm_backbone(
                d_in=width,
                n_blocks=BLOCKS,
                d_block=WIDTH,
                dropout=0.0,
                k=heads,
                arch_type="tabm-mini",
                start_scaling_init="normal",
                start_scaling_init_chunks=[1] * width,
            )
        self.last = LinearEnsemble(WIDTH, outputs, k=heads)

    def forward(self, inputs: Tensor) -> Tensor:
        scores: Tensor = self.last(self.backbone(self.view(self.dropout(inputs))))
        return scores


def scores_with(network: nn.Module, weights: dict[str, Tensor] | None, inputs: Tensor) -> Tensor:
    """Scores ``(n, k, outputs)`` with these weights in place of the network's own, without gradient."""
    if weights is None:
        with torch.no_grad():
            own: Tensor = network(inputs)
        return own
    chunk = 8192 if inputs.ndim == 2 else 64
    mode = network.training
    network.eval()
    with torch.no_grad():
        scores = [torch.func.functional_call(network, weights, (block,)) for block in inputs.split(chunk)]
    network.train(mode)
    return torch.cat(scores)


def together(scores: Tensor) -> Tensor:
    """What k heads ``(n, k, outputs)`` say as one: the mean of their log-odds, ``(n,)`` or ``(n, outputs)``."""
    mean = scores.mean(1)
    return mean.squeeze(1) if mean.shape[1] == 1 else mean


Weights = dict[str, Tensor]
#: From scores of a batch (b, k, outputs), the batch and its row numbers to a scalar.
LossOfBatch = Callable[[Tensor, Rows, Tensor], Tensor]


@dataclass(frozen=True)
class Schedule:
    """How long and how fast.

    Attributes:
        rate: Of AdamW.
        batch: Rows per step.
        checkpoints: At most.
        steps: Between two checkpoints.
        patience: Checkpoints without a better value before the end.
        decay: Of the running mean of the weights, which is what speaks.
        weight_decay: Of AdamW.
        cosine: The rate falls by half a cosine to a twentieth.
        balanced: Every class has the same share of a batch, as far as its rows allow.
    """

    rate: float
    batch: int
    checkpoints: int
    steps: int
    patience: int
    decay: float = 0.98
    weight_decay: float = 0.03
    cosine: bool = False
    balanced: bool = False


def train(
    network: nn.Module,
    job: Job,
    schedule: Schedule,
    loss: LossOfBatch,
    value: Callable[[Tensor], float],
) -> list[Weights]:
    """The mean weights at every checkpoint.

    Args:
        network: Trained in place.
        job: Seed and stop; its rows are those of the design, not of the table.
        schedule: How long and how fast.
        loss: Of a batch.
        value: Of what the heads together say about the held-out rows; higher is better. Only decides when to stop.
    """
    parameters = list(network.parameters())
    mean = [values.detach().clone() for values in parameters]
    optimizer = torch.optim.AdamW(parameters, lr=schedule.rate, weight_decay=schedule.weight_decay, fused=True)

    def losses() -> Iterator[Tensor]:
        for rows in _batches(job.train, schedule.batch, job.seed, schedule.balanced):
            batch = job.train.take(rows)
            yield loss(network(batch.x), batch, rows)

    kept: list[Weights] = []
    best, best_at = -math.inf, 0
    taken, last = descend(optimizer, losses(), job.stop), schedule.checkpoints * schedule.steps
    network.train()
    while len(kept) < schedule.checkpoints and len(kept) - best_at < schedule.patience:
        for step in itertools.islice(taken, schedule.steps):
            share = 1 - min(schedule.decay, (1 + step) / (10 + step))
            torch._foreach_lerp_(mean, [values.detach() for values in parameters], share)
            if schedule.cosine:
                optimizer.param_groups[0]["lr"] = schedule.rate * _cosine(step / last)
        kept.append({name: values.clone() for (name, _), values in zip(network.named_parameters(), mean, strict=True)})
        kept[-1] |= {name: values.clone() for name, values in network.named_buffers()}
        value_here = value(together(scores_with(network, kept[-1], job.held.x)))
        if value_here > best:
            best, best_at = value_here, len(kept)
    return kept


def _cosine(progress: float) -> float:
    return 0.05 + 0.95 * 0.5 * (1.0 + math.cos(math.pi * progress))


def _batches(rows: Rows, size: int, seed: int, balanced: bool = False) -> Iterator[Tensor]:
    """Shuffled passes over the rows, one after the other, without an incomplete batch; lists are kept whole."""
    n = len(rows.y)
    generator, size = torch.Generator().manual_seed(seed), min(size, n)
    if rows.lists is not None:
        yield from _batches_of_lists(rows.lists, rows.y, size, generator)
    if balanced:
        sampler = BalancedBatchSampler(rows.y, max(size, int(rows.y.max()) + 1), seed=seed)
        while True:
            yield from sampler.epoch_batches()
            sampler.set_epoch(sampler.epoch + 1)
    while True:
        order = torch.arange(n) if size == n else torch.randperm(n, generator=generator)
        yield from order[: n // size * size].split(size)


def _batches_of_lists(lists: Tensor, y: Tensor, size: int, generator: torch.Generator) -> Iterator[Tensor]:
    """Whole lists until a batch has ``size`` rows. Lists of one grade teach nothing and are left out.

    One long list may be a batch of its own. The last lists of a pass begin the next one's first batch.
    """
    informative = [rows for rows in rows_of_each(lists) if int(y[rows].min()) < int(y[rows].max())]
    held: list[Tensor] = []
    while True:
        for number in torch.randperm(len(informative), generator=generator).tolist():
            held.append(informative[number])
            if sum(len(rows) for rows in held) >= size:
                yield torch.cat(held)
                held = []


class FittedByWeights(Fitted):
    """One network with its weights at each checkpoint; a subclass knows how rows enter it and what else is stored."""

    def __init__(self, network: nn.Module, outputs: int, weights: list[Weights]) -> None:
        if len(weights) == 1:  # functional calls cost as much as the network itself does on one row
            network = copy.deepcopy(network).eval()
            network.load_state_dict(weights[0])  # raises for weights of another network
        self.network, self.outputs, self.weights = network, outputs, weights

    @property
    def checkpoints(self) -> int:
        return len(self.weights)

    def inputs(self, x: Tensor) -> Tensor:
        """Rows as the network takes them."""
        return x

    def scores(self, x: Tensor, checkpoint: int = -1) -> Tensor:
        weights = None if self.checkpoints == 1 else self.weights[checkpoint]
        return in_blocks(lambda block: together(scores_with(self.network, weights, self.inputs(block))), x).double()

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        tensors: dict[str, Tensor] = {}
        for checkpoint, weights in enumerate(self.weights):
            tensors |= over(f"{checkpoint}/", weights)
        return tensors, {"outputs": self.outputs, "looks": self.checkpoints}

    @staticmethod
    def split(tensors: dict[str, Tensor], checkpoints: int) -> list[Weights]:
        """The weights of each checkpoint."""
        return [under(f"{checkpoint}/", tensors) for checkpoint in range(checkpoints)]


class FittedNetwork(FittedByWeights):
    """A network on columns and their pieces."""

    #: Made of (width, outputs); its weights are all that is stored.
    network_class: ClassVar[type[nn.Module]] = TabularNetwork

    def __init__(self, design: Design, network: nn.Module, outputs: int, weights: list[Weights]) -> None:
        super().__init__(network, outputs, weights)
        self.design = design

    def inputs(self, x: Tensor) -> Tensor:
        return self.design(x).float()

    def at(self, checkpoint: int) -> Self:
        return type(self)(self.design, self.network, self.outputs, [self.weights[checkpoint]])

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        tensors, facts = super().state()
        return tensors | over("design/", self.design.tensors), facts

    @classmethod
    def restore(cls, tensors: dict[str, Tensor], facts: dict[str, Any]) -> Self:
        design, outputs = Design(under("design/", tensors)), int(facts["outputs"])
        with torch.random.fork_rng(devices=[]):
            network = cls.network_class(design.width, outputs)
        return cls(design, network, outputs, cls.split(tensors, facts["looks"]))


def cross_entropy(scores: Tensor, rows: Rows) -> Tensor:
    """Of scores ``(n,)`` or ``(n, c)``, with the rows' weights."""
    each = losses.cross_entropy(scores, rows.y, reduction="none")
    if rows.weights is None:
        return each.mean()
    mass = rows.weights.to(each.dtype)
    return (each * mass).sum() / mass.sum().clamp_min(1e-12)


class Network(Member):
    """Each head by cross-entropy."""

    name = "network"
    title = "network"
    fitted = FittedNetwork

    def design(self, x: Tensor) -> Design:
        return Design.fit(x)

    def schedule(self, n: int) -> Schedule:
        """A step sees at least a twelfth of a small table; a large one gets about twenty passes at most."""
        batch = 128 if n < 1_000 else 256 if n < 20_000 else 512
        steps = max(16, min(100, round(2 * n / batch)))
        return Schedule(rate=6e-3, batch=batch, checkpoints=8, steps=steps, patience=2)

    def fit(self, job: Job) -> FittedNetwork:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(job.seed)
            design = self.design(job.train.x)
            network = TabularNetwork(design.width, job.outputs)
            weights = train(
                network,
                designed(job, design),
                self.schedule(len(job.train.y)),
                _loss_of_heads,
                lambda scores: -float(cross_entropy(scores, job.held)),
            )
        return FittedNetwork(design, network, job.outputs, weights)


def designed(job: Job, design: Design) -> Job:
    """The job with the design's matrix in place of the columns: it is the same at every step, so it is made once."""
    train, held = (
        replace(rows, x=in_blocks(lambda block: design(block).float(), rows.x)) for rows in (job.train, job.held)
    )
    return replace(job, train=train, held=held)


def _loss_of_heads(scores: Tensor, batch: Rows, rows: Tensor) -> Tensor:
    """Mean cross-entropy of the heads, each on its own: heads that only had to be right on average would be alike."""
    n, heads, outputs = scores.shape
    spread = Rows(
        batch.x,
        batch.y.repeat_interleave(heads),
        None if batch.weights is None else batch.weights.repeat_interleave(heads),
    )
    flat = scores.reshape(n * heads, outputs)
    return cross_entropy(flat.squeeze(1) if outputs == 1 else flat, spread)


def train_for_metric(network: nn.Module, job: Job, own: Job, schedule: Schedule) -> list[Weights]:
    """A network that has learned by cross-entropy, trained further for the metric.

    Args:
        network: Trained in place.
        job: With the fitted member it comes from.
        own: The same job with rows as the network takes them.
        schedule: How long and how fast.
    """
    assert job.start is not None
    threshold = 0.0
    if job.objective.needs_threshold:
        threshold = job.objective.tuned(job.start.scores(job.train.x), job.train.y, job.train.weights)[0]

    def value(scores: Tensor) -> float:
        best = job.objective.best(scores.double(), job.held.y, job.held.weights)
        return best if math.isfinite(best) else -math.inf

    return train(network, own, schedule, loss_for_metric(job.objective, threshold), value)


def loss_for_metric(objective: Objective, threshold: float) -> LossOfBatch:
    """The metric's own loss of a batch; one of decisions is trained around the threshold, since it decides at 0."""
    metric, by_list = loss_on_logits(objective.metric), objective.metric.layout == "lists"
    moved = threshold if objective.needs_threshold else 0.0

    def loss(scores: Tensor, batch: Rows, rows: Tensor) -> Tensor:
        index = {} if by_list else {"index": rows}  # a table under a list metric is one list: lists carry no index
        value: Tensor = metric(together(scores) - moved, batch.y, weights=batch.weights, **index)
        return value

    return loss
