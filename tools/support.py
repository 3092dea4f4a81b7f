"""Writes src/aimfor/support.txt, the copy of aimfor.support() that the command line shows without importing torch."""

from pathlib import Path

import aimfor

Path(aimfor.__file__).with_name("support.txt").write_text(aimfor.support() + "\n", encoding="utf-8")
