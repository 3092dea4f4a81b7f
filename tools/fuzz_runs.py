"""Damaged and hostile folders against `predict`, `report`, `check`, `decide`: exit code 2 and one line, or an answer.

    python tools/fuzz_runs.py --folders 1000 --seed 0 [--first 400] [--kinds masks many] [--keep FOLDER]

A small run of every kind is made (`run_kinds.py`). Each folder is a copy of one with one change: bytes flipped, a file
cut, emptied, removed, replaced by a link or by a directory, a JSON key missing, of another type or of a monstrous
size, a header that promises more than there is, code named in config.json. Every folder is read in a process that
notices files written elsewhere and modules imported from the current directory. A crash or a hang is a finding.
What happens to a folder depends on the seed and its number alone: `--first` goes on where another call stopped, and
`--keep` makes the runs there once.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from run_kinds import KINDS, Kind, stand_in

STRANGE: tuple[Any, ...] = (
    None, True, -1, 0, 2**70, 1e308, -1e308, "", "nan", "a" * 10_000, [], [[]], {}, {"a": 1}, [None], "../../outside",
    "foreign:net",
)  # fmt: skip
#: Written for people, or for resuming; the commands here never read them.
UNREAD = ("report.html", "decision.html", "README.md", "checkpoint.safetensors")
#: Bytes of address space of a process that reads damaged folders, and seconds for forty of them.
ROOM, PATIENCE = 12 << 30, 900


def make_runs(place: Path, kinds: Sequence[str]) -> None:
    """One folder ``place/KIND/run`` of every kind, with the data beside it; those that are there are kept."""
    from typer.testing import CliRunner

    from aimfor.cli.main import app

    stand_in()
    for name in kinds:
        folder, kind = place / name, KINDS[name]
        if (folder / "made").exists():
            continue
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        commands, new = kind.make(folder)
        for words in commands:
            done = CliRunner().invoke(app, [str(folder / "run") if word == "RUN" else word for word in words])
            assert done.exit_code in kind.fine, f"{words} ended with {done.exit_code}: {done.output}"
        (folder / "made").write_text(str(new))


def place_in(value: Any, rng: random.Random) -> tuple[Any, ...]:
    """A path into a JSON value, level by level, so that a long list does not hide the rest."""
    keys = list(value) if isinstance(value, dict) else list(range(len(value)))
    key = rng.choice(keys)
    deeper = isinstance(value[key], dict | list) and value[key] and rng.random() < 0.7
    return (key, *place_in(value[key], rng)) if deeper else (key,)


def change_json(path: Path, rng: random.Random) -> str:
    """One place of a JSON file, or of a line of a log."""
    lines = path.read_text().splitlines() if path.suffix == ".jsonl" else [path.read_text()]
    number = rng.randrange(len(lines))
    holder = content = json.loads(lines[number])
    where = place_in(content, rng)
    for key in where[:-1]:
        holder = holder[key]
    if rng.random() < 0.3:
        del holder[where[-1]]
        what = "removed"
    else:
        holder[where[-1]] = rng.choice(STRANGE)
        what = f"= {str(holder[where[-1]])[:20]}"
    lines[number] = json.dumps(content)
    path.write_text("\n".join(lines) + "\n")
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
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.name not in UNREAD]
    members = [path for path in files if path.parent.name == "members"]
    rest = [path for path in files if path not in members]
    path = rng.choice(members) if members and rng.random() < 0.25 else rng.choice(rest)
    changes: list[Callable[[Path, random.Random], str]] = [flip_bytes, cut, remove, link_out, make_folder]
    changes += [change_json] * 8 + [deep] if path.suffix in (".json", ".jsonl") else []
    changes += [promise_more] if path.suffix == ".safetensors" else []
    return rng.choice(changes)(path, rng)


def spread(number: int, seed: int, place: Path, kinds: Sequence[str]) -> tuple[str, list[str], Kind]:
    """A damaged copy in ``place/copies/NUMBER/run``: what was done to it, the words that read it, and its kind."""
    rng = random.Random(f"{seed} {number}")
    kind = KINDS[kinds[number % len(kinds)]]
    copy = place / "copies" / str(number) / "run"
    shutil.copytree(place / kind.name / "run", copy)
    what = f"{number}: {kind.name}, {damage(copy, rng)}"
    names = {"RUN": str(copy), "DATA": (place / kind.name / "made").read_text(), "OUT": str(copy.parent / "out")}
    words = rng.choice(kind.commands)
    return f"{what}, {words[0]}", [names.get(word, word) for word in _joined(words, copy)], kind


def _joined(words: Sequence[str], copy: Path) -> list[str]:
    return [str(copy / word.removeprefix("RUN/")) if word.startswith("RUN/") else word for word in words]


def _around(run: Path, cwd: Path) -> dict[str, tuple[int, int]]:
    """Files outside the run that a hostile one might reach, with size and time of change."""
    others = (*run.parent.rglob("*"), *cwd.rglob("*"), *run.parent.parent.glob("*"))
    inside = [path for path in others if not path.is_relative_to(run) and not path.is_relative_to(run.parent / "out")]
    return {str(path): (path.stat().st_size, path.stat().st_mtime_ns) for path in inside if path.is_file()}


def read_folders(tasks: list[tuple[str, list[str]]], cwd: Path) -> None:
    """In a process of its own: runs each command and prints a JSON line about how it ended."""
    from typer.testing import CliRunner

    from aimfor.cli.main import app

    resource.setrlimit(resource.RLIMIT_AS, (ROOM, ROOM))
    stand_in()
    sys.path.insert(0, "")  # as `python -m aimfor` has it
    os.chdir(cwd)
    for run, words in tasks:
        before = _around(Path(run), cwd)
        done = CliRunner().invoke(app, words)
        after = _around(Path(run), cwd)
        written = sorted(name for name in after if before.get(name) != after[name])
        strange = done.exception is not None and not isinstance(done.exception, SystemExit)
        said = {"code": done.exit_code, "lines": done.stderr.count("\n"), "stderr": done.stderr[:300]}
        raised = repr(done.exception)[:300] if strange else ""
        answer = {**said, "written": written, "foreign": "foreign" in sys.modules, "raised": raised}
        print(json.dumps(answer), flush=True)


def verdict(answer: dict[str, Any], kind: Kind) -> bool:
    """Whether an answer breaks a promise."""
    wrong = answer["raised"] or answer["written"] or answer["foreign"] or answer["code"] not in (2, *kind.fine)
    return bool(wrong) or (answer["code"] == 2 and answer["lines"] != 1)


def portion(numbers: range, seed: int, place: Path, kinds: Sequence[str]) -> tuple[list[str], collections.Counter[str]]:
    """Findings among some folders, and how they ended."""
    spreads = [spread(number, seed, place, kinds) for number in numbers]
    tasks = [(str(place / "copies" / str(n) / "run"), words) for n, (_, words, _) in zip(numbers, spreads, strict=True)]
    findings, ended = list[str](), collections.Counter[str]()
    while tasks:
        try:
            command = [sys.executable, __file__, "--read", str(place / "cwd")]
            done = subprocess.run(command, input=json.dumps(tasks), capture_output=True, text=True, timeout=PATIENCE)
            output, how = done.stdout, f"died ({done.returncode}): {done.stderr[-300:]}"
        except subprocess.TimeoutExpired as late:
            output, how = (late.stdout or b"").decode(), f"was still at work after {PATIENCE} s"
        answers = [json.loads(line) for line in output.splitlines()]
        for (what, _, kind), answer in zip(spreads, answers, strict=False):
            ended["refused" if answer["code"] == 2 else "answered"] += 1
            findings += [f"{what}: {answer}"] if verdict(answer, kind) else []
        if len(answers) < len(tasks):
            findings.append(f"{spreads[len(answers)][0]}: the process {how}")
        tasks, spreads = tasks[len(answers) + 1 :], spreads[len(answers) + 1 :]
    shutil.rmtree(place / "copies")
    return findings, ended


def run(
    count: int, seed: int, first: int = 0, kinds: Sequence[str] = tuple(KINDS), keep: Path | None = None
) -> tuple[list[str], collections.Counter[str]]:
    """Findings as sentences, and how many folders ended how."""
    findings, ended = list[str](), collections.Counter[str]()
    with tempfile.TemporaryDirectory() as name:
        place = Path(keep or name).resolve()
        make_runs(place, kinds)
        shutil.rmtree(place / "copies", ignore_errors=True)
        (place / "cwd").mkdir(exist_ok=True)
        (place / "cwd" / "foreign.py").write_text("def net(shape, outputs):\n    raise SystemExit(9)\n")
        for start in range(first, first + count, 40):
            found, how = portion(range(start, min(first + count, start + 40)), seed, place, kinds)
            findings, ended = findings + found, ended + how
            done = f"{start + sum(how.values())} of {first + count}: {len(findings)} findings"
            print(*found, done, sep="\n", file=sys.stderr, flush=True)
    return findings, ended


def main() -> int:
    if sys.argv[1:2] == ["--read"]:
        read_folders(json.load(sys.stdin), Path(sys.argv[2]))
        return 0
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folders", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first folder")
    parser.add_argument("--kinds", nargs="*", choices=KINDS, default=list(KINDS))
    parser.add_argument("--keep", type=Path, help="folder for the runs, which are made there once")
    given = parser.parse_args()
    findings, ended = run(given.folders, given.seed, given.first, given.kinds, given.keep)
    print(f"{given.folders} folders: {ended['refused']} refused in one line, {ended['answered']} answered")
    print(f"{len(findings)} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    raise SystemExit(main())
