"""An embedding for classes that were not there in training: tried on classes set aside, and the metric chooses.

Classes, not examples, are dealt to folds. Each way (numbers as they are, whitened, or trained by one of three losses)
learns from the other classes and is evaluated by the exact metric on the lists that the held-out ones make; trained
ways are evaluated after a quarter, a half and all of their steps. The best of all is then made from all classes.
"""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from ..data.components import Components, in_blocks
from ..retrieval import RetrievalLoss
from ..targets.identities import query_values
from ..targets.objective import depth_of
from .ensemble.cells import MemoryStore, Store
from .networks.loop import descend, never_stop
from .networks.models import build
from .networks.sampler import PerClassBatchSampler

Loss = Callable[[Tensor, Tensor], Tensor]
#: Classes and examples of each in a batch.
CLASSES, EXAMPLES = 16, 4
#: Steps on features and on pictures; the shares of them after which a way is evaluated.
STEPS = {2: 240, 4: 320}
CHECKPOINTS = (0.25, 0.5, 1.0)
#: Folds of classes on features and on pictures, where a network takes a hundred times as long.
FOLDS = {2: 3, 4: 1}
RATES = {2: 1e-3, 4: 2e-3}
#: Numbers in the vector of a trained network.
WIDTH = 128
TITLES = {
    "plain": "as they are",
    "whitened": "whitened",
    "metric": "trained for the metric",
    "contrastive": "trained by supervised contrast",
    "softmax": "trained by softmax",
}
UNTRAINED = ("plain", "whitened")


@dataclass(frozen=True)
class Examples:
    """Features ``(n, d)`` or pictures ``(n, c, h, w)`` with class ids from 0.

    Example:
        >>> data = Examples(torch.zeros(4, 2), torch.tensor([0, 1, 2, 2])).of([0, 2])
        >>> data.x.shape, data.y.tolist()
        (torch.Size([3, 2]), [0, 1, 1])
    """

    x: Tensor
    y: Tensor

    def of(self, classes: Sequence[int]) -> Examples:
        """The examples of these classes, numbered from 0."""
        rows = torch.isin(self.y, torch.tensor(list(classes))).nonzero().reshape(-1)
        return Examples(self.x[rows], self.y[rows].unique(return_inverse=True)[1])


@dataclass(frozen=True)
class EmbeddingFit:
    """The chosen network, and what every way reached.

    Attributes:
        way: Key of `TITLES`.
        steps: Of training; 0 for ways without.
        network: In evaluation mode.
        values: The mean over folds for every way, at its best checkpoint; NaN where there was nothing to evaluate on.

    Example:
        >>> fitted = EmbeddingFit("plain", 0, nn.Identity(), {"plain": 0.5})
        >>> fitted.vectors(torch.tensor([[3.0, 4.0]]))
        tensor([[0.6000, 0.8000]])
    """

    way: str
    steps: int
    network: nn.Module
    values: dict[str, float]

    def vectors(self, x: Tensor) -> Tensor:
        return vectors_of(self.network, x)


def vectors_of(network: nn.Module, x: Tensor) -> Tensor:
    """``(n, width)``, each of length 1; a vector of zeros stays one."""
    with torch.no_grad():
        return functional.normalize(in_blocks(network, x).float())


class Whitened(nn.Module):
    """Components of the features, brought to one size: what rows differ in most no longer drowns the rest."""

    def __init__(self, inputs: int, width: int) -> None:
        super().__init__()
        self.width = width
        self.register_buffer("mean", torch.zeros(inputs))
        self.register_buffer("deviation", torch.ones(inputs))
        self.register_buffer("axes", torch.zeros(inputs, width))

    @classmethod
    def fit(cls, x: Tensor, width: int = WIDTH) -> Whitened:
        """From rows without labels."""
        components = Components.fit(x, width)
        made = cls(x.shape[1], components.width)
        deviation = components(x).std(0, correction=0).clamp_min(1e-6)
        made.mean, made.deviation, made.axes = components.mean, components.deviation, components.axes / deviation
        return made

    def forward(self, x: Tensor) -> Tensor:
        mean, deviation, axes = (getattr(self, name) for name in ("mean", "deviation", "axes"))
        vectors: Tensor = ((x - mean) / deviation) @ axes
        return vectors


class Head(nn.Module):
    """A linear layer on whitened components that begins as the identity, so that training can only turn and stretch."""

    def __init__(self, first: Whitened) -> None:
        super().__init__()
        width = first.width
        self.first, self.last = first, nn.Linear(width, width, bias=False)
        nn.init.eye_(self.last.weight)

    def forward(self, x: Tensor) -> Tensor:
        vectors: Tensor = self.last(self.first(x))
        return vectors


