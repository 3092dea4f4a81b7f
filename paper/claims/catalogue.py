"""The claims of the four papers, one by one."""

from __future__ import annotations

from . import meng, ravi, song
from .judging import Claim

CLAIMS: tuple[Claim, ...] = (*meng.CLAIMS, *ravi.CLAIMS, *song.CLAIMS)
