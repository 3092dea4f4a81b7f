"""Runs on pictures that are killed (SIGKILL) in the middle go on to the same files, bit for bit."""

from __future__ import annotations

import json
import os
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from aimfor import failpoints
from aimfor.cli.main import app
from aimfor.data import backbones, checkpoint
from aimfor.learners.ensemble import FolderStore
from aimfor.learners.ensemble.members import pictures as members
from pictures_samples import class_folders, many_classes, tiny

from .test_many_labels import table
from .test_mask_run import scenes

#: The point at which a run is asked to stop.
STEP = 5


@pytest.fixture(autouse=True)
def _tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backbones, "_lite0", tiny)
    monkeypatch.setattr(members, "STEPS", 8)


def run(*words: object) -> None:
    result = CliRunner().invoke(app, [str(word) for word in (*words, "-q")])
    assert result.exit_code == 0, result.output + repr(result.exception)


def killed_after(cells: int, *words: object) -> None:
    """Runs in a process of its own that kills itself when so many cells are on disk."""
    child = os.fork()
    if child == 0:
        put, done = FolderStore.put, [0]

        def dying(self: FolderStore, *what: Any) -> None:
            put(self, *what)
            done[0] += 1
            if done[0] == cells:
                os.kill(os.getpid(), signal.SIGKILL)

        FolderStore.put = dying  # type: ignore[method-assign]
        run(*words)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


def content(folder: Path) -> dict[str, Any]:
    """Every file but the log; times of the clock and paths are left out."""
    found: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.suffix == ".safetensors":
            tensors, facts = checkpoint.load(path)
            found[name] = {key: one.numpy().tobytes() for key, one in tensors.items()}, _timeless(facts)
        elif path.suffix == ".json" and path.name != "config.json":
            found[name] = _timeless(json.loads(path.read_text()))
        elif path.is_file() and path.suffix in (".npy", ".txt"):
            found[name] = path.read_bytes()
    return found


def _timeless(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _timeless(one) for key, one in value.items() if key != "seconds"}
    return [_timeless(one) for one in value] if isinstance(value, list) else value


def kinds(folder: Path, kind: str) -> tuple[object, ...]:
    """The command of each kind of run, on data made here."""
    small = ("--model", "efficientnet-lite0", "--image-size", 32)
    if kind == "masks":
        pictures, masks = scenes(folder, 8)
        return ("train", pictures, "--masks", masks, "--metric", "iou", *small, "--epochs", 2, "--cluster", "^[^/]+")
    if kind == "labels":
        data = table(folder / "photos")
        return ("train", data, "--target", "below,noisy", "--metric", "ap", *small, "--members", "linear")
    if kind == "neighbours":
        return ("train", many_classes(folder / "photos", 6, 3), "--metric", "map@r", *small, "--epochs", 2)
    return ("train", class_folders(folder / "photos", 24), "--metric", "ap", "--image-size", 8)


@pytest.mark.parametrize(("kind", "cells"), [("masks", 2), ("labels", 6), ("neighbours", 4), ("pixels", 2)])
def test_a_killed_run_goes_on_to_the_same_bits(kind: str, cells: int, tmp_path: Path) -> None:
    words = kinds(tmp_path, kind)
    whole, killed = tmp_path / "whole" / "run", tmp_path / "killed" / "run"
    run(*words, "--out", whole)
    killed_after(cells, *words, "--out", killed)
    assert (killed / "cells").is_dir()
    assert len(list((killed / "cells").rglob("*.safetensors"))) == cells
    run("train", "--resume", killed)
    assert content(killed) == content(whole)
    assert not (killed / "cells").exists()


@pytest.mark.parametrize("kind", ["masks", "neighbours", "pixels"])
def test_a_stop_ends_with_the_step(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All that is left to do would take hours, and nobody asks more often than there are loops around a step."""
    words, out, asked = kinds(tmp_path, kind), tmp_path / "runs" / "run", f"step:{STEP}=SIGTERM"
    monkeypatch.setattr(members, "STEPS", 100_000)
    words = (*(word if word != 2 else 10_000 for word in words),)
    monkeypatch.setenv(failpoints.VARIABLE, asked)
    monkeypatch.setattr(failpoints, "passed", Counter())
    result = CliRunner().invoke(app, [str(word) for word in (*words, "--out", out, "-q")])
    assert result.exit_code == 130, result.output + repr(result.exception)
    assert STEP <= failpoints.passed[asked] <= STEP + 3
    assert not (out / "metrics.json").exists()
