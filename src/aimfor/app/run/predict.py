"""`aimfor predict`: a CSV of scores, probabilities and decisions."""

from __future__ import annotations

import csv
import io
import sys
from pathlib import Path

import numpy as np

from ...fitting import checkpoint
from ..data.sources import load
from .folder import load_run


def predict(
    folder: Path, data: str, out: Path | None, encoding: str = "utf8", rows: int | None = None, trust: str | None = None
) -> None:
    """Scores every row and writes the CSV to ``out`` or standard output, whole or not at all.

    Raises:
        InputError: An unfinished or damaged run, a missing column, unreadable data.
    """
    run = load_run(folder, trust)
    size = run.encoder.shape[1] if run.encoder.kind == "image" else 0
    target = run.config["settings"]["target"]
    source = load(data, target, labelled=False, encoding=encoding, rows=rows, image_size=size)
    scores = run.scores(source)
    names = source.row_names or [str(number) for number in range(len(source))]
    probabilities = run.probabilities(scores)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    if run.labels.binary:
        writer.writerow(["row", "score", "probability", "decision"])
        decided = scores.double().numpy() > run.threshold
        for name, score, probability, positive in zip(names, scores.tolist(), probabilities, decided, strict=True):
            writer.writerow([name, repr(score), f"{probability:.6g}", run.labels.classes[int(positive)]])
    else:
        writer.writerow(["row", *(f"score {one}" for one in run.labels.classes), "probability", "decision"])
        for name, row, chance in zip(names, scores.tolist(), probabilities, strict=True):
            best = int(np.argmax(chance))
            writer.writerow([name, *map(repr, row), f"{chance[best]:.6g}", run.labels.classes[best]])
    if out is None:
        sys.stdout.write(text.getvalue())
    else:
        checkpoint.write_text(out, text.getvalue())
