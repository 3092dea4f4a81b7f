"""Names, the support table, and pairs that do not exist."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import pytest

import aimfor
from aimfor.__main__ import USAGE
from aimfor.engine import Batch, EngineOutput
from aimfor.metrics import METRICS, metric_from_name

SUPPORT = Path(aimfor.__file__).parent / "support.txt"


def test_every_example_name_makes_its_class() -> None:
    for entry in METRICS:
        assert type(metric_from_name(entry.example)) is entry.cls


def test_unknown_name_suggests_the_nearest() -> None:
    with pytest.raises(aimfor.InputError, match="Did you mean 'auroc'"):
        metric_from_name("auroc_")


def test_public_surface_is_small_and_complete() -> None:
    assert len(aimfor.__all__) <= 40
    for name in aimfor.__all__:
        assert getattr(aimfor, name) is not None
    with pytest.raises(AttributeError, match="nonsense"):
        _ = aimfor.nonsense


def test_the_old_name_of_a_class_still_works_but_is_not_shown() -> None:
    assert aimfor.MetricHead is aimfor.HeadFitter
    assert aimfor.refit.MetricHead is aimfor.HeadFitter
    assert "MetricHead" not in dir(aimfor)
    assert "MetricHead" not in dir(aimfor.refit)


def test_stored_support_table_is_the_live_one() -> None:
    live = aimfor.support() + "\n"
    assert SUPPORT.read_text(encoding="utf-8") == live, "run: python tools/support.py"


def test_readme_shows_the_live_support_table() -> None:
    readme = Path(__file__).parent.parent / "README.md"
    assert aimfor.support() in readme.read_text(encoding="utf-8")


class _OtherEngine(aimfor.Engine):
    name = "other"
    capability = dict  # no metric is a dict
    cost = "?"

    def formulate(self, metric: object, batch: Batch) -> object:
        return batch

    def solve(self, form: object) -> EngineOutput:
        raise AssertionError


def test_pair_that_does_not_exist_fails_at_construction_and_lists_what_does() -> None:
    with pytest.raises(aimfor.UnsupportedPairError, match=r"_OtherEngine cannot train AUROC.*SortedEngine"):
        aimfor.MetricLoss("auroc", _OtherEngine())
    assert issubclass(aimfor.UnsupportedPairError, TypeError)
    assert issubclass(aimfor.InputError, ValueError)


@pytest.mark.parametrize(("arguments", "said"), [(["--version"], aimfor.__version__), (["support"], "auroc")])
def test_command_line_answers_without_torch(arguments: list[str], said: str) -> None:
    run = f"from aimfor.__main__ import main; code = main({arguments!r})"
    code = f"import sys; {run}; assert 'torch' not in sys.modules; sys.exit(code)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said in done.stdout


def test_command_line_starts_in_half_a_second() -> None:
    """CPU time of the child: what a user waits for on a machine that is not busy."""
    seconds = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-m", "aimfor", "support"], check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    assert min(seconds) < 0.5


def test_every_command_of_the_usage_text_exists() -> None:
    listed = [line.split()[0] for line in USAGE.splitlines() if line.startswith("  ")]
    assert {"train", "compare", "support"} <= set(listed)
    for command in listed:
        if command == "support":
            continue
        done = subprocess.run([sys.executable, "-m", "aimfor", command, "--help"], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert f"aimfor {command}" in done.stdout
