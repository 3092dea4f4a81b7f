"""Numbers about one part of the data: what the report shows, and where each number comes from."""

from .part import evaluate as evaluate
from .part import or_undefined as or_undefined
