"""Run by two processes (see test_distributed): every metric × engine on cut batches against one process on the whole.

Prints one line of JSON: how many pairs and cases were compared.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor

import aimfor
from aimfor.metrics import ENGINES, METRICS, PrecisionAtK, metric_from_name
from samples import sample

warnings.simplefilter("ignore", aimfor.DegenerateBatchWarning)
torch.set_num_threads(1)
dist.init_process_group("gloo", init_method=os.environ["STORE"], rank=int(os.environ["RANK"]), world_size=2)
RANK = dist.get_rank()

Input = dict[str, Tensor]


def whole_input(layout: str, one_list: bool) -> Input:
    """A batch on which every metric is defined; the positives of binary input stand in its first rows."""
    s = sample("binary" if one_list else layout, seed=7, n=24, ties=False)
    targets = s.targets if layout != "binary" and not one_list else (torch.arange(24) < 8).long()
    whole = {"scores": s.scores, "targets": targets}
    if layout not in ("lists", "multilabel"):
        whole["index"] = torch.arange(s.scores.shape[0])
    return whole


#: How the rows are cut between the two processes.
CUTS: dict[str, Callable[[int], int]] = {
    "even": lambda rows: rows // 2,
    "uneven": lambda rows: rows - 2,
    "one class in the second": lambda rows: 16,
    "second empty": lambda rows: rows,
    "first empty": lambda rows: 0,
}


def law(metric: aimfor.Metric, engine: Callable[[], aimfor.Engine], whole: Input, at: int, **options: Any) -> None:
    """Loss and gradient of two steps equal those of one process that holds the whole batch."""
    single, cut = aimfor.MetricLoss(metric, engine(), gather=False), aimfor.MetricLoss(metric, engine(), **options)
    own = slice(0, at) if RANK == 0 else slice(at, None)
    for step in range(2):
        scores = (whole["scores"] + 0.1 * step).clone().requires_grad_()
        expected = single(**{**whole, "scores": scores})
        (gradient,) = torch.autograd.grad(expected, scores)
        mine = {name: part[own] for name, part in whole.items()}
        leaf = (mine["scores"] + 0.1 * step).clone().requires_grad_()
        got = cut(**{**mine, "scores": leaf})
        (slice_of_sum,) = torch.autograd.grad(got, leaf)
        torch.testing.assert_close(got, expected, rtol=1e-9, atol=1e-12)
        torch.testing.assert_close(slice_of_sum / 2, gradient[own], rtol=1e-8, atol=1e-12)  # DDP takes the mean
        single.end_epoch()
        cut.end_epoch()


def every_pair() -> int:
    compared = 0
    for name in [entry.example for entry in METRICS]:
        metric = metric_from_name(name)
        for engine in ENGINES:
            if not engine.default_constructible or engine().refuses(metric) is not None:
                continue
            for one_list in (False, True) if metric.layout == "lists" else (False,):
                whole = whole_input(metric.layout, one_list)
                rows = whole["scores"].shape[0]
                for cut, place in CUTS.items():
                    at = min(place(rows), rows)
                    try:
                        law(metric, engine, whole, at)
                    except AssertionError as error:
                        raise AssertionError(f"{name} × {engine.name}, one list: {one_list}, {cut}: {error}") from None
                    compared += 1
            if engine.takes_weights:
                whole = whole_input(metric.layout, False)
                rows = whole["scores"].shape[0]
                weights = torch.arange(rows) % 3 + 1.0
                law(metric, engine, {**whole, "weights": weights.double()}, rows - 2)
                compared += 1
    return compared


def engines_with_labels() -> int:
    """The lagrangian engine has one dual per example, and is made with the labels of the data set."""
    whole = whole_input("binary", False)
    for name in ("f1", "fbeta=2"):
        for at in (12, 22, 24, 0):
            law(metric_from_name(name), lambda: aimfor.LagrangianEngine(whole["targets"]), whole, at)
    classes = whole_input("multiclass", False)
    for at in (12, 22, 24, 0):
        law(metric_from_name("pairwise_f1"), lambda: aimfor.LagrangianEngine(classes["targets"]), classes, at)
    return 12


def lists_of_different_lengths() -> int:
    """One process has lists of 7 items, the other of 5: the same as one process with masked lists of 7."""
    s = sample("lists", seed=3, ties=False)
    where = torch.ones(5, 7, dtype=torch.bool)
    where[3:, 5:] = False
    mine = slice(0, 3) if RANK == 0 else slice(3, 5)
    length = 7 if RANK == 0 else 5
    for metric in (aimfor.AveragePrecision(), aimfor.NDCG(), aimfor.NDCG(3), PrecisionAtK(2)):
        for weights in (None, torch.tensor([1.0, 2.0, 0.5, 3.0, 1.0], dtype=torch.float64)):
            full = s.scores.clone().requires_grad_()
            expected = aimfor.MetricLoss(metric, gather=False)(full, s.targets, where=where, weights=weights)
            (gradient,) = torch.autograd.grad(expected, full)
            leaf = s.scores[mine, :length].clone().requires_grad_()
            part = None if weights is None else weights[mine]
            got = aimfor.MetricLoss(metric)(leaf, s.targets[mine, :length], weights=part)
            (own,) = torch.autograd.grad(got, leaf)
            torch.testing.assert_close(got, expected, rtol=1e-12, atol=1e-14)
            torch.testing.assert_close(own / 2, gradient[mine, :length], rtol=1e-10, atol=1e-14)
    return 8


def images_of_different_sizes() -> int:
    """As one process with masked images of the larger size."""
    generator = torch.Generator().manual_seed(5)
    pixels = torch.randn(2, 3, 3, 2, generator=generator, dtype=torch.float64)
    truth = torch.arange(12).reshape(2, 3, 2) % 3
    where = torch.ones(2, 3, 2, dtype=torch.bool)
    where[1, 2] = False
    for metric in (aimfor.IoU(average="image", classes="mean"), aimfor.IoU(average="image", classes=1)):
        full = pixels.clone().requires_grad_()
        expected = aimfor.MetricLoss(metric, gather=False)(full, truth, where=where)
        (gradient,) = torch.autograd.grad(expected, full)
        height = 3 - RANK
        leaf = pixels[RANK : RANK + 1, :, :height].clone().requires_grad_()
        got = aimfor.MetricLoss(metric)(leaf, truth[RANK : RANK + 1, :height])
        (own,) = torch.autograd.grad(got, leaf)
        torch.testing.assert_close(got, expected, rtol=1e-12, atol=1e-14)
        torch.testing.assert_close(own / 2, gradient[RANK : RANK + 1, :, :height], rtol=1e-10, atol=1e-14)
    return 2


def retrieval() -> int:
    """Every example asks the joined batch, also with a memory of earlier ones; references are refused."""
    generator = torch.Generator().manual_seed(2)
    for metric in ("map@r", "recall@3"):
        for memory in (0, 9):
            single = aimfor.RetrievalLoss(metric, memory=memory, gather=False)
            cut = aimfor.RetrievalLoss(metric, memory=memory)
            for at in (6, 10, 12):
                own = slice(0, at) if RANK == 0 else slice(at, None)
                x, labels = torch.randn(12, 4, generator=generator, dtype=torch.float64), torch.arange(12) % 4
                index, full, leaf = torch.arange(12), x.clone().requires_grad_(), x[own].clone().requires_grad_()
                expected, got = single(full, labels, index=index), cut(leaf, labels[own], index=index[own])
                (gradient,), (part,) = torch.autograd.grad(expected, full), torch.autograd.grad(got, leaf)
                torch.testing.assert_close(got, expected, rtol=1e-9, atol=1e-12)
                torch.testing.assert_close(part / 2, gradient[own], rtol=1e-8, atol=1e-12)  # DDP takes the mean
    refused(lambda: cut(leaf, labels[own], x, labels), "references", "gather=False")
    if RANK:  # looking does not wait for the other process
        cut.eval()(x, labels)
        with torch.no_grad():
            cut.train()(x, labels)
    return 12


def groups_of_processes() -> None:
    """A loss with a group of its own joins that group's batches only."""
    alone = [dist.new_group([rank]) for rank in range(2)][RANK]
    both = dist.new_group([0, 1])
    whole = whole_input("binary", False)
    law(aimfor.AUROC(), aimfor.SortedEngine, whole, 12, process_group=both)
    scores = whole["scores"][12 * RANK :][:12].clone().requires_grad_()
    targets = (torch.arange(12) < 3).long()
    loss = aimfor.MetricLoss("auroc", process_group=alone)(scores, targets)
    torch.testing.assert_close(loss, aimfor.MetricLoss("auroc", gather=False)(scores, targets))
    assert aimfor.MetricLoss("auroc")(scores, targets) != loss
    refused(lambda: aimfor.MetricLoss("auroc", process_group=3), "process_group", "int")


