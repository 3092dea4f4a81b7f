"""The claims of the four papers, one by one."""

from __future__ import annotations

from ..judging import Claim
from . import meng, ravi, song

CLAIMS: tuple[Claim, ...] = (*meng.CLAIMS, *ravi.CLAIMS, *song.CLAIMS)
