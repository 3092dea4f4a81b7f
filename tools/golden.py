"""What a small run of every kind found, number by number: written once, and compared by `tests/golden`.

    python tools/golden.py [--kinds ensemble masks]      writes tests/golden/KIND.json

A file holds what the run wrote to metrics.json and what it answers for new data. Write it again only for a difference
that is meant, and say in the commit which one.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
import tempfile
from pathlib import Path
from typing import Any

from run_kinds import KINDS, Kind

GOLDEN = Path(__file__).parents[1] / "tests" / "golden"
#: Times and places, which no two runs share.
VOLATILE = ("seconds", "finished", "started", "out", "path", "minutes", "rate", "left")


def numbers(value: Any) -> Any:
    """A value of JSON without what depends on the clock."""
    if isinstance(value, dict):
        return {key: numbers(inner) for key, inner in value.items() if key not in VOLATILE}
    return [numbers(inner) for inner in value] if isinstance(value, list) else value


def answers(path: Path) -> Any:
    """What a command wrote: rows of a CSV, digests of pictures and arrays."""
    if path.is_dir():
        return {file.relative_to(path).as_posix(): answers(file) for file in sorted(path.rglob("*")) if file.is_file()}
    if path.suffix in (".png", ".npy"):
        return hashlib.sha256(path.read_bytes()).hexdigest()
    return list(csv.reader(path.read_text().splitlines()))


def found(kind: Kind, place: Path) -> dict[str, Any]:
    """Makes a run of ``kind`` under ``place``, asks it for answers, and returns both."""
    from typer.testing import CliRunner

    from aimfor.cli.main import app

    def call(words: list[str]) -> str:
        done = CliRunner().invoke(app, words)
        assert done.exit_code in kind.fine, f"{words} ended with {done.exit_code}: {done.output}"
        return done.output

    commands, new = kind.make(place)
    run, out = place / "run", place / ("out.npy" if kind.name == "retrieval" else "out")
    for words in commands:
        call([str(run) if word == "RUN" else word for word in words])
    said = {"RUN": str(run), "DATA": str(new), "OUT": str(out)}
    for words in (words for words in kind.commands if words[0] in ("predict", "embed")):
        printed = call([said.get(word, word) for word in words])
        if "OUT" not in words:
            out.write_text(printed)
    content = run / ("metrics.json" if (run / "metrics.json").exists() else "decision.json")
    metrics = json.loads(content.read_text()) if content.exists() else None
    return {"metrics": numbers(metrics), "answers": answers(out) if out.exists() else None}


#: Kinds that answer with numbers of their own.
NAMES = [name for name in KINDS if name != "files"]


def main() -> None:
    from run_kinds import stand_in

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kinds", nargs="+", choices=NAMES, default=NAMES)
    stand_in()
    for name in parser.parse_args().kinds:
        with tempfile.TemporaryDirectory() as place:
            content = found(KINDS[name], Path(place))
        text = json.dumps(content, indent=1, sort_keys=True)
        (GOLDEN / f"{name.replace(' ', '_')}.json").write_text(text + "\n")
        print(name)


if __name__ == "__main__":
    main()
