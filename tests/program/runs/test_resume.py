"""A run killed at any point and continued ends with the same weights, bit for bit."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import numpy as np
import pytest
import torch

from aimfor.data import checkpoint
from aimfor.data.settings import Settings
from aimfor.errors import InputError
from aimfor.failpoints import VARIABLE
from programs import Program, finished


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Few columns: most of a short run would be the importance of many."""
    x = torch.randn(240, 3, generator=torch.Generator().manual_seed(0)).numpy()
    path = tmp_path_factory.mktemp("resume") / "t.npz"
    np.savez(path, X=x, y=(x[:, 0] + 0.7 * x[:, 1] > 0.4).astype(int))
    return path


def same(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


@pytest.mark.parametrize(
    "point", ["wrote */linear-1.safetensors", "write */trees-0.safetensors", "write */threshold.json"]
)
def test_sigkill_and_resume_end_bit_for_bit_alike(point: str, table: Path, tmp_path: Path) -> None:
    options = [table, "--target", "y", "--metric", "auroc", "--members", "linear,trees", "--jobs", "1", "-q"]
    finished("train", *options, "--out", tmp_path / "whole", folds=3)
    killed = tmp_path / "killed"
    program = Program("train", *options, "--out", killed, folds=3, environment={VARIABLE: f"{point}=SIGKILL"})
    assert program.wait() == -signal.SIGKILL
    assert not (killed / "metrics.json").exists()
    finished("train", "--resume", killed, folds=3)
    for path in (tmp_path / "whole" / "members").glob("*.safetensors"):
        assert same(checkpoint.load(path)[0], checkpoint.load(killed / "members" / path.name)[0])
    for name in ("threshold.json", "members/trees-0.txt"):
        assert (killed / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_changed_data_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from aimfor.runs import driver

    data = tmp_path / "t.csv"
    rows = [f"{i % 9},{(i * 7) % 5},{int(i % 4 == 0)}" for i in range(80)]
    data.write_text("\n".join(["a,b,y", *rows]) + "\n")
    given = Settings(data=str(data), target="y", metric="auroc")
    folder, _ = driver.start(given, tmp_path / "run")
    driver.reopen(folder)
    data.write_text("\n".join(["a,b,y", *rows[:-1], "100,3,0"]) + "\n")
    with pytest.raises(InputError, match="data has changed"):
        driver.reopen(folder)


def test_no_pickle_is_written_or_read() -> None:
    for path in Path(checkpoint.__file__).parent.rglob("*.py"):
        text = path.read_text()
        # The one file of torch's own that is read, a backbone's weights, is read as tensors and nothing else.
        assert text.count("torch.load(") == text.count("weights_only=True")
        assert "torch.save" not in text
        assert not re.search(r"pickle\.(loads?|dumps?|Unpickler)|import (dumps?|loads?)\b|joblib", text)
