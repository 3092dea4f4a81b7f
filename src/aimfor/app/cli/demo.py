"""``aimfor demo``."""

from __future__ import annotations

from typing import Annotated

import typer

from .errors import one_line_errors
from .options import Jobs, Out, Quiet, executor_of


def demo(
    out: Out = None,
    seeds: Annotated[int, typer.Option(help="Paired seeds and splits.")] = 5,
    jobs: Jobs = None,
    quiet: Quiet = False,
) -> None:
    """`compare` on 1,797 handwritten digits (is it 5 or more?): the committee against trees and networks."""
    with one_line_errors():
        from ...fitting.config import settings
        from ..compare import command as comparing

        given = settings(data="digits_high", metric=comparing.DEMO, positive="5 to 9")
        comparing.compare([given], seeds, executor_of(jobs, None), out, quiet)
