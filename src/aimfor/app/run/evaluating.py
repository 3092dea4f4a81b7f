"""The last stage of a run, evaluating on test rows: it can be stopped, and says how long it will take."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from ...fitting.committee import Progress
from ...fitting.loop import Interrupted
from .folder import Prepared

#: In place of a member's name in `Progress`.
EVALUATING = "evaluating"


class Evaluating:
    """Called before every column whose importance is found out; ``seconds`` a column so far tell what is left."""

    def __init__(self, ready: Prepared, stop: Callable[[], bool], report: Callable[[Any], None] | None) -> None:
        self.stop, self.report = stop, report
        columns = getattr(ready.encoder, "feature_columns", ())
        self.total, self.done, self.began = len(set(columns)), 0, 0.0
        self._tell("evaluating on test rows", 0.0)

    def __call__(self) -> None:
        """Raises `Interrupted` when it is to stop."""
        if self.stop():
            raise Interrupted("stopped; the state is saved")
        if not self.began:
            self.began = time.monotonic()
        each = (time.monotonic() - self.began) / max(1, self.done)
        self._tell("which columns matter", each)
        self.done += 1

    def _tell(self, title: str, each: float) -> None:
        if self.report is not None:
            left = each * (self.total - self.done)
            self.report(Progress(EVALUATING, title, 0, 1, self.done, self.total, each, left))
