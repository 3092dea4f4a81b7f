"""Every messy table trains to within a point of the same data cleaned by hand, or stops with one line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from aimfor.data.encode import encode, fit_encoder
from aimfor.data.load import load
from aimfor.errors import InputError
from aimfor.targets.classes import fit_labels
from messy import STOPS, TRAINS, Case, clean_table

Array = NDArray[np.float64]


def judged(x: Array, y: Array) -> float:
    """AUROC of a logistic regression on the last two fifths of the rows, trained on the others."""
    cut = 3 * len(y) // 5
    model = LogisticRegression(C=0.3, max_iter=300).fit(np.clip(x[:cut], -10, 10), y[:cut])
    return float(roc_auc_score(y[cut:], model.decision_function(np.clip(x[cut:], -10, 10))))


def by_hand(frame: pd.DataFrame) -> float:
    """What a careful person does with pandas, independent of the encoder."""
    parts: dict[str, object] = {}
    for name, column in frame.drop(columns="label").items():
        if pd.api.types.is_datetime64_any_dtype(column):
            known = column.fillna(column.median())
            days = (known - known.min()) / pd.Timedelta(days=1)
            parts |= {f"{name} days": days, f"{name} month": known.dt.month, f"{name} weekday": known.dt.day_of_week}
        elif pd.api.types.is_numeric_dtype(column):
            parts[str(name)] = column.fillna(column.median()).astype(float)
        if column.isna().any():
            parts[f"{name} missing"] = column.isna()
    words = frame.drop(columns="label").select_dtypes(["object", "string"])
    x = pd.concat([pd.DataFrame(parts).astype(float), pd.get_dummies(words).astype(float)], axis=1)
    x = (x - x.mean()) / x.std().replace(0, 1)
    return judged(x.to_numpy(), (frame["label"] == "yes").to_numpy().astype(float))


def prepared(case: Case) -> tuple[Array, Array, list[str]]:
    """Encoded rows, labels and notes, as training gets them."""
    source = load(str(case.path), "label", encoding=case.encoding)
    assert source.labels is not None
    y = fit_labels(source.labels, binary=True).encode(source.labels)
    encoder = fit_encoder(source, np.arange(3 * len(y) // 5), case.requested)
    return encode(encoder, source).astype(np.float64), y.astype(np.float64), encoder.notes


@pytest.mark.parametrize("name", TRAINS)
def test_a_messy_table_trains_as_well_as_the_clean_one(name: str, tmp_path: Path) -> None:
    gains = []
    for seed in range(12 if name == "small" else 1):  # 48 test rows alone cannot tell a point
        frame = clean_table(seed)
        made = TRAINS[name](frame, tmp_path)
        case = made if isinstance(made, Case) else Case(made)
        x, y, notes = prepared(case)
        clean = frame if case.clean is None else case.clean
        assert len(y) == len(clean)
        gains.append(judged(x, y) - by_hand(clean))
    assert np.mean(gains) >= -0.01, (gains, notes)


@pytest.mark.parametrize("name", STOPS)
def test_a_hopeless_table_stops_with_one_line(name: str, tmp_path: Path) -> None:
    write, line = STOPS[name]
    made = write(clean_table(), tmp_path)
    assert isinstance(made, Path)
    with pytest.raises(InputError) as caught:
        prepared(Case(made))
    assert line in str(caught.value)
    assert "\n" not in str(caught.value)


def test_there_are_enough_of_them() -> None:
    assert len(TRAINS) + len(STOPS) >= 40
    assert by_hand(clean_table()) > 0.85  # the clean data can be learned at all
