"""Embeddings for unseen classes: exact lists by two routes, folds that never share a class, and a choice that pays."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from aimfor.errors import InputError, Interrupted
from aimfor.learners.embedding import Examples, class_folds, fit_embedding, vectors_of
from aimfor.learners.ensemble import MemoryStore
from aimfor.retrieval import evaluate
from aimfor.targets.identities import nearest, query_values
from aimfor.targets.objective import depth_of, is_retrieval


def spoiled(classes: int, per_class: int = 6, seed: int = 0) -> Examples:
    """Classes differ in eight small columns; eight large ones say nothing."""
    generator = torch.Generator().manual_seed(seed)
    y = torch.arange(classes).repeat_interleave(per_class)
    centres = torch.randn(classes, 8, generator=generator)
    useful = centres[y] + 0.35 * torch.randn(len(y), 8, generator=generator)
    return Examples(torch.cat((0.2 * useful, 3.0 * torch.randn(len(y), 8, generator=generator)), 1), y)


def test_lists_of_queries_equal_the_exact_evaluation() -> None:
    x, y = torch.randn(60, 5), torch.randint(0, 9, (60,))
    values = query_values(x, y, (1, 7))
    exact = evaluate(x, y, k=[1, 7])
    for name in ("map@r", "r_precision", "recall@1", "recall@7"):
        assert float(values[name].nanmean()) == pytest.approx(exact[name], abs=1e-12)


def test_neighbours_are_those_of_a_full_sort() -> None:
    x = torch.randn(40, 6)
    unit = torch.nn.functional.normalize(x)
    cosines = unit @ unit.t()
    full = cosines.clone().fill_diagonal_(-2.0).argsort(1, descending=True)
    assert torch.equal(nearest(x, 5, block=100).indices, full[:, :5])
    sorted_cosines = cosines.fill_diagonal_(-2.0).sort(1, descending=True).values
    assert torch.allclose(nearest(x, 5, block=100).cosines, sorted_cosines[:, :5])


def test_copies_are_neighbours_and_nobody_is_its_own() -> None:
    x = torch.ones(5, 3)
    found = nearest(x, 2).indices
    assert found.shape == (5, 2)
    with pytest.raises(InputError, match="k"):
        nearest(x, 5)


@pytest.mark.parametrize(("classes", "number"), [(4, 3), (5, 3), (9, 3), (30, 1)])
def test_folds_share_no_class_and_hold_two_at_least(classes: int, number: int) -> None:
    folds = class_folds(classes, 0, number)
    assert 1 <= len(folds) <= number
    for learn, judge in folds:
        assert not set(learn) & set(judge)
        assert set(learn) | set(judge) == set(range(classes))
        assert min(len(learn), len(judge)) >= 2
    if number == 3 and len(folds) == 3:
        assert sorted(one for _, judge in folds for one in judge) == list(range(classes))
    assert class_folds(3, 0, 3) == []


def test_the_metric_chooses_and_unseen_classes_gain() -> None:
    learn, unseen = spoiled(12), spoiled(12, seed=1)
    fit = fit_embedding(learn, "map@r", steps=16)
    assert fit.values["plain"] < max(fit.values.values())
    best = max(fit.values, key=lambda way: fit.values[way])
    assert best == fit.way
    plain = evaluate(unseen.x, unseen.y, k=[1])["map@r"]
    chosen = evaluate(fit.vectors(unseen.x), unseen.y, k=[1])["map@r"]
    assert chosen > plain + 0.1


def test_a_stopped_fit_goes_on_to_the_same_bits() -> None:
    data, store, asked = spoiled(6, 3), MemoryStore(), [0]

    def stop() -> bool:
        asked[0] += 1
        return asked[0] > 15

    with pytest.raises(Interrupted):
        fit_embedding(data, "recall@1", steps=4, store=store, stop=stop)
    assert store.kept
    steps: list[int] = []
    resumed = fit_embedding(data, "recall@1", steps=4, store=store, tell=lambda done, _: steps.append(done))
    whole = fit_embedding(data, "recall@1", steps=4)
    assert len(steps) < 9 * 4 + 4  # cells that were there were not trained again
    assert (resumed.way, resumed.steps) == (whole.way, whole.steps)
    assert torch.equal(resumed.vectors(data.x), whole.vectors(data.x))


def test_pictures_train_a_small_network_and_few_classes_have_nothing_to_choose_by() -> None:
    y = torch.arange(3).repeat_interleave(4)
    fit = fit_embedding(Examples(torch.randn(12, 3, 8, 8) + y[:, None, None, None], y), "map@r", steps=2)
    assert fit.way == "metric"
    vectors = fit.vectors(torch.randn(2, 3, 8, 8))
    assert vectors.shape == (2, 128)
    assert torch.allclose(vectors.norm(dim=1), torch.ones(2))
    assert fit_embedding(spoiled(3), "map@r", steps=2).way == "plain"


def test_a_vector_does_not_depend_on_its_company() -> None:
    data = spoiled(6, 4)
    fit = fit_embedding(data, "map@r", steps=4)
    one: Tensor = vectors_of(fit.network, data.x[3:4])
    assert torch.equal(one, fit.vectors(data.x)[3:4])


def test_names_of_metrics_of_neighbours() -> None:
    assert [is_retrieval(name) for name in ("map@r", "recall@5", "r_precision")] == [True] * 3
    assert [is_retrieval(name) for name in ("recall@precision=0.9", "ap", "recall@0", "ndcg@5")] == [False] * 4
    assert (depth_of("recall@12"), depth_of("map@r")) == (12, 1)


def test_a_fold_without_a_positive_says_nothing_about_the_ways() -> None:
    part = spoiled(9)
    single = torch.tensor(class_folds(9, 0, 3)[1][1])  # one fold's classes with one example each
    first = torch.tensor([int((part.y == one).nonzero()[0]) for one in single])
    kept = torch.cat(((~torch.isin(part.y, single)).nonzero()[:, 0], first)).sort().values
    found = fit_embedding(Examples(part.x[kept], part.y[kept]), "map@r", ways=("plain", "whitened"))
    assert found.values["whitened"] > found.values["plain"] > 0
    assert found.way == "whitened"


def test_the_callers_generator_is_left_alone() -> None:
    before = torch.get_rng_state()
    fit_embedding(spoiled(6), "map@r", ways=("metric",), steps=2)
    assert torch.equal(torch.get_rng_state(), before)
