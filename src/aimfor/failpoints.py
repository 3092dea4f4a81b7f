"""Named points of a run at which a test ends or stops it, as databases have them: never after so many seconds.

``AIMFOR_FAIL_AT="wrote cells/*:2=SIGKILL"`` sends this process that signal when it passes the second point whose name
matches. The points: ``step`` (a loop asks whether to stop), ``write FOLDER/FILE`` (written beside its place) and
``wrote FOLDER/FILE`` (moved there). Without the variable a point costs one look at the environment.
"""

from __future__ import annotations

import os
import signal
from collections import Counter
from fnmatch import fnmatchcase

VARIABLE = "AIMFOR_FAIL_AT"
#: How many points that matched were passed, by what the variable said.
passed: Counter[str] = Counter()


def fail_point(name: str) -> None:
    """Passes the point of that name."""
    setting = os.environ.get(VARIABLE)
    if setting:
        where, _, what = setting.rpartition("=")
        pattern, _, nth = where.partition(":")
        if fnmatchcase(name, pattern):
            passed[setting] += 1
            if passed[setting] == int(nth or 1):
                os.kill(os.getpid(), signal.Signals[what])
