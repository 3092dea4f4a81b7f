"""The verdicts on many streams at once are those of the check that people run, one stream and one look at a time."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from aimfor.constraints.counts import Counts
from aimfor.decisions.betting import sequence_lower
from aimfor.decisions.certificate import certify
from aimfor.rates import Constraint
from paper.experiment import Options
from paper.experiments.ours import peeking


@pytest.mark.parametrize("name", list(peeking.SETTINGS))
def test_verdicts_change_exactly_at_the_bounds_of_the_check(name: str) -> None:
    watch = peeking.SETTINGS[name]
    short = peeking.Watch(watch.sides, 250, watch.population, watch.threshold)
    streams = peeking.drawn(short, 2, np.random.default_rng(1))
    truth, alpha = short.truth(), 0.05 / len(short.sides)
    for wrong in ("met", "missed"):
        for one in short.constraints(wrong):
            for stream, row in ((0, 40), (1, 249)):
                table = torch.bincount(torch.from_numpy(streams.cells[stream, : row + 1]).long(), minlength=8)
                counts = Counts(truth.levels, table.double().reshape(2, 4))
                finding = certify(one.left, [one], counts, 1.0 - alpha, lower=sequence_lower).findings[0]
                end = finding.low if (one.sense == ">=") == (wrong == "met") else finding.high
                harder = 1e-6 if (one.sense == ">=") == (wrong == "met") else -1e-6
                if 1e-4 < end < 1.0 - 1e-4:
                    for bound, expected in ((end - harder, True), (end + harder, False)):
                        moved = Constraint(one.left, one.sense, bound)
                        assert bool(streams.says(moved, wrong, alpha, truth)[stream, row]) == expected, (wrong, row)


def test_bounds_lie_on_the_wrong_side_of_the_truth_and_fooled_streams_are_counted() -> None:
    watch = peeking.SETTINGS["three constraints, 2,000 rows"]
    for wrong, sign in (("met", -1), ("missed", 1)):
        for one in watch.constraints(wrong):
            value = float(one.left.value(watch.truth()))
            inside = value - one.bound if one.sense == ">=" else one.bound - value
            assert np.sign(inside) == sign
    found = peeking.run({"setting": "recall >=, 500 rows"}, Options())
    assert 0 < found["met"] <= 0.06 * found["streams"]
