"""Scores in parts: the gradient of the whole batch, the same randomness twice, and a sentence for what cannot be."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import aimfor

ROWS = 7


def network(*middle: nn.Module, out: int = 1) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 8), *middle, nn.Tanh(), nn.Linear(8, out)).double()


def rows(n: int = 50, seed: int = 1) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 5, generator=generator, dtype=torch.float64)
    return x, (x[:, 0] + torch.randn(n, generator=generator) > 0.8).long()


def gradients(model: nn.Module, loss: Tensor, **options: Any) -> list[Tensor]:
    return list(torch.autograd.grad(loss, list(model.parameters()), **options))


def assert_same(got: list[Tensor], expected: list[Tensor], tolerance: float = 1e-13) -> None:
    one, other = (torch.cat([part.flatten() for part in parts]) for parts in (got, expected))
    assert other.any()
    assert (one - other).abs().max() <= tolerance * other.abs().max()


# ---------------------------------------------------------------- the gradient of the whole batch


@pytest.mark.parametrize("size", [1, 7, 25, 49, 50, 1000])
def test_any_size_of_part_gives_the_gradient_of_the_whole_batch(size: int) -> None:
    model, (x, y), loss_fn = network(), rows(), aimfor.MetricLoss("ap")
    expected = gradients(model, loss_fn(model(x).squeeze(1), y))
    scores = aimfor.in_parts(model, x, rows=size)
    assert scores.shape == (50, 1)
    assert_same(gradients(model, loss_fn(scores.squeeze(1), y)), expected)


def test_ordinary_accumulation_does_not() -> None:
    model, (x, y), loss_fn = network(), rows(), aimfor.MetricLoss("ap")
    whole = gradients(model, loss_fn(model(x).squeeze(1), y))[0]
    losses = [loss_fn(model(a).squeeze(1), b) for a, b in zip(x.split(10), y.split(10), strict=True)]
    accumulated = gradients(model, torch.stack(losses).mean())[0]
    assert (accumulated - whole).norm() > 0.05 * whole.norm()


def test_shuffled_groups_weights_masks_and_indices() -> None:
    x, y = rows()
    lists = torch.arange(50) % 6
    weights, where = torch.rand(50, dtype=torch.float64), torch.arange(50) % 5 != 0
    for name, rest in {
        "ndcg": {"groups": lists},
        "mrr": {"groups": lists},
        "auroc": {"weights": weights, "where": where, "index": torch.arange(50)},
        "recall@precision=0.7": {"weights": weights},
    }.items():
        model = network()
        expected = gradients(model, aimfor.MetricLoss(name)(model(x).squeeze(1), y, **rest))
        got = aimfor.MetricLoss(name)(aimfor.in_parts(model, x, rows=ROWS).squeeze(1), y, **rest)
        assert_same(gradients(model, got), expected)


def test_embeddings_and_several_losses_on_the_same_scores() -> None:
    model, (x, _) = network(out=3), rows()
    classes = torch.arange(50) % 4
    retrieval, multi = aimfor.RetrievalLoss("map@r"), aimfor.MetricLoss("auc_mu")

    def loss(found: Tensor) -> Tensor:
        return retrieval(found, classes) + 2.0 * multi(found, torch.arange(50) % 3) + found.square().mean()

    assert_same(gradients(model, loss(aimfor.in_parts(model, x, rows=ROWS))), gradients(model, loss(model(x))))


def test_two_backward_passes_through_the_same_scores() -> None:
    model, (x, y) = network(nn.Dropout(0.3)), rows()
    torch.manual_seed(3)
    scores = aimfor.in_parts(model, x, rows=ROWS).squeeze(1)
    losses = [aimfor.MetricLoss(name)(scores, y) for name in ("ap", "auroc")]
    apart = [gradients(model, loss, retain_graph=True) for loss in losses]
    together = gradients(model, losses[0] + losses[1])
    assert_same([a + b for a, b in zip(*apart, strict=True)], together)


def test_one_dual_per_example() -> None:
    (x, y), index = rows(), torch.arange(50)
    both = []
    for score in (lambda m: m(x), lambda m: aimfor.in_parts(m, x, rows=ROWS)):
        model, loss_fn = network(), aimfor.MetricLoss("f1", aimfor.LagrangianEngine(y))
        both.append(gradients(model, loss_fn(score(model).squeeze(1), y, index=index)))
    assert_same(both[1], both[0])


def test_constraints_by_rates() -> None:
    from aimfor.rates import precision, recall

    x, y = rows()
    both = []
    for score in (lambda m: m(x), lambda m: aimfor.in_parts(m, x, rows=ROWS)):
        model = network()
        problem = aimfor.maximize(recall, subject_to=[precision >= 0.8])
        both.append(gradients(model, problem(score(model).squeeze(1), y)))
    assert_same(both[1], both[0])


def test_mappings_several_inputs_and_where_the_scores_are() -> None:
    class Named(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = network()

        def forward(self, batch: dict[str, Tensor], shift: Tensor) -> dict[str, Tensor]:
            return {"logits": self.inner(batch["x"] * batch["mask"]) + shift}

    model, (x, y), loss_fn = Named(), rows(), aimfor.MetricLoss("auroc")
    batch, shift = {"x": x, "mask": torch.ones(50, 1, dtype=torch.float64)}, torch.rand(50, 1, dtype=torch.float64)
    expected = gradients(model, loss_fn(model(batch, shift)["logits"][:, 0], y))
    got = aimfor.in_parts(model, batch, shift, rows=ROWS, scores=lambda output: output["logits"][:, 0])
    assert got.shape == (50,)
    assert_same(gradients(model, loss_fn(got, y)), expected)


def test_indices_with_loading_inside_the_model() -> None:
    model, (x, y), loss_fn, most = network(), rows(), aimfor.MetricLoss("ap"), []

    def load_and_score(index: Tensor) -> Tensor:
        most.append(len(index))
        return model(x[index])

    expected = gradients(model, loss_fn(model(x).squeeze(1), y))
    scores = aimfor.in_parts(load_and_score, torch.arange(50), rows=ROWS).squeeze(1)
    assert_same(gradients(model, loss_fn(scores, y)), expected)
    assert max(most) == ROWS
    assert sum(most) == 100


def test_inputs_have_gradients_too() -> None:
    model, (x, y), loss_fn = network(), rows(), aimfor.MetricLoss("ap")
    x.requires_grad_()
    (expected,) = torch.autograd.grad(loss_fn(model(x).squeeze(1), y), x)
    for score, given in ((model, x), (lambda part: model(part["x"]), {"x": x})):
        (got,) = torch.autograd.grad(loss_fn(aimfor.in_parts(score, given, rows=ROWS).squeeze(1), y), x)
        torch.testing.assert_close(got, expected, rtol=1e-12, atol=1e-15)


def test_a_compiled_model() -> None:
    model, (x, y), loss_fn = network(), rows(), aimfor.MetricLoss("ap")
    expected = gradients(model, loss_fn(model(x).squeeze(1), y))
    compiled = torch.compile(model, backend="aot_eager")
    scores = aimfor.in_parts(compiled, x, rows=ROWS).squeeze(1)
    assert_same(gradients(model, loss_fn(scores, y)), expected)


def test_nothing_is_run_twice_without_gradients_or_for_one_part() -> None:
    model, (x, _), calls = network(), rows(), []
    model.register_forward_hook(lambda *_: calls.append(1))
    with torch.no_grad():
        scores = aimfor.in_parts(model, x, rows=20)
        assert torch.equal(scores, torch.cat([model(part) for part in x.split([16, 17, 17])]))
    assert not scores.requires_grad
    calls.clear()
    aimfor.in_parts(model, x, rows=50).sum().backward()
    assert len(calls) == 1


# ---------------------------------------------------------------- the same pass twice


def same_parts_with_a_graph(model: nn.Module, x: Tensor) -> Tensor:
    return torch.cat([model(part) for part in x.split([6, 6, 6, 7, 6, 6, 6, 7])])


def bit_for_bit(make: Callable[[], nn.Module], *, autocast: bool = False) -> tuple[nn.Module, nn.Module]:
    """Gradient, random state and buffers after a step in parts are those of the same parts with a graph."""
    x, y = rows()
    models, found, states = [], [], []
    for score in (same_parts_with_a_graph, lambda m, a: aimfor.in_parts(m, a, rows=ROWS)):
        model = make()
        torch.manual_seed(11)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
            scores = score(model, x.to(next(model.parameters()).dtype))
            loss = aimfor.MetricLoss("ap")(scores.squeeze(1), y)
        loss.backward()
        models.append(model)
        states.append(torch.get_rng_state())
        found.append([weight.grad for weight in model.parameters()])
    assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))
    assert torch.equal(*states)
    for (name, expected), got in zip(models[0].named_buffers(), models[1].buffers(), strict=True):
        assert torch.equal(expected, got), name
    return models[0], models[1]


def test_dropout_is_the_same_twice_bit_for_bit() -> None:
    bit_for_bit(lambda: network(nn.Dropout(0.4)))


def test_autocast_is_the_same_twice_bit_for_bit() -> None:
    bit_for_bit(lambda: network(nn.Dropout(0.4)).float(), autocast=True)


@pytest.mark.parametrize("momentum", [0.1, None])
def test_batch_norm_is_that_of_the_parts_and_updates_its_statistics_once(momentum: float | None) -> None:
    model, _ = bit_for_bit(lambda: network(nn.BatchNorm1d(8, momentum=momentum), nn.Dropout(0.2)))
    assert model[1].num_batches_tracked == 8  # parts


def test_batch_norm_inside_a_function_updates_its_statistics_once() -> None:
    x, y = rows()
    model, twin = network(nn.BatchNorm1d(8)), network(nn.BatchNorm1d(8))
    scores = aimfor.in_parts(lambda index: model(x[index]), torch.arange(50), rows=ROWS)
    aimfor.MetricLoss("ap")(scores.squeeze(1), y).backward()
    same_parts_with_a_graph(twin, x)
    torch.testing.assert_close(list(model.buffers()), list(twin.buffers()), rtol=1e-14, atol=1e-16)


def test_batch_norm_in_eval_mode_is_exact() -> None:
    (x, y), loss_fn = rows(), aimfor.MetricLoss("ap")
    model = network(nn.BatchNorm1d(8))
    model(3.0 * x + 1.0)
    model[1].eval()
    expected = gradients(model, loss_fn(model(x).squeeze(1), y))
    assert_same(gradients(model, loss_fn(aimfor.in_parts(model, x, rows=ROWS).squeeze(1), y)), expected)
    model.train()
    apart = gradients(model, loss_fn(aimfor.in_parts(model, x, rows=ROWS).squeeze(1), y))
    whole = gradients(model, loss_fn(model(x).squeeze(1), y))
    assert (apart[0] - whole[0]).norm() > 0.01 * whole[0].norm()  # in training mode it is not, and cannot be


def pictures(n: int = 384) -> tuple[Tensor, Tensor]:
    """Noise with a brighter corner in the second class."""
    generator = torch.Generator().manual_seed(4)
    y = torch.arange(n) % 2
    x = torch.randn(n, 1, 6, 6, generator=generator)
    x[y == 1, :, :3, :3] += 1.0
    return x, y


def convolutions() -> nn.Sequential:
    torch.manual_seed(0)
    head = [nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 1)]
    return nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), *head)


def test_parts_that_look_sorted_by_class_are_warned_of_under_batch_norm() -> None:
    x, y = pictures()
    order = y.argsort(stable=True)
    loss_fn = aimfor.MetricLoss("ap")
    with pytest.warns(UserWarning, match=r"parts of in_parts differ \d+ times as much .* Shuffle the rows"):
        aimfor.in_parts(convolutions(), x[order], rows=48)
    with pytest.warns(UserWarning, match="sorted by class"):  # a function's modules are known after its first part
        aimfor.in_parts(convolutions().__call__, x[order], rows=48)
    # What is warned of is real: the gradient of sorted rows is another one, that of mixed rows is near the whole's.
    model = convolutions()
    whole = torch.cat([g.flatten() for g in gradients(model, loss_fn(model(x).squeeze(1), y))])
    apart = []
    for a, b in ((x, y), (x[order], y[order])):
        scores = torch.cat([model(part) for part in a.split(48)]).squeeze(1)
        found = torch.cat([g.flatten() for g in gradients(model, loss_fn(scores, b))])
        apart.append(float((found - whole).norm() / whole.norm()))
    assert apart[0] < 0.2 < 0.5 < apart[1]


def test_shuffled_parts_are_not_warned_of() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for seed in range(40):
            x, y = pictures()
            order = torch.randperm(len(x), generator=torch.Generator().manual_seed(seed))
            for size in (24, 48, 192):
                aimfor.in_parts(convolutions(), x[order], rows=size)
        model, order = convolutions(), y.argsort(stable=True)
        model[1].eval()
        aimfor.in_parts(model, x[order], rows=48)  # exact in any order
    assert not model[1]._forward_pre_hooks


# ---------------------------------------------------------------- refusals


def refused(call: Callable[[], Any], *words: str) -> None:
    with pytest.raises(aimfor.InputError) as caught:
        call()
    assert all(word in str(caught.value) for word in words), caught.value


def backward(score: Callable[[Tensor], Tensor], x: Tensor) -> Callable[[], None]:
    return lambda: aimfor.in_parts(score, x, rows=ROWS).sum().backward()


@pytest.mark.parametrize("size", [0, -3, 2.5, True, None])
def test_rows_below_one(size: Any) -> None:
    refused(lambda: aimfor.in_parts(network(), rows()[0], rows=size), "rows", repr(size), ">= 1")


def test_inputs_of_unequal_lengths_empty_or_of_another_kind() -> None:
    x, _ = rows()
    model = network()
    refused(lambda: aimfor.in_parts(model, x, x[:-1], rows=ROWS), "49 rows in inputs[1]", "50 in inputs[0]")
    refused(lambda: aimfor.in_parts(model, {"a": x, "b": x[:9]}, rows=ROWS), "9 rows in inputs[0]['b']")
    refused(lambda: aimfor.in_parts(model, x[:0], rows=ROWS), "0 rows")
    refused(lambda: aimfor.in_parts(model, rows=ROWS), "nothing")
    refused(lambda: aimfor.in_parts(model, x.tolist(), rows=ROWS), "inputs[0]", "a list")
    refused(lambda: aimfor.in_parts(model, x, torch.tensor(1.0), rows=ROWS), "inputs[1]", "functools.partial")


def test_an_output_without_one_row_per_input_row() -> None:
    x, _ = rows()
    model = network()
    refused(lambda: aimfor.in_parts(lambda a: model(a).squeeze(), x[:9], rows=1), "shape ()", "squeeze(1)")
    refused(lambda: aimfor.in_parts(lambda a: model(a).mean(0), x, rows=ROWS), "shape (1,)", "6 rows")
    refused(lambda: aimfor.in_parts(lambda a: {"logits": model(a)}, x, rows=ROWS), "a dict", "scores=")
    refused(lambda: aimfor.in_parts(lambda a: model(a).expand(-1, len(a)), x, rows=ROWS), "another shape")


def test_randomness_that_torch_does_not_replay() -> None:
    x, _ = rows()
    model, own, twister = network(), torch.Generator().manual_seed(0), np.random.default_rng(0)
    refused(backward(lambda a: model(a * random.random()), x), "model", "scores that differ", "torch's default")
    refused(backward(lambda a: model(a * twister.random()), x), "scores that differ")
    refused(backward(lambda a: model(a * torch.rand(1, generator=own)), x), "scores that differ", "torch.Generator")
    found = aimfor.in_parts(lambda part: model(part["x"]), {"x": x}, rows=ROWS).sum()
    x.mul_(2.0)  # of a tensor given by itself torch says that it was modified
    refused(found.backward, "scores that differ", "inputs as they were")


def test_a_second_pass_of_other_operations() -> None:
    x, _ = rows()
    model, calls = network(), iter(range(1000))
    refused(backward(lambda a: model(a) if next(calls) < 8 else model(a).exp().log(), x), "other operations")
    calls = iter(range(1000))
    refused(backward(lambda a: model(a).exp() if next(calls) < 8 else model(a), x), "scores that differ")


def test_hooks_that_count_calls() -> None:
    x, _ = rows()
    model, calls = network(), iter(range(1000))
    model.register_forward_hook(lambda module, inputs, output: output + next(calls))
    refused(backward(model, x), "scores that differ", "count its calls")
    model = network()
    model.register_buffer("calls", torch.zeros((), dtype=torch.int64))
    model.register_forward_hook(lambda module, inputs, output: module.calls.add_(1) and None)
    refused(lambda: aimfor.in_parts(model, x, rows=ROWS), "buffer 'calls' of Sequential", "eval mode")
    spectral = network()
    nn.utils.parametrizations.spectral_norm(spectral[0])
    refused(lambda: aimfor.in_parts(spectral, x, rows=ROWS), "changes the buffer")
    assert backward(spectral.eval(), x)() is None


def test_weights_changed_before_backward() -> None:
    (x, y), model = rows(), network()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-12)  # far below what scores would show
    loss = aimfor.MetricLoss("ap")(aimfor.in_parts(model, x, rows=ROWS).squeeze(1), y)
    model(x).sum().backward()
    optimizer.step()
    refused(loss.backward, "weights that changed", "before optimizer.step()")


def test_second_derivatives() -> None:
    x, _ = rows()
    model = network()
    found = aimfor.in_parts(model, x, rows=ROWS).square().sum()
    refused(lambda: torch.autograd.grad(found, list(model.parameters()), create_graph=True), "create_graph", "once")


def test_a_failed_second_pass_leaves_statistics_as_they_were() -> None:
    x, _ = rows()
    model = network(nn.BatchNorm1d(8))
    scores = aimfor.in_parts(lambda a: model(a) * random.random(), x, rows=ROWS)
    before = [buffer.clone() for buffer in model.buffers()]
    with pytest.raises(aimfor.InputError):
        scores.sum().backward()
    assert all(torch.equal(a, b) for a, b in zip(before, model.buffers(), strict=True))


def test_scores_that_are_masked_may_be_anything() -> None:
    (x, y), model = rows(), network()
    x[3] = float("nan")
    where = torch.arange(50) != 3
    scores = aimfor.in_parts(model, x, rows=ROWS).squeeze(1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loss = aimfor.MetricLoss("auroc")(scores, y, where=where)
        (gradient,) = torch.autograd.grad(loss, scores, retain_graph=True)
        assert torch.isfinite(gradient).all()
        loss.backward()
