"""ENGINE "lp": a differentiable linear program that is right, fast and certified."""

from .engine import HasProgram, LPEngine, LPForm, LPTask
from .gradients import ActiveSet, Envelope, GradientRule, Implicit, Unrolled
from .head import LPHead, LPHeadOutput
from .operators.sketched import Sketch
from .operators.structured import PairRows
from .predict import BlackBox, Oracle, Perturbed, PerturbedFenchelYoung, SPOPlus
from .public import LinearProgram, LPSolution, choose_epsilon, solve
from .ratio import RatioProblem, best_threshold, ratio_form
from .solvers.base import Method, Residuals
from .solvers.highs import Highs
from .solvers.interior import InteriorPoint
from .solvers.penalty import PenaltyNewton, PlainResult, plain_scheme

__all__ = [
    "ActiveSet",
    "BlackBox",
    "Envelope",
    "GradientRule",
    "HasProgram",
    "Highs",
    "Implicit",
    "InteriorPoint",
    "LPEngine",
    "LPForm",
    "LPHead",
    "LPHeadOutput",
    "LPSolution",
    "LPTask",
    "LinearProgram",
    "Method",
    "Oracle",
    "PairRows",
    "PenaltyNewton",
    "Perturbed",
    "PerturbedFenchelYoung",
    "PlainResult",
    "RatioProblem",
    "Residuals",
    "SPOPlus",
    "Sketch",
    "Unrolled",
    "best_threshold",
    "choose_epsilon",
    "plain_scheme",
    "ratio_form",
    "solve",
]
