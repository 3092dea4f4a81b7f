"""The law: a row is the same numbers alone, in any batch, in any order and from any kind of file, to the last bit."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aimfor.data.columns import TableEncoder, columns_of
from kinds_of_cells import CELLS, ROW, N, guessed, routes, training_table


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 2**20), rows=st.lists(ROW, min_size=1, max_size=6))
def test_any_row_alone_in_any_batch_in_any_file_is_the_same_to_the_last_bit(
    tmp_path_factory: pytest.TempPathFactory, seed: int, rows: list[dict[str, int]]
) -> None:
    known = training_table(seed)
    encoder = TableEncoder.fit(columns_of(pd.DataFrame(known)), np.arange(N))
    assert {coder.name: coder.model_dump()["kind"] for coder in encoder.columns} == {
        k: v for k, (_, v) in CELLS.items()
    }
    encoder = TableEncoder.restore(json.loads(json.dumps(encoder.state)))
    new = {name: [cell(row[name]) for row in rows] for name, (cell, _) in CELLS.items()}
    together = {name: new[name] + known[name] for name in CELLS}
    wanted = encoder.transform(columns_of(pd.DataFrame(together)))
    assert np.isfinite(wanted).all()
    for chosen in (list(range(len(rows)))[::-1], [0]):
        few = {name: [cells[i] for i in chosen] for name, cells in new.items()}
        read = routes(few, tmp_path_factory.mktemp("law")) | guessed(few, tmp_path_factory.mktemp("guessed"))
        for route, columns in read.items():
            np.testing.assert_array_equal(encoder.transform(columns), wanted[chosen], err_msg=route)


@pytest.mark.parametrize("seed", range(3))
def test_any_kind_of_file_teaches_the_same_encoder(tmp_path: Path, seed: int) -> None:
    read = routes(training_table(seed), tmp_path)
    wanted = TableEncoder.fit(read["t.csv"])
    for route, columns in read.items():
        found = TableEncoder.fit(columns)
        assert found.feature_names == wanted.feature_names, route
        np.testing.assert_array_equal(found.transform(columns), wanted.transform(read["t.csv"]), err_msg=route)
