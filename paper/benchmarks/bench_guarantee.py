"""Recall kept under a guaranteed precision floor: aimfor beside every method of MAPIE, and beside the oracle.

Logistic regression on a third of the rows; the rest is the population. Calibration rows are drawn from it with
replacement, so that the truth at any threshold is known exactly; both libraries may order their tests by the training
rows.

    python paper/benchmarks/bench_guarantee.py DATA            all of it, every draw anew

Where MAPIE asks for other versions than ours, each part runs where its library is installed, and the answers meet in
JSON files. A part goes on where it stopped, and says how many draws it found:

    python paper/benchmarks/bench_guarantee.py scores DATA     (scikit-learn)
    python paper/benchmarks/bench_guarantee.py mapie           (an environment with mapie)
    python paper/benchmarks/bench_guarantee.py aimfor          (this repository)
    python paper/benchmarks/bench_guarantee.py table
"""

from __future__ import annotations

import importlib.metadata
import json
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

STORE = Path(__file__).parent / "results" / "guarantee"
SCORES = Path("/tmp/aimfor_guarantee_scores.npz")
SETS = {
    "adult": (0.75, 0.85),
    "bank_marketing": (0.4, 0.5),
    "mammography": (0.5, 0.7),
    "creditcard_fraud": (0.9, 0.95),
    "synthetic": (0.75, 0.85),
}
SIZES, DRAWS, CONFIDENCE = (500, 2000, 5000), 60, 0.95
MAPIE = ("bonferroni", "bonferroni_holm", "fixed_sequence", "split_fixed_sequence")


