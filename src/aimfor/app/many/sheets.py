"""Contact sheets for several labels: of each label, what was surely called it and is not, and what was missed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...fitting import checkpoint
from ..report.sheets import HARDEST, MOST_CLASSES, SHEETS, sheet, thumbnail
from .run import Ready


def label_sheets(ready: Ready, scores: Tensor, thresholds: list[float]) -> list[dict[str, Any]]:
    """Mistakes on test pictures, the surest first; labels without one have no sheet. Unknown labels are no mistakes."""
    rows = np.flatnonzero(ready.test).tolist()
    y, found = torch.from_numpy(ready.y[ready.test]), []
    for place, name in enumerate(ready.names[:MOST_CLASSES]):
        sure = scores[:, place] - thresholds[place]
        alarms = ((y[:, place] == 0) & (sure > 0)).nonzero().reshape(-1)
        misses = ((y[:, place] == 1) & (sure <= 0)).nonzero().reshape(-1)
        alarms, misses = alarms[sure[alarms].argsort(descending=True)], misses[sure[misses].argsort()]
        tiles = [_tile(ready, rows[one], f"called {name}, is not") for one in alarms[:HARDEST].tolist()]
        tiles += [_tile(ready, rows[one], f"is {name}, missed") for one in misses[:HARDEST].tolist()]
        if tiles:
            words = f"{len(alarms)} false alarms and {len(misses)} misses among test pictures; the surest of each."
            found.append(sheet(f"Mistakes about {name}", words, tiles))
    return found


def _tile(ready: Ready, row: int, said: str) -> dict[str, str]:
    pictures = ready.source.as_pictures()
    text = f"{pictures.names[row]}: {said}"
    return {"picture": thumbnail(pictures.open(row), 128), "alt": text, "caption": text}


def write_label_sheets(folder: Path, ready: Ready, scores: Tensor, thresholds: list[float]) -> None:
    checkpoint.write_json(folder / SHEETS, {"sheets": label_sheets(ready, scores, thresholds)})
