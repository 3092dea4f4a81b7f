"""Components and the members that learn from them: against scikit-learn, and one by one against what they replace."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from aimfor.data.components import Components
from aimfor.errors import InputError
from aimfor.learners.ensemble import FOR_FEATURES, fit_ensemble
from aimfor.learners.ensemble.members.features import _turn
from aimfor.learners.ensemble.members.linear import Design
from aimfor.targets.objective import Objective


def rows(n: int = 240, d: int = 30, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Columns that overlap, a few directions that matter."""
    generator = torch.Generator().manual_seed(seed)
    hidden = torch.randn(n, 6, generator=generator)
    mix = torch.randn(6, d, generator=torch.Generator().manual_seed(99))
    x = hidden @ mix + 0.3 * torch.randn(n, d, generator=generator)
    y = (hidden[:, 0] + 0.5 * torch.randn(n, generator=generator) > 1.0).long()
    return x, y


def test_components_are_scikit_learns_up_to_sign_and_one_number() -> None:
    from sklearn.decomposition import PCA
    from sklearn.preprocessing import StandardScaler

    x, _ = rows()
    found = Components.fit(x, 5)(x).double().numpy()
    expected = PCA(5).fit_transform(StandardScaler().fit_transform(x.double().numpy()))
    expected *= 2.0 / expected[:, 0].std()
    np.testing.assert_allclose(np.abs(found), np.abs(expected), atol=2e-4)
    state = Components.fit(x, 5).state
    torch.testing.assert_close(Components.restore(state)(x), Components.fit(x, 5)(x), rtol=0, atol=0)
    alone = Components.fit(x, 5)(x[7:8])
    assert torch.equal(alone[0], Components.fit(x, 5)(x)[7])


def test_few_rows_and_still_columns_make_fewer_components() -> None:
    x, _ = rows(8)
    x[:, 3] = 5.0
    found = Components.fit(x)
    assert found.width == 7
    assert bool(found(x).isfinite().all())
    with pytest.raises(InputError):
        Components.fit(x[:1])
    for damage in ({}, {"mean": 1}, {**found.state, "axes": {"shape": [2, 2], "float32": "AAAA"}}):
        with pytest.raises(InputError, match="damaged"):
            Components.restore(damage)


def test_a_design_as_it_is_keeps_the_sizes_of_columns() -> None:
    x = torch.randn(50, 3) * torch.tensor([2.0, 0.2, 0.0])
    found = Design.as_it_is(x)(x)
    ratio = found.std(0)[0] / found.std(0)[1]
    torch.testing.assert_close(ratio, (x.std(0)[0] / x.std(0)[1]).double(), rtol=1e-6, atol=0)
    assert (found[:, 2] == 0).all()


def test_the_head_penalises_components_by_their_size() -> None:
    """After the turn all columns are of about one size, so that standardising them changes nothing."""
    x, _ = rows()
    z = Components.fit(x, 8)(x)
    turned = (z.double() @ _turn(8)).std(0)
    assert float(turned.max() / turned.min()) < float(z.std(0).max() / z.std(0).min())
    torch.testing.assert_close(_turn(8) @ _turn(8).t(), torch.eye(8).double())


def test_the_ensemble_on_features_learns_is_restored_and_takes_classes() -> None:
    x, y = rows()
    components = Components.fit(x)
    z = components(x)
    found = fit_ensemble(z, y, Objective.of("ap"), kinds=FOR_FEATURES, folds=3)
    assert [seat.name for seat in found.weighted_members] == list(FOR_FEATURES)
    assert found.cross_validated > 0.75
    kept = dict(found.parts())
    again = type(found).restore(found.facts, kept.__getitem__)
    new, _ = rows(seed=5)
    assert torch.equal(again.scores(components(new)), found.scores(components(new)))
    three = y + (x[:, 0] > x[:, 0].median()).long()
    found = fit_ensemble(z, three, Objective.of("f1_macro").on_classes(3), outputs=3, kinds=("features_head",), folds=3)
    assert found.cross_validated > 0.5


def test_the_head_learns_for_every_sort_of_metric() -> None:
    x, y = rows()
    z = Components.fit(x)(x)
    for metric in ("auroc", "f1", "recall@precision=0.5", "balanced_accuracy"):
        found = fit_ensemble(z, y, Objective.of(metric), kinds=("features_head",), folds=3)
        assert found.cross_validated > 0.6, metric
