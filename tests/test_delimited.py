"""Tables of text whose bytes are not what they seem: one line and exit code 2, before any work, by every command."""

from __future__ import annotations

import codecs
import gzip
import io
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from aimfor import delimited
from aimfor.__main__ import main
from aimfor.cli.decide.scores import read_columns
from aimfor.cli.main import app
from aimfor.data.chunks import csv_blocks
from aimfor.data.tables import read_table
from aimfor.errors import InputError

DRAW = np.random.default_rng(0)
ROWS = [f"{a:.3f},{b:.3f},{c}" for a, b, c in zip(*DRAW.normal(size=(2, 80)), DRAW.integers(0, 2, 80), strict=True)]
TEXT = "\n".join(["a,b,y", *ROWS]) + "\n"
PACKED = gzip.compress(TEXT.encode())


def zipped(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:  # stored, not deflated: the text is plain to see in it
        archive.writestr("t.csv", TEXT)


def flipped(content: bytes, place: int) -> bytes:
    return content[:place] + bytes([content[place] ^ 0xFF]) + content[place + 1 :]


def wide(path: Path) -> None:
    names = [f"c{i}" for i in range(100_000)]
    path.write_text(
        ",".join([*names, "y"]) + "\n" + "".join(",".join(["1"] * 100_000) + f",{i % 2}\n" for i in range(3))
    )


FILES: dict[str, tuple[str, Callable[[Path], object], str]] = {
    "stored zip": ("t.csv", zipped, "t.csv, which is a zip archive"),
    "zip by its name": ("t.zip", zipped, "t.zip, which is a zip archive"),
    "damaged gzip": ("t.csv.gz", lambda p: p.write_bytes(flipped(PACKED, len(PACKED) // 2)), "expected a whole file"),
    "wrong check sum": ("t.csv.gz", lambda p: p.write_bytes(flipped(PACKED, len(PACKED) - 6)), "expected a whole file"),
    "half a gzip": ("t.csv.gz", lambda p: p.write_bytes(PACKED[: len(PACKED) // 2]), "expected a whole file"),
    "no gzip at all": ("t.csv.gz", lambda p: p.write_text(TEXT), "Not a gzipped file"),
    "half a mark of UTF-16": ("t.csv", lambda p: p.write_bytes(b"\xff\xfe" + TEXT.encode()), "expected text in UTF-8"),
    "strange bytes in the header": ("t.csv", lambda p: p.write_bytes(b"a\xff\xfe" + TEXT.encode()), "text in UTF-8"),
    "strange bytes below it": ("t.csv", lambda p: p.write_bytes(TEXT.encode() + b"1,\xe9,0\n"), "text in UTF-8"),
    "100,000 columns": ("t.csv", wide, "t.csv with 100001 columns, expected at most 20000"),
    "nothing": ("t.csv", lambda p: p.write_text(" \n"), "Empty CSV file"),
}
TRAIN = ("train", "--target", "y", "--metric", "auroc", "--members", "linear", "--out", "run")
DECIDE = (
    "decide",
    "--score",
    "b",
    "--target",
    "y",
    "--maximize",
    "recall",
    "--subject-to",
    "precision >= 0.1",
    "--out",
    "page",
)


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(("name", "write", "expected"), FILES.values(), ids=FILES)
def test_a_strange_file_is_one_line_by_every_command(
    name: str, write: Callable[[Path], object], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write(Path(name))
    result = CliRunner().invoke(app, [TRAIN[0], name, *TRAIN[1:]])
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1), result.output
    assert main([DECIDE[0], name, *DECIDE[1:]]) == 2
    by_decide = capsys.readouterr().err
    assert by_decide.count("\n") == 1
    with pytest.raises(InputError) as streamed:
        list(csv_blocks(Path(name), "utf8"))
    for said in (result.stderr, by_decide, str(streamed.value)):
        assert expected in said
    assert sorted(path.name for path in Path().iterdir()) == [name]


@pytest.mark.parametrize("ending", ["\r", "\n", "\r\n"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
def test_every_end_of_a_line_and_every_mark_reads_the_same(ending: str, encoding: str) -> None:
    text = TEXT.replace("a,b,y", 'a,"b ""é"", c",y')
    Path("plain.csv").write_text(text, encoding="utf-8", newline="")
    Path("other.csv").write_bytes(text.replace("\n", ending).encode(encoding))
    wanted = read_columns(Path("plain.csv"))
    assert list(wanted) == ["a", 'b "é", c', "y"]
    found = read_columns(Path("other.csv"))
    trained = read_table(Path("other.csv"))
    for column, cells in wanted.items():
        assert found[column].tolist() == cells.tolist()
        assert trained[column].values.to_pylist() == cells.tolist()


def test_what_is_unpacked_is_counted_whatever_the_file_says(monkeypatch: pytest.MonkeyPatch) -> None:
    bomb = gzip.compress((TEXT.splitlines()[0] + "\n" + "1,2,0\n" * 400_000).encode())
    lying = bomb[:-4] + (10).to_bytes(4, "little")  # the length that a gzip file states
    assert len(lying) < 20_000
    Path("bomb.csv.gz").write_bytes(lying)
    monkeypatch.setattr(delimited, "available_memory", lambda: 1 << 20)
    for reader in (read_columns, read_table, lambda path: list(csv_blocks(path, "utf8"))):
        with pytest.raises(
            InputError, match=r"bomb.csv.gz of .* of text and more, each byte of which takes \d+ of memory"
        ):
            reader(Path("bomb.csv.gz"))
    assert len(read_columns(Path("bomb.csv.gz"), rows=7)["a"]) == 7


def test_a_bomb_ends_before_memory_does() -> None:
    """180 MB from 180 kB, in a process that may take 120 MB more than it has at the start."""
    million = gzip.compress(b"1,2,0\n" * 1_000_000)
    Path("bomb.csv.gz").write_bytes(gzip.compress(b"a,b,y\n") + 30 * million)
    code = """
import resource, sys
from pathlib import Path
from aimfor import delimited
from aimfor.cli.decide.scores import read_columns
from aimfor.errors import InputError
used = int(open("/proc/self/statm").read().split()[0]) * 4096
resource.setrlimit(resource.RLIMIT_AS, (used + (120 << 20), -1))
delimited.available_memory = lambda: 96 << 20
try:
    read_columns(Path("bomb.csv.gz"))
except InputError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "bomb.csv.gz of 8 MB of text and more, each byte of which takes 12 of memory" in done.stdout, done.stderr


def test_memory_is_read_in_kibibytes(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = "MemTotal:       24000000 kB\nMemAvailable:       3000 kB\n"
    monkeypatch.setattr(delimited, "open", lambda *_, **__: io.StringIO(lines), raising=False)
    assert delimited.available_memory() == 3000 * 1024
    monkeypatch.setattr(delimited, "open", lambda *_, **__: io.StringIO("MemTotal: 1 kB\n"), raising=False)
    assert delimited.available_memory() == 4 * 1024**3


def test_a_mark_of_byte_order_goes_from_the_start_of_a_file_alone(tmp_path: Path) -> None:
    mark, path = codecs.BOM_UTF8, tmp_path / "t.csv"
    content = b"a" * ((1 << 16) - len(mark)) + mark + b"b"  # the second mark begins the second block
    path.write_bytes(mark + content)
    with path.open("rb") as source:
        blocks = io.BufferedReader(delimited._Counted(path, source, "utf8", 1), 1 << 16)
        assert blocks.read() == content