def untrained(kind: str, x: Tensor) -> nn.Module:
    """What learns nothing from labels: ``plain`` (numbers as they are) or ``whitened``."""
    return nn.Flatten() if kind == "plain" else Whitened.fit(x)


def trainable(x: Tensor) -> nn.Module:
    """A head on features ``(n, d)``; a small residual network on pictures ``(n, c, h, w)``."""
    if x.ndim == 2:
        return Head(Whitened.fit(x))
    return build("auto", tuple(x.shape[1:]), WIDTH)


def empty(kind: str, shape: tuple[int, ...], width: int) -> nn.Module:
    """A network of the kind to load weights into."""
    if kind == "plain":
        return nn.Flatten()
    if len(shape) == 3:
        return build("auto", shape, width)
    first = Whitened(shape[0], width)
    return first if kind == "whitened" else Head(first)


class _Softmax(nn.Module):
    """Cross-entropy over the training classes by cosines with a learned vector of each, at a scale of 16."""

    def __init__(self, classes: int, width: int) -> None:
        super().__init__()
        self.last = nn.Linear(width, classes, bias=False)

    def forward(self, vectors: Tensor, y: Tensor) -> Tensor:
        cosines = functional.normalize(vectors) @ functional.normalize(self.last.weight).t()
        return functional.cross_entropy(16.0 * cosines, y)


def _contrastive(vectors: Tensor, y: Tensor) -> Tensor:
    """Khosla et al. 2020, at a temperature of 0.1."""
    unit, own = functional.normalize(vectors), torch.eye(len(y), dtype=torch.bool)
    same = (y[:, None] == y) & ~own
    logits = (unit @ unit.t() / 0.1).masked_fill(own, -torch.inf)
    logs = logits - logits.logsumexp(1, keepdim=True)
    return -(torch.where(same, logs, 0.0).sum(1) / same.sum(1).clamp_min(1)).mean()


def make_loss(way: str, metric: str, classes: int, width: int) -> Loss:
    """The loss of a way that trains."""
    if way == "metric":
        return RetrievalLoss(metric, temperature=0.05)
    return _contrastive if way == "contrastive" else _Softmax(classes, width)


def fit_embedding(
    data: Examples,
    metric: str,
    *,
    ways: Sequence[str] = tuple(TITLES),
    steps: int = 0,
    seed: int = 0,
    store: Store | None = None,
    tell: Callable[[int, int], None] | None = None,
    stop: Callable[[], bool] = never_stop,
) -> EmbeddingFit:
    """Tries every way on classes set aside and makes the best from all classes.

    Args:
        data: The classes there are to learn from, at least two.
        metric: ``map@r``, ``r_precision`` or ``recall@k``.
        ways: Keys of `TITLES` to choose from.
        steps: Of training; 0 takes what suits features or pictures.
        seed: Decides folds, first weights and batches.
        store: Where finished cells are kept; a second call with the same store goes on from there.
        tell: Called with steps done and in all.
        stop: True ends with `Interrupted`; finished cells are kept.

    Example:
        >>> y = torch.arange(6).repeat_interleave(4)
        >>> x = functional.one_hot(y).float() + 0.1 * torch.randn(24, 6, generator=torch.Generator().manual_seed(0))
        >>> fit_embedding(Examples(x, y), "map@r", ways=("plain",)).values
        {'plain': 1.0}
    """
    kind, kept = data.x.ndim, store or MemoryStore()
    steps = steps or STEPS[kind]
    ways = [way for way in ways if kind == 2 or way != "whitened"]
    folds = class_folds(int(data.y.max()) + 1, seed, FOLDS[kind])
    key = _key(data, metric, steps, seed)
    count = _Count(tell, stop, steps * ((len(ways) - 1) * len(folds) + 1))
    values: dict[tuple[str, int], list[float]] = {}
    for fold, (learn, held) in enumerate(folds):
        for way in ways:
            name, checkpoints = f"{way}-{fold}", _checkpoints(way, steps)
            cell = kept.get(name)
            if cell is None or cell[1].get("key") != key:
                numbers = _evaluated(data.of(learn), data.of(held), way, metric, checkpoints, seed, count)
                kept.put(name, {"values": torch.tensor(numbers, dtype=torch.float64)}, {"key": key})
            else:
                numbers = cell[0]["values"].tolist()
            for checkpoint, number in zip(checkpoints, numbers, strict=True):
                values.setdefault((way, checkpoint), []).append(number)
    # Over the folds whose classes have something to find.
    defined = {tried: [number for number in numbers if math.isfinite(number)] for tried, numbers in values.items()}
    means = {tried: sum(numbers) / len(numbers) for tried, numbers in defined.items() if numbers}
    untried = ways[0] if kind == 2 or "metric" not in ways else "metric"
    way, chosen = max(means, key=means.__getitem__) if means else (untried, steps)
    network = _made(data, way, chosen, metric, seed, kept, key, count)
    best = {way: max((v for (w, _), v in means.items() if w == way), default=math.nan) for way in ways}
    return EmbeddingFit(way, chosen if way not in UNTRAINED else 0, network, best)


