"""The default on tables against CatBoost, LightGBM tuned by default, and the best of five by cross-validation.

Protocol, written before the first cell was run:

- Tables: eight with their raw columns or numbers, eight small ones; rows of the training files alone. A seed draws at
  most 4,000 rows, half of them to learn from, half to judge at the end, class by class.
- Ours: encoder and `fit_ensemble` as ``aimfor train`` calls them, one fit for each metric; members that do not depend
  on the metric are shared.
- Rivals get the raw columns as their own users give them, on the same folds as ours: the folds' models give the
  threshold, the value by which a rival is chosen, and the rounds (their mean) of a model on all rows, which is judged.
  *CatBoost*: its defaults, a fold stops after 50 rounds without a lower log loss. *LightGBM, tuned by default*: the
  settings of Holzmüller, Grinsztajn and Steinwart (Better by default, 2024; LGBM-TD), 1,000 rounds at most, a fold
  stops after 100. LightGBM, histogram boosting and logistic regression: their defaults. *Best by 5-fold CV*: whichever
  of the five has the best value out of fold, for each metric anew.
- Also: the ensemble weighed anew with the folds' models of CatBoost, or of LightGBM tuned by default, as a further
  member.
- Judged: AUROC, AP, F1, recall at precision 0.8 on the test rows; differences paired by split; over tables the median
  with a bootstrap interval and Wilcoxon's signed ranks, for each table the corrected resampled t-test with Holm's
  correction over tables. CPU seconds of everything that a user would have waited for, folds included.

CatBoost is no dependency: ``pip install catboost``, or ``pip install --target FOLDER --no-deps catboost six graphviz``
and FOLDER on PYTHONPATH.
"""

from __future__ import annotations

import importlib
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from aimfor.data.columns import TableEncoder, columns_of
from aimfor.learners.ensemble import Ensemble, MemoryStore, fit_ensemble
from aimfor.learners.ensemble.calibration import Scale, threshold_of
from aimfor.learners.ensemble.weights import Judge, mixed, steady
from aimfor.runs.compare.rivals import LEARN, RawTable
from aimfor.targets.objective import Objective

from ...data.tables import arrays, stratified
from ...experiment import Cell, Experiment, Options, Result, data_folder
from ...report.committee_board import HEAD, cells_of, score_line
from ...report.pages import write_table

Array = NDArray[Any]
METRICS = ("auroc", "ap", "f1", "recall@precision=0.8")
#: Tables with raw columns: the column of classes, the positive class, and columns that know the answer or are dates.
RAW: dict[str, tuple[str, Any, tuple[str, ...]]] = {
    "adult": ("income", ">50K", ()),
    "bank_marketing": ("y", "yes", ()),
    "german_credit": ("credit_risk", 2, ()),
    "compas": ("two_year_recid", 1, ("is_recid", "c_jail_in", "c_jail_out")),
}
NUMBERS = ("mammography", "thyroid_ann", "creditcard_fraud", "covertype_4v2")
SMALL = ("phoneme", "spambase", "us_crime", "satimage", "page_blocks0", "ozone_level_8hr", "wine_quality", "wilt")
DRAWN = 4_000
#: LGBM-TD for classes.
TUNED: dict[str, Any] = {
    "learning_rate": 0.04,
    "subsample": 0.75,
    "subsample_freq": 1,
    "num_leaves": 50,
    "min_child_samples": 40,
    "min_child_weight": 1e-7,
}
ROUNDS, PATIENCE, TUNED_PATIENCE = 1_000, 50, 100
CATBOOST, LGBM_TD, BEST = "CatBoost", "LightGBM, tuned by default", "best of five by 5-fold CV"
PLAIN = {
    "LightGBM": "lightgbm",
    "histogram boosting": "gradient_boosting",
    "logistic regression": "logistic_regression",
}
TITLE = "The default on 16 tables against CatBoost, LightGBM tuned by default, and the best by cross-validation"
SETTING = """At most 2,000 rows to learn from and as many to judge by, drawn anew by each seed; rivals on raw columns,
refitted on all training rows with thresholds out of fold. Points (hundredths of the metric); *p over tables*:
Wilcoxon's signed ranks; for one table the corrected resampled t-test. Fewer than 3 splits of a table show only what is
large on it; the medians over tables are the result."""


