"""Our exact metrics as torchmetrics objects: any cut into batches and processes gives the value of the whole."""

from __future__ import annotations

import copy
import importlib
import pickle
from typing import Any

import pytest
import torch
from torch import Tensor

import aimfor
from aimfor.metrics import METRICS, MultiLabel, metric_from_name
from samples import sample

torchmetrics: Any = None
ExactMetric: Any = None


@pytest.fixture(autouse=True, scope="module")
def _imported() -> None:
    """Not at the top: it brings transformers with it, and every worker would spend seconds on that to collect tests."""
    global torchmetrics, ExactMetric
    torchmetrics = pytest.importorskip("torchmetrics")
    ExactMetric = importlib.import_module("aimfor.integrations.torchmetrics").ExactMetric


EXTRA = {
    "multilabel": MultiLabel("f1"),
    "multilabel samples": MultiLabel("ap", "samples"),
    "images": aimfor.IoU(average="image"),
    "classes": aimfor.IoU(classes="mean"),
    "g-mean": aimfor.Confusion(lambda tp, fp, fn, tn: tp * tn / ((tp + fn) * (tn + fp)), threshold=0.2),
}
NAMES = [*(entry.example for entry in METRICS), *EXTRA]


def data(name: str) -> tuple[aimfor.Metric, Tensor, Tensor, Tensor | None]:
    """(metric, scores, targets, weights of rows or None)."""
    metric = EXTRA.get(name) or metric_from_name(name)
    generator = torch.Generator().manual_seed(3)
    if metric.layout == "multilabel":
        scores = torch.randn(24, 4, generator=generator)
        return (
            metric,
            scores,
            (torch.rand(24, 4, generator=generator) < 0.4).long(),
            torch.rand(24, generator=generator),
        )
    if metric.layout == "masks":
        return metric, torch.randn(6, 4, 4, generator=generator), torch.arange(96).reshape(6, 4, 4) % 3 // 2, None
    s = sample(metric.layout, seed=7, n=24, ties=True)
    if metric.layout == "lists":
        return metric, s.scores, s.targets, torch.rand(len(s.scores), generator=generator)
    return metric, s.scores, s.targets, torch.rand(len(s.scores), generator=generator)


