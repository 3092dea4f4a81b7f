"""ENGINE "direct": the gradient of the true metric, by loss-augmented inference."""

from ..schedule import Decay
from .engine import ArgmaxForm, DirectEngine, HasArgmax, LinearForm
from .forms.classes import ClassForm, class_rows, mean_shares
from .forms.counts import CountForm, CountRule
from .forms.ranking import PositionForm, RankingForm
from .interleave import ap_interleave, ndcg_interleave
from .lists import Rows, rows_of
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
