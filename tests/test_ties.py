"""Ties in sorted rows, against a loop over the places."""

from __future__ import annotations

import pytest
import torch

from aimfor.ordering import first_places, last_places, of_first, of_last, shared_worth

ROWS = [
    torch.tensor([[5.0, 4.0, 4.0, 4.0, 1.0], [3.0, 3.0, 2.0, 2.0, 2.0], [9.0, 8.0, 7.0, 6.0, 5.0]]),
    torch.tensor([[1.0, 1.0, 1.0], [1.0, 1.0, 1.0]]),
    torch.tensor([[0.0, -0.0, -torch.inf, -torch.inf]]),
    torch.tensor([1.0, 2.0, 2.0, 3.0]),
    torch.tensor([[3.0, 1.0], [3.0, 1.0], [2.0, 1.0]]).t(),  # not contiguous
    torch.tensor([[2.0]]),
    torch.zeros(2, 0),
]


@pytest.mark.parametrize("rows", ROWS, ids=lambda rows: str(tuple(rows.shape)))
def test_places_and_worth_of_runs_are_a_loops(rows: torch.Tensor) -> None:
    worth = torch.rand(rows.shape[-1], dtype=torch.float64)
    first, last, shared = first_places(rows), last_places(rows), shared_worth(rows, worth)
    assert first.shape == last.shape == shared.shape == rows.shape
    values = torch.rand(rows.shape, dtype=torch.float64)
    parts = rows, values, first, last, shared, of_first(rows, values), of_last(rows, values)
    for row, own, f, g, s, begins, ends in zip(*(p[None] if p.ndim == 1 else p for p in parts), strict=True):
        for place, value in enumerate(row.tolist()):
            run = [other for other, same in enumerate(row.tolist()) if same == value]
            assert (int(f[place]), int(g[place])) == (run[0], run[-1])
            assert float(s[place]) == pytest.approx(float(worth[run].mean()), rel=1e-14)
            assert (float(begins[place]), float(ends[place])) == (float(own[run[0]]), float(own[run[-1]]))