@pytest.mark.parametrize("name", NAMES)
def test_batches_add_up_to_the_whole(name: str) -> None:
    metric, scores, targets, weights = data(name)
    whole = metric.value(scores, targets, weights=weights)
    assert not torch.isnan(whole)
    ours = ExactMetric(metric)
    for rows in torch.arange(len(scores)).tensor_split(3):
        ours.update(scores[rows], targets[rows], weights=None if weights is None else weights[rows])
    torch.testing.assert_close(ours.compute(), whole, rtol=1e-9, atol=1e-12)
    ours.reset()
    with pytest.warns(UserWarning, match="before the ``update``"):
        assert torch.isnan(ours.compute())
    torch.testing.assert_close(ours(scores, targets, weights=weights), whole, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", ["f1", "auroc", "ap", "f1_macro", "multilabel", "multilabel samples", "ndcg"])
def test_what_is_masked_does_not_count(name: str) -> None:
    metric, scores, targets, weights = data(name)
    where = torch.arange(targets.numel()).reshape(targets.shape) % 5 > 0
    whole = metric.value(scores, targets, weights=weights, where=where)
    assert whole != metric.value(scores, targets, weights=weights)
    ours = ExactMetric(metric)
    for rows in torch.arange(len(scores)).tensor_split(3):
        part = None if weights is None else weights[rows]
        ours.update(scores[rows], targets[rows], weights=part, where=where[rows])
    torch.testing.assert_close(ours.compute(), whole, rtol=1e-9, atol=1e-12)
    if name == "auroc":  # whose every score is kept
        assert sum(len(part) for part in ours.scores) == int(where.sum())


@pytest.mark.parametrize("name", ["f1", "auroc", "f1_macro", "multilabel", "ndcg"])
def test_a_running_window_is_the_value_of_its_batches(name: str) -> None:
    metric, scores, targets, _ = data(name)
    running = torchmetrics.wrappers.Running(ExactMetric(metric), window=2)
    parts = torch.arange(len(scores)).tensor_split(4)
    for place, rows in enumerate(parts):
        torch.testing.assert_close(running(scores[rows], targets[rows]), metric.value(scores[rows], targets[rows]))
        window = torch.cat(parts[max(place - 1, 0) : place + 1])
        torch.testing.assert_close(running.compute(), metric.value(scores[window], targets[window]))


def test_one_list_over_all_batches_and_lists_of_different_lengths() -> None:
    scores, targets = torch.randn(30, generator=torch.Generator().manual_seed(0)), torch.arange(30) % 4 == 0
    ours = ExactMetric("ap")
    for rows in torch.arange(30).split(8):
        ours.update(scores[rows], targets[rows])
    assert ours.compute() == metric_from_name("ap").value(scores, targets)

    query = torch.arange(30) // 7
    lists = ExactMetric("ndcg@5")
    for rows in (query < 2, query >= 2):
        lists.update(scores[rows], targets[rows].long(), groups=query[rows])
    wanted = metric_from_name("ndcg@5").value(scores, targets.long(), groups=query)
    torch.testing.assert_close(lists.compute(), wanted)

    with pytest.raises(aimfor.InputError, match="one kind of batch"):
        ours.update(scores.reshape(3, 10), targets.reshape(3, 10))
    assert ours.compute() == metric_from_name("ap").value(scores, targets)  # the state is as it was


def test_decisions_are_kept_as_a_table_of_fixed_size() -> None:
    generator = torch.Generator().manual_seed(0)
    binary, classes = ExactMetric("f1"), ExactMetric("f1_macro")
    for _ in range(5):
        binary.update(torch.randn(100, generator=generator), torch.arange(100) % 2)
        classes.update(torch.randn(100, 3, generator=generator), torch.arange(100) % 3)
    assert [len(part) for part in (binary.masses[0], classes.masses[0])] == [4, 9]
    assert len(binary.scores) == len(classes.scores) == 1
    assert float(binary.masses[0].sum()) == 500


def test_raw_scores_are_not_squashed() -> None:
    """The trap of torchmetrics: a sigmoid for each batch that leaves [0, 1], and none for the others."""
    scores, targets = torch.tensor([3.0, -2.0, 0.4, 0.9]), torch.tensor([1, 0, 1, 0])
    ours, theirs = ExactMetric("auroc"), torchmetrics.classification.BinaryAUROC()
    for rows in (slice(0, 2), slice(2, 4)):
        ours.update(scores[rows], targets[rows])
        theirs.update(scores[rows], targets[rows])
    assert float(ours.compute()) == 0.75 == float(aimfor.AUROC().value(scores, targets))
    assert float(theirs.compute()) == 0.75  # the same here, by luck; below it is not
    ours.reset(), theirs.reset()
    scores = torch.tensor([40.0, 30.0])
    ours.update(scores, torch.tensor([1, 0]))
    theirs.update(scores, torch.tensor([1, 0]))
    assert float(ours.compute()) == 1.0
    assert float(theirs.compute()) == 0.5


def test_ignored_labels_masks_and_bad_input() -> None:
    masks = torch.tensor([[[1, 0], [255, 1]]])
    scores = torch.tensor([[[1.0, 1.0], [1.0, -1.0]]])
    ours = ExactMetric("iou", ignore_index=255)
    ours.update(scores, masks)
    assert float(ours.compute()) == pytest.approx(1 / 3)
    with pytest.raises(aimfor.InputError, match="scores: got"):
        ours.update(scores * torch.nan, masks)
    assert float(ours.compute()) == pytest.approx(1 / 3)
    with pytest.raises(aimfor.InputError, match="metric: got a int"):
        ExactMetric(3)  # type: ignore[arg-type]


@pytest.mark.parametrize("empty", [False, True], ids=["both", "one has seen nothing"])
@pytest.mark.parametrize("name", ["auroc", "f1", "f1_macro", "ndcg@10", "auc_mu", "multilabel"])
def test_processes_are_synchronised(name: str, empty: bool) -> None:
    """With a gather in place of a network; the states come in the order in which they were added."""
    metric, scores, targets, _ = data(name)
    cut, second = len(scores) if empty else len(scores) // 3, ExactMetric(metric)
    if not empty:
        second.update(scores[cut:], targets[cut:])
    nothing = torch.tensor([], dtype=second.dtype)  # what torchmetrics sends for an empty list
    lists = [torch.cat(getattr(second, part)) if not empty else nothing for part in ("scores", "targets", "masses")]
    theirs = iter([*lists, second.columns, second.kind, second.key])

    def gather(mine: Tensor, group: Any = None) -> list[Tensor]:
        other = next(theirs)
        assert (mine.dtype, mine.ndim) == (other.dtype, other.ndim)  # or the network would stop the program
        return [mine, other]

    first = ExactMetric(metric, dist_sync_fn=gather, distributed_available_fn=lambda: True)
    first.update(scores[:cut], targets[:cut])
    own = [part.clone() for part in first.scores]
    torch.testing.assert_close(first.compute(), metric.value(scores, targets), rtol=1e-9, atol=1e-12)
    assert all(torch.equal(a, b) for a, b in zip(first.scores, own, strict=True))  # one's own state is back


def test_a_collection_shares_what_is_equal_and_nothing_else() -> None:
    collection = torchmetrics.MetricCollection(
        {"f1": ExactMetric("f1"), "accuracy": ExactMetric("accuracy"), "at_half": ExactMetric(aimfor.FBeta(1.0, 0.5))}
    )
    first, then = torch.tensor([1.0, -1.0, 2.0]), torch.tensor([0.2, -1.0, 0.3])
    targets = torch.tensor([1, 0, 0])
    for scores in (first, then):
        collection.update(scores, targets)
    both, labels = torch.cat((first, then)), torch.cat((targets, targets))
    found = collection.compute()
    for name, metric in (("f1", "f1"), ("accuracy", "accuracy"), ("at_half", aimfor.FBeta(1.0, 0.5))):
        wanted = (metric_from_name(metric) if isinstance(metric, str) else metric).value(both, labels)
        torch.testing.assert_close(found[name], wanted)
    five = torchmetrics.MetricCollection({"2": ExactMetric("ndcg@2"), "3": ExactMetric("ndcg@3")})
    five.update(torch.tensor([[2.0, 1.0]]), torch.tensor([[1, 1]]))  # equal on short lists
    five.update(torch.tensor([[2.0, 1.0, 3.0]]), torch.tensor([[1, 1, 0]]))
    assert five.compute()["2"] < five.compute()["3"]


def test_it_is_a_torchmetrics_metric_in_other_ways_too() -> None:
    ours = ExactMetric("auroc")
    ours.update(torch.tensor([1.0, 0.0]), torch.tensor([1, 0]))
    for twin in (copy.deepcopy(ours), pickle.loads(pickle.dumps(ours)), ours.clone()):
        assert float(twin.compute()) == 1.0
    ours.persistent(True)
    fresh = ExactMetric("auroc")
    fresh.persistent(True)
    fresh.load_state_dict(ours.state_dict())
    with pytest.warns(UserWarning, match="before the ``update``"):  # torchmetrics does not count what was loaded
        assert float(fresh.compute()) == 1.0
    figure, _ = ours.plot([torch.tensor(0.5), torch.tensor(0.7)])
    assert figure.axes[0].lines
