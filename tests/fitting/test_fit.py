"""Training by stages: the rate of every step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from aimfor.fitting import fit as fitting
from aimfor.fitting.config import Recipe, Settings, Stage
from aimfor.fitting.objective import Objective
from aimfor.fitting.steps import Task


@pytest.mark.parametrize("share", [1.0, 0.5])
def test_the_rate_falls_along_half_a_cosine_to_a_twentieth(share: float, monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = torch.randn(64, 3), torch.arange(64) % 2
    rates: list[float] = []
    step = fitting.take_step

    def watched(model: Any, optimizer: torch.optim.Optimizer, *rest: Any) -> float:
        rates.extend(group["lr"] for group in optimizer.param_groups)
        return step(model, optimizer, *rest)

    monkeypatch.setattr(fitting, "take_step", watched)
    sizes = {"epochs": 5, "batch_size": 16, "patience": 99, "learning_rate": 0.02}
    given = Settings(data="none", metric="auroc", model="linear", **sizes)
    task = Task(x, y, x, y, Objective.of("auroc"), 1)
    fitting.Fit(task, given, Recipe(name="one", title="one", stages=(Stage(loss="ce", rate=share),))).run()
    # torch's own schedule over the same 5 · 4 steps is the second opinion.
    full = 0.02 * share
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=full)
    cosine = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 20, eta_min=full / 20)
    expected = []
    for _ in range(20):
        expected.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        cosine.step()
    assert rates == pytest.approx(expected, rel=1e-9)


def test_a_run_that_goes_on_remembers_the_seconds_it_took_before(tmp_path: Path) -> None:
    x, y = torch.randn(64, 3), torch.arange(64) % 2
    given = Settings(data="none", metric="auroc", model="linear", epochs=3, batch_size=16)
    task = Task(x, y, x, y, Objective.of("auroc"), 1)
    recipe = Recipe(name="one", title="one", stages=(Stage(loss="ce"),))
    with pytest.raises(fitting.Interrupted):
        fitting.Fit(task, given, recipe).run(tmp_path / "state.safetensors", lambda: True)
    again = fitting.Fit(task, given, recipe).restore(tmp_path / "state.safetensors")
    before = again.state.seconds
    assert before > 0
    assert again.run().state.seconds > before
