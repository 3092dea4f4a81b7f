"""Guaranteed thresholds beside MAPIE in settings that nobody chose, and on summaries of the same documents.

    python paper/benchmarks/bench_drawn.py DATA [SECONDS]     (an environment with mapie; goes on where it stopped)
    python paper/benchmarks/bench_drawn.py table

Ten settings are drawn by a seed that was fixed before the first run: data, floor, rows and confidence. Scores and
populations are those of `bench_guarantee`, and two further sets; calibration rows are drawn from the population with
replacement, so that the truth at any threshold is known. FRANK (a person's verdicts on 1,571 summaries of 349
documents) is drawn by whole documents: MAPIE counts rows, aimfor is asked by rows and by documents.
"""

from __future__ import annotations

import csv
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from bench_guarantee import MAPIE, by_mapie, population

SEED, SETTINGS, RESAMPLES = 20261119, 10, 1000
STORE = Path(__file__).parent / "results" / "guarantee" / "drawn.json"
SETS = ("adult", "bank_marketing", "mammography", "creditcard_fraud", "synthetic", "covertype_4v2", "thyroid_ann")
#: FRANK: the score of the recipe, floors, and summaries' documents in a draw.
FRANK = tuple({"set": "frank", "floor": floor, "rows": rows, "confidence": 0.95}
              for floor in (0.5, 0.6) for rows in (150, 250))  # fmt: skip
METHODS = ("aimfor", "aimfor, documents", *MAPIE)


def settings() -> list[dict[str, Any]]:
    """Each with a floor that a share of the positives between a fifth and four fifths can keep."""
    rng = np.random.default_rng(SEED)
    return [
        {"set": str(rng.choice(SETS)), "oracle": round(float(rng.uniform(0.2, 0.8)), 2),
         "rows": int(round(float(np.exp(rng.uniform(np.log(300), np.log(10_000)))), -1)),
         "confidence": float(rng.choice([0.9, 0.95, 0.99]))}
        for _ in range(SETTINGS)
    ]  # fmt: skip


def floor_of(s: np.ndarray, y: np.ndarray, recall: float) -> float:
    """The precision where this share of the positives is found, 0.99 at most: no rows show a floor of 1."""
    hits = y[np.argsort(-s, kind="stable")].cumsum()
    place = int(np.searchsorted(hits, recall * y.sum()))
    return min(round(float(hits[place] / (place + 1)), 3), 0.99)


