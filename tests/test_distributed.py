"""Two processes: gradients equal to one process on the joined batch; uneven ranks; one rank without positives."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from programs import Program

WORKER = """
    import os, torch, torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel
    import aimfor

    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=os.environ["STORE"], rank=int(os.environ["RANK"]), world_size=2)
    rank = dist.get_rank()
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(11, 3, generator=generator, dtype=torch.float64)
    y = torch.tensor([1, 0, 0, 1, 0, 1, 0, 0, 0, 0, 0])      # all positives stand in the first seven rows
    weights = torch.rand(11, generator=generator, dtype=torch.float64)
    own = slice(0, 7) if rank == 0 else slice(7, 11)          # uneven, and rank 1 has no positive

    def model():
        torch.manual_seed(1)
        return torch.nn.Linear(3, 1, dtype=torch.float64)

    single = model()
    loss = aimfor.MetricLoss("auroc", gather=False)(single(x), y, weights=weights)
    loss.backward()

    for engine in (aimfor.SortedEngine(), aimfor.SortedEngine(bank=5)):
        parallel = DistributedDataParallel(model())
        loss_fn = aimfor.MetricLoss("auroc", engine)
        joined = loss_fn(parallel(x[own]), y[own], weights=weights[own], index=torch.arange(11)[own])
        joined.backward()
        torch.testing.assert_close(joined, loss, rtol=1e-12, atol=1e-14)
        for a, b in zip(parallel.parameters(), single.parameters()):
            torch.testing.assert_close(a.grad, b.grad, rtol=1e-10, atol=1e-14)

    # an empty rank
    scores = single(x).detach()[:, 0]
    mine = (scores if rank == 0 else scores[:0]).clone().requires_grad_()
    joined = aimfor.MetricLoss("auroc")(mine, y if rank == 0 else y[:0])
    torch.testing.assert_close(joined, aimfor.MetricLoss("auroc", gather=False)(scores, y))
    joined.backward()

    # multi-class rows travel whole
    if "auc_mu" in aimfor.support():
        s = torch.randn(11, 3, generator=generator, dtype=torch.float64)
        t = torch.arange(11) % 3
        joined = aimfor.MetricLoss("auc_mu")(s[own].clone().requires_grad_(), t[own])
        torch.testing.assert_close(joined, aimfor.MetricLoss("auc_mu", gather=False)(s, t))

    # evaluation on one rank alone does not wait for the other
    if rank == 0:
        with torch.no_grad():
            aimfor.MetricLoss("auroc")(scores, y)
        aimfor.MetricLoss("auroc").eval()(scores, y)

    # an error on one rank is an error on both, not a hang
    bad = scores.clone()
    if rank == 1:
        bad[0] = float("nan")
    try:
        aimfor.MetricLoss("auroc")(bad.requires_grad_(), y)
    except aimfor.InputError as error:
        assert ("nan" in str(error)) == (rank == 1), error
        assert ("process 1 refused" in str(error)) == (rank == 0), error
    else:
        raise AssertionError("no error")
    # so is a mask that only one rank passes
    try:
        aimfor.MetricLoss("auroc")(scores.clone().requires_grad_(), y, weights=weights if rank else None)
    except aimfor.InputError as error:
        assert "same set in every process" in str(error)
    else:
        raise AssertionError("no error")
    dist.barrier()
    del parallel  # see examples/plain_loop_ddp.py
    dist.destroy_process_group()
    print("worker", rank, "done")
"""


LAWS = Path(__file__).with_name("two_ranks.py")


def run_twice(code: str, folder: Path) -> list[str]:
    """Two processes of code that initialises gloo; their outputs. They meet in a file: a free port may not stay so."""
    store = {"STORE": f"file://{folder}/store"}
    workers = [Program(code=code, environment={**store, "RANK": str(rank)}) for rank in range(2)]
    for rank, worker in enumerate(workers):
        assert worker.wait() == 0, f"rank {rank}:\n{worker.stdout}{worker.stderr}"
    return [worker.stdout for worker in workers]


@pytest.mark.skipif(sys.platform == "win32", reason="gloo by file store is not tested on Windows")
def test_two_processes_equal_one_on_the_joined_batch(tmp_path: Path) -> None:
    for rank, output in enumerate(run_twice(WORKER, tmp_path)):
        assert f"worker {rank} done" in output


@pytest.mark.skipif(sys.platform == "win32", reason="gloo by file store is not tested on Windows")
def test_every_metric_and_engine_on_two_processes_equals_one_on_the_joined_batch(tmp_path: Path) -> None:
    """Even, uneven, one-class and empty processes, lists and images of different sizes, groups, disagreement."""
    for output in run_twice(LAWS.read_text(), tmp_path):
        assert json.loads(output.splitlines()[-1])["compared"] >= 160


IN_PARTS = Path(__file__).with_name("two_ranks_in_parts.py")


@pytest.mark.skipif(sys.platform == "win32", reason="gloo by file store is not tested on Windows")
def test_scores_in_parts_on_two_processes_equal_one_on_the_joined_batch(tmp_path: Path) -> None:
    """Unequal shards and numbers of parts under DDP and FSDP2; what would hang is refused in every process."""
    for output in run_twice(IN_PARTS.read_text(), tmp_path):
        assert json.loads(output.splitlines()[-1])["compared"] >= 19
