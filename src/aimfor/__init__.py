"""aimfor: train neural networks on the metric you are judged by.

    loss_fn = aimfor.MetricLoss("auroc")
    loss = loss_fn(model(x).squeeze(1), y)

Names are imported on first use, so that the command line starts without waiting for torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"

_HOME = {
    "MetricLoss": "loss",
    "RetrievalLoss": "retrieval",
    "HeadFitter": "refit",
    "Regularized": "regularized",
    "Engine": "engine",
    "EngineOutput": "engine",
    "Status": "engine",
    "SortedEngine": "sorted",
    "SmoothEngine": "smooth",
    "DirectEngine": "direct",
    "LagrangianEngine": "lagrangian",
    "RateEngine": "rates",
    "maximize": "rates",
    "minimize": "rates",
    "LPEngine": "lp",
    "Metric": "metrics",
    "AUROC": "metrics",
    "AUROCOneVsRest": "metrics",
    "AUCMu": "metrics",
    "Accuracy": "metrics",
    "AveragePrecision": "metrics",
    "Confusion": "metrics",
    "CountRatio": "metrics",
    "FBeta": "metrics",
    "IoU": "metrics",
    "NDCG": "metrics",
    "PrecisionAtRecall": "metrics",
    "RecallAtPrecision": "metrics",
    "TPRAtFPR": "metrics",
    "AUPRC": "metrics",
    "metric_from_name": "metrics",
    "support": "metrics",
    "load": "app.run.model",
    "AimforError": "errors",
    "InputError": "errors",
    "UnsupportedPairError": "errors",
    "SolverError": "errors",
    "DegenerateBatchWarning": "errors",
}
__all__ = ["__version__", *_HOME]

if TYPE_CHECKING:
    from .app.run.model import load
    from .direct import DirectEngine
    from .engine import Engine, EngineOutput, Status
    from .errors import AimforError, DegenerateBatchWarning, InputError, SolverError, UnsupportedPairError
    from .lagrangian import LagrangianEngine
    from .loss import MetricLoss
    from .lp import LPEngine
    from .metrics import (
        AUPRC,
        AUROC,
        NDCG,
        Accuracy,
        AUCMu,
        AUROCOneVsRest,
        AveragePrecision,
        Confusion,
        CountRatio,
        FBeta,
        IoU,
        Metric,
        PrecisionAtRecall,
        RecallAtPrecision,
        TPRAtFPR,
        metric_from_name,
        support,
    )
    from .rates import RateEngine, maximize, minimize
    from .refit import HeadFitter
    from .regularized import Regularized
    from .retrieval import RetrievalLoss
    from .smooth import SmoothEngine
    from .sorted import SortedEngine


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(importlib.import_module(f".{_HOME[name]}", __name__), name)
        globals()[name] = value
        return value
    if name == "MetricHead":  # its name before 0.2.0
        return __getattr__("HeadFitter")
    if name in ("lp", "direct", "smooth", "retrieval", "lagrangian", "rates", "metrics", "distributed", "checks"):
        return importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return list(__all__)  # dir() puts them in order; the name `sorted` is a subpackage here
