"""The gate's refusals by their whole sentences, and beside each the nearest thing that is let through."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch

from aimfor import checks
from aimfor.checks import batches, tensors
from aimfor.errors import InputError, ProbabilityWarning
from aimfor.watch import ProbabilityWatch

S, Y = torch.tensor([0.5, -1.0, 2.0, 0.0]), torch.tensor([1, 0, 1, 0])
S3, IDS = torch.arange(12.0).reshape(4, 3), torch.tensor([0, 2, 1, 0])
Y3 = (torch.arange(12).reshape(4, 3) % 2 == 0).long()
ON_META = S.to("meta")
NOTHING = "Nothing is broadcast: reshape it so that each score has its own entry."
Call = Callable[[], Any]

#: call → (argument, what came, what was expected, the next move)
REFUSED: dict[str, tuple[Call, tuple[str, str, str, str]]] = {
    "binary: no columns": (
        lambda: checks.binary(torch.zeros(4, 0), Y),
        ("scores", "shape (4, 0) with targets of shape (4,)", "one score per example, (4,) or (4, 1)",
         "For a two-column output pass scores[:, 1] - scores[:, 0]; for classes use auroc_ovr or auc_mu."),
    ),
    "binary: two columns": (
        lambda: checks.binary(S3, Y),
        ("scores", "shape (4, 3) with targets of shape (4,)", "one score per example, (4,) or (4, 1)",
         "For a two-column output pass scores[:, 1] - scores[:, 0]; for classes use auroc_ovr or auc_mu."),
    ),
    "binary: complex labels": (
        lambda: checks.binary(S, Y.to(torch.complex64)),
        ("targets", "a complex64 tensor of shape (4,)", "0/1 labels", ""),
    ),
    "binary: one channel": (
        lambda: checks.binary(torch.zeros(2, 1, 3, 3), torch.zeros(2, 3, 3)),
        ("scores", "shape (2, 1, 3, 3) with targets of shape (2, 3, 3)", "one score per pixel, (2, 3, 3)",
         "Pass scores.squeeze(1)."),
    ),
    "binary: channels": (
        lambda: checks.binary(torch.zeros(2, 5, 3, 3), torch.zeros(2, 3, 3)),
        ("scores", "shape (2, 5, 3, 3) with targets of shape (2, 3, 3)", "one score per pixel, (2, 3, 3)",
         "For classes use miou, f1_macro or accuracy."),
    ),
    "binary: other shape": (
        lambda: checks.binary(S, Y[:3]), ("targets", "shape (3,)", "shape (4,), as scores", NOTHING),
    ),
    "multiclass: one column": (
        lambda: checks.multiclass(S[:, None], IDS),
        ("scores", "shape (4, 1)", "one column per class, (n, c) with c >= 2",
         "For one score per example use a binary metric such as auroc."),
    ),
    "multiclass: one dimension": (
        lambda: checks.multiclass(S, IDS),
        ("scores", "shape (4,)", "one column per class, (n, c) with c >= 2",
         "For one score per example use a binary metric such as auroc."),
    ),
    **{
        f"multiclass: {kind} targets": (
            lambda kind=kind: checks.multiclass(S3, IDS.to(kind)),
            ("targets", f"a {str(kind)[6:]} tensor of shape (4,)", "class ids as whole numbers",
             "For one-hot use targets.argmax(1)."),
        )
        for kind in (torch.float32, torch.bool, torch.complex64)
    },
    "multiclass: too large an id": (
        lambda: checks.multiclass(S3, IDS + 1),
        ("targets", "class ids from 1 to 3", "ids from 0 to 2, one per column of scores",
         "Name a label to ignore with ignore_index=, mask entries with where=, or give scores one column per class."),
    ),
    "multiclass: too small an id": (
        lambda: checks.multiclass(S3, IDS - 1),
        ("targets", "class ids from -1 to 1", "ids from 0 to 2, one per column of scores",
         "Name a label to ignore with ignore_index=, mask entries with where=, or give scores one column per class."),
    ),
    "multilabel: one dimension": (
        lambda: checks.multilabel(S, Y), ("scores", "shape (4,)", "one column per label, (n, c)", ""),
    ),
    "multilabel: three dimensions": (
        lambda: checks.multilabel(S3[None], Y3[None]),
        ("scores", "shape (1, 4, 3)", "one column per label, (n, c)", ""),
    ),
    "multilabel: class ids": (
        lambda: checks.multilabel(S3, IDS),
        ("targets", "shape (4,)", "0/1 for every label, (4, 3)",
         "For class ids use torch.nn.functional.one_hot, or a multi-class metric."),
    ),
    "multilabel: other columns": (
        lambda: checks.multilabel(S3, Y3[:, :2]), ("targets", "shape (4, 2)", "0/1 for every label, (4, 3)", ""),
    ),
    "multilabel: an index": (
        lambda: checks.multilabel(S3, Y3, index=IDS), ("index", "a value", "None with several labels", ""),
    ),
    "multilabel: groups": (
        lambda: checks.multilabel(S3, Y3, groups={}), ("groups", "a value", "None with several labels", ""),
    ),
    "masks: one dimension": (
        lambda: checks.masks(S, Y, by_class=False),
        ("scores", "shape (4,)", "images along the first dimension, (b, h, w)", ""),
    ),
    "masks: two dimensions by class": (
        lambda: checks.masks(S3, Y, by_class=True),
        ("scores", "shape (4, 3)", "images along the first dimension, (b, c, h, w)", ""),
    ),
    "masks: an index": (
        lambda: checks.masks(S3, Y3, by_class=False, index=IDS),
        ("index", "a value", "None: masks carry no example index", ""),
    ),
    "masks: groups": (
        lambda: checks.masks(S3, Y3, by_class=False, groups={}),
        ("groups", "a value", "None: masks carry no example index", ""),
    ),
    "lists: three dimensions": (
        lambda: checks.lists(S3[None], Y3[None]),
        ("scores", "shape (1, 4, 3)", "lists as rows, (b, l), or one list, (l,)", ""),
    ),
    "lists: an index": (
        lambda: checks.lists(S3, Y3, index=IDS), ("index", "a value", "None: ranked lists carry no example index", ""),
    ),
    "lists: groups by name": (
        lambda: checks.lists(S3, Y3, groups={"a": IDS}),
        ("groups", "a value", "None: ranked lists carry no example index",
         "For lists of different lengths pass groups= one whole number per row."),
    ),
    "lists: complex grades": (
        lambda: checks.lists(S, Y.to(torch.complex64), graded=True),
        ("targets", "a complex64 tensor of shape (4,)", "labels or relevance grades", ""),
    ),
    "lists: a negative grade": (
        lambda: checks.lists(S, Y - 2, graded=True), ("targets", "a negative grade (-2)", "relevance >= 0", ""),
    ),
    "lists: weights of items under grades": (
        lambda: checks.lists(S3, Y3, weights=torch.ones(4, 3), graded=True),
        ("weights", "shape (4, 3)", "one weight per list, (4,)",
         "An item's weight has no meaning in a discounted gain; put it into the relevance."),
    ),
    "lists: a negative weight of a list": (
        lambda: checks.lists(S3, Y3, weights=-torch.ones(4)), ("weights", "a negative value (-1)", "weights >= 0", ""),
    ),
    "lists: a weight of another shape": (
        lambda: checks.lists(S3, Y3, weights=torch.ones(3)),
        ("weights", "shape (3,)", "shape (4, 3), as scores", NOTHING),
    ),
    "ragged: a table": (
        lambda: checks.lists(S3, Y3, groups=IDS),
        ("scores", "shape (4, 3)", "one score per row, (n,), with groups=", "Leave groups= out for (b, l)."),
    ),
    **{
        f"ragged: {kind} ids": (
            lambda kind=kind: checks.lists(S, Y, groups=IDS.to(kind)),
            ("groups", f"a {str(kind)[6:]} tensor of shape (4,)",
             "whole numbers: rows with the same number are one list", ""),
        )
        for kind in (torch.float64, torch.bool, torch.complex64)
    },
    **{
        f"ragged: {count} ids": (
            lambda count=count: checks.lists(S, Y, groups=torch.zeros(count, dtype=torch.int64)),
            ("groups", f"{count} ids for 4 scores", "one group id per score", ""),
        )
        for count in (3, 5)
    },
    "ragged: uneven lists": (
        lambda: batches._layout(torch.cat([torch.zeros(20_000), torch.arange(20_000)]).long()),
        ("groups", "20000 lists, the longest of 20001 rows",
         f"at most {batches.MOST_CELLS} cells when padded to the longest",
         "Put long and short lists into different batches."),
    ),
    "a list for a tensor": (
        lambda: checks.tensor("targets", [1, 2]),
        ("targets", "a list", "a torch tensor", "Convert it: torch.as_tensor(targets)."),
    ),
    "a sparse tensor": (
        lambda: checks.tensor("scores", S.to_sparse()),
        ("scores", "a torch.sparse_coo tensor", "a dense tensor", "Use scores.to_dense()."),
    ),
    "whole scores": (
        lambda: checks.floating_scores(Y),
        ("scores", "a int64 tensor of shape (4,)", "real-valued scores (float16, bfloat16, float32 or float64)",
         "Pass the model's raw outputs, not decisions or class ids."),
    ),
    "scores without values": (
        lambda: checks.floating_scores(ON_META),
        ("scores", "a tensor on the meta device, which holds no values",
         "a tensor with values: metrics depend on them", "Move the model to a real device before it is evaluated."),
    ),
    **{
        f"{name} elsewhere": (
            call,
            (name, "a tensor on meta", "the device of scores, cpu", f"Move it: {name}.to(scores.device)."),
        )
        for name, call in {
            "targets": lambda: checks.binary(S, Y.to("meta")),
            "weights": lambda: checks.weights_like(ON_META, S.shape, S, True),
            "where": lambda: tensors.mask_like(ON_META.bool(), S.shape, S),
            "index": lambda: checks.index_like(Y.to("meta"), 4, S, False),
            "groups": lambda: checks.lists(S, Y, groups=Y.to("meta")),
            "groups['a']": lambda: checks.binary(S, Y, groups={"a": Y.to("meta")}),
        }.items()
    },
    "two values not finite": (
        lambda: checks.finite("scores", torch.tensor([1.0, math.nan, math.inf])),
        ("scores", "2 of 3 values not finite (first: nan at position 1)", "finite values only",
         "Look for a diverged model (lower the learning rate) or missing data; mask entries with where=."),
    ),
    "scores beyond the limit": (
        lambda: checks.finite("scores", torch.tensor([1.0, -8.0]), 5.0),
        ("scores", "values up to 8 in size",
         "values up to 5, so that losses and gradients stay in the range of the dtype",
         "Look for a diverged model (lower the learning rate); mask entries that do not count with where=."),
    ),
    "weights beyond the limit": (
        lambda: checks.weights_like(torch.tensor([1.0, 1e13]), torch.Size([2]), S, True),
        ("weights", "values up to 1e+13 in size",
         "values up to 1e+12, so that losses and gradients stay in the range of the dtype",
         "Divide them by their mean: only their ratios matter."),
    ),
    "weights too small": (
        lambda: checks.weights_like(torch.tensor([0.0, 1e-13]), torch.Size([2]), S, True),
        ("weights", "values of at most 1e-13", "zeros, or a largest weight of at least 1e-12",
         "Divide them by their mean: only their ratios matter."),
    ),
    "complex weights": (
        lambda: checks.weights_like(S.to(torch.complex64), S.shape, S, True),
        ("weights", "a complex64 tensor of shape (4,)", "real weights", ""),
    ),
    **{
        f"labels {values}": (
            lambda values=values: tensors.binary_values(torch.tensor(values)),
            ("targets", f"values {listed}", "0 or 1 only", remedy),
        )
        for values, listed, remedy in (
            ([1, -1], "-1, 1", "For labels in {-1, 1} pass (targets > 0)."),
            ([1.0, -1.0], "-1, 1", "For labels in {-1, 1} pass (targets > 0)."),
            ([0, 1, 255], "0, 1, 255", "To leave a label out pass ignore_index=255."),
            ([0, 1, -1], "-1, 0, 1", "To leave a label out pass ignore_index=-1."),
            ([0, 1, 2], "0, 1, 2",
             "For class ids use a multi-class metric (auroc_ovr, auc_mu), or pass (targets == positive_class)."),
            ([0.0, 2.0], "0, 2",
             "For class ids use a multi-class metric (auroc_ovr, auc_mu), or pass (targets == positive_class)."),
            ([0.5, 1.0], "0.5, 1",
             "For soft labels pass (targets > 0.5), or draw them for every batch: torch.bernoulli(targets)."),
            ([0, 1, 2, 3, 4, 5, 6], "0, 1, 2, 3, 4, 5, …",
             "For class ids use a multi-class metric (auroc_ovr, auc_mu), or pass (targets == positive_class)."),
        )
    },
    "a mask of numbers": (
        lambda: tensors.mask_like(S, S.shape, S),
        ("where", "a float32 tensor of shape (4,)", "a bool tensor, True where an entry counts", "Use where.bool()."),
    ),
    **{
        f"{kind} positions": (
            lambda kind=kind: checks.index_like(IDS.to(kind), 4, S, True),
            ("index", f"a {str(kind)[6:]} tensor of shape (4,)", "whole numbers: the positions in the data set", ""),
        )
        for kind in (torch.float32, torch.bool, torch.complex64)
    },
    "a negative position": (
        lambda: checks.index_like(torch.tensor([3, -1]), 2, S, True),
        ("index", "values from -1 to 3", "positions at least 0", ""),
    ),
    "a position beyond the data": (
        lambda: checks.index_like(torch.tensor([3, 4]), 2, S, True, 4),
        ("index", "values from 3 to 4", "positions from 0 to 3", ""),
    ),
    "a position twice": (
        lambda: checks.index_like(torch.tensor([3, 3]), 2, S, True),
        ("index", "the same position more than once", "each example at most once in a batch", ""),
    ),
    "groups without names": (
        lambda: checks.binary(S, Y, groups=Y),
        ("groups", "a int64 tensor of shape (4,)", "a dict from attribute name to a tensor of group labels", ""),
    ),
    "groups of another length": (
        lambda: checks.binary(S, Y, groups={"a": Y[:3]}),
        ("groups['a']", "shape (3,)", "shape (4,), as scores", NOTHING),
    ),
    "a number by words": (
        lambda: checks.number("x", "1", above=0, at_most=2.5),
        ("x", "'1' of type str", "a finite number > 0 and <= 2.5", ""),
    ),
    "a number that is a truth": (
        lambda: checks.number("x", True), ("x", "True of type bool", "a finite number", ""),
    ),
    **{
        f"a number {value} with {bounds}": (
            lambda value=value, bounds=bounds: checks.number("x", value, **bounds),
            ("x", repr(value), f"a finite number{expected}", ""),
        )
        for value, bounds, expected in (
            (math.nan, {}, ""), (math.inf, {"at_least": 0}, " >= 0"), (0, {"above": 0}, " > 0"),
            (-0.1, {"at_least": 0}, " >= 0"), (1.0, {"below": 1}, " < 1"), (1.1, {"at_most": 1}, " <= 1"),
        )
    },
    "half a whole number": (
        lambda: checks.integer("k", 1.5), ("k", "1.5 of type float", "a whole number", ""),
    ),
    "a whole number that is a truth": (
        lambda: checks.integer("k", True, at_least=1), ("k", "True of type bool", "a whole number >= 1", ""),
    ),
    "a whole number too small": (
        lambda: checks.integer("k", 0, at_least=1), ("k", "0", "a whole number >= 1", ""),
    ),
    "no such choice": (
        lambda: checks.one_of("mode", "c", ("a", "b")), ("mode", "'c'", "one of 'a', 'b'", ""),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_a_refusal_is_this_sentence(case: str) -> None:
    call, wanted = REFUSED[case]
    with pytest.raises(InputError) as caught:
        call()
    error = caught.value
    assert (error.argument, error.came, error.expected, error.remedy) == wanted


def test_without_values_nothing_is_read() -> None:
    """``values=False`` keeps types and shapes, and lets every value through: nothing is read off the device."""
    bad, weights = torch.tensor([math.nan, 1e30, 2.0, 0.0]), torch.tensor([-1.0, math.nan, 1e20, 1.0])
    assert (
        checks.binary(bad, Y + 5, weights=weights, index=torch.tensor([-1, -1, 9, 9]), values=False).weights is not None
    )
    assert checks.multiclass(S3 * math.nan, IDS + 7, weights=weights, values=False).weights is not None
    found = checks.multilabel(S3 * math.nan, Y3 + 5, weights=weights, values=False)
    assert found.weights is not None
    assert found.weights.shape == (4, 1)
    for graded in (False, True):
        found = checks.lists(S3 * math.nan, Y3 - 5, weights=weights, values=False, graded=graded)
        assert found.weights is not None
        assert found.weights.shape == (4, 1)


def test_what_is_at_a_bound_goes_through() -> None:
    assert checks.number("x", 0, at_least=0, at_most=0) == 0.0
    assert checks.number("x", 1, above=0, below=2) == 1.0
    assert checks.integer("k", 1, at_least=1) == 1
    assert checks.integer("k", -5) == -5
    checks.finite("scores", torch.tensor([5.0, -5.0]), 5.0)
    checks.finite("scores", torch.tensor([]))
    checks.finite("targets", Y)
    weights = torch.tensor([0.0, 1e12])
    assert checks.weights_like(weights, weights.shape, S, True) is not None
    assert checks.weights_like(torch.tensor([0.0, 1.1e-12]), weights.shape, S, True) is not None
    assert checks.weights_like(torch.zeros(2), weights.shape, S, True) is not None
    assert checks.index_like(torch.tensor([0, 3]), 2, S, True, 4) is not None
    tensors.class_values(torch.tensor([0, 2]), 3)
    tensors.relevance_values(torch.tensor([0.0, 3.0]))
    tensors.relevance_values(torch.tensor([True, False]))
    tensors.relevance_values(torch.tensor([]))


def test_shapes_come_out_as_the_layout_says() -> None:
    pictures = checks.masks(torch.zeros(2, 3, 5), torch.zeros(2, 3, 5), by_class=False, weights=torch.ones(2, 3, 5))
    assert pictures.scores.shape == pictures.targets.shape == (2, 15)
    assert pictures.weights is not None
    assert pictures.weights.shape == (2, 15)
    by_class = checks.masks(torch.zeros(2, 4, 3, 5), torch.zeros(2, 3, 5).long(), by_class=True)
    assert by_class.scores.shape == (2, 15, 4)
    assert checks.binary(torch.zeros(2, 3, 5), torch.zeros(2, 3, 5)).pixels == 15
    assert checks.binary(torch.zeros(6, 1), torch.zeros(6)).pixels == 1
    assert checks.multiclass(torch.zeros(2, 4, 3, 5), torch.zeros(2, 3, 5).long()).pixels == 15
    assert checks.lists(S, Y).one_list
    assert checks.lists(S[:, None], Y).one_list
    assert not checks.lists(S3, Y3).one_list
    assert not checks.lists(S, Y, groups=IDS).one_list
    one = checks.lists(torch.zeros(3, 2), torch.zeros(3, 2), weights=torch.tensor([[1.0], [2.0], [3.0]]))
    assert one.weights is not None
    assert one.weights.tolist() == [[1.0], [2.0], [3.0]]
    items = checks.lists(S3, Y3, weights=torch.arange(12.0).reshape(4, 3))
    assert items.weights is not None
    assert items.weights.tolist() == torch.arange(12.0).reshape(4, 3).tolist()


def test_what_is_masked_weighs_nothing_and_is_never_read() -> None:
    where = torch.tensor([True, False, True, True])
    spoiled = torch.where(where, S, math.nan)
    found = checks.binary(spoiled, torch.where(where, Y, 99), weights=torch.where(where, 1.0, -7.0), where=where)
    assert found.scores.tolist() == [0.5, 0.0, 2.0, 0.0]
    assert found.weights is not None
    assert found.weights.tolist() == [1.0, 0.0, 1.0, 1.0]
    classes = checks.multiclass(torch.where(where[:, None], S3, math.nan), torch.where(where, IDS, 99), where=where)
    assert classes.targets.tolist() == [0, 0, 1, 0]
    assert bool(classes.scores.isfinite().all())
    assert batches.lists(spoiled, torch.where(where, Y, 99), where=where).scores.tolist() == [[0.5, 0.0, 2.0, 0.0]]


def test_probabilities_are_told_by_their_values_after_enough_of_them() -> None:
    draw, said = torch.linspace(0.01, 0.99, 40), list[str]()

    def warned(*rounds: torch.Tensor, batches: int = 3, threshold: float | None = 0.0) -> list[int]:
        """After which batches a watch spoke."""
        watch, spoke = ProbabilityWatch(batches), []
        for number, scores in enumerate(rounds):
            try:
                watch.observe(scores, scores, threshold)
            except ProbabilityWarning as warning:
                spoke.append(number)
                said.append(str(warning))
        return spoke

    assert warned(draw, draw, draw, draw, draw) == [2]  # once, after three
    assert "all of 120 scores lie in [0.01, 0.99]" in said[0]
    assert warned(draw, draw, -draw, draw, draw, draw) == [5]  # raw scores begin the count anew
    assert warned(draw, draw, 3 * draw, draw, draw) == []
    assert warned(*[draw / 2.1] * 8) == []  # all below one half, as rare classes have them after a while
    assert warned(*[(draw + 1.1) / 2.1] * 8) == []
    assert warned(*[draw] * 8, threshold=0.5) == warned(*[draw] * 8, threshold=None) == []
    few = torch.tensor([0.01, 0.99])
    assert warned(*[few] * 8) == []  # too few scores to tell


@pytest.mark.parametrize("name", ["binary", "multiclass", "multilabel", "lists", "masks"])
def test_every_gate_looks_at_values_unless_told_otherwise(name: str) -> None:
    shape = {"binary": (4,), "masks": (2, 2, 2)}.get(name, (4, 3))
    scores, targets = torch.zeros(shape), torch.zeros(4 if name == "multiclass" else shape, dtype=torch.int64)
    gate = partial(checks.masks, by_class=False) if name == "masks" else getattr(checks, name)
    gate(scores, targets)
    spoiled = scores.clone().view(-1).index_fill(0, torch.tensor([1]), math.nan).view(shape)
    for arguments in ((spoiled, targets), (scores, targets + 7)):
        with pytest.raises(InputError):
            gate(*arguments)
        gate(*arguments, values=False)


@pytest.mark.parametrize("grade", [math.nan, math.inf, -1.0])
def test_grades_are_numbers_from_0(grade: float) -> None:
    with pytest.raises(InputError, match="targets"):
        checks.lists(torch.zeros(1, 3), torch.tensor([[0.0, grade, 1.0]]), graded=True)


@pytest.mark.parametrize("name", ["binary", "multiclass", "multilabel", "lists"])
def test_every_gate_takes_weights_that_are_numbers_from_0_and_no_more_of_them(name: str) -> None:
    shape = {"binary": (4,), "lists": (4, 1)}.get(name, (4, 3))
    scores, targets = torch.zeros(shape), torch.zeros(4 if name in ("binary", "multiclass") else shape).long()
    gate, weights = getattr(checks, name), torch.ones(4, requires_grad=True)
    assert not gate(scores, targets, weights=weights).weights.requires_grad
    for wrong in (-weights, torch.ones(5, 1), torch.full((4,), math.nan)):
        with pytest.raises(InputError, match="weights"):
            gate(scores, targets, weights=wrong)
