"""A run killed at any point and continued ends with the same weights, bit for bit."""

from __future__ import annotations

import random
import re
import signal
from pathlib import Path

import numpy as np
import pytest
import torch

from aimfor.app.run.folder import Prepared, prepare
from aimfor.errors import InputError
from aimfor.failpoints import VARIABLE
from aimfor.fitting import checkpoint
from aimfor.fitting import fit as loop
from aimfor.fitting.config import Recipe, Settings, find_recipe, settings
from aimfor.fitting.fit import Fit, Interrupted
from programs import Program, finished


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Few columns: most of a short run would be the importance of many."""
    x = torch.randn(240, 3, generator=torch.Generator().manual_seed(0)).numpy()
    path = tmp_path_factory.mktemp("resume") / "t.npz"
    np.savez(path, X=x, y=(x[:, 0] + 0.7 * x[:, 1] > 0.4).astype(int))
    return path


@pytest.fixture(scope="module")
def ready(table: Path) -> Prepared:
    return prepare(settings(data=str(table), target="y", metric="auroc", epochs=4, checkpoint_seconds=0.0))


def recipe() -> Recipe:
    return find_recipe("auto")


def same(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def test_stopped_at_any_step_and_continued_is_the_same_run(ready: Prepared, tmp_path: Path) -> None:
    whole = Fit(ready.task, ready.settings, recipe()).run()
    steps = iter(random.Random(0).sample(range(1, 9), 6))
    path = tmp_path / "checkpoint.safetensors"
    fit = Fit(ready.task, ready.settings, recipe())
    stops = 0
    while True:
        left = [next(steps, 10**9)]

        def stop(left: list[int] = left) -> bool:
            left[0] -= 1
            return left[0] < 0

        try:
            fit.run(path, stop)
            break
        except Interrupted:
            stops += 1
            fit = Fit(ready.task, ready.settings, recipe()).restore(path)
    assert stops >= 3
    assert same(fit.best, whole.best)
    assert fit.state.history == whole.state.history
    assert fit.state.best == whole.state.best


def test_the_check_can_fail(ready: Prepared, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the generator's state the dropout masks differ, and the comparison above must notice."""
    monkeypatch.setattr(torch, "set_rng_state", lambda state: None)
    path = tmp_path / "checkpoint.safetensors"
    count = [5]

    def stop() -> bool:
        count[0] -= 1
        return count[0] < 0

    plan = find_recipe("cross_entropy")
    whole = Fit(ready.task, ready.settings, plan).run()
    with pytest.raises(Interrupted):
        Fit(ready.task, ready.settings, plan).run(path, stop)
    assert not same(Fit(ready.task, ready.settings, plan).restore(path).run().best, whole.best)


@pytest.mark.parametrize("point", ["wrote */checkpoint.safetensors:4", "write */checkpoint.safetensors:9", "step:14"])
def test_sigkill_and_resume_end_bit_for_bit_alike(point: str, table: Path, tmp_path: Path) -> None:
    options = [table, "--target", "y", "--metric", "auroc", "--epochs", "6", "--checkpoint-seconds", "0", "-q"]
    options += ["--recipe", "ce_then_metric"]

    finished("train", *options, "--out", tmp_path / "whole")
    killed = tmp_path / "killed"
    program = Program("train", *options, "--out", killed, environment={VARIABLE: f"{point}=SIGKILL"})
    assert program.wait() == -signal.SIGKILL
    assert (killed / "checkpoint.safetensors").exists()
    assert not (killed / "metrics.json").exists()
    finished("train", "--resume", killed)
    whole, _ = checkpoint.load(tmp_path / "whole" / "model.safetensors")
    resumed, _ = checkpoint.load(killed / "model.safetensors")
    assert same(whole, resumed)
    for name in ("threshold.json", "log.jsonl"):
        assert (killed / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_a_checkpoint_of_another_recipe_is_refused(ready: Prepared, tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.safetensors"
    with pytest.raises(Interrupted):
        Fit(ready.task, ready.settings, recipe()).run(path, lambda: True)
    with pytest.raises(InputError, match="recipe"):
        Fit(ready.task, ready.settings, find_recipe("focal")).restore(path)


def test_changed_data_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from aimfor.app.run import training

    data = tmp_path / "t.csv"
    rows = [f"{i % 9},{(i * 7) % 5},{int(i % 4 == 0)}" for i in range(80)]
    data.write_text("\n".join(["a,b,y", *rows]) + "\n")
    given = Settings(data=str(data), target="y", metric="auroc")
    folder, _ = training.start(given, recipe(), tmp_path / "run")
    training.reopen(folder)
    data.write_text("\n".join(["a,b,y", *rows[:-1], "100,3,0"]) + "\n")
    with pytest.raises(InputError, match="data has changed"):
        training.reopen(folder)


def test_no_pickle_is_written_or_read() -> None:
    for path in Path(loop.__file__).parent.rglob("*.py"):
        text = path.read_text()
        # The one file of torch's own that is read, a backbone's weights, is read as tensors and nothing else.
        assert text.count("torch.load(") == text.count("weights_only=True")
        assert "torch.save" not in text
        assert not re.search(r"pickle\.(loads?|dumps?|Unpickler)|import (dumps?|loads?)\b|joblib", text)
