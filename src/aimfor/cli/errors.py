"""Whatever is wrong with the input ends with exit code 2 and one line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import typer

from .words import EXPECTED, failure

#: What a command cannot do without, in words.
NEEDED = {
    "DATA": "a file, a folder of images or a built-in set",
    "--metric": "the name of a metric, such as auroc or f1",
}


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Expected failures become one line on stderr and an exit code: 2 bad input, 130 stopped by the user."""
    try:
        yield
    except EXPECTED as error:
        raise typer.Exit(failure(error)) from None


def missing(what: str) -> Exception:
    from ..errors import InputError

    return InputError(
        what, "nothing", NEEDED[what], "For instance: aimfor train table.csv --target label --metric auroc."
    )
