"""Losses and exact metrics of retrieval: brute force, blocks, memory, bad input."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional

import aimfor
from aimfor.metrics import METRICS, HitAtK, MAPAtR, RPrecision
from aimfor.retrieval import evaluate, loss
from aimfor.retrieval.loss import retrieval_metric

NAMES = ["map@r", "ap", "r_precision", "recall@2", "ndcg@3", "precision@2"]
every = pytest.mark.parametrize("name", NAMES)


def data(n: int = 14, classes: int = 4, seed: int = 0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(n, 5, generator=generator, dtype=torch.float64), torch.arange(n) % classes


def lists(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The lists that a batch makes of itself: similarities, same class, not itself."""
    unit = functional.normalize(x, dim=1)
    return unit @ unit.t(), y[:, None] == y, ~torch.eye(len(y), dtype=torch.bool)


@every
def test_loss_is_that_of_the_similarity_matrix(name: str) -> None:
    x, y = data()
    one, two = x.clone().requires_grad_(), x.clone().requires_grad_()
    got = aimfor.RetrievalLoss(name, temperature=0.1)(one, y)
    scores, same, there = lists(two, y)
    expected = aimfor.MetricLoss(retrieval_metric(name), aimfor.SmoothEngine(0.1))(scores, same.long(), where=there)
    torch.testing.assert_close(got, expected)
    torch.testing.assert_close(*torch.autograd.grad((got, expected), (one, two)))


@every
def test_value_is_the_exact_metric_of_the_lists(name: str) -> None:
    x, y = data(seed=1)
    scores, same, there = lists(x, y)
    expected = retrieval_metric(name).value(scores, same.long(), where=there)
    assert float(aimfor.RetrievalLoss(name).value(x, y)) == pytest.approx(float(expected), abs=1e-12)


@every
def test_references_have_lists_and_gradients_of_their_own(name: str) -> None:
    (x, y), (r, labels) = data(), data(9, 4, seed=2)
    one, two = r.clone().requires_grad_(), r.clone().requires_grad_()
    got = aimfor.RetrievalLoss(name, similarity="dot", temperature=0.5)(x, y, one, labels)
    expected = aimfor.MetricLoss(retrieval_metric(name), aimfor.SmoothEngine(0.5))(
        x @ two.t(), (y[:, None] == labels).long()
    )
    torch.testing.assert_close(got, expected)
    torch.testing.assert_close(*torch.autograd.grad((got, expected), (one, two)))


