"""Rows by what they have in common."""

from __future__ import annotations

import torch

from aimfor.targets.folds import rows_of_each


def test_rows_of_each_id_are_those_of_a_search_for_it() -> None:
    ids = torch.randint(-5, 40, (300,), generator=torch.Generator().manual_seed(0))
    wanted = [(ids == one).nonzero().reshape(-1).tolist() for one in ids.unique()]
    assert [rows.tolist() for rows in rows_of_each(ids)] == wanted
    assert rows_of_each(ids[:0]) == []
