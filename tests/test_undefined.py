"""The one table of undefined cases, docs/metrics.md, held against registry, scikit-learn and losses."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn import metrics as sk
from torch import Tensor

import aimfor
from aimfor.metrics import ENGINES, METRICS, metric_from_name

PAGE = Path(__file__).parent.parent / "docs" / "metrics.md"
NAMES = [entry.example for entry in METRICS]
CASES = ("no positive, none decided", "no positive, some decided", "no negative", "part, none", "part, some")
Given = tuple[Tensor, Tensor]


def table() -> dict[str, list[str]]:
    """What the page says about each name: one cell for each case."""
    section = PAGE.read_text(encoding="utf-8").split("## Undefined cases")[1].split("\n## ")[0]
    rows = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("| `")]
    found: dict[str, list[str]] = {}
    for first, *cells in rows:
        for name in re.findall(r"`([^`]+)`", first):
            assert name not in found, f"{name} has two rows"
            found[name] = [cell.strip() for cell in cells]
    return found


def whole(layout: str, case: int) -> Given:
    """Two examples of one kind; the first is decided positive unless the case says that none is."""
    scores = torch.tensor([-1.0 if case == 0 else 1.0, -2.0], dtype=torch.float64)
    targets = torch.full((2,), int(case == 2))
    if layout == "multilabel":
        return scores[:, None].expand(2, 2), targets[:, None].expand(2, 2)
    return scores, targets


#: Of three classes the last is absent; of two labels, examples or lists the second has no positive.
def parts(name: str, decided: bool) -> tuple[Given, Given | None]:
    """The case, and the same without that part (None where it has no meaning)."""
    layout = metric_from_name(name).layout
    if layout == "lists":
        scores, targets = torch.tensor([[3.0, 2.0, 1.0], [3.0, 2.0, 1.0]]), torch.tensor([[1, 0, 1], [0, 0, 0]])
        return (scores, targets), (scores[:1], targets[:1])
    if layout == "multilabel":
        given = torch.tensor([[4.0, -1.0], [-2.0, -3.0], [3.0, 1.0 if decided else -2.0]]).double()
        targets = torch.tensor([[1, 0], [1, 0], [0, 0]])
        if name.endswith("samples"):
            return (given.t(), targets.t()), (given[:, :1].t(), targets[:, :1].t())
        return (given, targets), (given[:, :1], targets[:, :1])
    scores = torch.tensor([[2.0, -1.0, -9.0], [1.0, 2.0, -9.0], [1.0, 2.0, -9.0]]).double()
    if decided:
        scores[1, 2] = 5.0
    return (scores, torch.tensor([0, 0, 1])), None


#: Of the classes that are there, in the case where none is decided for the absent one and where one is.
BY_CLASS: dict[str, tuple[list[float], list[float]]] = {
    "f1_macro": ([2 / 3, 2 / 3], [2 / 3, 1.0]),
    "miou": ([1 / 2, 1 / 2], [1 / 2, 1.0]),
    "f1_weighted": ([2 / 3, 2 / 3, 2 / 3], [2 / 3, 2 / 3, 1.0]),  # by the classes of the three examples
    "balanced_accuracy": ([1 / 2, 1.0], [1 / 2, 1.0]),
    "pairwise_f1": ([4 / 5, 1.0, 2 / 3, 1.0], [4 / 5, 1.0, 2 / 3, 1.0]),
}


def value(name: str, given: Given) -> float:
    return float(metric_from_name(name).value(*given))


def test_every_registered_metric_has_a_row() -> None:
    assert set(table()) == set(NAMES)
    assert all(len(cells) == len(CASES) for cells in table().values())


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("case", range(3))
def test_whole_batches_are_as_the_page_says(name: str, case: int) -> None:
    said, layout = table()[name][case], metric_from_name(name).layout
    assert (said == "–") == (layout == "multiclass")
    if said == "–":
        return
    got = value(name, whole(layout, case))
    if said == "NaN":
        assert math.isnan(got)
    elif said == "defined":
        assert 0.0 < got < 1.0
    else:
        assert got == pytest.approx(float(Fraction(said)), abs=1e-12)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("decided", [False, True])
def test_parts_without_a_positive_are_as_the_page_says(name: str, decided: bool) -> None:
    said, layout = table()[name][3 + decided], metric_from_name(name).layout
    assert said != "–" or layout == "binary"
    if said == "–":
        return
    given, alone = parts(name, decided)
    got = value(name, given)
    if said == "NaN":
        assert math.isnan(got)
    elif said == "defined":
        assert metric_from_name(name).lowest < got < 1.0
    elif alone is not None:
        assert got == pytest.approx(value(name, alone) * (0.5 if said == "0" else 1.0), abs=1e-12)
        assert got > 0
    else:
        there = BY_CLASS[name][decided]
        assert got == pytest.approx(sum(there) / (len(there) + (said == "0")), abs=1e-12)


def nan_f1(average: str) -> Callable[[np.ndarray, np.ndarray], float]:
    return lambda y, s: sk.f1_score(y, s > 0, average=average, zero_division=np.nan)


SKLEARN: dict[str, Callable[[np.ndarray, np.ndarray], float]] = {
    "auroc": sk.roc_auc_score,
    "f1": nan_f1("binary"),
    "fbeta=2": lambda y, s: sk.fbeta_score(y, s > 0, beta=2, zero_division=np.nan),
    "mcc": lambda y, s: sk.matthews_corrcoef(y, s > 0),
    "accuracy": lambda y, s: sk.accuracy_score(y, s > 0),
    "balanced_accuracy": lambda y, s: sk.balanced_accuracy_score(y, s > 0),
    "multilabel_f1": nan_f1("macro"),
    "multilabel_f1_micro": nan_f1("micro"),
    "multilabel_f1_samples": nan_f1("samples"),
}


@pytest.mark.parametrize("name", SKLEARN)
@pytest.mark.parametrize("case", range(5))
def test_where_scikit_learn_has_a_number_it_is_ours(name: str, case: int) -> None:
    layout = metric_from_name(name).layout
    if case > 2 and layout != "multilabel":
        return
    given = whole(layout, case) if case < 3 else parts(name, case == 4)[0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = SKLEARN[name](given[1].numpy(), given[0].numpy())
    assert value(name, given) == pytest.approx(float(theirs), abs=1e-12, nan_ok=True)


@pytest.mark.parametrize("decided", [False, True])
def test_an_absent_class_counts_as_scikit_learn_counts_it(decided: bool) -> None:
    (scores, targets), _ = parts("f1_macro", decided)
    y, chosen = targets.numpy(), scores.argmax(1).numpy()
    labels = [0, 1, 2]
    theirs = sk.f1_score(y, chosen, average="macro", labels=labels, zero_division=np.nan)
    assert value("f1_macro", (scores, targets)) == pytest.approx(theirs, abs=1e-12)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        recalls = sk.balanced_accuracy_score(y, chosen)
    assert value("balanced_accuracy", (scores, targets)) == pytest.approx(recalls, abs=1e-12)


PAIRS = [
    (name, engine, case)
    for name in NAMES
    for engine in ENGINES
    if engine.default_constructible and engine().refuses(metric_from_name(name)) is None
    for case in range(3)
    if table().get(name, ["–"] * 3)[case] == "NaN"
]


@pytest.mark.parametrize(("name", "engine", "case"), PAIRS, ids=lambda v: getattr(v, "name", str(v)))
def test_where_the_metric_is_undefined_its_losses_are_zero_and_say_so(
    name: str, engine: type[aimfor.Engine], case: int
) -> None:
    scores, targets = whole(metric_from_name(name).layout, case)
    leaf = scores.clone().requires_grad_()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", aimfor.DegenerateBatchWarning)
        output = aimfor.MetricLoss(name, engine()).detailed(leaf, targets)
    assert output.status is aimfor.Status.undefined_batch
    (gradient,) = torch.autograd.grad(output.loss, leaf)
    assert float(output.loss.detach()) == 0.0
    assert not gradient.any()
