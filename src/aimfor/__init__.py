"""aimfor: train neural networks on the metric you are judged by::

    loss_fn = aimfor.MetricLoss("auroc")
    loss = loss_fn(model(x).squeeze(1), y)

Names are imported on first use, so that the command line starts without waiting for torch.
"""

from __future__ import annotations

import importlib
import warnings
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"

#: Every public name of this module, and the module it lives in.
_HOME = {
    "MetricLoss": "loss",
    "RetrievalLoss": "retrieval",
    "SortedEngine": "sorted",
    "SmoothEngine": "smooth",
    "DirectEngine": "direct",
    "LPEngine": "lp",
    "LagrangianEngine": "lagrangian",
    "RateEngine": "rates",
    "maximize": "rates",
    "minimize": "rates",
    "in_parts": "whole",
    "Metric": "metrics",
    "AUROC": "metrics",
    "AUCMu": "metrics",
    "Accuracy": "metrics",
    "AveragePrecision": "metrics",
    "Confusion": "metrics",
    "FBeta": "metrics",
    "IoU": "metrics",
    "NDCG": "metrics",
    "PrecisionAtRecall": "metrics",
    "RecallAtPrecision": "metrics",
    "decide": "decisions",
    "metric_from_name": "metrics",
    "support": "metrics",
    "load": "runs.finished",
    "train": "program",
    "compare": "program",
    "Status": "engine",
    "AimforError": "errors",
    "InputError": "errors",
    "DegenerateBatchWarning": "errors",
}
#: Names that live in subpackages. They work here too, but `dir` does not show them.
_ELSEWHERE = {
    "Engine": "engine",
    "EngineOutput": "engine",
    "HeadFitter": "refit",
    "Regularized": "regularized",
    "PULoss": "positive_unlabelled",
    "AUROCOneVsRest": "metrics",
    "CountRatio": "metrics",
    "TPRAtFPR": "metrics",
    "AUPRC": "metrics",
    "SolverError": "errors",
    "UnsupportedPairError": "errors",
}
_OLD_NAMES = {"MetricHead": "HeadFitter"}
#: Subpackages that a user may want to look into.
_PACKAGES = (
    "constraints",
    "data",
    "decisions",
    "direct",
    "engine",
    "errors",
    "integrations",
    "lagrangian",
    "learners",
    "lp",
    "metrics",
    "positive_unlabelled",
    "rates",
    "refit",
    "retrieval",
    "smooth",
    "sorted",
)
#: What `from aimfor import *` brings needs torch and SciPy; `aimfor.load` reads the program's folders, with pyarrow.
__all__ = [
    "AUROC",
    "NDCG",
    "AUCMu",
    "Accuracy",
    "AimforError",
    "AveragePrecision",
    "Confusion",
    "DegenerateBatchWarning",
    "DirectEngine",
    "FBeta",
    "InputError",
    "IoU",
    "LPEngine",
    "LagrangianEngine",
    "Metric",
    "MetricLoss",
    "PrecisionAtRecall",
    "RateEngine",
    "RecallAtPrecision",
    "RetrievalLoss",
    "SmoothEngine",
    "SortedEngine",
    "Status",
    "__version__",
    "decide",
    "in_parts",
    "maximize",
    "metric_from_name",
    "minimize",
    "support",
]

if TYPE_CHECKING:
    from . import constraints as constraints
    from . import data as data
    from . import decisions as decisions
    from . import direct as direct
    from . import engine as engine
    from . import errors as errors
    from . import integrations as integrations
    from . import lagrangian as lagrangian
    from . import learners as learners
    from . import lp as lp
    from . import metrics as metrics
    from . import positive_unlabelled as positive_unlabelled
    from . import rates as rates
    from . import refit as refit
    from . import retrieval as retrieval
    from . import smooth as smooth
    from . import sorted as sorted
    from .decisions import decide as decide
    from .direct import DirectEngine as DirectEngine
    from .engine import Engine as Engine
    from .engine import EngineOutput as EngineOutput
    from .engine import Status as Status
    from .errors import AimforError as AimforError
    from .errors import DegenerateBatchWarning as DegenerateBatchWarning
    from .errors import InputError as InputError
    from .errors import SolverError as SolverError
    from .errors import UnsupportedPairError as UnsupportedPairError
    from .lagrangian import LagrangianEngine as LagrangianEngine
    from .loss import MetricLoss as MetricLoss
    from .lp import LPEngine as LPEngine
    from .metrics import AUPRC as AUPRC
    from .metrics import AUROC as AUROC
    from .metrics import NDCG as NDCG
    from .metrics import Accuracy as Accuracy
    from .metrics import AUCMu as AUCMu
    from .metrics import AUROCOneVsRest as AUROCOneVsRest
    from .metrics import AveragePrecision as AveragePrecision
    from .metrics import Confusion as Confusion
    from .metrics import CountRatio as CountRatio
    from .metrics import FBeta as FBeta
    from .metrics import IoU as IoU
    from .metrics import Metric as Metric
    from .metrics import PrecisionAtRecall as PrecisionAtRecall
    from .metrics import RecallAtPrecision as RecallAtPrecision
    from .metrics import TPRAtFPR as TPRAtFPR
    from .metrics import metric_from_name as metric_from_name
    from .metrics import support as support
    from .positive_unlabelled import PULoss as PULoss
    from .program import compare as compare
    from .program import train as train
    from .rates import RateEngine as RateEngine
    from .rates import maximize as maximize
    from .rates import minimize as minimize
    from .refit import HeadFitter as HeadFitter
    from .regularized import Regularized as Regularized
    from .retrieval import RetrievalLoss as RetrievalLoss
    from .runs.finished import load as load
    from .smooth import SmoothEngine as SmoothEngine
    from .sorted import SortedEngine as SortedEngine
    from .whole import in_parts as in_parts


def __getattr__(name: str) -> Any:
    if name in _OLD_NAMES:
        words = f"aimfor.{name} is called aimfor.{_OLD_NAMES[name]} now; the old name goes in two minor versions"
        warnings.warn(words, DeprecationWarning, stacklevel=2)
        name = _OLD_NAMES[name]
    home = _HOME.get(name) or _ELSEWHERE.get(name)
    if home is not None:
        try:
            value = getattr(importlib.import_module(f".{home}", __name__), name)
        except ModuleNotFoundError as missing:
            if missing.name != "torch":
                raise
            words = f"aimfor.{name} needs torch. Install it with: pip install torch"
            raise ModuleNotFoundError(words, name="torch") from None
        globals()[name] = value
        return value
    if name in (*_PACKAGES, "distributed", "checks"):
        return importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    # dir() puts them in order; the name `sorted` is a subpackage here
    return [*__all__, "compare", "load", "train", *_PACKAGES]
