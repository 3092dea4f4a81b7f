"""ENGINE "lp": a differentiable linear program that is right, fast and certified."""

from .certificates import Residuals
from .engine import LPEngine
from .form import HasProgram, LPForm, LPTask
from .gradients import ActiveSet, Envelope, GradientRule, Implicit, Unrolled
from .methods import InteriorPoint, Method, PenaltyNewton
from .ratio import RatioProblem, best_threshold, ratio_form
from .solution import LPSolution
from .solver import solve
from .structured import PairRows

__all__ = [
    "ActiveSet",
    "Envelope",
    "GradientRule",
    "HasProgram",
    "Implicit",
    "InteriorPoint",
    "LPEngine",
    "LPForm",
    "LPSolution",
    "LPTask",
    "Method",
    "PairRows",
    "PenaltyNewton",
    "RatioProblem",
    "Residuals",
    "Unrolled",
    "best_threshold",
    "ratio_form",
    "solve",
]