def cells(options: Options) -> list[Cell]:
    return [{"set": name, "seed": seed} for seed in range(options.seeds) for name in (*RAW, *NUMBERS, *SMALL)]


def frame_of(options: Options, name: str) -> tuple[Any, Array]:
    """All rows of a table's training file as a data frame, and their classes."""
    import pandas as pd

    folder = data_folder(options, "imbalanced_small" if name in SMALL else name)
    if name in RAW:
        target, positive, left_out = RAW[name]
        frame = pd.read_csv(folder / name / "train.csv.gz", na_values="?", skipinitialspace=True)
        return frame.drop(columns=[target, *left_out]), (frame[target] == positive).to_numpy().astype(np.int64)
    raw = arrays(folder / "imbalanced_small" / f"{name}.npz" if name in SMALL else folder / name / "train.npz")
    rows = raw["train"] if name in SMALL else slice(None)
    x = raw["X"][rows]
    return pd.DataFrame(x, columns=[f"x{one}" for one in range(x.shape[1])]), raw["y"][rows].astype(np.int64)


def split(frame: Any, y: Array, seed: int) -> tuple[Array, Array]:
    """Row numbers to learn from and to judge by, each class halved."""
    rows = np.random.default_rng(seed).permutation(len(y))[:DRAWN]
    learn, judge = stratified(torch.from_numpy(y[rows]), 0.5, seed)
    return rows[learn.numpy()], rows[judge.numpy()]


def raw_table(frame: Any, learned: Array) -> RawTable:
    """Numbers with NaN, and texts as level numbers by the rows that are learned from."""
    numbers = frame.select_dtypes("number")
    levels = []
    for name in frame.columns.difference(numbers.columns, sort=False):
        known = {text: place for place, text in enumerate(sorted(frame[name].iloc[learned].dropna().unique()))}
        levels.append((frame[name].map(known).fillna(-1).to_numpy().astype(np.int64), len(known)))
    codes = np.stack([code for code, _ in levels], 1) if levels else np.zeros((len(frame), 0), dtype=np.int64)
    return RawTable(numbers.to_numpy(dtype=np.float64), codes, tuple(size for _, size in levels))


@dataclass
class Rival:
    """Log-odds of one rival: out of fold, of test rows by the model on all rows and by the folds' models together."""

    out_of_fold: Tensor
    refitted: Tensor
    averaged: Tensor
    seconds: float


def _catboost(
    train: RawTable, y: Array, seed: int, held: tuple[RawTable, Array] | None, rounds: int
) -> tuple[Callable[[RawTable], Array], int]:
    catboost = importlib.import_module("catboost")
    named = list(range(len(train.sizes)))
    how = {"random_seed": seed, "thread_count": 1, "verbose": False, "allow_writing_files": False}
    if held is None:
        model = catboost.CatBoostClassifier(iterations=rounds, **how).fit(train.words, y, cat_features=named)
    else:
        model = catboost.CatBoostClassifier(early_stopping_rounds=PATIENCE, **how)
        model.fit(train.words, y, cat_features=named, eval_set=(held[0].words, held[1]))
    return lambda part: np.asarray(model.predict_proba(part.words))[:, 1], int(model.tree_count_)


