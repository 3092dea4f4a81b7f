"""Ravi's Fig. 6: how unlike in size are images of the sky, beside images of other classes?

Shares of an image's pixels, over the training images that have the class; no network. DATA is the folder of data sets.

    python paper/benchmarks/bench_mask_sizes.py DATA
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import torch
from common import record

from aimfor.lagrangian import class_fractions
from paper.data.mask_data import CLASSES

BINS = 10


def rows_of(name: str, folder: Path) -> list[dict[str, object]]:
    """One row a class, the most unlike sizes first."""
    with np.load(folder / name / "train.npz") as raw:
        masks, names = torch.from_numpy(raw["mask"].astype(np.int64)), [str(one) for one in raw["classes"]]
    found = []
    for number, share in enumerate(class_fractions(masks, CLASSES[name]).double().T):
        there = share[share > 0]
        counts = there.histc(BINS, 0.0, 1.0).long().tolist()
        found.append((float(there.std()), names[number].lower(), there, counts))
    return [
        {
            "set": name,
            "class": kind,
            "images with it": len(there),
            "mean share": f"{float(there.mean()):.3f}",
            "deviation": f"{deviation:.3f}",
            "images by tenths of the share": " ".join(map(str, counts)),
        }
        for deviation, kind, there, counts in sorted(found, key=lambda one: -one[0])
    ]


def main() -> None:
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    rows = [row for name in ("camvid", "stanford_background") for row in rows_of(name, Path(sys.argv[1]))]
    title = "Sizes of classes in images, the most unlike first (Ravi, Fig. 6)"
    record("mask_sizes", title, "python paper/benchmarks/bench_mask_sizes.py DATA", rows)


if __name__ == "__main__":
    main()