def class_folds(classes: int, seed: int, number: int) -> list[tuple[list[int], list[int]]]:
    """Classes to learn from and to hold out, at least two each; none where there are fewer than four."""
    if classes < 4:
        return []
    order = torch.randperm(classes, generator=torch.Generator().manual_seed(seed + 17)).tolist()
    deals = min(3 if number == 1 else number, classes // 2)  # the only fold is a third of the classes
    held = [set(order[first::deals]) for first in range(deals)][:number]
    return [(sorted(set(order) - fold), sorted(fold)) for fold in held]


def _checkpoints(way: str, steps: int) -> list[int]:
    return [0] if way in UNTRAINED else sorted({max(1, round(share * steps)) for share in CHECKPOINTS})


@dataclass
class _Count:
    """Steps done, for the live line, and whether to stop."""

    tell: Callable[[int, int], None] | None
    stop: Callable[[], bool]
    total: int
    done: int = 0

    def step(self) -> None:
        self.done += 1
        if self.tell is not None:
            self.tell(min(self.done, self.total), self.total)


def _evaluated(
    learn: Examples, held: Examples, way: str, metric: str, checkpoints: list[int], seed: int, count: _Count
) -> list[float]:
    """The metric on the held-out classes at each checkpoint."""
    depth = min(depth_of(metric), len(held.y) - 1)
    name = metric if not metric.startswith("recall@") else f"recall@{depth}"

    def value(network: nn.Module) -> float:
        return float(query_values(vectors_of(network, held.x), held.y, (depth,))[name].nanmean())

    if way in UNTRAINED:
        return [value(untrained(way, learn.x))]
    return [value(network) for network in _trained(learn, way, metric, checkpoints, seed, count)]


def _trained(
    learn: Examples, way: str, metric: str, checkpoints: Sequence[int], seed: int, count: _Count
) -> Iterator[nn.Module]:
    """The network after so many steps, in evaluation mode."""
    classes = int(learn.y.max()) + 1
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed * 1009 + 1)
        network = trainable(learn.x)
        with torch.no_grad():
            width = int(network.eval()(learn.x[:1]).shape[1])
        loss = make_loss(way, metric, classes, width)
    own = list(loss.parameters()) if isinstance(loss, nn.Module) else []
    optimizer = torch.optim.AdamW([*network.parameters(), *own], RATES[learn.x.ndim], weight_decay=1e-3)
    batches = _batches(learn.y, min(CLASSES, classes), seed)
    losses = (loss(network.train()(learn.x[rows]), learn.y[rows]) for rows in batches)
    for step in itertools.islice(descend(optimizer, losses, count.stop), max(checkpoints)):
        count.step()
        if step in checkpoints:
            yield network.eval()


def _batches(y: Tensor, classes: int, seed: int) -> Iterator[list[int]]:
    sampler, epoch = PerClassBatchSampler(y, classes, EXAMPLES, seed=seed), 0
    while True:
        sampler.set_epoch(epoch)
        yield from sampler.epoch_batches()
        epoch += 1


def _made(
    data: Examples, way: str, steps: int, metric: str, seed: int, kept: Store, key: str, count: _Count
) -> nn.Module:
    if way in UNTRAINED:
        return untrained(way, data.x).eval()
    key, cell = f"{key}-{way}-{steps}", kept.get("all")
    if cell is not None and cell[1].get("key") == key:
        with torch.random.fork_rng(devices=[]):
            network = trainable(data.x)
        network.load_state_dict(cell[0])
        return network.eval()
    (network,) = _trained(data, way, metric, [steps], seed, count)
    kept.put("all", dict(network.state_dict()), {"key": key})
    return network


def _key(data: Examples, metric: str, steps: int, seed: int) -> str:
    total = hashlib.sha256(repr((metric, steps, seed, tuple(data.x.shape))).encode())
    total.update(data.x.contiguous().numpy().tobytes() + data.y.numpy().tobytes())
    return total.hexdigest()[:24]
