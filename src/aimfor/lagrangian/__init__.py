"""ENGINE "lagrangian": one dual per example, cheap exact projections, dual ascent."""

from .bound import Bound, bound_from_scores
from .engine import LagrangianEngine
from .form import ConstraintForm, ConstraintProblem, HasConstraints, kept_rows, two_group_form
from .groups import class_fractions, size_labels
from .history import History
from .projections import Capped, SampledCap, project_cap, project_cap_sampled, project_two, soft_project_cap, soft_sort
from .schedule import Constant, LinearDecay, PowerDecay

__all__ = [
    "Bound",
    "Capped",
    "Constant",
    "ConstraintForm",
    "ConstraintProblem",
    "HasConstraints",
    "History",
    "LagrangianEngine",
    "LinearDecay",
    "PowerDecay",
    "SampledCap",
    "bound_from_scores",
    "class_fractions",
    "kept_rows",
    "project_cap",
    "project_cap_sampled",
    "project_two",
    "size_labels",
    "soft_project_cap",
    "soft_sort",
    "two_group_form",
]
