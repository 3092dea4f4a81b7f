"""ENGINE "direct": the gradient of the true metric, by loss-augmented inference."""

from ..schedule import Decay
from .counting import CountForm, CountRule
from .engine import DirectEngine
from .form import ArgmaxForm, HasArgmax, LinearForm
from .multiclass import ClassForm
from .positions import PositionForm
from .public import ap_interleave, ndcg_interleave
from .ranking import RankingForm
from .rows import Rows, rows_of
from .segmentation import class_rows, mean_shares
from .structured import StructuredLoss

__all__ = [
    "ArgmaxForm",
    "ClassForm",
    "CountForm",
    "CountRule",
    "Decay",
    "DirectEngine",
    "HasArgmax",
    "LinearForm",
    "PositionForm",
    "RankingForm",
    "Rows",
    "StructuredLoss",
    "ap_interleave",
    "class_rows",
    "mean_shares",
    "ndcg_interleave",
    "rows_of",
]
