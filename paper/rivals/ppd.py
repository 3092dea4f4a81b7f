"""PPD-SG and PPD-AdaGrad (Liu, Yuan, Ying and Yang, 2020): AUROC's squared loss as a saddle point, solved in stages.

With p the share of positives, h the score, and v = (w, a, b),

    min_v max_α  E[(1−p)(h − a)² 1₊ + p(h − b)² 1₋ + 2(1 + α)(p h 1₋ − (1−p) h 1₊) − p(1−p)α²].

For fixed scores the best a, b and α are the means of positives and of negatives and the second less the first, and the
value is p(1−p) times the mean over pairs of (1 − (h₊ − h₋))². Stage k adds ‖v − v̄‖²/2γ around where the last one ended,
takes T₀·3^(k−1) steps of size η₀/3^(k−1) and ends at the *mean* of its iterates; α starts anew at its best value there.
PPD-SG descends by stochastic gradients; PPD-AdaGrad by dual averaging with AdaGrad's diagonal metric.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from functools import partial

import torch
from torch import Tensor, nn

from ..protocol.protocol import Budget, Checkpoint, Contender, Contest, cross_entropy
from ..protocol.training import draw, scores_of, squeezed

NAMES = SG, ADAGRAD = ("PPD-SG", "PPD-AdaGrad")
#: First step sizes; the paper tries powers of ten.
RATES = {SG: (1.0, 0.1, 0.01), ADAGRAD: (1.0, 0.1, 0.01)}
#: How much longer, and by how much finer, each stage is than the last.
GROWTH = 3
#: γ, and δ of AdaGrad's metric.
GAMMA, DELTA = 500.0, 1.0

#: From a step's number to a batch's scores, and which of them are positive.
Batches = Callable[[], tuple[Tensor, Tensor]]


def saddle(scores: Tensor, positive: Tensor, a: Tensor, b: Tensor, alpha: Tensor, share: float) -> Tensor:
    """The function above on a batch."""
    plus, minus = positive.to(scores), (~positive).to(scores)
    own = (1 - share) * (scores - a).square() * plus + share * (scores - b).square() * minus
    cross = 2 * (1 + alpha) * scores * (share * minus - (1 - share) * plus)
    return (own + cross).mean() - share * (1 - share) * alpha.square()


def stages(
    parameters: list[nn.Parameter], batch: Batches, share: float, rate: float, steps: int, name: str
) -> Iterator[int]:
    """Trains in three stages; yields the steps taken at the end of each, when the parameters hold its mean."""
    a, b, alpha = (torch.zeros((), dtype=parameters[0].dtype, requires_grad=True) for _ in range(3))
    v = [*parameters, a, b]
    first = round(steps / (1 + GROWTH + GROWTH**2))
    done = 0
    for count in (first, GROWTH * first, steps - (1 + GROWTH) * first):
        stage = _adagrad if name == ADAGRAD else _sg
        stage(v, alpha, partial(_loss, batch, a, b, alpha, share), rate, count)
        with torch.no_grad():
            seen = [batch() for _ in range(8)]
            scores, positive = torch.cat([s for s, _ in seen]), torch.cat([p for _, p in seen])
            if bool(positive.any()) and not bool(positive.all()):
                alpha.copy_(scores[~positive].mean() - scores[positive].mean())
        done, rate = done + count, rate / GROWTH
        yield done


def _loss(batch: Batches, a: Tensor, b: Tensor, alpha: Tensor, share: float) -> Tensor:
    return saddle(*batch(), a, b, alpha, share)


def _sg(v: list[Tensor], alpha: Tensor, loss: Callable[[], Tensor], rate: float, count: int) -> None:
    start, mean = [one.detach().clone() for one in v], [torch.zeros_like(one) for one in v]
    for _ in range(count):
        *slopes, up = torch.autograd.grad(loss(), [*v, alpha])
        with torch.no_grad():
            alpha += rate * up
            for one, slope, at, kept in zip(v, slopes, start, mean, strict=True):
                # argmin of slope·v + |v − v_t|²/2η + |v − v̄|²/2γ
                one.copy_((GAMMA * (one - rate * slope) + rate * at) / (GAMMA + rate))
                kept += one / count
    _end_at(v, mean)


def _adagrad(v: list[Tensor], alpha: Tensor, loss: Callable[[], Tensor], rate: float, count: int) -> None:
    u = [*v, alpha]
    start, sums, squares, mean = ([fill(one.detach()) for one in u] for fill in (torch.clone, *[torch.zeros_like] * 3))
    for _ in range(count):
        slopes = list(torch.autograd.grad(loss(), u))
        slopes[-1] = -slopes[-1]
        with torch.no_grad():
            for place, (one, slope) in enumerate(zip(u, slopes, strict=True)):
                pulled = slope if place == len(v) else slope + (one - start[place]) / GAMMA
                sums[place] += pulled
                squares[place] += pulled.square()
                one.copy_(start[place] - rate * sums[place] / (DELTA + squares[place].sqrt()))
                mean[place] += one / count
    _end_at(u, mean)


def _end_at(v: list[Tensor], mean: list[Tensor]) -> None:
    with torch.no_grad():
        for one, kept in zip(v, mean, strict=True):
            one.copy_(kept)


def rivals() -> tuple[Contender, ...]:
    """Both, for the protocol: as many rates as others have, a look at the end of every stage."""
    return tuple(Contender(name, cross_entropy, False, partial(train_ppd, name)) for name in NAMES)


def train_ppd(name: str, task: Contest, budget: Budget, seed: int) -> list[Checkpoint]:
    found = []
    for rate in RATES[name]:
        torch.manual_seed(seed)
        model, generator = task.make_model(), torch.Generator().manual_seed(seed)

        def batch(model: nn.Module = model, generator: torch.Generator = generator) -> tuple[Tensor, Tensor]:
            model.train()
            rows = draw(task.train.y, budget.batch, False, generator)
            return torch.sigmoid(squeezed(model(task.train.x[rows]))), task.train.y[rows] == 1

        share = float((task.train.y == 1).double().mean())
        for _ in stages(list(model.parameters()), batch, share, rate, budget.steps, name):
            state = copy.deepcopy(model.state_dict())
            found.append(Checkpoint(name, state, scores_of(model, task.validation.x), budget.rates[0]))
    return found
