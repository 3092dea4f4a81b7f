"""A run folder is data: it is checked file by file, and nothing it names is executed."""

from __future__ import annotations

import json
import runpy
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from aimfor.cli.main import app
from aimfor.data import backbones
from programs import Program


def invoke(*words: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, [str(word) for word in words])
    return result.exit_code, result.output


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("table") / "t.csv"
    rng = np.random.default_rng(0)
    rows = [f"{a:.3f},{b:.3f},{int(a + 0.3 * b > 0.5)}" for a, b in rng.normal(size=(120, 2))]
    path.write_text("a,b,label\n" + "\n".join(rows) + "\n")
    return path


@pytest.fixture(scope="module")
def finished(table: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("run") / "out"
    words = ["--members", "linear", "-q", "--out", out]
    code, text = invoke("train", table, "--target", "label", "--metric", "f1", *words)
    assert code == 0, text
    return out


def edit(path: Path, change: Callable[[dict[str, object]], object]) -> None:
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


@pytest.mark.parametrize(
    ("file", "damage", "says"),
    [
        ("threshold.json", lambda path: path.write_text('{"threshold": NaN}'), "the number NaN"),
        ("threshold.json", lambda path: path.write_text('{"threshold": 1e999}'), "the number 1e999"),
        ("threshold.json", lambda path: path.write_text("[1, 2]"), "it holds list"),
        ("threshold.json", lambda path: path.write_text("[" * 100_000), "damaged"),
        ("threshold.json", lambda path: edit(path, lambda content: content.pop("threshold")), "threshold"),
        ("threshold.json", lambda path: edit(path, lambda content: content.pop("calibration")), "no calibration"),
        ("threshold.json", lambda path: edit(path, lambda content: content.update(calibration=[1.0])), "calibration"),
        ("threshold.json", lambda path: edit(path, lambda content: content.update(calibration="nan")), "calibration"),
        ("config.json", lambda path: edit(path, lambda content: content.pop("labels")), "labels"),
        ("config.json", lambda path: edit(path, lambda content: content["labels"]["classes"].pop()), "two classes"),
        (
            "config.json",
            lambda path: edit(path, lambda content: content["labels"].update(classes=[1, 2])),
            "two classes",
        ),
        ("config.json", lambda path: edit(path, lambda content: content.update(encoder=[1])), "damaged"),
        ("members/linear-0.safetensors", lambda path: path.write_bytes(path.read_bytes()[:-3]), "damaged"),
        ("committee.json", lambda path: edit(path, lambda content: content["seats"][0].update(name="x")), "knows"),
    ],
)
def test_a_damaged_file_is_named_in_one_line(
    finished: Path, table: Path, tmp_path: Path, file: str, damage: Callable[[Path], object], says: str
) -> None:
    run = shutil.copytree(finished, tmp_path / "run")
    damage(run / file)
    code, text = invoke("predict", run, table)
    assert code == 2
    assert file in text
    assert says in text
    assert text.count("\n") == 1


def test_links_are_refused(finished: Path, table: Path, tmp_path: Path) -> None:
    run = shutil.copytree(finished, tmp_path / "run")
    shutil.move(run / "threshold.json", tmp_path / "elsewhere.json")
    (run / "threshold.json").symlink_to(tmp_path / "elsewhere.json")
    code, text = invoke("predict", run, table)
    assert code == 2
    assert "which is a link" in text


READ = """
    import runpy, sys

    sys.stdin = open(sys.argv.pop(1))
    sys.argv.pop(0)
    sys.path.insert(0, sys.argv[0].rpartition("/")[0])
    runpy.run_path(sys.argv[0], run_name="__main__")
"""


def forked(command: list[str], *, input: str, **_: object) -> subprocess.CompletedProcess[str]:
    """``subprocess.run`` of a script that reads its input, forked from a process that has imported everything."""
    with tempfile.NamedTemporaryFile("w") as file:
        file.write(input)
        file.flush()
        program = Program(file.name, *command[1:], code=READ)
        return subprocess.CompletedProcess(command, program.wait(), program.stdout, program.stderr)


def test_a_slice_of_the_fuzz_of_run_folders(monkeypatch: pytest.MonkeyPatch) -> None:
    """`python tools/fuzz_runs.py` does a thousand, of all kinds; the seed here is another one."""
    tools = Path(__file__).parents[3] / "tools"
    monkeypatch.syspath_prepend(str(tools))
    monkeypatch.setattr(backbones, "_lite0", backbones._lite0)  # the tool puts a stand-in there
    tool = runpy.run_path(str(tools / "fuzz_runs.py"))
    monkeypatch.setattr(tool["subprocess"], "run", forked)
    findings, ended = tool["run"](16, seed=7, kinds=("ranked", "decision"))
    assert not findings
    assert ended["refused"] > 6
