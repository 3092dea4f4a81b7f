"""A run whose every name carries HTML, a browser to look at it, and what makes every other run quick."""

from __future__ import annotations

import csv
import io
import shutil
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer.testing
from typer.testing import CliRunner

from aimfor.cli.main import app
from aimfor.targets import folds
from undrawn import draw_less, redraw, undraw, wait_less

NASTY = "<script>document.title='owned'</script>"
#: Rooms whose tests make whole runs.
RUNS = ("cli", "data", "runs", "report", "onnx")


@pytest.fixture(autouse=True, scope="module")
def _quick(request: pytest.FixtureRequest) -> Iterator[None]:
    """Where whole runs are made: three folds for a small table instead of ten, few draws for an interval, and figures
    only in modules that look at them (``DRAWN``)."""
    if request.path.parent.name not in RUNS:
        yield
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(folds, "SMALL_FOLDS", 3)
        draw_less(patch)
        wait_less(patch)
        patch.setattr(typer.testing, "_get_command", _command)
        if not getattr(request.module, "DRAWN", False):
            undraw(patch)
        yield


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures as they are, in a module that leaves them out otherwise."""
    redraw(monkeypatch)


@cache
def _command(app: typer.Typer) -> Any:
    """The program's commands, built once instead of for every call, which takes longer than most refusals."""
    return typer.main.get_command(app)


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small run on a table whose file, columns, classes and groups carry HTML."""
    folder = tmp_path_factory.mktemp("report")
    rng = np.random.default_rng(0)
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(["x", f"group{NASTY}", "constant <b>", "label"])
    for _ in range(400):
        x = rng.normal()
        positive = rng.random() < 1 / (1 + np.exp(2 - 2 * x))
        writer.writerow([x, rng.choice(["<i>a</i>", "b&c", "</script>"]), 1, "<u>yes</u>" if positive else "no"])
    (folder / "a<b>&.csv").write_text(text.getvalue())
    words = ["train", str(folder / "a<b>&.csv"), "--target", "label", "--metric", "f1", "--members", "linear", "-q"]
    words += ["--holdout", "0.2"]
    words += ["--group", f"group{NASTY}", "--positive", "<u>yes</u>"]
    with pytest.MonkeyPatch.context() as patch:  # whichever module asks for it first
        redraw(patch)
        result = CliRunner().invoke(app, [*words, "--out", str(folder / "run")])
    assert result.exit_code == 0, result.output
    return folder / "run"


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("no Chromium on this machine (Debian: apt-get install chromium)")
    with api.sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        yield opened
        opened.close()


@pytest.fixture
def open_page(browser: Any) -> Iterator[Callable[..., Any]]:
    """Opens a report in a real browser without a network, with its folds open; what goes wrong is in ``problems``."""
    contexts = []

    def visit(path: Path, width: int = 1000, **settings: Any) -> Any:
        contexts.append(browser.new_context(offline=True, viewport={"width": width, "height": 800}, **settings))
        tab = contexts[-1].new_page()
        tab.problems = []
        tab.on("pageerror", lambda error: tab.problems.append(str(error)))
        tab.on("console", lambda message: tab.problems.append(message.text) if message.type == "error" else None)
        tab.goto(path.as_uri())
        tab.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })")
        return tab

    yield visit
    for context in contexts:
        context.close()


@pytest.fixture
def page(run: Path, open_page: Callable[..., Any]) -> Any:
    """The report of the run, freshly opened."""
    return open_page(run / "report.html")
