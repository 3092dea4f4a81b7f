"""Whatever is wrong with the input ends with exit code 2 and one line."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import typer

#: What a command cannot do without, in words.
EXPECTED = {
    "DATA": "a file, a folder of images or a built-in set",
    "--metric": "the name of a metric, such as auroc or f1",
}


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Expected failures become one line on stderr and an exit code: 2 bad input, 130 stopped by the user."""
    from ..errors import AimforError

    try:
        yield
    except AimforError as error:
        if type(error).__name__ == "Interrupted":
            raise typer.Exit(130) from None
        _complain(str(error))
        raise typer.Exit(2) from None
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
    except MemoryError:
        _complain("not enough memory for this data. Read fewer rows with --rows, or use a machine with more memory.")
        raise typer.Exit(2) from None
    except OSError as error:
        _complain(f"{error.filename or 'file'}: {error.strerror or error}")
        raise typer.Exit(2) from None


def _complain(text: str) -> None:
    print("aimfor: " + " ".join(text.split()), file=sys.stderr)


def missing(what: str) -> Exception:
    from ..errors import InputError

    return InputError(
        what, "nothing", EXPECTED[what], "For instance: aimfor train table.csv --target label --metric auroc."
    )
