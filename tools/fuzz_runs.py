"""Damaged and hostile run folders against `aimfor predict`: one line and exit code 2, or the answer as before.

    python tools/fuzz_runs.py --folders 1000 --seed 0

Two runs are trained, a committee and a single network. Each folder is a copy of one with one change: bytes flipped, a
file cut, emptied, removed, replaced by a link or by a directory, a JSON key missing, of another type or of a monstrous
size, a header that promises more than there is, code named in config.json. Every folder is scored in a process that
notices files written elsewhere and modules imported from the current directory. A crash of the process is a finding.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

STRANGE: tuple[Any, ...] = (
    None, True, -1, 0, 2**70, 1e308, -1e308, "", "nan", "a" * 10_000, [], [[]], {}, {"a": 1}, [None], "../../outside",
    "foreign:net",
)  # fmt: skip
READ = ("config.json", "threshold.json", "committee.json", "model.safetensors")


def train_two(place: Path) -> list[Path]:
    """A small table, a committee of it and one network; returns the run folders."""
    rng = random.Random(0)
    lines = ["age,city,when,label"]
    for row in range(160):
        label = int(row % 40 == 0)  # few positives make few folds, and a folder that is read quickly
        age, city = rng.gauss(label, 1), rng.choice(["Rome", "Oslo", "Lima"])
        lines.append(f"{age:.3f},{city},2024-0{rng.randint(1, 9)}-1{rng.randint(0, 9)},{label}")
    (place / "t.csv").write_text("\n".join(lines) + "\n")
    (place / "new.csv").write_text("\n".join(lines[:9]) + "\n")
    runs: dict[str, list[str]] = {"committee": [], "network": ["--model", "mlp", "--epochs", "2"]}
    for name, words in runs.items():
        command = [sys.executable, "-m", "aimfor", "train", "t.csv", "--target", "label", "--metric", "f1"]
        subprocess.run([*command, *words, "--out", name, "--quiet"], cwd=place, check=True)
    return [place / name for name in runs]


def places_of(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Paths to everything inside a JSON value."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [found for key, entry in inside for found in ((*path, key), *places_of(entry, (*path, key)))]


def change_json(path: Path, rng: random.Random) -> str:
    content = json.loads(path.read_text())
    where = rng.choice(places_of(content))
    holder = content
    for key in where[:-1]:
        holder = holder[key]
    if rng.random() < 0.3:
        del holder[where[-1]]
        what = "removed"
    else:
        holder[where[-1]] = rng.choice(STRANGE)
        what = f"= {str(holder[where[-1]])[:20]}"
    path.write_text(json.dumps(content))
    return f"{path.name}: {'/'.join(map(str, where))} {what}"


def flip_bytes(path: Path, rng: random.Random) -> str:
    content = bytearray(path.read_bytes())
    for _ in range(rng.choice((1, 1, 3, 20))):
        content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    path.write_bytes(content)
    return f"{path.name}: bytes flipped"


def cut(path: Path, rng: random.Random) -> str:
    content = path.read_bytes()
    path.write_bytes(content[: rng.randrange(len(content))])
    return f"{path.name}: cut"


def promise_more(path: Path, rng: random.Random) -> str:
    """A safetensors header of an enormous length."""
    content = path.read_bytes()
    path.write_bytes(rng.choice((2**63 - 1, 2**40, 99_000_000)).to_bytes(8, "little") + content[8:])
    return f"{path.name}: header length"


def remove(path: Path, rng: random.Random) -> str:
    path.unlink()
    return f"{path.name}: removed"


def link_out(path: Path, rng: random.Random) -> str:
    outside = path.parent.parent / f"outside-{path.name}"
    shutil.move(path, outside)
    path.symlink_to(outside)
    return f"{path.name}: link"


def make_folder(path: Path, rng: random.Random) -> str:
    path.unlink()
    path.mkdir()
    return f"{path.name}: a folder"


def deep(path: Path, rng: random.Random) -> str:
    path.write_text(
        rng.choice(('{"a":' * 50_000, "[" * 200_000, "{" + '"k":0,' * 10 + '"k":NaN}', "null", "\x00" * 50))
    )
    return f"{path.name}: deep or strange JSON"


def damage(folder: Path, rng: random.Random) -> str:
    files = [path for path in sorted(folder.rglob("*")) if path.name in READ or path.parent.name == "members"]
    path = rng.choice(files)
    changes: list[Callable[[Path, random.Random], str]] = [flip_bytes, cut, remove, link_out, make_folder]
    changes += [change_json] * 8 + [deep] if path.suffix == ".json" else []
    changes += [promise_more] if path.suffix == ".safetensors" else []
    return rng.choice(changes)(path, rng)


def score(folders: list[Path], data: Path, place: Path) -> None:
    """In a process of its own: predicts with each folder and prints a JSON line about how it ended."""
    from typer.testing import CliRunner

    from aimfor.app.cli.main import app

    os.chdir(place)
    for folder in folders:
        before = {str(path) for path in place.rglob("*")}
        done = CliRunner().invoke(app, ["predict", str(folder), str(data)])
        written = sorted({str(path) for path in place.rglob("*")} - before)
        strange = done.exception is not None and not isinstance(done.exception, SystemExit)
        said = {"code": done.exit_code, "lines": done.stderr.count("\n"), "stderr": done.stderr[:300]}
        traceback = repr(done.exception)[:300] if strange else ""
        print(
            json.dumps({**said, "written": written, "foreign": "foreign" in sys.modules, "raised": traceback}),
            flush=True,
        )


def run(count: int, seed: int, portion: int = 40) -> tuple[list[str], dict[str, int]]:
    """Findings as sentences, and how many folders ended how."""
    rng, findings, ended = random.Random(seed), [], {"refused": 0, "scored": 0}
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        runs = train_two(place)
        (place / "foreign.py").write_text("def net(shape, outputs):\n    raise SystemExit(9)\n")
        for start in range(0, count, portion):
            folders, what = [], []
            for number in range(start, min(count, start + portion)):
                folders.append(shutil.copytree(rng.choice(runs), place / f"copies-{start}" / str(number) / "run"))
                what.append(damage(folders[-1], rng))
            words = [sys.executable, __file__, "--score", str(place), *map(str, folders)]
            done = subprocess.run(words, capture_output=True, text=True)
            answers = [json.loads(line) for line in done.stdout.splitlines()]
            if len(answers) < len(folders):
                findings.append(f"{what[len(answers)]}: the process died ({done.returncode}) {done.stderr[-300:]}")
            for text, answer in zip(what, answers, strict=False):
                ended["refused" if answer["code"] == 2 else "scored"] += 1
                wrong = answer["raised"] or answer["code"] not in (0, 2) or answer["written"] or answer["foreign"]
                if wrong or (answer["code"] == 2 and answer["lines"] != 1):
                    findings.append(f"{text}: {answer}")
            shutil.rmtree(place / f"copies-{start}")
    return findings, ended


def main() -> int:
    if sys.argv[1:2] == ["--score"]:
        place = Path(sys.argv[2])
        score([Path(one) for one in sys.argv[3:]], place / "new.csv", place)
        return 0
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folders", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    findings, ended = run(given.folders, given.seed)
    for finding in findings:
        print(finding)
    print(f"{given.folders} folders: {ended['refused']} refused in one line, {ended['scored']} scored")
    print(f"{len(findings)} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    raise SystemExit(main())
