"""What a user's own module looks like; it passes `mypy --strict` against the installed wheel."""

from torch import Tensor, nn, optim

import aimfor


def train(model: nn.Module, x: Tensor, y: Tensor, steps: int = 10) -> float:
    loss_fn = aimfor.MetricLoss(aimfor.AveragePrecision(), aimfor.SmoothEngine(anchor=0.5))
    optimizer = optim.Adam(model.parameters(), lr=0.01)
    for _ in range(steps):
        optimizer.zero_grad()
        loss: Tensor = loss_fn(model(x).squeeze(1), y)
        loss.backward()  # type: ignore[no-untyped-call]  # torch has no annotation here
        optimizer.step()
    value: Tensor = loss_fn.value(model(x).squeeze(1), y)
    return float(value)


def neighbours(model: nn.Module, x: Tensor, labels: Tensor) -> Tensor:
    loss: Tensor = aimfor.RetrievalLoss("map@r", temperature=0.05)(model(x), labels)
    return loss
