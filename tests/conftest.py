"""Shared test settings: one thread, no data needed, and real data found only when it is there."""

from __future__ import annotations

import os
from pathlib import Path

# Before any library counts the cores: the threads of two workers would wait for each other, as would their programs.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest
import torch
from hypothesis import HealthCheck, settings

from draws import LONG
from programs import start_server

torch.set_num_threads(1)
#: The same examples on every day and machine; `make laws` draws others.
settings.register_profile(
    "default", deadline=None, max_examples=50, suppress_health_check=[HealthCheck.too_slow], derandomize=not LONG
)
settings.load_profile("default")


@pytest.fixture(autouse=True)
def _seed() -> None:
    """The processor's generator alone: without a GPU, ``torch.manual_seed`` writes down three whole stacks of calls for
    the day one appears, which takes longer than most tests."""
    torch.default_generator.manual_seed(0)


@pytest.fixture
def real_data() -> Path:
    """The folder of real data sets (AIMFOR_DATA); tests that need it skip cleanly without."""
    folder = Path(os.environ.get("AIMFOR_DATA", Path(__file__).parents[2] / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip("no real data here: set AIMFOR_DATA to its folder")
    return folder


@pytest.fixture(scope="session")
def warm_server() -> None:
    """For pools of processes: they are forked from the server that `programs` has, which has imported everything."""
    start_server()


@pytest.hookimpl(tryfirst=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    """After the last line: pages that nobody has looked at are easily overlooked among the dots."""
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    reasons = [str(report.longrepr) for report in terminal.stats.get("skipped", [])] if terminal else []
    unseen = sum("Chromium" in reason or "playwright" in reason for reason in reasons)
    if unseen:
        install = "Debian: apt-get install chromium"
        terminal.write_line(f"{unseen} browser tests were skipped: there is no Chromium here ({install}).")
