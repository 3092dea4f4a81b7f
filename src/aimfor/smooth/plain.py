"""Metrics of soft ranks through autograd, with every pair of scores in memory: what second derivatives come from."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn import functional

from .form import Plain, Softness, held_constant

if TYPE_CHECKING:
    from .ranking import Ranking

#: Pairs of scores that a second derivative may take: 128 MB in float64.
MOST_PAIRS = 1 << 24


def plain_ranking(form: Ranking, softness: Softness) -> Plain:
    """The loss of a form as a function of its scores, or why it has no second derivative."""
    held, share, places = form.holds(softness), softness.anchor, form.asked.places
    if held:
        return held_constant(held)
    if softness.indicator != "sigmoid":
        return "the bounds of ranks are differentiated once."
    if share and not form.in_pairs:
        return "this metric's anchor is differentiated once. SmoothEngine(), without an anchor, has one."
    if places.numel() * form.scores.shape[1] > MOST_PAIRS:
        return f"it would take more than {MOST_PAIRS} pairs of scores in memory. Take shorter lists."

    def plain(scores: Tensor) -> Tensor:
        gaps = scores[:, None, :] - scores.gather(1, places)[..., None]
        masses, loss = form.stacked, scores.new_zeros((), dtype=torch.float64)
        if share < 1.0:
            own = masses.gather(1, places[..., None].expand(-1, -1, masses.shape[2]))
            above = torch.bmm(torch.sigmoid(gaps / softness.temperature), masses) + 0.5 * own
            relative = form.relative(scores, softness) if form.cuts else above  # without cuts nobody looks at it
            loss = (1.0 - share) * (1.0 - form.measure(above.double().movedim(2, 0), relative))
        if share:
            pairs = functional.softplus(gaps / softness.anchor_temperature, threshold=40.0)
            loss = loss + (form.pairs(scores.detach(), share) * (pairs @ masses[..., -1:])[..., 0]).sum()
        return loss

    return plain