@every
def test_blocks_do_not_change_the_loss(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = data(13, 4)
    loss_fn = aimfor.RetrievalLoss(name, temperature=0.1)
    one, two = x.clone().requires_grad_(), x.clone().requires_grad_()
    whole = loss_fn(one, y)
    monkeypatch.setattr(loss, "BLOCK", 3 * 13)
    parts = loss_fn(two, y)
    torch.testing.assert_close(whole, parts)
    torch.testing.assert_close(*torch.autograd.grad((whole, parts), (one, two)))


def brute_force(x: Tensor, y: Tensor, r: Tensor, z: Tensor, own: bool, k: int) -> tuple[float, float, float]:
    values = []
    for i in range(len(x)):
        scored = sorted(
            ((float(x[i] @ r[j]), int(z[j]) == int(y[i])) for j in range(len(r)) if not (own and i == j)), reverse=True
        )
        hits = [hit for _, hit in scored]
        size = sum(hits)
        if size:
            precise = sum(sum(hits[: place + 1]) / (place + 1) for place in range(size) if hits[place])
            values.append((precise / size, sum(hits[:size]) / size, float(any(hits[:k]))))
    return tuple(sum(column) / len(values) for column in zip(*values, strict=True))  # type: ignore[return-value]


@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize("block", [7, 1 << 20])
def test_evaluate_against_sorted_lists(own: bool, block: int) -> None:
    x, y = data(20, 5, seed=3)
    r, z = (x, y) if own else data(11, 6, seed=4)
    given = () if own else (r, z)
    found = evaluate(x, y, *given, k=[3], similarity="dot", block=block)
    expected = brute_force(x, y, r, z, own, 3)
    got = (found["map@r"], found["r_precision"], found["recall@3"])
    assert got == pytest.approx(expected, abs=1e-12)


def test_metrics_of_lists_against_evaluate() -> None:
    x, y = data(20, 5, seed=5)
    scores, same, there = lists(x, y)
    found = evaluate(x, y, k=[2])
    for metric, name in ((MAPAtR(), "map@r"), (RPrecision(), "r_precision"), (HitAtK(2), "recall@2")):
        assert float(metric.value(scores, same.long(), where=there)) == pytest.approx(found[name], abs=1e-12)


def test_metrics_of_retrieval_are_registered() -> None:
    assert {"map@r", "r_precision"} <= {entry.example for entry in METRICS}


def test_lists_without_a_positive_or_a_negative_are_left_out_and_counted() -> None:
    x, _ = data(5)
    output = aimfor.RetrievalLoss("ap").detailed(x, torch.tensor([0, 0, 1, 1, 2]))
    assert (output.stats["lists"], output.stats["without"]) == (4, 1)
    x.requires_grad_()
    for labels in (torch.zeros(5, dtype=torch.int64), torch.arange(5)):
        output = aimfor.RetrievalLoss("ap").detailed(x, labels)
        assert output.status is aimfor.Status.undefined_batch
        (gradient,) = torch.autograd.grad(output.loss, x)
        assert not gradient.any()
    assert evaluate(x, torch.tensor([0, 0, 1, 1, 2]), k=[1])["without"] == 1


def test_memory_extends_the_lists_and_forgets_the_own_past() -> None:
    (x, y), (older, labels) = data(6, 3), data(8, 3, seed=6)
    loss_fn = aimfor.RetrievalLoss("ap", temperature=0.1, memory=20)
    loss_fn(older.requires_grad_(), labels, index=torch.arange(8))
    with pytest.raises(aimfor.InputError, match="index"):
        loss_fn(x, y, index=torch.tensor([0, 0, 1, 2, 3, 4]))
    got = loss_fn(x, y, index=torch.tensor([100, 101, 0, 102, 103, 1]))
    # Examples 0 and 1 are in the batch again: their past is not in any list.
    r, z = torch.cat((x, older[2:].detach())), torch.cat((y, labels[2:]))
    unit = functional.normalize(r, dim=1)
    there = ~torch.eye(12, dtype=torch.bool)[:6]
    expected = aimfor.MetricLoss("ap", aimfor.SmoothEngine(0.1))(
        unit[:6] @ unit.t(), (y[:, None] == z).long(), where=there
    )
    torch.testing.assert_close(got, expected)
    twin = aimfor.RetrievalLoss("ap", temperature=0.1, memory=20)
    twin.load_state_dict(loss_fn.state_dict())
    torch.testing.assert_close(twin(x, y), loss_fn(x, y))


def test_an_empty_memory_takes_its_shape_after_it_was_restored() -> None:
    (x, y), (older, labels) = data(6, 3), data(8, 3, seed=6)
    plain, restored = (aimfor.RetrievalLoss("ap", memory=20) for _ in range(2))
    restored.load_state_dict(aimfor.RetrievalLoss("ap", memory=20).state_dict())
    for loss_fn in (plain, restored):
        loss_fn(older.requires_grad_(), labels)
    assert torch.equal(plain(x, y), restored(x, y))


def test_training_raises_map_at_r() -> None:
    x, y = data(24, 6, seed=7)
    x.requires_grad_()
    loss_fn = aimfor.RetrievalLoss("map@r", temperature=0.1)
    optimizer = torch.optim.Adam([x], 0.05)
    before = evaluate(x, y)["map@r"]
    for _ in range(100):
        optimizer.zero_grad()
        loss_fn(x, y).backward()
        optimizer.step()
    assert evaluate(x, y)["map@r"] > 0.5 + 0.5 * before


def test_an_anchor_is_cross_entropy_over_the_training_classes() -> None:
    x, y = data(12, 3)
    x.requires_grad_()
    torch.manual_seed(0)
    loss_fn = aimfor.RetrievalLoss("map@r", temperature=0.1, anchor=0.25, classes=3, size=x.shape[1])
    weight, bias = loss_fn.parameters()
    got = loss_fn(x, y)
    entropy = functional.cross_entropy(x @ weight.t().double() + bias.double(), y)
    expected = 0.75 * aimfor.RetrievalLoss("map@r", temperature=0.1)(x, y) + 0.25 * entropy
    torch.testing.assert_close(got, expected)
    for ours, theirs in zip(
        torch.autograd.grad(got, (x, weight)), torch.autograd.grad(expected, (x, weight)), strict=True
    ):
        torch.testing.assert_close(ours, theirs)
    twin = aimfor.RetrievalLoss("map@r", temperature=0.1, anchor=0.25, classes=3, size=x.shape[1])
    twin.load_state_dict(loss_fn.state_dict())
    torch.testing.assert_close(twin(x, y), got)


def test_a_batch_without_lists_still_learns_its_classes() -> None:
    x = torch.randn(3, 4, requires_grad=True)
    loss_fn = aimfor.RetrievalLoss("map@r", anchor=0.5, classes=3, size=4)
    output = loss_fn.detailed(x, torch.arange(3))
    assert output.stats["lists"] == 0
    assert output.loss.item() == pytest.approx(0.5 * output.stats["entropy"])
    output.loss.backward()
    assert x.grad is not None
    assert x.grad.any()


def test_labels_and_lengths_that_an_anchor_does_not_know_are_named_before_anything_is_remembered() -> None:
    loss_fn = aimfor.RetrievalLoss("ap", memory=8, anchor=0.1, classes=2, size=3)
    state = {name: value.clone() for name, value in loss_fn.state_dict().items()}
    for x, y, said in (
        (torch.randn(4, 3), torch.tensor([0, 0, 2, 2]), "the class 2"),
        (torch.randn(4, 3), torch.tensor([0, 0, -1, 1]), "the class -1"),
        (torch.randn(4, 5), torch.tensor([0, 0, 1, 1]), "length 5"),
    ):
        with pytest.raises(aimfor.InputError, match=said):
            loss_fn(x, y)
    assert all(torch.equal(value, state[name]) for name, value in loss_fn.state_dict().items())


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"embeddings": torch.full((4, 3), float("nan"))}, "not finite"),
        ({"embeddings": torch.zeros(4, 3)}, "zero vector"),
        ({"embeddings": torch.ones(4)}, "rows"),
        ({"embeddings": torch.ones(4, 3, dtype=torch.int64)}, "real vectors"),
        ({"embeddings": [[1.0]]}, "torch tensor"),
        ({"labels": torch.tensor([0, 0, 1])}, "3 labels for 4"),
        ({"labels": torch.tensor([0.0, 0.0, 1.0, 1.0])}, "class ids"),
        ({"references": torch.ones(2, 3)}, "together"),
        ({"reference_labels": torch.ones(2)}, "together"),
        ({"references": torch.ones(2, 4), "reference_labels": torch.tensor([0, 1])}, "length 4"),
    ],
)
def test_bad_input_is_named(change: dict[str, object], said: str) -> None:
    arguments = {"embeddings": torch.randn(4, 3), "labels": torch.tensor([0, 0, 1, 1])} | change
    with pytest.raises(aimfor.InputError, match=said):
        aimfor.RetrievalLoss("ap")(**arguments)
    with pytest.raises(aimfor.InputError, match=said):
        evaluate(**arguments, k=[1])  # type: ignore[arg-type]


