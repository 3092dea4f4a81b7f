"""What commands read and print: words by argparse, standard input, failures in one line. Nothing heavy is imported."""

from __future__ import annotations

import argparse
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NoReturn, TextIO

from ..errors import AimforError, Interrupted

#: What a user can bring about.
EXPECTED = (AimforError, KeyboardInterrupt, MemoryError, OSError)


class Words(argparse.ArgumentParser):
    """A parser whose refusals are one line, as everywhere in the program."""

    def __init__(self, command: str, help_text: str, examples: Sequence[str]) -> None:
        super().__init__(
            prog=f"aimfor {command}",
            description=help_text,
            epilog="Examples:\n" + "\n".join(f"  {line}" for line in examples),
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )

    def error(self, message: str) -> NoReturn:
        raise AimforError(f"{message}. `{self.prog} --help` shows the options.")


def one_line(command: Callable[[Any], int], parser: argparse.ArgumentParser, words: Sequence[str]) -> int:
    """The command's exit code; 2 and one line on stderr for bad input, 130 where the user stops it."""
    try:
        given = parser.parse_args(list(words))
        with from_stdin(str(given.data)) as path:
            given.data = Path(path)
            return command(given)
    except EXPECTED as error:
        return failure(error)


def failure(error: BaseException) -> int:
    """The exit code of an expected failure, which is said in one line; a stop by the user needs none."""
    if isinstance(error, KeyboardInterrupt | Interrupted):
        return 130
    text = str(error)
    if isinstance(error, MemoryError):
        text = "not enough memory for this data. Read fewer rows with --rows, or use a machine with more memory."
    if isinstance(error, OSError):
        text = f"{error.filename or 'file'}: {error.strerror or error}"
    print("aimfor: " + " ".join(text.split()), file=sys.stderr)
    return 2


@contextmanager
def one_line_errors() -> Iterator[None]:
    """For commands of typer: expected failures become one line on stderr and an exit code."""
    try:
        yield
    except EXPECTED as error:
        import typer

        raise typer.Exit(failure(error)) from None


@contextmanager
def from_stdin(data: str) -> Iterator[str]:
    """``-`` is CSV that comes on standard input, kept in a file as long as the command runs; else the path as it is."""
    if data != "-":
        yield data
        return
    with TemporaryDirectory() as folder:
        path = Path(folder) / "stdin.csv"
        with path.open("wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file)
        yield str(path)


def readable(text: str, stream: TextIO | None = None) -> str:
    """Lines that end between words on a terminal, as wide as it is; for a file or a pipe they stay as they are."""
    if not (stream or sys.stdout).isatty():
        return text
    wide = max(20, shutil.get_terminal_size().columns)
    lines = (textwrap.fill(line, wide, break_long_words=False, break_on_hyphens=False) for line in text.splitlines())
    return "\n".join(lines)
