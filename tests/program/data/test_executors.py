"""Cells on executors: the same results everywhere, lost workers made good, out at once on Ctrl-C."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import aimfor
from aimfor.data import executors
from aimfor.data.executors import cores, open_executor, run_cells
from aimfor.errors import InputError
from cell_functions import endless_after_zero, fails_on_three, kills_its_worker, second_dies, square
from programs import until

pytestmark = pytest.mark.usefixtures("warm_server")
TESTS = Path(__file__).parents[2]
CELLS = {f"k{number}": {"number": number} for number in range(8)}
EXPECTED = {key: {"square": cell["number"] ** 2} for key, cell in CELLS.items()}


def test_every_executor_gives_the_same_table(tmp_path: Path) -> None:
    for name in ("local:1", "local:2", "cell_functions:threads"):
        found = run_cells(CELLS, square, name, tmp_path / name.replace(":", "_"))
        assert json.dumps(found) == json.dumps(EXPECTED), name


def test_the_store_is_used_again_and_order_is_that_of_the_cells(tmp_path: Path) -> None:
    run_cells({"k3": CELLS["k3"]}, square, store=tmp_path)
    (tmp_path / "k3.json").write_text('{"square": -1}')
    calls: list[tuple[int, int]] = []
    found = run_cells(CELLS, square, store=tmp_path, report=lambda *pair: calls.append(pair))
    assert found["k3"] == {"square": -1}
    assert list(found) == list(CELLS)
    assert calls[-1] == (8, 8)
    assert len(calls) == 7


def test_numbers_that_are_not_finite_are_the_same_fresh_and_from_the_store(tmp_path: Path) -> None:
    cells = {"a": {"x": 1}}
    fresh = run_cells(cells, lambda cell: {"value": float("nan"), "all": [float("-inf"), 1.0]}, store=tmp_path)
    again = run_cells(cells, lambda cell: {}, store=tmp_path)
    assert fresh == again == {"a": {"value": None, "all": [None, 1.0]}}


@pytest.mark.parametrize(
    ("files", "most"),
    [
        ({}, 8),
        ({"cpu.max": "max 100000"}, 8),
        ({"cpu.max": "250000 100000"}, 2),
        ({"cpu.max": "20000 100000"}, 1),
        ({"cpu.max": "1600000 100000"}, 8),
        ({"cpu/cpu.cfs_quota_us": "300000", "cpu/cpu.cfs_period_us": "100000"}, 3),
        ({"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, 8),
        ({"cpu/cpu.cfs_quota_us": "300000"}, 8),
        ({"cpu.max": "?"}, 8),
    ],
)
def test_a_quota_of_processor_time_is_so_many_cores(
    files: dict[str, str], most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text + "\n")
    monkeypatch.setattr(executors, "CONTROL_GROUP", tmp_path)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    assert cores() == most


def test_cores_are_counted_where_a_process_has_no_set_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    assert 1 <= cores() <= (os.cpu_count() or 1)
    monkeypatch.delattr(os, "sched_getaffinity")  # as on macOS and Windows
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert cores() == 1


def test_a_cluster_of_another_version_is_left_again(monkeypatch: pytest.MonkeyPatch) -> None:
    closed = []
    client = SimpleNamespace(run=lambda _: {"worker": {"aimfor": "0.0"}}, close=lambda: closed.append(True))
    monkeypatch.setitem(sys.modules, "distributed", SimpleNamespace(Client=lambda *_, **__: client))
    with pytest.raises(InputError, match="what is installed here"), open_executor("dask://somewhere:1"):
        pass
    assert closed


def test_a_local_worker_that_dies_changes_nothing(tmp_path: Path) -> None:
    cells = {key: {**cell, "flag": str(tmp_path / "died")} for key, cell in CELLS.items()}
    assert run_cells(cells, kills_its_worker, "local:2", tmp_path / "store") == EXPECTED
    assert (tmp_path / "died").exists()


def test_workers_that_keep_dying_are_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(aimfor.InputError, match="died 3 times"):
        run_cells({"a": {"flag": "", "number": 3}}, kills_its_worker, "local:2")


def test_an_exception_of_a_cell_is_raised_and_the_rest_is_kept(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError, match="three"):
        run_cells(CELLS, fails_on_three, "local:2", tmp_path)
    assert not (tmp_path / "k3.json").exists()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("local:0", "local:N"),
        ("local:two", "local:N"),
        ("slurm", "package.module:factory"),
        ("http://somewhere", "package.module:factory"),
        ("no_such_module:factory", "No module named"),
        ("json:loads", "which fails"),
        ("builtins:dict", "gives a dict"),
        ("dask://127.0.0.1:9", "does not answer"),
    ],
)
def test_bad_names_are_one_sentence(name: str, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aimfor.data.executors.PATIENCE", 0.5)
    with pytest.raises(aimfor.InputError, match=text) as caught, open_executor(name):
        pass
    assert caught.value.argument == "--executor"


def test_what_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name in (("distributed", "dask://127.0.0.1:1"), ("ray", "ray")):
        monkeypatch.setitem(sys.modules, module, None)
        with pytest.raises(aimfor.InputError, match="pip install"), open_executor(name):
            pass


SERVED = """
import sys
from aimfor.data.executors import run_cells
from cell_functions import origin