def _tuned(
    train: RawTable, y: Array, seed: int, held: tuple[RawTable, Array] | None, rounds: int
) -> tuple[Callable[[RawTable], Array], int]:
    from lightgbm import LGBMClassifier, early_stopping

    model = LGBMClassifier(n_estimators=rounds, random_state=seed, n_jobs=1, verbose=-1, **TUNED)
    watched: dict[str, Any] = {}
    if held is not None:
        watched = {
            "eval_set": [(held[0].native, held[1])],
            "callbacks": [early_stopping(TUNED_PATIENCE, verbose=False)],
        }
    model.fit(train.native, y, categorical_feature=list(range(len(train.sizes))), **watched)
    best = model.best_iteration_ if held is not None else rounds
    return lambda part: np.asarray(model.predict_proba(part.native))[:, 1], int(best or rounds)


def _plain(
    name: str, train: RawTable, y: Array, seed: int, held: tuple[RawTable, Array] | None, rounds: int
) -> tuple[Callable[[RawTable], Array], int]:
    model = LEARN[name](train, y, seed)
    return lambda part: model(part)[:, 1], rounds


LEARNERS: dict[str, Callable[..., tuple[Callable[[RawTable], Array], int]]] = {
    CATBOOST: _catboost,
    LGBM_TD: _tuned,
    **{title: partial(_plain, name) for title, name in PLAIN.items()},
}


def learned(name: str, train: RawTable, y: Array, test: RawTable, folds: Array, seed: int) -> Rival:
    """One rival on these folds, and on all rows by the mean of the folds' rounds."""
    began, learn = time.process_time(), LEARNERS[name]
    outside, averaged, counts = np.zeros(len(y)), np.zeros(len(test.numbers)), []
    for fold in np.unique(folds):
        held = np.flatnonzero(folds == fold)
        rest = np.flatnonzero(folds != fold)
        model, rounds = learn(train.take(rest), y[rest], seed, (train.take(held), y[held]), ROUNDS)
        outside[held] = _log_odds(model(train.take(held)))
        averaged += _log_odds(model(test)) / len(np.unique(folds))
        counts.append(rounds)
    model, _ = learn(train, y, seed, None, round(float(np.mean(counts))))
    refitted = _log_odds(model(test))
    seconds = time.process_time() - began
    return Rival(torch.from_numpy(outside), torch.from_numpy(refitted), torch.from_numpy(averaged), seconds)


def _log_odds(chance: Array) -> Array:
    chance = np.clip(chance.astype(np.float64), 1e-15, 1 - 1e-15)
    return np.asarray(np.log(chance) - np.log1p(-chance))


def run(cell: Cell, options: Options) -> Result:
    frame, y = frame_of(options, cell["set"])
    learn, judge = split(frame, y, cell["seed"])
    truth = torch.from_numpy(y[judge])
    began, store, ensembles = time.process_time(), MemoryStore(), {}
    seconds: dict[str, float] = {}
    encoder = TableEncoder.fit(columns_of(frame.iloc[learn]))
    x = torch.from_numpy(encoder.transform(columns_of(frame.iloc[learn])))
    for metric in METRICS:  # seconds of the first are those of one run; further metrics weigh the same members anew
        ids = torch.from_numpy(y[learn])
        how: dict[str, Any] = {"levels": encoder.levels, "seed": cell["seed"], "store": store}
        ensembles[metric] = fit_ensemble(x, ids, Objective.of(metric), **how)
        seconds[metric], began = time.process_time() - began, time.process_time()
    x_test = torch.from_numpy(encoder.transform(columns_of(frame.iloc[judge])))
    record = ensembles["auroc"].out_of_fold
    assert record is not None
    table = raw_table(frame, learn)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # not converged, unknown levels: the packages' own matters
        rivals = {
            name: learned(name, table.take(learn), y[learn], table.take(judge), record.folds.numpy(), cell["seed"])
            for name in LEARNERS
        }
    return {
        "metrics": {name: _judged(ensembles[name], x_test, truth, rivals, cell["seed"]) for name in METRICS},
        "rows": [len(learn), len(judge)],
        "positives": [int(y[learn].sum()), int(truth.sum())],
        "cpu": {"ours": seconds["auroc"], **{name: rival.seconds for name, rival in rivals.items()}},
        "cpu_of_weights": {name: seconds[name] for name in METRICS[1:]},
    }


