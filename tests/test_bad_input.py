"""The table of bad input: each line is a clear InputError before any state is touched, or a defined value."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import aimfor
from aimfor.schedule import Decay

N = 16
SCORES = torch.linspace(-1.0, 1.0, N)
TARGETS = (torch.arange(N) % 4 == 0).long()


def spoiled(position: int, value: float) -> torch.Tensor:
    scores = SCORES.clone()
    scores[position] = value
    return scores


#: what came → (arguments, words the message must hold: the argument, what came, the next move)
REFUSED: dict[str, tuple[dict[str, Any], list[str]]] = {
    "NaN score": ({"scores": spoiled(3, float("nan"))}, ["scores", "nan at position 3", "where="]),
    "+inf score": ({"scores": spoiled(5, float("inf"))}, ["scores", "inf at position 5"]),
    "-inf score": ({"scores": spoiled(5, float("-inf"))}, ["scores", "-inf at position 5"]),
    "labels -1 and 1": ({"targets": 2 * TARGETS - 1}, ["targets", "-1, 1", "targets > 0"]),
    "soft labels": ({"targets": 0.9 * TARGETS.float()}, ["targets", "0.9", "targets > 0.5"]),
    "class ids": ({"targets": torch.arange(N) % 4}, ["targets", "0, 1, 2, 3", "auroc_ovr"]),
    "NaN label": ({"targets": TARGETS.float().index_fill(0, torch.tensor([2]), float("nan"))}, ["targets", "nan"]),
    "bool scores": ({"scores": SCORES > 0}, ["scores", "bool", "real-valued"]),
    "int scores": ({"scores": torch.arange(N)}, ["scores", "int64", "real-valued"]),
    "complex scores": ({"scores": SCORES.to(torch.complex64)}, ["scores", "complex64"]),
    "two columns": ({"scores": torch.stack((SCORES, -SCORES), 1)}, ["scores", "(16, 2)", "scores[:, 1]"]),
    "row against column": ({"targets": TARGETS[None]}, ["targets", "(1, 16)", "broadcast"]),
    "length mismatch": ({"targets": TARGETS[:-1]}, ["targets", "(15,)", "(16,)"]),
    "negative weights": ({"weights": -torch.ones(N)}, ["weights", "-1", ">= 0"]),
    "NaN weights": ({"weights": torch.full((N,), float("nan"))}, ["weights", "nan"]),
    "weights of another length": ({"weights": torch.ones(N - 1)}, ["weights", "(15,)"]),
    "mask of numbers": ({"where": torch.ones(N)}, ["where", "bool", "where.bool()"]),
    "mask of another shape": ({"where": torch.ones(N, 2, dtype=torch.bool)}, ["where", "(16, 2)"]),
    "negative index": ({"index": torch.arange(N) - 1}, ["index", "-1"]),
    "duplicated index": ({"index": torch.zeros(N, dtype=torch.int64)}, ["index", "more than once"]),
    "fractional index": ({"index": torch.arange(N).float()}, ["index", "float32", "whole numbers"]),
    "index of another length": ({"index": torch.arange(N - 1)}, ["index", "(15,)"]),
    "numpy scores": ({"scores": SCORES.numpy()}, ["scores", "ndarray", "torch.as_tensor"]),
    "numpy targets": ({"targets": TARGETS.numpy()}, ["targets", "ndarray", "torch.as_tensor"]),
    "list of scores": ({"scores": SCORES.tolist()}, ["scores", "list", "torch.as_tensor"]),
    "None targets": ({"targets": None}, ["targets", "NoneType"]),
    "sparse scores": ({"scores": SCORES.to_sparse()}, ["scores", "sparse", "to_dense"]),
    "another device": ({"targets": TARGETS.to("meta")}, ["targets", "meta", "cpu", "targets.to(scores.device)"]),
    "groups not a dict": ({"groups": TARGETS}, ["groups", "dict"]),
    "enormous spread": ({"scores": 1e200 * SCORES.double()}, ["scores", "1e+200", "1e+100", "learning rate"]),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_input_is_refused_with_words_before_any_state_changes(case: str) -> None:
    changed, words = REFUSED[case]
    arguments = {"scores": SCORES, "targets": TARGETS, **changed}
    loss_fn = aimfor.MetricLoss("auroc", aimfor.SortedEngine(bank=8))
    loss_fn(SCORES.clone().requires_grad_(), TARGETS)
    before = copy.deepcopy(loss_fn.state_dict())
    with pytest.raises(aimfor.InputError) as caught:
        loss_fn(**arguments)
    for word in words:
        assert word in str(caught.value)
    after = loss_fn.state_dict()
    assert all(torch.equal(before[key], after[key]) for key in before)


def single_class(value: int) -> dict[str, torch.Tensor]:
    return {"scores": SCORES, "targets": torch.full((N,), value)}


DEGENERATE: dict[str, Callable[[], dict[str, torch.Tensor]]] = {
    "all negative": lambda: single_class(0),
    "all positive": lambda: single_class(1),
    "one example": lambda: {"scores": SCORES[:1], "targets": TARGETS[:1]},
    "one example, no dimension": lambda: {"scores": SCORES[0], "targets": TARGETS[:1]},
    "empty batch": lambda: {"scores": SCORES[:0], "targets": TARGETS[:0]},
    "all masked": lambda: {"scores": SCORES, "targets": TARGETS, "where": torch.zeros(N, dtype=torch.bool)},
    "all weights zero": lambda: {"scores": SCORES, "targets": TARGETS, "weights": torch.zeros(N)},
    "positives masked": lambda: {"scores": SCORES, "targets": TARGETS, "where": TARGETS == 0},
}


@pytest.mark.parametrize("case", DEGENERATE)
@pytest.mark.parametrize("surrogate", ["squared_hinge", "hinge", "squared", "ramp", "logistic"])
def test_degenerate_batches_are_zero_attached_and_flagged(case: str, surrogate: str) -> None:
    arguments = DEGENERATE[case]()
    scores = arguments.pop("scores").clone().requires_grad_()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", aimfor.DegenerateBatchWarning)
        output = aimfor.MetricLoss("auroc", aimfor.SortedEngine(surrogate)).detailed(scores, **arguments)
    assert output.status is aimfor.Status.undefined_batch
    assert output.status.message
    assert output.status.remedy
    assert output.loss == 0
    output.loss.backward()
    assert scores.grad is not None
    assert not scores.grad.any()
    value = aimfor.AUROC().value(scores.detach(), **arguments)
    assert torch.isnan(value)


def test_degenerate_batches_warn_once_per_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aimfor.watch.DegenerateWatch.first_in_process", True)
    loss_fn = aimfor.MetricLoss("auroc")
    with pytest.warns(aimfor.DegenerateBatchWarning, match="no positive") as record:
        loss_fn(SCORES, torch.zeros(N))
    assert record[0].filename == __file__
    loss_fn(SCORES, torch.zeros(N))  # warnings are errors here: a second one would fail the test


ACCEPTED: dict[str, dict[str, Any]] = {
    "column of targets": {"targets": TARGETS[:, None]},
    "column of scores": {"scores": SCORES[:, None]},
    "float labels": {"targets": TARGETS.float()},
    "bool labels": {"targets": TARGETS.bool()},
    "uint8 labels": {"targets": TARGETS.to(torch.uint8)},
    "int weights": {"weights": torch.ones(N, dtype=torch.int64)},
    "square of pixels": {"scores": SCORES.reshape(4, 4), "targets": TARGETS.reshape(4, 4)},
    "int32 index": {"index": torch.arange(N, dtype=torch.int32)},
    "not contiguous": {"scores": torch.stack((SCORES, SCORES), 1)[:, 0]},
}


@pytest.mark.parametrize("case", ACCEPTED)
def test_input_of_the_same_meaning_gives_the_same_loss(case: str) -> None:
    arguments = {"scores": SCORES, "targets": TARGETS, **ACCEPTED[case]}
    loss_fn = aimfor.MetricLoss("auroc")
    assert torch.equal(loss_fn(**arguments), loss_fn(SCORES, TARGETS))


@pytest.mark.parametrize("scale", [1e-30, 100.0, 1e6, 1e30])
@pytest.mark.parametrize("surrogate", ["squared_hinge", "hinge", "squared", "ramp", "logistic"])
def test_raw_logits_of_any_scale_stay_finite(scale: float, surrogate: str) -> None:
    scores = (scale * SCORES).requires_grad_()
    loss = aimfor.MetricLoss("auroc", aimfor.SortedEngine(surrogate))(scores, TARGETS)
    loss.backward()
    assert torch.isfinite(loss)
    assert scores.grad is not None
    assert torch.isfinite(scores.grad).all()


def test_unknown_keyword_arguments_are_errors() -> None:
    with pytest.raises(TypeError, match="sample_weight"):
        aimfor.MetricLoss("auroc")(SCORES, TARGETS, sample_weight=torch.ones(N))
    with pytest.raises(TypeError, match="learning_rate"):
        aimfor.SortedEngine(learning_rate=5)
    with pytest.raises(TypeError, match="unexpected"):
        aimfor.MetricLoss("auroc").detailed(SCORES, TARGETS, sample_weight=torch.ones(N))


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"margin": 0.0}, "margin"),
        ({"margin": -1.0}, "margin"),
        ({"margin": float("nan")}, "margin"),
        ({"margin": "1"}, "margin"),
        ({"margin": True}, "margin"),
        ({"surrogate": "hinge2"}, "surrogate"),
        ({"surrogate": "logistic", "margin": 0.5}, "margin"),
        ({"bank": -1}, "bank"),
        ({"bank": 2.5}, "bank"),
    ],
)
def test_bad_hyperparameters_are_named(arguments: dict[str, Any], name: str) -> None:
    with pytest.raises(aimfor.InputError) as caught:
        aimfor.SortedEngine(**arguments)
    assert caught.value.argument == name


@pytest.mark.parametrize("name", ["start", "end", "steps"])
@pytest.mark.parametrize("value", [0, -1, float("nan"), "1"])
def test_bad_schedules_are_named(name: str, value: Any) -> None:
    with pytest.raises(aimfor.InputError) as caught:
        Decay(**{"start": 1.0, "end": 0.1, "steps": 10, name: value})
    assert caught.value.argument == name
    assert Decay(1.0, 0.1, 1)(1) == 0.1


@pytest.mark.parametrize("max_fpr", [0.0, -0.1, 1.1, float("nan")])
def test_bad_max_fpr_is_named(max_fpr: float) -> None:
    with pytest.raises(aimfor.InputError, match="max_fpr"):
        aimfor.AUROC(max_fpr)
    aimfor.AUROC(1.0), aimfor.AUROC(1e-9)


def test_values_are_not_read_when_the_user_vouches_for_them() -> None:
    scores = SCORES.clone().requires_grad_()
    trusted = aimfor.MetricLoss("auroc", validate=False)
    assert torch.equal(trusted(scores, TARGETS), aimfor.MetricLoss("auroc")(scores, TARGETS))
    with pytest.raises(aimfor.InputError, match="shape"):
        trusted(scores, TARGETS[:-1])


def test_metric_and_engine_of_the_wrong_kind_are_named() -> None:
    with pytest.raises(aimfor.InputError, match="metric"):
        aimfor.MetricLoss(3)  # type: ignore[arg-type]
    with pytest.raises(aimfor.InputError, match="engine"):
        aimfor.MetricLoss("auroc", "sorted")  # type: ignore[arg-type]
    with pytest.raises(aimfor.InputError, match="engine"):
        aimfor.MetricLoss("auroc", aimfor.SortedEngine)  # type: ignore[arg-type]


def test_errors_survive_pickling() -> None:
    import pickle

    error = aimfor.InputError("scores", "x", "y", "z")
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_numpy_is_not_needed_by_the_core() -> None:
    assert isinstance(np.float64(1.0), float)  # numpy scalars that are floats pass as hyperparameters
    assert aimfor.SortedEngine(margin=np.float64(0.5)).margin == 0.5


def test_a_label_to_be_left_out_is_met_with_the_option_that_does_so() -> None:
    for label, targets in ((255, TARGETS.clone()), (-1, TARGETS.clone())):
        targets[1] = label
        with pytest.raises(aimfor.InputError, match=f"ignore_index={label}"):
            aimfor.MetricLoss("iou")(SCORES, targets)
        with pytest.raises(aimfor.InputError, match="ignore_index="):
            aimfor.MetricLoss("f1_macro")(SCORES[:, None].expand(-1, 2), targets)


def test_a_class_or_a_name_in_place_of_an_instance_is_called_so() -> None:
    with pytest.raises(aimfor.InputError, match=r"metric: got the class FBeta, not FBeta\(\)"):
        aimfor.MetricLoss(aimfor.FBeta)  # type: ignore[arg-type]
    with pytest.raises(aimfor.InputError, match=r"engine: got 'smoth', .* Engines that can: .*SmoothEngine"):
        aimfor.MetricLoss("f1", engine="smoth")  # type: ignore[arg-type]
