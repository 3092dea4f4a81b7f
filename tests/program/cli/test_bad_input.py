"""Bad input ends with exit code 2 and one clear line, and leaves nothing behind."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from aimfor.cli.main import app
from aimfor.data import tables
from programs import finished


def good_rows(n: int = 40) -> list[str]:
    return [f"{i % 7},{i * 0.5},{'yes' if i % 3 == 0 else 'no'}" for i in range(n)]


def table(path: Path, rows: list[str], header: str = "a,b,label") -> Path:
    path.write_text("\n".join([header, *rows]) + "\n")
    return path


def refused(*words: str) -> str:
    """Runs the command, checks the contract of a refusal, and returns its line."""
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == 2, result.output
    lines = [line for line in result.stderr.splitlines() if line.strip()]
    assert len(lines) == 1, result.stderr
    assert lines[0].startswith("aimfor: ")
    assert "Traceback" not in result.output
    return lines[0]


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture(autouse=True)
def nothing_left_behind(tmp_path: Path, request: pytest.FixtureRequest) -> object:
    yield
    assert not (tmp_path / "runs").exists()


def write_unreadable(path: Path) -> Path:
    path.write_bytes("a,b,label\n1,2,é\n3,4,ü\n".encode("latin-1") * 10)
    return path


CASES: dict[str, tuple[Callable[[Path], list[str]], str]] = {
    "missing file": (lambda p: [str(p / "nowhere.csv"), "--target", "label"], "does not exist"),
    "unknown column": (lambda p: [str(table(p / "t.csv", good_rows())), "--target", "lable"], "Did you mean 'label'?"),
    "no target": (lambda p: [str(table(p / "t.csv", good_rows()))], "name of the column to predict"),
    "one-class target": (
        lambda p: [str(table(p / "t.csv", [f"{i},{i},x" for i in range(30)])), "--target", "label"],
        "one value only ('x')",
    ),
    "text target": (
        lambda p: [str(table(p / "t.csv", [f"{i},{i},some text {i}" for i in range(60)])), "--target", "label"],
        "not free text",
    ),
    "three classes for a binary metric": (
        lambda p: [str(table(p / "t.csv", [f"{i},{i},{'xyz'[i % 3]}" for i in range(60)])), "--target", "label"],
        "--positive",
    ),
    "only constant columns": (
        lambda p: [str(table(p / "t.csv", [f"1,2,{i % 2}" for i in range(60)])), "--target", "label"],
        "constant",
    ),
    "only an all-missing column": (
        lambda p: [str(table(p / "t.csv", [f",{i % 2}" for i in range(60)], "a,label")), "--target", "label"],
        "no value at all",
    ),
    "0 rows": (lambda p: [str(table(p / "t.csv", [])), "--target", "label"], "0 rows"),
    "empty file": (lambda p: [str(_empty(p / "t.csv")), "--target", "label"], "empty"),
    "duplicate column names": (
        lambda p: [str(table(p / "t.csv", good_rows(), "a,a,label")), "--target", "label"],
        "'a' more than once",
    ),
    "non-UTF-8": (lambda p: [str(write_unreadable(p / "t.csv")), "--target", "label"], "--encoding"),
    "unknown encoding": (
        lambda p: [str(table(p / "t.csv", good_rows())), "--target", "label", "--encoding", "klingon"],
        "klingon",
    ),
    "ragged lines": (
        lambda p: [str(table(p / "t.csv", [*good_rows(), "1,2,3,4,5"])), "--target", "label"],
        "as many fields as the header",
    ),
    "1-row minority class": (
        lambda p: [str(table(p / "t.csv", ["1,2,yes", *(f"{i},{i},no" for i in range(60))])), "--target", "label"],
        "1 row of class 'yes'",
    ),
    "target alone": (
        lambda p: [str(table(p / "t.csv", ["yes", "no"] * 20, "label")), "--target", "label"],
        "no column but the target",
    ),
    "unknown metric": (
        lambda p: [str(table(p / "t.csv", good_rows())), "--target", "label", "--metric", "aurok"],
        "Did you mean 'auroc'?",
    ),
    "unknown model": (
        lambda p: [str(table(p / "t.csv", good_rows())), "--target", "label", "--model", "transformer"],
        "efficientnet-lite0 or timm/NAME",
    ),
    "option of another kind": (
        lambda p: [str(table(p / "t.csv", good_rows())), "--target", "label", "--epochs", "3"],
        "--epochs: got the option for a table in memory, expected masks or neighbours (--metric map@r)",
    ),
    "unknown positive": (
        lambda p: [str(table(p / "t.csv", good_rows())), "--target", "label", "--positive", "yse"],
        "Did you mean 'yes'?",
    ),
    "unknown group": (
        lambda p: [str(table(p / "t.csv", good_rows())), "--target", "label", "--group", "c"],
        "a column of the data",
    ),
    "pickled npz": (lambda p: [str(_pickled(p / "t.npz")), "--target", "y"], "plain arrays"),
    "cut-off npz": (lambda p: [str(_cut_off(p / "t.npz")), "--target", "y"], "cannot be read"),
    "folder without images": (lambda p: [str(p)], "without images"),
    "file that is no image": (lambda p: [str(_not_images(p))], "not a readable image"),
}


def _empty(path: Path) -> Path:
    path.touch()
    return path


def _pickled(path: Path) -> Path:
    np.savez(path, X=np.zeros((10, 2)), y=np.array([{}] * 10, dtype=object))
    return path


def _cut_off(path: Path) -> Path:
    np.savez(path, X=np.zeros((10, 2)), y=np.zeros(10))
    path.write_bytes(path.read_bytes()[:100])
    return path


def _not_images(path: Path) -> Path:
    for name in ("cat", "dog"):
        (path / "pictures" / name).mkdir(parents=True)
        (path / "pictures" / name / "a.png").write_text("not an image")
    return path / "pictures"


@pytest.mark.parametrize("case", CASES)
def test_bad_input_is_one_line_and_exit_code_2(case: str, tmp_path: Path) -> None:
    words, expected = CASES[case]
    arguments = words(tmp_path)
    line = refused("train", *arguments, *([] if "--metric" in arguments else ["--metric", "auroc"]))
    assert expected in line


def test_huge_table_is_refused_before_reading_with_the_size_it_would_need(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = table(tmp_path / "huge.csv", good_rows())
    with path.open("ab") as file:
        file.truncate(2 * 1024**3)  # sparse: 2 GB that take no space
    monkeypatch.setattr(tables, "available_memory", lambda: 4 * 1024**3)
    line = refused("train", path, "--target", "label", "--metric", "auroc")
    assert "2.0 GB" in line
    assert "6.0 GB" in line
    assert "--rows" in line


def test_rows_reads_the_start_of_a_huge_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = table(tmp_path / "huge.csv", good_rows())
    monkeypatch.setattr(tables, "available_memory", lambda: 10)
    assert len(tables.read_table(path, rows=7)["a"]) == 7


def test_output_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    data = table(tmp_path / "t.csv", good_rows())
    line = refused("train", data, "--target", "label", "--metric", "auroc", "--out", tmp_path / "file" / "run")
    assert "may be written" in line


def test_output_folder_with_a_run_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "config.json").write_text("{}")
    data = table(tmp_path / "t.csv", good_rows())
    line = refused("train", data, "--target", "label", "--metric", "auroc", "--out", tmp_path / "old")
    assert "--resume" in line
    assert (tmp_path / "old" / "config.json").read_text() == "{}"


def test_constant_and_empty_columns_beside_good_ones_are_left_out_and_named(tmp_path: Path) -> None:
    rows = [f"{i % 5},7,,{'yes' if i % 3 == 0 else 'no'}" for i in range(60)]
    data = table(tmp_path / "t.csv", rows, "good,constant,empty,label")
    out = tmp_path / "out"
    words = ["train", str(data), "--target", "label", "--metric", "auroc", "--out", str(out)]
    result = CliRunner().invoke(app, [*words, "--members", "linear"])
    assert result.exit_code == 0, result.output
    assert "column 'constant' left out: constant (7)" in result.stderr
    assert "column 'empty' left out: no value at all" in result.stderr


@pytest.mark.parametrize("damage", ["cut", "flip", "header", "empty"])
def test_damaged_checkpoint_is_named(tmp_path: Path, damage: str) -> None:
    import torch

    from aimfor.data import checkpoint
    from aimfor.errors import InputError

    path = tmp_path / "checkpoint.safetensors"
    checkpoint.save(path, {"w": torch.randn(50)}, {"a": 1})
    good = path.read_bytes()
    changed = bytearray(good)
    changed[-7] ^= 1
    path.write_bytes(
        {"cut": good[:-20], "flip": bytes(changed), "header": b"\xff" * 8 + good[8:], "empty": b""}[damage]
    )
    with pytest.raises(InputError, match=r"checkpoint\.safetensors, which is damaged"):
        checkpoint.load(path)


def test_full_disk_while_saving_leaves_the_previous_checkpoint(tmp_path: Path) -> None:
    """A real failing write: the process may not write files beyond 20 kB, so the second state cannot be saved."""
    code = """
        import resource, sys, torch
        from pathlib import Path
        from aimfor.errors import InputError
        from aimfor.data import checkpoint
        path = Path(sys.argv[1]) / "checkpoint.safetensors"
        checkpoint.save(path, {"w": torch.zeros(100)}, {"step": 1})
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, resource.RLIM_INFINITY))
        try:
            checkpoint.save(path, {"w": torch.zeros(100_000)}, {"step": 2})
        except InputError as error:
            print(error)
    """
    done = finished(tmp_path, code=code)
    assert "could not be written" in done.stdout
    from aimfor.data import checkpoint

    tensors, state = checkpoint.load(tmp_path / "checkpoint.safetensors")
    assert state == {"step": 1}
    assert tensors["w"].shape == (100,)
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint.safetensors"]
