"""Which embedding finds classes it has never seen: tried on classes set aside, and the metric chooses.

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

from ...data.components import in_blocks
from ...retrieval import RetrievalLoss
from ...targets.neighbours import depth_of, query_values
from ..ensemble.cells import MemoryStore, Store
from ..networks.loop import descend, never_stop
from ..networks.per_class import PerClassBatchSampler
from .networks import trainable, untrained

Loss = Callable[[Tensor, Tensor], Tensor]
#: Classes and examples of each in a batch.
CLASSES, EXAMPLES = 16, 4
#: Steps on features and on pictures; the shares of them after which a way is evaluated.
STEPS = {2: 240, 4: 320}
LOOKS = (0.25, 0.5, 1.0)
#: Folds of classes on features and on pictures, where a network takes a hundred times as long.
FOLDS = {2: 3, 4: 1}
RATES = {2: 1e-3, 4: 2e-3}
TITLES = {
    "plain": "as they are",
    "whitened": "whitened",
    "metric": "trained for the metric",
    "contrastive": "trained by supervised contrast",
    "softmax": "trained by softmax",
}
UNTRAINED = ("plain", "whitened")


@dataclass(frozen=True)
class Part:
    """Features ``(n, d)`` or pictures ``(n, c, h, w)`` with class ids from 0.

    Example:
        >>> part = Part(torch.zeros(4, 2), torch.tensor([0, 1, 2, 2])).of([0, 2])
        >>> part.x.shape, part.y.tolist()
        (torch.Size([3, 2]), [0, 1, 1])
    """

    x: Tensor
    y: Tensor

    def of(self, classes: Sequence[int]) -> Part:
        """The examples of these classes, numbered from 0."""
        rows = torch.isin(self.y, torch.tensor(list(classes))).nonzero().reshape(-1)
        return Part(self.x[rows], self.y[rows].unique(return_inverse=True)[1])


@dataclass(frozen=True)
class EmbeddingFit:
    """The chosen network, and what every way reached.

    Attributes:
        way: Key of `TITLES`.
        steps: Of training; 0 for ways without.
        network: In evaluation mode.
        values: The mean over folds for every way, at its best checkpoint; NaN where there was nothing to evaluate on.

    Example:
        >>> found = EmbeddingFit("plain", 0, nn.Identity(), {"plain": 0.5})
        >>> found.vectors(torch.tensor([[3.0, 4.0]]))
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
    """Raises KeyError for a way without training."""
    made: dict[str, Callable[[], Loss]] = {
        "metric": lambda: RetrievalLoss(metric, temperature=0.05),
        "contrastive": lambda: _contrastive,
        "softmax": lambda: _Softmax(classes, width),
    }
    return made[way]()


def fit_embedding(
    data: Part,
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
        >>> fit_embedding(Part(x, y), "map@r", ways=("plain",)).values
        {'plain': 1.0}
    """
    kind, kept = data.x.ndim, store or MemoryStore()
    steps = steps or STEPS[kind]
    ways = [way for way in ways if kind == 2 or way != "whitened"]
    folds = class_folds(int(data.y.max()) + 1, seed, FOLDS[kind])
    key = _key(data, metric, steps, seed)
    count = _Count(tell, stop, steps, (len(ways) - 1) * len(folds) + 1)
    values: dict[tuple[str, int], list[float]] = {}
    for fold, (learn, held) in enumerate(folds):
        for way in ways:
            name, checkpoints = f"{way}-{fold}", _checkpoints(way, steps)
            found = kept.get(name)
            if found is None or found[1].get("key") != key:
                numbers = _evaluated(data.of(learn), data.of(held), way, metric, checkpoints, seed, count)
                kept.put(name, {"values": torch.tensor(numbers, dtype=torch.float64)}, {"key": key})
            else:
                numbers = found[0]["values"].tolist()
            for checkpoint, number in zip(checkpoints, numbers, strict=True):
                values.setdefault((way, checkpoint), []).append(number)
    means = {one: _mean(numbers) for one, numbers in values.items()}
    known = {one: mean for one, mean in means.items() if math.isfinite(mean)}
    untried = ways[0] if kind == 2 or "metric" not in ways else "metric"
    way, chosen = max(known, key=known.__getitem__) if known else (untried, steps)
    network = _made(data, way, chosen, metric, seed, kept, key, count)
    best = {way: max((v for (w, _), v in known.items() if w == way), default=math.nan) for way in ways}
    return EmbeddingFit(way, chosen if way not in UNTRAINED else 0, network, best)


def _mean(numbers: Sequence[float]) -> float:
    """Over the folds whose classes have something to find; NaN if there is none."""
    known = [one for one in numbers if math.isfinite(one)]
    return sum(known) / len(known) if known else math.nan


def class_folds(classes: int, seed: int, number: int) -> list[tuple[list[int], list[int]]]:
    """Classes to learn from and to hold out, at least two each; none where there are fewer than four."""
    order = torch.randperm(classes, generator=torch.Generator().manual_seed(seed + 17)).tolist()
    share = 3 if number == 1 else number  # one fold is a third of the classes
    share = min(share, classes // 2)
    if classes < 4:
        return []
    parts = [(sorted(set(order) - set(order[one::share])), sorted(order[one::share])) for one in range(share)]
    return parts[:number]


def _checkpoints(way: str, steps: int) -> list[int]:
    return [0] if way in UNTRAINED else sorted({max(1, round(share * steps)) for share in LOOKS})


class _Count:
    """Steps done, for the live line, and whether to stop."""

    def __init__(
        self, tell: Callable[[int, int], None] | None, stop: Callable[[], bool], steps: int, cells: int
    ) -> None:
        self.tell, self.stop, self.total, self.done = tell, stop, steps * cells, 0

    def step(self) -> None:
        self.done += 1
        if self.tell is not None:
            self.tell(min(self.done, self.total), self.total)


def _evaluated(
    learn: Part, held: Part, way: str, metric: str, checkpoints: list[int], seed: int, count: _Count
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
    learn: Part, way: str, metric: str, checkpoints: Sequence[int], seed: int, count: _Count
) -> Iterator[nn.Module]:
    """The network after so many steps, in evaluation mode."""
    classes = int(learn.y.max()) + 1
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed * 1009 + 1)
        network = trainable(learn.x)
        loss = make_loss(way, metric, classes, _width(network, learn.x))
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


def _width(network: nn.Module, x: Tensor) -> int:
    with torch.no_grad():
        return int(network.eval()(x[:1]).shape[1])


def _made(data: Part, way: str, steps: int, metric: str, seed: int, kept: Store, key: str, count: _Count) -> nn.Module:
    if way in UNTRAINED:
        return untrained(way, data.x).eval()
    found = kept.get("all")
    if found is not None and found[1].get("key") == f"{key}-{way}-{steps}":
        with torch.random.fork_rng(devices=[]):
            network = trainable(data.x)
        network.load_state_dict(found[0])
        return network.eval()
    (network,) = _trained(data, way, metric, [steps], seed, count)
    kept.put("all", dict(network.state_dict()), {"key": f"{key}-{way}-{steps}"})
    return network


def _key(data: Part, metric: str, steps: int, seed: int) -> str:
    total = hashlib.sha256(repr((metric, steps, seed, tuple(data.x.shape))).encode())
    total.update(data.x.contiguous().numpy().tobytes() + data.y.numpy().tobytes())
    return total.hexdigest()[:24]
