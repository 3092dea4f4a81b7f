"""``aimfor demo``."""

from __future__ import annotations

from typing import Annotated

import typer

from .errors import one_line_errors
from .options import Jobs, Out, Quiet, executor_of


def demo(
    out: Out = None,
    seeds: Annotated[int, typer.Option(help="Paired seeds and splits.")] = 3,
    jobs: Jobs = None,
    quiet: Quiet = False,
) -> None:
    """`compare` on built-in data (handwritten eights among other digits): the committee against what people use."""
    with one_line_errors():
        from ...fitting.config import settings
        from ..compare import command as comparing

        given = [settings(data="digits_imbalanced", metric=one, epochs=15, batch_size=64) for one in comparing.DEMO]
        comparing.compare(given, seeds, None, executor_of(jobs, None), out, quiet, keep=False)