if __name__ == "__main__":
    cells = {str(number): {"folder": sys.argv[1]} for number in range(4)}
    for one in run_cells(cells, origin, "local:2").values():
        print(one["here"], one["parent"], one["imported"])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere every process starts anew")
def test_workers_are_forked_from_one_that_has_imported_their_module(tmp_path: Path) -> None:
    (tmp_path / "run.py").write_text(SERVED)
    path = f"{TESTS}:{os.environ.get('PYTHONPATH', '')}"
    process = subprocess.run(
        [sys.executable, str(tmp_path / "run.py"), str(tmp_path)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )
    found = [line.split() for line in process.stdout.splitlines()]
    assert len(found) == 4, process.stderr
    assert len({here for here, _, _ in found}) == 2
    (server,) = {parent for _, parent, _ in found}
    assert {imported for _, _, imported in found} == {server}


SCRIPT = """
import pathlib, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a test run in the background would hand on "ignored"
from aimfor.data.executors import run_cells
from cell_functions import endless_after_zero

if __name__ == "__main__":
    folder = pathlib.Path(sys.argv[1])
    cells = {f"k{n}": {"number": n, "folder": str(folder)} for n in range(6)}
    try:
        run_cells(cells, endless_after_zero, "local:2", folder / "store", lambda *pair: print("one", flush=True))
    except KeyboardInterrupt:
        print("out")
"""


def test_ctrl_c_does_not_wait_for_the_cells_that_run(tmp_path: Path) -> None:
    script = tmp_path / "run.py"
    script.write_text(SCRIPT)
    path = f"{TESTS}:{os.environ.get('PYTHONPATH', '')}"
    process = subprocess.Popen(
        [sys.executable, str(script), str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"one\n"
    until(lambda: len(list(tmp_path.glob("*-was-here"))) == 2)
    process.send_signal(signal.SIGINT)
    out, errors = process.communicate()
    assert out == b"out\n", errors.decode()
    assert not (tmp_path / "ended").exists()
    assert json.loads((tmp_path / "store" / "k0.json").read_text()) == {"square": 0}


# ------------------------------------------------------------ a real Dask cluster


class Cluster:
    """A scheduler and two worker processes of their own, started by Dask's command line."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "scheduler.json"
        path = f"{TESTS}:{os.environ.get('PYTHONPATH', '')}"
        self.environment = {**os.environ, "PYTHONPATH": path, "DASK_DISTRIBUTED__WORKER__DAEMON": "False"}
        quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": (folder / "log").open("a")}
        common = [sys.executable, "-m", "dask"]
        here = ["--scheduler-file", str(self.file)]
        self.parts = [
            subprocess.Popen(
                [*common, "scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard", *here],
                env=self.environment, **quiet,
            ),
            *(
                subprocess.Popen(
                    [*common, "worker", "--no-nanny", "--nthreads", "1", "--no-dashboard", "--name", name, *here],
                    env=self.environment, **quiet,
                )
                for name in ("first", "second")
            ),
        ]  # fmt: skip
        quiet["stderr"].close()

    def address(self) -> str:
        """Waits until both workers have joined."""
        from distributed import Client

        until(self._written)
        found = str(json.loads(self.file.read_text())["address"])
        with Client(found, timeout=300, set_as_default=False) as client:
            client.wait_for_workers(2, timeout=300)
        return found.replace("tcp://", "dask://")

    def _written(self) -> bool:
        """Whether the scheduler has written its file to the end: it is there, and empty, before."""
        try:
            json.loads(self.file.read_text())
        except (FileNotFoundError, json.JSONDecodeError):
            return False
        return True

    def close(self) -> None:
        for part in self.parts:
            part.kill()
            part.wait()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    started = Cluster(tmp_path)
    yield started
    started.close()


def test_a_dask_worker_killed_in_the_middle_changes_nothing(cluster: Cluster, tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    address = cluster.address()
    cells = {key: {**cell, "folder": str(tmp_path)} for key, cell in CELLS.items()}
    assert json.dumps(run_cells(cells, second_dies, address, tmp_path / "store")) == json.dumps(EXPECTED)
    assert cluster.parts[2].wait() == -signal.SIGKILL
    assert len(list(tmp_path.glob("*-was-here"))) == 2  # both worked before one was killed
    with pytest.raises(KeyboardInterrupt):
        run_cells(cells, endless_after_zero, address, report=_interrupt)
    assert not (tmp_path / "ended").exists()


def _interrupt(finished: int, whole: int) -> None:
    raise KeyboardInterrupt
