"""Scores and weights of any size: a finite loss and gradient, or a sentence; and a slice of tools/fuzz.py."""

from __future__ import annotations

import importlib.util
import sys
import warnings
from pathlib import Path
from types import ModuleType

import pytest
import torch

import aimfor
from aimfor.engine import Engine
from aimfor.metrics import ENGINES, METRICS, metric_from_name
from samples import sample

PAIRS = [
    (entry.example, engine)
    for entry in METRICS
    for engine in ENGINES
    if engine.default_constructible and engine().refuses(metric_from_name(entry.example)) is None
]
every_pair = pytest.mark.parametrize(("name", "engine"), PAIRS, ids=lambda v: v if isinstance(v, str) else v.name)


def gradient_of(name: str, engine: type[Engine], scores: torch.Tensor, **rest: torch.Tensor) -> torch.Tensor:
    s = sample(metric_from_name(name).layout, seed=2, ties=False)
    leaf = scores.clone().requires_grad_()
    loss = aimfor.MetricLoss(name, engine())(leaf, s.targets, **rest)
    (gradient,) = torch.autograd.grad(loss, leaf)
    assert torch.isfinite(loss)
    assert torch.isfinite(gradient).all()
    return gradient


@every_pair
@pytest.mark.parametrize(
    ("dtype", "scale"),
    [
        *((torch.float32, scale) for scale in (1e-45, 1e-40, 1e-30, 1e10, 1e20, 1e30)),
        *((torch.float64, scale) for scale in (5e-324, 1e-300, 1e30, 1e99)),
        *((torch.float16, scale) for scale in (6e-8, 1e-4, 2e3)),
        *((torch.bfloat16, scale) for scale in (1e-40, 1e30)),
    ],
    ids=str,
)
def test_scores_of_any_size_have_finite_losses_and_gradients(
    name: str, engine: type[Engine], dtype: torch.dtype, scale: float
) -> None:
    s = sample(metric_from_name(name).layout, seed=2, ties=False)
    gradient_of(name, engine, (s.scores * scale).to(dtype))


@every_pair
@pytest.mark.parametrize(
    ("dtype", "scale", "limit"),
    [(torch.float32, 3e38, "1e+31"), (torch.float16, 6e4, "8000"), (torch.float64, 1e200, "1e+100")],
    ids=["float32", "float16", "float64"],
)
def test_scores_beyond_the_range_of_gradients_are_refused_with_the_cure(
    name: str, engine: type[Engine], dtype: torch.dtype, scale: float, limit: str
) -> None:
    s = sample(metric_from_name(name).layout, seed=2, ties=False)
    scores = s.scores.clone()
    scores.view(-1)[3] = scale
    loss_fn = aimfor.MetricLoss(name, engine())
    with pytest.raises(aimfor.InputError, match="learning rate") as caught:
        loss_fn(scores.to(dtype), s.targets)
    assert limit in caught.value.expected
    assert torch.isfinite(loss_fn.value(scores.to(dtype), s.targets))  # order and decisions are well defined


@every_pair
def test_huge_weights_are_refused_and_tiny_ones_are_only_ratios(name: str, engine: type[Engine]) -> None:
    s = sample(metric_from_name(name).layout, seed=2, ties=False)
    assert s.weights is not None
    if engine.whole_weights_only:
        pytest.skip("repetitions are whole numbers")
    for factor in (1e30, 1e-30):
        with pytest.raises(aimfor.InputError, match="ratios"):
            gradient_of(name, engine, s.scores.float(), weights=factor * s.weights)
    expected = gradient_of(name, engine, s.scores, weights=s.weights)
    tiny = gradient_of(name, engine, s.scores, weights=1e-9 * s.weights)
    torch.testing.assert_close(tiny, expected, rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize("name", ["auroc_ovr", "auc_mu"])
@pytest.mark.parametrize("scale", [1e20, 1e25, 1e30])
def test_huge_scores_with_a_missing_class_stay_finite(name: str, scale: float) -> None:
    scores = (scale * torch.tensor([[1.0, -1.0, 0.0], [-1.0, 1.0, 0.5], [2.0, 1.0, 0.0]])).requires_grad_()
    loss = aimfor.MetricLoss(name)(scores, torch.tensor([1, 0, 1]))
    loss.backward()
    assert torch.isfinite(loss)
    assert scores.grad is not None
    assert scores.grad.any()
    assert torch.isfinite(scores.grad).all()


def test_the_penalty_of_the_lagrangian_engine_stays_finite() -> None:
    labels, index = torch.arange(12) % 2, torch.arange(12)
    scores = torch.linspace(-1.0, 1.0, 12)
    loss_fn = aimfor.MetricLoss("f1", aimfor.LagrangianEngine(labels))
    assert torch.isfinite(loss_fn(1e14 * scores, labels, index=index))
    with pytest.raises(aimfor.InputError, match="learning rate"):
        loss_fn(1e20 * scores, labels, index=index)


@pytest.mark.parametrize("average", ["dataset", "image"])
@pytest.mark.parametrize("classes", ["mean", 1])
@pytest.mark.parametrize("shape", [(0, 3, 4, 4), (2, 3, 0, 4)], ids=str)
def test_empty_batches_of_class_masks_are_undefined(average: str, classes: str | int, shape: tuple[int, ...]) -> None:
    scores = torch.zeros(shape, requires_grad=True)
    targets = torch.zeros((shape[0], *shape[2:]), dtype=torch.int64)
    metric = aimfor.IoU(average=average, classes=classes)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", aimfor.DegenerateBatchWarning)
        output = aimfor.MetricLoss(metric).detailed(scores, targets)
    assert output.status is aimfor.Status.undefined_batch
    output.loss.backward()
    assert torch.isnan(metric.value(scores.detach(), targets))


@pytest.fixture(scope="module")
def fuzz() -> ModuleType:
    path = Path(__file__).parent.parent / "tools" / "fuzz.py"
    spec = importlib.util.spec_from_file_location("fuzz", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["fuzz"] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("part", range(2))
def test_a_slice_of_the_fuzz_has_no_findings(fuzz: ModuleType, part: int) -> None:
    findings, answered = fuzz.run(1000, seed=2026, first=1000 * part)
    assert not findings, "\n".join(findings)
    assert set(answered) >= {engine.name for engine in ENGINES}
    assert answered["refused"] < 600  # most calls are answered


def test_the_fuzz_finds_what_is_wrong(fuzz: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """A loss that lets one NaN through is found."""
    honest = aimfor.MetricLoss.detailed

    def broken(self: aimfor.MetricLoss, *arguments: object, **rest: object) -> aimfor.EngineOutput:
        output = honest(self, *arguments, **rest)  # type: ignore[arg-type]
        return aimfor.EngineOutput(output.loss * float("nan"), output.status, output.stats)

    monkeypatch.setattr(aimfor.MetricLoss, "detailed", broken)
    findings, _ = fuzz.run(20, seed=0)
    assert len(findings) > 5