def _judged(ensemble: Ensemble, x: Tensor, y: Tensor, rivals: dict[str, Rival], seed: int) -> dict[str, Any]:
    """Test values of ours, of every rival, and of ours with one of two rivals as a further member."""
    objective, record = ensemble.objective, ensemble.out_of_fold
    assert record is not None
    on_test = torch.stack([weighted.scores(x) for weighted in ensemble.weighted_members])
    found: dict[str, Any] = {
        "committee": objective.value(ensemble.scores(x), y, ensemble.threshold.value),
        "promised": ensemble.cross_validated,
        "shares": {weighted.name: weighted.share for weighted in ensemble.weighted_members},
        "rivals": {},
        "with": {},
    }
    for name, rival in rivals.items():
        threshold, value = objective.tuned(rival.out_of_fold, record.y)
        judged = objective.value(rival.refitted, y, threshold)
        found["rivals"][name] = {"validation": value, "test": judged, "test_cv": None}
    for name in (CATBOOST, LGBM_TD):
        scale = Scale.fit(rivals[name].out_of_fold, record.y)
        members = torch.cat((record.members, scale(rivals[name].out_of_fold)[None]))
        judge = Judge(objective, members, record.y)
        shares = steady(judge, seed)
        mixture = Scale.fit(mixed(members, shares), record.y)
        threshold = threshold_of(objective, mixture(mixed(members, shares)), record.y).value
        test = mixture(mixed(torch.cat((on_test, scale(rivals[name].averaged)[None])), shares))
        found["with"][name] = {"test": objective.value(test, y, threshold), "share": float(shares[-1])}
    return found


def report(results: list[dict[str, Any]], folder: Path) -> None:
    write_table(folder, [f"# {TITLE}", "", SETTING, *summary_lines(results)])


def summary_lines(results: list[dict[str, Any]], level: str = "##") -> list[str]:
    """Points of the default above each rival; what CatBoost or tuned LightGBM would add; CPU seconds."""
    lines: list[str] = []
    contrasts: dict[str, Callable[[dict[str, Any]], float | None]] = {
        **{name: partial(_rival, name) for name in LEARNERS},
        BEST: _best,
        f"the default with {CATBOOST} as a further member": partial(_with, CATBOOST),
        f"the default with {LGBM_TD} as a further member": partial(_with, LGBM_TD),
    }
    for text, other in contrasts.items():
        lines += ["", f"{level} The default against {text}", "", *HEAD]
        for metric in METRICS:
            compared = cells_of(results, metric, other, 1.0)
            lines += [score_line(metric, compared)] if compared else []
    return [*lines, "", f"{level} CPU seconds, median and as a multiple of ours, median", "", *_seconds(results)]


def _rival(name: str, found: dict[str, Any]) -> float | None:
    value: float | None = found["rivals"][name]["test"]
    return value


def _best(found: dict[str, Any]) -> float | None:
    return _rival(max(found["rivals"], key=lambda one: found["rivals"][one]["validation"] or 0.0), found)


def _with(name: str, found: dict[str, Any]) -> float | None:
    value: float | None = found["with"][name]["test"]
    return value


def _seconds(results: list[dict[str, Any]]) -> list[str]:
    each = [one["result"]["cpu"] for one in results]
    each = [{**one, BEST: sum(one[name] for name in LEARNERS)} for one in each]
    lines = ["| who | CPU s | of ours |", "|---|---|---|"]
    for name in each[0]:
        ratio = median(one[name] / one["ours"] for one in each)
        lines.append(f"| {name} | {median(one[name] for one in each):.1f} | {ratio:.2f} |")
    return lines


EXPERIMENT = Experiment("strong_rivals", TITLE, "aimfor", cells, run, report, seeds=3)
