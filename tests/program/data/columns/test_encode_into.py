"""The quick way to write ordinary numbers gives the bits of the careful one, whatever is among them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from aimfor.data.columns.cells import Column, from_arrow
from aimfor.data.columns.coders import Remarks
from aimfor.data.columns.quantities import LARGEST, PLAIN, Number, Scale

ODD = (np.nan, np.inf, -np.inf, 1e300, -1e300, 1e10, 5e-324)


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("odd", [None, *ODD])
def test_written_and_returned_numbers_are_the_same(odd: float | None, missing: bool) -> None:
    rng = np.random.default_rng(0)
    scale = Scale.fit(rng.normal(3, 2, 500))
    coder = Number(name="a", style=PLAIN, scale=scale, missing=missing)
    values = rng.normal(3, 2, 300)
    if odd is not None:
        values[17] = odd
    told, kept = Remarks(), Remarks()
    expected = coder.encode(Column("number", values), told)
    for order in ("C", "F"):
        out = np.full((300, 2 + len(coder.parts)), 7.0, np.float32, order=order)  # type: ignore[call-overload]
        coder.encode_into(Column("number", values), kept, out[:, 1:-1])
        assert np.array_equal(out[:, 1:-1].view(np.uint32), np.asarray(expected, np.float32).view(np.uint32))
        assert (out[:, [0, -1]] == 7.0).all()
    assert kept.sentences == 2 * told.sentences
    assert scale.ordinary(values) == (odd is None or abs(odd) < 1)


def test_values_whose_scale_leaves_float32_are_not_ordinary() -> None:
    """The middle half sets the scale here, and the ends are within the range of training: only clipping tells."""
    narrow = np.r_[np.linspace(0, 1e-200, 99), 1e100]
    scale = Scale.fit(narrow)
    assert not scale.far(narrow).any()
    assert not scale.ordinary(narrow)
    assert scale.apply(narrow).max() == np.float32(LARGEST)


def test_no_rows_are_nothing_to_write() -> None:
    scale = Scale(fill=0.0, mean=0.0, scale=1.0, low=-1.0, high=1.0)
    out = np.empty((0, 1), np.float32)
    Number(name="a", scale=scale, missing=False).encode_into(Column("number", np.zeros(0)), Remarks(), out)


def test_a_column_of_one_piece_is_not_copied_and_one_of_several_is_whole() -> None:
    piece = pa.array(np.arange(8.0))
    (address,) = {pa.chunked_array([piece]).chunk(0).buffers()[1].address}
    assert from_arrow(pa.chunked_array([piece])).values.__array_interface__["data"][0] == address
    joined = from_arrow(pa.chunked_array([piece.slice(0, 3), piece.slice(3)]))
    assert joined.values.tolist() == list(range(8))
    assert len(from_arrow(pa.chunked_array([], pa.float64()))) == 0
