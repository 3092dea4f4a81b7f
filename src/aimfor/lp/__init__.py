"""ENGINE "lp": a differentiable linear program that is right, fast and certified."""

from .certificates import Residuals
from .gradients import ActiveSet, Envelope, GradientRule, Implicit, Unrolled
from .methods import InteriorPoint, Method, PenaltyNewton
from .solution import LPSolution
from .solver import solve

__all__ = [
    "ActiveSet",
    "Envelope",
    "GradientRule",
    "Implicit",
    "InteriorPoint",
    "LPSolution",
    "Method",
    "PenaltyNewton",
    "Residuals",
    "Unrolled",
    "solve",
]
