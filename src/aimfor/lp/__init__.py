"""ENGINE "lp": a differentiable linear program that is right, fast and certified."""

from .certificates import Residuals
from .costs import BlackBox, Perturbed
from .engine import LPEngine
from .form import HasProgram, LPForm, LPTask
from .gradients import ActiveSet, Envelope, GradientRule, Implicit, Unrolled
from .head import LPHead, LPHeadOutput
from .layer import LinearProgram
from .operators.structured import PairRows
from .oracle import Oracle
from .predict import PerturbedFenchelYoung, SPOPlus
from .public import choose_epsilon, solve
from .ratio import RatioProblem, best_threshold, ratio_form
from .solution import LPSolution
from .solvers.base import Method
from .solvers.methods import InteriorPoint, PenaltyNewton
from .solvers.plain import PlainResult, plain_scheme
from .solvers.sketch import Sketch
from .solvers.warm import Highs

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
