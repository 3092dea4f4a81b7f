"""ENGINE "direct": the gradient of the true metric, by loss-augmented inference."""

from .engine import Decay, DirectEngine
from .form import ArgmaxForm, HasArgmax, LinearForm
from .public import ap_interleave, ndcg_interleave
from .ranking import RankingForm

__all__ = [
    "ArgmaxForm",
    "Decay",
    "DirectEngine",
    "HasArgmax",
    "LinearForm",
    "RankingForm",
    "ap_interleave",
    "ndcg_interleave",
]
