"""A small folder of every kind that aimfor writes, and the commands that read it: what `fuzz_runs.py` damages."""

from __future__ import annotations

import random
import runpy
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Kind:
    """A sort of folder. In the words of commands, RUN is the folder, DATA the new rows and OUT a place to write to."""

    name: str
    #: Writes what is learned from beside the folder, and returns the words that make the folder and the new rows.
    make: Callable[[Path], tuple[list[list[str]], Path]]
    commands: tuple[tuple[str, ...], ...] = (("predict", "RUN", "DATA"), ("report", "RUN"))
    #: Exit codes of a command that could do what it was asked to.
    fine: tuple[int, ...] = (0,)


def stand_in() -> None:
    """A backbone without weights: what it sees does not matter here, time does."""
    from aimfor.data import backbones

    samples = runpy.run_path(str(Path(__file__).parents[1] / "tests" / "pictures_samples.py"))
    backbones._lite0 = samples["tiny"]  # type: ignore[assignment]


def _lines(rows: int, seed: int = 0) -> list[str]:
    """Few positives make few folds, and a folder that is read quickly."""
    rng, lines = random.Random(seed), ["age,city,when,label"]
    for row in range(rows):
        label = int(row % 40 == 0)
        age, city = rng.gauss(label, 1), rng.choice(["Rome", "Oslo", "Lima"])
        lines.append(f"{age:.3f},{city},2024-0{rng.randint(1, 9)}-1{rng.randint(0, 9)},{label}")
    return lines


def _write(path: Path, lines: list[str]) -> Path:
    path.write_text("\n".join(lines) + "\n")
    return path


def _trained(data: Path, *words: str) -> list[list[str]]:
    return [["train", str(data), *words, "--quiet", "--out", "RUN"]]


def _table(place: Path) -> tuple[list[list[str]], Path]:
    lines = _lines(160)
    data, new = _write(place / "t.csv", lines), _write(place / "new.csv", lines[:9])
    return _trained(data, "--target", "label", "--metric", "f1"), new


def _streamed(place: Path) -> tuple[list[list[str]], Path]:
    (place / "rows").mkdir()
    for file in range(3):
        _write(place / "rows" / f"{file}.csv", _lines(400, file))
    new = _write(place / "new.csv", _lines(8))
    return _trained(place / "rows", "--target", "label", "--metric", "ap"), new


def _ranked(place: Path) -> tuple[list[list[str]], Path]:
    rng, lines = random.Random(0), ["query,a,b,grade"]
    for query in range(40):
        for _ in range(rng.randint(2, 8)):
            a = rng.gauss(0, 1)
            lines.append(f"q{query},{a:.4f},{rng.gauss(0, 1):.4f},{min(2, max(0, round(a)))}")
    data, new = _write(place / "t.csv", lines), _write(place / "new.csv", lines[:20])
    words = ("--target", "grade", "--metric", "ndcg@10", "--query", "query", "--members", "linear,trees")
    return _trained(data, *words), new


def _many(place: Path) -> tuple[list[list[str]], Path]:
    samples = runpy.run_path(str(Path(__file__).parents[1] / "tests" / "pictures_samples.py"))
    rng, lines = random.Random(0), ["file,below,noisy"]
    for seed in range(90):
        samples["picture"](seed % 2, seed).save(place / f"{seed}.png")
        noisy = "" if seed % 17 == 16 else int(rng.random() < 0.3)
        lines.append(f"{seed}.png,{seed % 2 if rng.random() < 0.85 else 1 - seed % 2},{noisy}")
    data, new = _write(place / "labels.csv", lines), _write(place / "new.csv", lines[:5])
    words = ("--metric", "ap", "--model", "efficientnet-lite0", "--image-size", "32", "--members", "linear")
    return _trained(data, "--target", "below,noisy", *words), new


def _masks(place: Path) -> tuple[list[list[str]], Path]:
    import numpy as np
    from PIL import Image

    for number in range(8):
        ids = np.zeros((32, 48), np.uint8)
        ids[number : number + 16, 10:30] = 1
        for root, pixels in (("scenes", np.stack([ids * 200] * 3, 2)), ("masks", ids), ("new", np.stack([ids] * 3, 2))):
            folder = place / root / f"drive{number % 4}"
            folder.mkdir(parents=True, exist_ok=True)
            if root != "new" or number < 2:
                Image.fromarray(pixels).save(folder / f"{number}.png")
    words = ("--metric", "iou", "--cluster", "^[^/]+", "--image-size", "64", "--epochs", "1")
    return _trained(place / "scenes", "--masks", str(place / "masks"), *words), place / "new"


def _retrieval(place: Path) -> tuple[list[list[str]], Path]:
    samples = runpy.run_path(str(Path(__file__).parents[1] / "tests" / "pictures_samples.py"))
    photos = samples["many_classes"](place / "photos")
    words = ("--metric", "map@r", "--model", "efficientnet-lite0", "--image-size", "32", "--epochs", "2")
    return _trained(photos, *words), photos


def _scored(path: Path, rows: int, seed: int) -> Path:
    rng, lines = random.Random(seed), ["score,place,label"]
    for _ in range(rows):
        label = int(rng.random() < 0.4)
        lines.append(f"{rng.gauss(3 * label, 1):.4f},{rng.choice('ab')},{label}")
    return _write(path, lines)


#: Options of `decide`.
FLOORS = ("--target", "label", "--score", "score", "--maximize", "recall", "--subject-to", "precision >= 0.6")


def _decision(place: Path) -> tuple[list[list[str]], Path]:
    """With a log of one look, so that there is one to damage."""
    data, seen = _scored(place / "scores.csv", 600, 0), _scored(place / "seen.csv", 60, 1)
    made = ["decide", str(data), *FLOORS, "--group", "place", "--out", "RUN"]
    return [made, ["check", "RUN", str(seen)]], _scored(place / "new.csv", 60, 2)


def _watched(place: Path) -> tuple[list[list[str]], Path]:
    data, seen = _scored(place / "scores.csv", 800, 0), _scored(place / "seen.csv", 60, 1)
    words = ("--target", "label", "--metric", "recall@precision=0.6", "--fast")
    return [*_trained(data, *words), ["check", "RUN", str(seen)]], _scored(place / "new.csv", 60, 2)


def _files(place: Path) -> tuple[list[list[str]], Path]:
    """No run: the files that `decide` reads."""
    (place / "run").mkdir()
    _scored(place / "run" / "scores.csv", 300, 0)
    _scored(place / "run" / "learn.csv", 100, 1)
    return [], place / "run" / "scores.csv"


VERDICTS = (0, 1, 3)
DECIDE = ("decide", "RUN/scores.csv", *FLOORS, "--learn", "RUN/learn.csv", "--out", "OUT")
KINDS = {
    kind.name: kind
    for kind in (
        Kind("ensemble", _table),
        Kind("ranked", _ranked),
        Kind("streamed", _streamed),
        Kind("many", _many),
        Kind("retrieval", _retrieval, (("embed", "RUN", "DATA", "--out", "OUT"), ("report", "RUN"))),
        Kind("masks", _masks, (("predict", "RUN", "DATA", "--out", "OUT"), ("report", "RUN"))),
        Kind("decision", _decision, (("check", "RUN", "DATA"),), VERDICTS),
        Kind("watched", _watched, (("check", "RUN", "DATA"), ("predict", "RUN", "DATA")), VERDICTS),
        Kind("files", _files, (DECIDE,), (0, 1)),
    )
}  # fmt: skip
