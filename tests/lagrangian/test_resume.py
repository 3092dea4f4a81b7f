"""Kill, resume in a new process, and nothing differs by a bit."""

from __future__ import annotations

from pathlib import Path

import torch

from programs import finished

SCRIPT = """
import sys, torch, aimfor
from aimfor.lagrangian import PowerDecay, LagrangianEngine
torch.set_num_threads(1)
folder, resuming = sys.argv[1], sys.argv[2] == "resume"
draw = torch.Generator().manual_seed(0)
x, labels = torch.randn(60, 5, generator=draw), torch.arange(60) % 3 == 0
x[labels] += 1.0

def run(name, options):
    model = torch.nn.Linear(5, 1)
    torch.nn.init.constant_(model.weight, 0.1)
    torch.nn.init.constant_(model.bias, 0.0)
    engine = LagrangianEngine(labels, dual_step=PowerDecay(0.5), inner=2, **options)
    loss_fn = aimfor.MetricLoss(aimfor.FBeta(1.0), engine)
    optimizer = torch.optim.SGD([*model.parameters(), *loss_fn.parameters()], lr=0.02, momentum=0.9)
    parts = {"model": model, "loss": loss_fn, "optimizer": optimizer}

    def save(stage):
        torch.save({key: part.state_dict() for key, part in parts.items()}, f"{folder}/{name}.{stage}")

    if resuming:
        for key, state in torch.load(f"{folder}/{name}.half", weights_only=True).items():
            parts[key].load_state_dict(state)
    for epoch in range(2 if resuming else 0, 5):
        for index in torch.randperm(60, generator=torch.Generator().manual_seed(epoch)).split(10):
            optimizer.zero_grad()
            loss_fn(model(x[index]).squeeze(1), labels[index], index=index).backward()
            optimizer.step()
        loss_fn.end_epoch()
        if epoch == 1:
            save("half")
    save("resumed" if resuming else "whole")

for name, options in eval(sys.argv[3]).items():
    run(name, options)
"""

OPTIONS = {
    "ravi": {"mode": "ravi"},
    "full": {"mode": "ravi-full", "primal": "optimizer", "projection": "sampled", "sample": 5},
    "venkatesh": {"mode": "venkatesh", "primal": "optimizer"},
}


def test_resume_in_a_new_process_equals_the_uninterrupted_run_bit_for_bit(tmp_path: Path) -> None:
    for stage in ("start", "resume"):
        finished(tmp_path, stage, repr(OPTIONS), code=SCRIPT)
    for name in OPTIONS:
        whole, half, resumed = (
            torch.load(tmp_path / f"{name}.{stage}", weights_only=True) for stage in ("whole", "half", "resumed")
        )
        for part in ("model", "loss"):
            assert whole[part].keys() == resumed[part].keys()
            for key, value in whole[part].items():
                assert torch.equal(value, resumed[part][key]), (name, key)
        assert len(whole["loss"]["engine.history.rows"]) == 5
        assert not torch.equal(half["loss"]["engine.duals.0.tau"], whole["loss"]["engine.duals.0.tau"])
