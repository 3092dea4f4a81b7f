"""AutoGluon on one split, in an interpreter of its own: ``PYTHON autogluon_worker.py SPLIT.npz METRIC SECONDS``.

Prints one line of JSON. Imports nothing of this project, because AutoGluon pins other versions of what we use.
"""

import json
import resource
import sys
import tempfile

import numpy as np
import pandas as pd
from autogluon.tabular import TabularPredictor, __version__
from sklearn.metrics import average_precision_score, f1_score, roc_auc_score

THEIRS = {"auroc": "roc_auc", "ap": "average_precision", "f1": "f1"}


def frame(x: np.ndarray) -> pd.DataFrame:
    return pd.DataFrame(x, columns=[f"x{place}" for place in range(x.shape[1])])


def value(metric: str, predictor: TabularPredictor, rows: pd.DataFrame, y: np.ndarray) -> float:
    """On test rows; F1 of its own decisions, at the threshold it calibrated."""
    if metric == "f1":
        return float(f1_score(y, predictor.predict(rows)))
    chance = predictor.predict_proba(rows)[1]
    return float((roc_auc_score if metric == "auroc" else average_precision_score)(y, chance))


def cpu_seconds() -> float:
    """Of this process and the ones it started."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def main(path: str, metric: str, seconds: float) -> None:
    with np.load(path) as split:
        x, y, x_test, y_test = (split[key] for key in ("x", "y", "x_test", "y_test"))
    with tempfile.TemporaryDirectory() as folder:
        predictor = TabularPredictor("target", eval_metric=THEIRS[metric], path=folder, verbosity=0).fit(
            frame(x).assign(target=y), presets="medium_quality", time_limit=seconds, num_cpus=1, num_gpus=0
        )
        cpu = cpu_seconds()
        found = value(metric, predictor, frame(x_test), y_test)
        models = predictor.model_names()
    print(json.dumps({"test": found, "cpu": cpu, "models": models, "version": __version__}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]))