def population(data: Path, name: str, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    """Scores and labels of the rows that order the tests, and of the population."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    if name == "synthetic":
        y = (rng.random(60_000) < 0.24).astype(int)
        x = (rng.normal(size=60_000) + 1.8 * y)[:, None]
    else:
        parts = [np.load(data / name / f"{part}.npz") for part in ("train", "test")]
        columns = [str(one) for one in parts[0]["feature_names"]] if "feature_names" in parts[0] else []
        kept = [i for i in range(parts[0]["X"].shape[1]) if not columns or columns[i] != "duration"]
        x = np.concatenate([part["X"][:, kept] for part in parts]).astype(float)
        y = (np.concatenate([part["y"] for part in parts]) > 0).astype(int)
    order, cut = rng.permutation(len(y)), len(y) // 3
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=300)).fit(x[order[:cut]], y[order[:cut]])
    scores = model.predict_proba(x)[:, 1]
    return scores[order[:cut]], y[order[:cut]], scores[order[cut:]], y[order[cut:]]


def make_scores(data: Path) -> None:
    rng, out = np.random.default_rng(0), {}
    for name in SETS:
        found = population(data, name, rng)
        for part, scores, y in (("train", *found[:2]), ("pool", *found[2:])):
            out[f"{name}_{part}_s"], out[f"{name}_{part}_y"] = scores, y
    np.savez(SCORES, **out)


def cells() -> list[tuple[str, float, int, int]]:
    return [(name, floor, n, draw) for draw in range(DRAWS) for n in SIZES for name in SETS for floor in SETS[name]]


def rows_of(files: dict[str, np.ndarray], name: str, n: int, draw: int) -> tuple[np.ndarray, ...]:
    """Calibration rows of a draw, and as many training rows (2,000 at least) for the order of the tests."""
    drawn = np.random.default_rng([draw, n, len(name)]).integers(0, len(files[f"{name}_pool_y"]), n)
    order = np.random.default_rng([draw, n, len(name), 1]).permutation(len(files[f"{name}_train_y"]))
    learn = order[: max(n, 2000)]
    return (
        files[f"{name}_pool_s"][drawn], files[f"{name}_pool_y"][drawn],
        files[f"{name}_train_s"][learn], files[f"{name}_train_y"][learn],
    )  # fmt: skip


def learn_order(controller: Any, s: np.ndarray, y: np.ndarray, whole: bool = False) -> None:
    """MAPIE's order of tests, without its double loop (two seconds a time); ``whole`` is its own method.

    For each of a thousand p-values from small to large: the threshold whose p-value is nearest, the first time it is.
    """
    if whole:
        controller.learn_fixed_sequence_order(s[:, None], y)
        return
    from mapie.risk_control.methods import compute_hoeffding_bentkus_p_value

    predicted = controller._get_predictions_per_param(s[:, None], controller._predict_params, is_calibration_step=True)
    risks, sizes = controller._get_risk_values_and_eff_sample_sizes(y, predicted, controller._risk)
    p_values = compute_hoeffding_bentkus_p_value(risks[0], sizes[0], controller._alpha, False)[:, 0]
    nearest = np.abs(p_values[None] - np.logspace(-25, 0, 1000)[:, None]).argmin(1)
    order = list(dict.fromkeys(controller._predict_params[place] for place in nearest))
    controller._learned_fixed_sequence = np.array(order, dtype=object)


def mapie_controller(method: str, floor: float) -> Any:
    from mapie.risk_control import BinaryClassificationController

    def probabilities(x: np.ndarray) -> np.ndarray:
        column = np.asarray(x, dtype=float).reshape(-1)
        return np.stack((1 - column, column), 1)

    return BinaryClassificationController(
        probabilities, "precision", floor, confidence_level=CONFIDENCE, fwer_method=method,
        best_predict_param_choice="recall",
    )  # fmt: skip


def by_mapie(method: str, floor: float, s: np.ndarray, y: np.ndarray, ls: np.ndarray, ly: np.ndarray) -> float | None:
    controller = mapie_controller(method, floor)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if method == "split_fixed_sequence":
            learn_order(controller, ls, ly)
        controller.calibrate(s[:, None], y)
    return None if controller.best_predict_param is None else float(controller.best_predict_param)


def by_aimfor(floor: float, s: np.ndarray, y: np.ndarray, ls: np.ndarray, ly: np.ndarray) -> float | None:
    import torch

    import aimfor
    from aimfor.rates import precision, recall

    given = [torch.from_numpy(np.ascontiguousarray(one)) for one in (s, y, ls, ly)]
    problem = aimfor.maximize(recall, precision >= floor)
    return problem.decide(given[0], given[1], guarantee=CONFIDENCE, learn=(given[2], given[3])).threshold


def run(library: str, budget: float) -> None:
    """All draws of one library, resumable; stops after ``budget`` seconds."""
    files, start = dict(np.load(SCORES)), time.time()
    path = STORE / f"{library}.json"
    known = json.loads(path.read_text()) if path.exists() else {}
    STORE.mkdir(parents=True, exist_ok=True)
    print(f"{library}: {len(known)} of {len(cells())} draws are kept from before", flush=True)
    for place, (name, floor, n, draw) in enumerate(cells()):
        key = f"{name}|{floor}|{n}|{draw}"
        if key not in known and time.time() - start < budget:
            rows = rows_of(files, name, n, draw)
            if library == "aimfor":
                found = {"aimfor": by_aimfor(floor, *rows)}
            else:
                found = {method: by_mapie(method, floor, *rows) for method in MAPIE}
            # MAPIE decides at probability >= threshold, aimfor at score > threshold.
            known[key] = {method: truth(files, name, cut, method == "aimfor") for method, cut in found.items()}
            if place % 30 == 29:
                _keep(path, known)
    _keep(path, known)


def _keep(path: Path, known: dict[str, Any]) -> None:
    """A draw on each line, so that two runs can be compared."""
    path.write_text("{\n" + ",\n".join(f"{json.dumps(key)}: {json.dumps(one)}" for key, one in known.items()) + "\n}\n")


def truth(files: dict[str, np.ndarray], name: str, cut: float | None, strict: bool) -> list[float] | None:
    """(precision, recall) in the population."""
    if cut is None:
        return None
    s, y = files[f"{name}_pool_s"], files[f"{name}_pool_y"]
    passed = s > cut if strict else s >= cut
    found = [float(y[passed].mean()) if passed.any() else 0.0, float(y[passed].sum() / y.sum())]
    return [round(one, 6) for one in found]


def oracle(files: dict[str, np.ndarray], name: str, floor: float) -> float:
    """The best recall of any threshold that truly keeps the floor."""
    s, y = files[f"{name}_pool_s"], files[f"{name}_pool_y"]
    hits = y[np.argsort(-s, kind="stable")].cumsum()
    fits = hits / np.arange(1, len(y) + 1) >= floor
    return float(hits[fits].max() / y.sum()) if fits.any() else 0.0


def table() -> None:
    """Per cell: recall kept by answers that hold, relative to the oracle's (0 without an answer)."""
    from bound_guarantee import bound, curve_of
    from common import record

    files = dict(np.load(SCORES))
    stored = [json.loads((STORE / f"{library}.json").read_text()) for library in ("mapie", "aimfor")]
    both = {key: stored[0][key] | stored[1][key] for key in stored[0] if key in stored[1]}
    rows: list[dict[str, Any]] = []
    for name, floors in SETS.items():
        for floor in floors:
            best, curve = oracle(files, name, floor), curve_of(files[f"{name}_pool_s"], files[f"{name}_pool_y"], floor)
            for n in SIZES:
                mine = [value for key, value in both.items() if key.startswith(f"{name}|{floor}|{n}|")]
                if mine:
                    kept = {method: _kept([one[method] for one in mine], best, floor) for method in ("aimfor", *MAPIE)}
                    rows.append(
                        {"scores of": name, "precision at least": floor, "rows": n, "draws": len(mine)}
                        | {"any procedure": f"{bound(curve, floor, n, 1 - CONFIDENCE) / best:.0%}"}
                        | {method: f"{values.mean():.0%}" for method, values in kept.items()}
                        | {"aimfor ahead by": _ahead(kept)}
                    )
    rows.append(_totals(both))
    record(
        "guarantee",
        f"Guaranteed thresholds: recall kept, as a share of the oracle's, by aimfor and by every method of {_mapie()}",
        "python paper/benchmarks/bench_guarantee.py DATA",
        rows,
    )


def _mapie() -> str:
    """With its version, if it is the one of this environment."""
    try:
        return "MAPIE " + ".".join(importlib.metadata.version("mapie").split(".")[:2])
    except importlib.metadata.PackageNotFoundError:
        return "MAPIE"


def _kept(answers: list[list[float] | None], best: float, floor: float) -> np.ndarray:
    """Recall of each answer relative to the oracle's; 0 where there is none or where it breaks the floor."""
    return np.array([one[1] if one is not None and one[0] >= floor else 0.0 for one in answers]) / best


def _ahead(kept: dict[str, np.ndarray]) -> str:
    """Of the best method of MAPIE in this cell, in points, with the standard error of the paired difference."""
    gain = 100 * (kept["aimfor"] - max((kept[method] for method in MAPIE), key=np.mean))
    return f"{gain.mean():+.1f} ± {gain.std() / np.sqrt(len(gain)):.1f}"


def _totals(both: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """How often an answer was given, and how often a given one breaks its floor."""
    row: dict[str, Any] = {"scores of": "all: given, broken", "draws": len(both)}
    for method in ("aimfor", *MAPIE):
        given = [(key, one[method]) for key, one in both.items() if one[method] is not None]
        broken = sum(answer[0] < float(key.split("|")[1]) for key, answer in given)
        row[method] = f"{len(given) / len(both):.0%}, {broken / max(len(given), 1):.1%}"
    return row


def everything(data: Path) -> None:
    make_scores(data)
    for library in ("mapie", "aimfor"):
        (STORE / f"{library}.json").unlink(missing_ok=True)
        run(library, float("inf"))
    table()


if __name__ == "__main__":
    words = sys.argv[1:]
    if not words:
        raise SystemExit(__doc__)
    if words[0] == "scores":
        make_scores(Path(words[1]))
    elif words[0] == "table":
        table()
    elif words[0] in ("mapie", "aimfor"):
        run(words[0], float(words[1]) if len(words) > 1 else float("inf"))
    else:
        everything(Path(words[0]))
