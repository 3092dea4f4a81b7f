"""ENGINE "lagrangian": one dual per example, cheap exact projections, dual ascent."""

from .bound import Bound, bound_from_scores
from .engine import LagrangianEngine
from .exact import LinearOptimum, linear_optimum
from .form import ConstraintForm, ConstraintProblem, HasConstraints, kept_rows, two_group_form
from .history import History
from .labels import (
    SKY_THRESHOLDS,
    STUFF_THRESHOLDS,
    class_fractions,
    labels_by_mean,
    labels_by_threshold,
    labels_by_vote,
)
from .projections import Capped, SampledCap, project_cap, project_cap_sampled, project_two
from .schedule import Constant, Decay, Linear
from .soft_projection import soft_project_cap, soft_sort

__all__ = [
    "SKY_THRESHOLDS",
    "STUFF_THRESHOLDS",
    "Bound",
    "Capped",
    "Constant",
    "ConstraintForm",
    "ConstraintProblem",
    "Decay",
    "HasConstraints",
    "History",
    "LagrangianEngine",
    "Linear",
    "LinearOptimum",
    "SampledCap",
    "bound_from_scores",
    "class_fractions",
    "kept_rows",
    "labels_by_mean",
    "labels_by_threshold",
    "labels_by_vote",
    "linear_optimum",
    "project_cap",
    "project_cap_sampled",
    "project_two",
    "soft_project_cap",
    "soft_sort",
    "two_group_form",
]
