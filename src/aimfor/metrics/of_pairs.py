"""What metrics that are means over ordered pairs share: their other forms follow from the pairs."""

from __future__ import annotations

from ..engine import Batch, Engine
from ..lp import HasProgram, LPForm
from ..smooth import HasSmooth, SmoothForm
from ..sorted import HasPairs, SortedEngine
from .base import Metric
from .programs import pair_program_form
from .smooth_pairs import pair_ranking


class OfPairs(Metric, HasPairs, HasProgram, HasSmooth):
    """A metric with a `pair_form`: its linear program and its soft ranks are those of the pairs."""

    def program_form(self, batch: Batch, margin: float, threshold: str) -> LPForm:
        return pair_program_form(self.pair_form(batch), margin)

    def smooth_form(self, batch: Batch) -> SmoothForm:
        return pair_ranking(self.pair_form(batch))

    def default_engine(self) -> Engine:
        return SortedEngine()
