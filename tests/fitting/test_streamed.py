"""Metrics over streams: equal to the metric in memory, for any memory, any order and any ties."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, roc_auc_score

import aimfor
from aimfor.fitting import streamed
from aimfor.fitting.objective import Objective
from aimfor.fitting.streamed import sources, sweep
from aimfor.metrics import metric_from_name

NAMES = ["auroc", "ap", "f1", "fbeta=2", "iou", "accuracy", "recall@precision=0.6", "precision@recall=0.7",
         "tpr@fpr=0.2", "auprc@7"]  # fmt: skip


def data(kind: str, n: int, seed: int = 0, dtype: type = np.float64) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    labels = rng.random(n) < {"rare": 0.05, "common": 0.9}.get(kind, 0.4)
    scores = rng.standard_normal(n) + labels
    if kind == "ties":
        scores = np.round(scores)
    if kind == "one value":
        scores = np.where(rng.random(n) < 0.7, 0.25, scores)
    if kind == "zeros":
        scores = np.where(rng.random(n) < 0.5, -0.0, 0.0)
    if kind == "ascending":
        order = np.argsort(scores)
        scores, labels = scores[order], labels[order]
    return scores.astype(dtype), labels


KINDS = ["plain", "rare", "common", "ties", "one value", "zeros", "ascending"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("numbers", [64, 300, 1_000_000])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_equal_to_the_metric_in_memory_for_any_memory(kind: str, numbers: int, dtype: type) -> None:
    scores, labels = data(kind, 2_000, dtype=dtype)
    found = streamed.evaluate(streamed.from_arrays(scores, labels), NAMES, numbers * np.dtype(dtype).itemsize)
    s, y = torch.from_numpy(scores), torch.from_numpy(labels)
    for name in NAMES:
        metric = metric_from_name(name)
        expected = float(metric.value(s, y))
        if name == "auroc":
            assert found[name].value == expected
        assert found[name].value == pytest.approx(expected, rel=4e-15, abs=1e-300), name
        if isinstance(metric, aimfor.PrecisionAtRecall | aimfor.RecallAtPrecision | aimfor.TPRAtFPR):
            assert found[name].threshold == float(metric.decide(s, y)), name
    for name in ("f1", "fbeta=2", "iou", "accuracy"):
        objective = Objective.of(name)
        nothing = objective.value(s, y, math.inf)
        assert found[name].best == max(objective.tuned(s, y)[1], nothing), name
        assert objective.value(s, y, found[name].threshold) == found[name].best, name


def test_area_and_average_precision_equal_scikit_learn() -> None:
    scores, labels = data("ties", 5_000)
    found = streamed.evaluate(streamed.from_arrays(scores, labels), ["auroc", "ap"], 128 * 8)
    assert found["auroc"].value == pytest.approx(roc_auc_score(labels, scores), rel=1e-13)
    assert found["ap"].value == pytest.approx(average_precision_score(labels, scores), rel=1e-13)


@pytest.mark.parametrize("kind", ["plain", "ties"])
@pytest.mark.parametrize("part", [0.05, 0.3, 0.9])
def test_partial_area(kind: str, part: float) -> None:
    scores, labels = data(kind, 3_000)
    found = streamed.evaluate(streamed.from_arrays(scores, labels), [aimfor.AUROC(part)], 512 * 8)
    expected = roc_auc_score(labels, scores, max_fpr=part)
    assert next(iter(found.values())).value == pytest.approx(expected, rel=1e-12)


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_any_small_stream(drawn: st.DataObject) -> None:
    n = drawn.draw(st.integers(1, 200))
    values = st.sampled_from([-2.0, -0.0, 0.0, 1e-300, 0.5, 3e38]) | st.floats(-1, 1, width=32)
    scores = np.array(drawn.draw(st.lists(values, min_size=n, max_size=n)))
    labels = np.array(drawn.draw(st.lists(st.booleans(), min_size=n, max_size=n)))
    found = streamed.evaluate(streamed.from_arrays(scores, labels), ["auroc", "ap"], 64 * 8)
    for name in found:
        expected = float(metric_from_name(name).value(torch.from_numpy(scores), torch.from_numpy(labels)))
        assert found[name].value == pytest.approx(expected, rel=1e-14, nan_ok=True)


def test_memory_is_bounded_and_passes_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    scores, labels = data("plain", 40_000)
    begun = []

    def start() -> list[tuple[np.ndarray, np.ndarray]]:
        begun.append(1)
        return [(scores, labels)]

    monkeypatch.setattr(sources, "ROWS", 500)
    source = streamed.from_chunks(start)
    _, blocks = sweep.sweep(source, 8_000 * 8)
    most = max(len(block.scores) for block in blocks)
    assert most <= 8_000
    assert 5 <= len(begun) <= 13  # between n / capacity and n / (half of it), and the buffer is never quite full


def test_undefined_values_are_nan() -> None:
    ones = streamed.evaluate(streamed.from_arrays(np.ones(3), np.ones(3, bool)), ["auroc", "ap"])
    assert math.isnan(ones["auroc"].value)
    assert ones["ap"].value == 1.0
    none = streamed.evaluate(streamed.from_arrays(np.ones(3), np.zeros(3, bool)), [*NAMES])
    assert all(math.isnan(none[name].value) for name in ("auroc", "ap", "recall@precision=0.6", "auprc@7"))
    empty = streamed.evaluate(streamed.from_chunks(lambda: []), NAMES)
    assert math.isnan(empty["auroc"].value)


def test_files(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    scores, labels = data("ties", 4_000, dtype=np.float32)
    np.save(tmp_path / "scores.npy", scores)
    np.save(tmp_path / "labels.npy", labels.astype(np.int8))
    folder = tmp_path / "parts"
    folder.mkdir()
    for number, rows in enumerate((slice(0, 1_500), slice(1_500, None))):
        pq.write_table(pa.table({"score": scores[rows], "label": labels[rows]}), folder / f"{number}.parquet")
    expected = streamed.evaluate(streamed.from_arrays(scores, labels), NAMES)
    mapped = streamed.from_arrays(tmp_path / "scores.npy", tmp_path / "labels.npy")
    assert streamed.evaluate(mapped, NAMES, 4_096) == expected
    assert streamed.evaluate(streamed.from_parquet(folder), NAMES, 4_096) == expected


def test_a_source_that_changes_between_passes() -> None:
    scores, labels = data("plain", 4_000)
    begun = []

    def start() -> list[tuple[np.ndarray, np.ndarray]]:
        begun.append(1)
        return [(scores + (1e-9 if len(begun) == 3 else 0.0), labels)]

    with pytest.raises(aimfor.InputError, match="does not change"):
        streamed.evaluate(streamed.from_chunks(start), ["auroc"], 500 * 8)


def test_bad_chunks_are_named(tmp_path: Path) -> None:
    good = np.array([0.5, 0.1])
    cases = [
        (np.array([0.5, np.nan]), np.array([0, 1]), "nan at row 1"),
        (good, np.array([0, 2]), "the label 2"),
        (np.array([1, 0]), np.array([0, 1]), "int64"),
        (good.reshape(1, 2), np.zeros((1, 2)), "one dimension"),
    ]
    for scores, labels, text in cases:
        with pytest.raises(aimfor.InputError, match=text):
            streamed.evaluate(streamed.from_arrays(scores, labels), ["auroc"])
    with pytest.raises(aimfor.InputError, match="2 scores and 3 labels"):
        streamed.from_arrays(good, np.zeros(3))
    with pytest.raises(aimfor.InputError, match="monotone"):
        streamed.evaluate(streamed.from_arrays(good, np.array([0, 1])), ["ndcg"])
    with pytest.raises(aimfor.InputError, match="only once"):
        streamed.from_chunks(iter([]))  # type: ignore[arg-type]
    (tmp_path / "scores.npy").write_bytes(b"no array")
    with pytest.raises(aimfor.InputError, match="cannot be read"):
        streamed.from_arrays(tmp_path / "scores.npy", np.zeros(3))
    mixed = streamed.from_chunks(lambda: [(good, good > 0.2), (good.astype(np.float32), good > 0.2)])
    with pytest.raises(aimfor.InputError, match="one type"):
        streamed.evaluate(mixed, ["auroc"])