def refused(call: Callable[[], Any], *words: str) -> None:
    with pytest.raises(aimfor.InputError) as caught:
        call()
    assert all(word in str(caught.value) for word in words), caught.value


def disagreements() -> None:
    """What a collective operation would answer with an abort or a wait without end is a sentence in every process."""
    scores, labels = torch.randn(6, dtype=torch.float64, requires_grad=True), torch.tensor([1, 0, 1, 0, 0, 0])
    ap, auroc, ovr = (aimfor.MetricLoss(name) for name in ("ap", "auroc", "auroc_ovr"))
    both = (scores, labels) if RANK == 0 else (scores.reshape(2, 3), labels.reshape(2, 3))
    refused(lambda: ap(*both), "shapes of different kinds")
    refused(lambda: auroc(scores if RANK else scores.float(), labels), "different dtypes")
    refused(lambda: ovr(torch.randn(6, 3 + RANK, requires_grad=True), labels), "shapes of different kinds")
    weights = torch.ones(2) if RANK else torch.ones(2, 3)
    refused(lambda: ap(scores.reshape(2, 3), labels.reshape(2, 3), weights=weights), "per list", "per item")


counted = every_pair() + engines_with_labels() + lists_of_different_lengths() + images_of_different_sizes()
counted += retrieval()
groups_of_processes()
disagreements()
dist.barrier()
dist.destroy_process_group()
print(json.dumps({"compared": counted}))
