"""How much a law draws: little in the suite, much in `make laws`."""

from __future__ import annotations

import os

LONG = os.environ.get("AIMFOR_DRAWS") == "long"


def draws(few: int, many: int) -> int:
    """``few`` in the suite, ``many`` in `make laws`."""
    return many if LONG else few