def frank(data: Path) -> tuple[np.ndarray, ...]:
    with (data / "frank" / "frank.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    raw = np.array([float(row["bertscore_p_art"]) for row in rows])
    s = np.searchsorted(np.sort(raw), raw) / len(raw)  # as ranks, which MAPIE's grid of 0 to 1 tells apart
    document = np.unique([row["document"] for row in rows], return_inverse=True)[1]
    return s, np.array([row["verdict"] == "1" for row in rows]).astype(int), document


def answers(floor: float, confidence: float, rows: tuple[np.ndarray, ...], learn: tuple[np.ndarray, ...] | None,
            document: np.ndarray | None) -> tuple[dict[str, float | None], dict[str, float]]:  # fmt: skip
    """Thresholds and CPU seconds by method. Without learning rows both libraries split the rows by themselves."""
    import bench_guarantee

    import aimfor

    bench_guarantee.CONFIDENCE = confidence
    asked: dict[str, Any] = {"maximize": "recall", "subject_to": f"precision >= {floor}", "confidence": confidence}
    found, seconds = {}, {}
    for method in METHODS:
        if (method == "aimfor, documents") > (document is not None) or (method == MAPIE[-1] and learn is None):
            continue
        start = time.process_time()
        if method.startswith("aimfor"):
            ids = document if method != "aimfor" else None
            decision = aimfor.decide(*rows, **asked, learn=learn or "split", cluster=ids)
            found[method] = decision.threshold
        else:
            found[method] = by_mapie(method, floor, *rows, *(learn or rows))
        seconds[method] = time.process_time() - start
    return found, seconds


def truth(s: np.ndarray, y: np.ndarray, cut: float | None, strict: bool) -> list[float] | None:
    """(precision, recall) in the population; MAPIE decides at score >= threshold, aimfor at score > threshold."""
    if cut is None:
        return None
    passed = s > cut if strict else s >= cut
    return [float(y[passed].mean()) if passed.any() else 0.0, float(y[passed].sum() / y.sum())]


def run(data: Path, budget: float) -> None:
    """All resamples in turns, so that what was run when one stops is about alike for all settings."""
    known = json.loads(STORE.read_text()) if STORE.exists() else {}
    start, pools = time.process_time(), {}
    for draw in range(RESAMPLES):
        for place, one in enumerate([*settings(), *FRANK]):
            cell = known.setdefault(f"{place}", {"setting": one, "draws": 0, "methods": {}})
            if cell["draws"] > draw or time.process_time() - start > budget:
                continue
            if one["set"] not in pools:
                pools[one["set"]] = (
                    frank(data) if one["set"] == "frank" else population(data, one["set"], np.random.default_rng(0))
                )
            _draw(cell, pools[one["set"]], draw, place)
        if draw % 5 == 4:
            STORE.write_text(json.dumps(known, indent=1) + "\n")
    STORE.write_text(json.dumps(known, indent=1) + "\n")


def _draw(cell: dict[str, Any], pool: tuple[np.ndarray, ...], draw: int, place: int) -> None:
    one, rng = cell["setting"], np.random.default_rng([SEED, place, draw])
    if one["set"] == "frank":
        s, y, document = pool
        chosen = rng.integers(0, document.max() + 1, one["rows"])
        members = [np.flatnonzero(document == number) for number in chosen]
        at, ids = np.concatenate(members), np.repeat(np.arange(len(chosen)), [len(rows) for rows in members])
        floor, learn = one["floor"], None
    else:
        ls, ly, s, y = pool
        at, ids, floor = rng.integers(0, len(y), one["rows"]), None, floor_of(s, y, one["oracle"])
        order = rng.permutation(len(ly))[: max(one["rows"], 2000)]
        learn = (ls[order], ly[order])
    found, seconds = answers(floor, one["confidence"], (s[at], y[at]), learn, ids)
    cell["floor"], cell["draws"] = floor, draw + 1
    for method, cut in found.items():
        told = truth(s, y, cut, method.startswith("aimfor"))
        sums = cell["methods"].setdefault(method, {"given": 0, "broken": 0, "kept": 0.0, "square": 0.0, "seconds": 0.0})
        held = told is not None and told[0] >= floor
        sums["given"] += told is not None
        sums["broken"] += told is not None and not held
        sums["kept"] += told[1] if told is not None and held else 0.0
        sums["square"] += told[1] ** 2 if told is not None and held else 0.0
        sums["seconds"] += seconds[method]


def table() -> None:
    from common import record

    rows = []
    for cell in json.loads(STORE.read_text()).values():
        one, draws = cell["setting"], cell["draws"]
        row: dict[str, Any] = {
            "scores of": one["set"], "precision at least": cell["floor"],
            "rows": f"{one['rows']:,}{' documents' if one['set'] == 'frank' else ''}",
            "confidence": f"{one['confidence']:.0%}", "draws": draws,
        }  # fmt: skip
        for method in METHODS:
            sums = cell["methods"].get(method)
            row[method] = "–"
            if sums is not None:
                kept, broken, seconds = (sums[key] / draws for key in ("kept", "broken", "seconds"))
                row[method] = f"{kept:.3f}, {broken:.1%}, {1000 * seconds:.0f} ms"
        rows.append(row)
    title = "Ten settings drawn by a seed, and FRANK by document: recall kept, floor broken, CPU time, beside MAPIE 1.6"
    record("drawn", title, "python paper/benchmarks/bench_drawn.py DATA", rows)


if __name__ == "__main__":
    words = sys.argv[1:]
    if not words:
        raise SystemExit(__doc__)
    if words[0] == "table":
        table()
    else:
        run(Path(words[0]), float(words[1]) if len(words) > 1 else float("inf"))