def test_bad_settings_are_named() -> None:
    for settings, said in (
        ({"metric": "f1"}, "map@r"),
        ({"metric": "recall@ten"}, "recall@10"),
        ({"temperature": 0.0}, "temperature"),
        ({"similarity": "euclid"}, "cosine"),
        ({"memory": -1}, "memory"),
        ({"anchor": 1.5}, "anchor"),
        ({"anchor": 0.1}, "classes"),
        ({"anchor": 0.1, "classes": 5}, "size"),
        ({"anchor": 0.1, "classes": 1, "size": 4}, "classes"),
        ({"classes": 5}, "without an anchor"),
    ):
        with pytest.raises(aimfor.InputError, match=said):
            aimfor.RetrievalLoss(**settings)  # type: ignore[arg-type]
    with pytest.raises(aimfor.InputError, match="at most 3"):
        evaluate(torch.randn(4, 2), torch.tensor([0, 0, 1, 1]), k=[4])


def test_half_precision_embeddings_are_computed_in_float32() -> None:
    x, y = data()
    half = x.half().requires_grad_()
    value = aimfor.RetrievalLoss("map@r")(half, y)
    assert value.dtype == torch.float32
    value.backward()
    assert half.grad is not None
    assert half.grad.dtype == torch.float16


def test_two_towers_remember_references() -> None:
    """The second step's lists are the second references and the first, which are constants to the gradient."""
    generator = torch.Generator().manual_seed(8)
    first, second = (torch.randn(2, 6, 3, generator=generator, dtype=torch.float64) for _ in range(2))
    labels, others = torch.tensor([0, 1, 2, 0, 1, 2]), torch.tensor([2, 2, 0, 0, 1, 1])
    remembering, plain = aimfor.RetrievalLoss("ap", memory=64), aimfor.RetrievalLoss("ap")
    remembering(first[0].requires_grad_(), labels, first[1], others)
    queries, references = (part.clone().requires_grad_() for part in second)
    got = torch.autograd.grad(remembering(queries, labels, references, others), (queries, references))
    lists = torch.cat((references, first[1].detach()))
    loss = plain(queries, labels, lists, torch.cat((others, others)))
    torch.testing.assert_close(got, torch.autograd.grad(loss, (queries, references)), rtol=1e-10, atol=1e-12)
    alone = plain(queries, labels, references, others)
    assert abs(float(alone.detach()) - float(loss.detach())) > 1e-3  # the memory has a part in it


