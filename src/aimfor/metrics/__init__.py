"""WHAT: exact metrics and the forms each can take. One metric, one file."""

from .auroc import AUROC
from .base import Metric
from .registry import ENGINES, METRICS, engines_for, metric_from_name, support

__all__ = ["AUROC", "ENGINES", "METRICS", "Metric", "engines_for", "metric_from_name", "support"]