def test_references_are_remembered_by_their_own_index() -> None:
    remembering = aimfor.RetrievalLoss("ap", memory=64)
    queries, references = torch.randn(4, 3, requires_grad=True), torch.randn(6, 3)
    labels, others = torch.tensor([0, 1, 0, 1]), torch.tensor([0, 0, 0, 1, 1, 1])
    losses = [float(remembering(queries, labels, references, others, index=torch.arange(6)).detach()) for _ in range(3)]
    assert losses[0] == pytest.approx(losses[1]) == pytest.approx(losses[2])  # nobody meets a copy of itself
    with pytest.raises(aimfor.InputError, match="index"):
        remembering(queries, labels, references, others, index=torch.arange(4))


@pytest.mark.parametrize("own", [True, False])
def test_ties_beyond_the_places_that_are_looked_at_count(own: bool) -> None:
    """Few distinct similarities: most lists end inside a tie, whose hits the whole lists know."""
    generator = torch.Generator().manual_seed(5)
    x, y = torch.randint(0, 3, (30, 2), generator=generator).double(), torch.arange(30) % 7
    others = () if own else (torch.randint(0, 3, (25, 2), generator=generator).double(), torch.arange(25) % 7)
    values = evaluate(x, y, *others, k=[2], similarity="dot")
    for name in ("map@r", "r_precision", "recall@2"):
        whole = aimfor.RetrievalLoss(name, similarity="dot").value(x, y, *others)
        assert values[name] == pytest.approx(float(whole), abs=1e-12)


def test_what_is_reported_unless_told_otherwise() -> None:
    assert list(evaluate(*data())) == ["map@r", "r_precision", "recall@1", "recall@10", "without"]
    with pytest.raises(aimfor.InputError, match="size: got 0"):
        aimfor.RetrievalLoss(anchor=0.1, classes=3, size=0)
