"""Networks on pixels in an ensemble: folds of one network, restored bit for bit."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from aimfor.errors import InputError, Interrupted
from aimfor.learners.ensemble import Ensemble, MemoryStore, fit_ensemble
from aimfor.learners.ensemble.members import FOR_PICTURES
from aimfor.learners.networks.models import GroupNorm
from aimfor.targets.objective import Objective


def halves(n: int = 36, side: int = 8) -> tuple[Tensor, Tensor]:
    """Brighter above or below."""
    y = torch.arange(n) % 2
    x = torch.randn(n, 3, side, side, generator=torch.Generator().manual_seed(0))
    x[y == 1, :, : side // 2] += 1.5
    x[y == 0, :, side // 2 :] += 1.5
    return x, y


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    from aimfor.learners.ensemble.members import pictures

    monkeypatch.setattr(pictures, "STEPS", 8)
    monkeypatch.setattr(pictures, "CHECKPOINTS", 2)


@pytest.mark.usefixtures("quick")
def test_folds_of_one_network_learn_and_come_back_bit_for_bit() -> None:
    x, y = halves()
    found = fit_ensemble(x, y, Objective.of("auroc"), members=FOR_PICTURES, folds=2)
    assert [seat.name for seat in found.weighted_members] == ["pictures_network", "pictures_metric"]
    assert all(len(seat.fitted) == 2 for seat in found.weighted_members)
    assert found.cross_validated > 0.7
    parts = dict(found.parts())
    again = Ensemble.restore(found.facts, parts.__getitem__)
    assert torch.equal(again.scores(x), found.scores(x))
    assert torch.equal(again.scores(x[4:5]), found.scores(x)[4:5])


@pytest.mark.usefixtures("quick")
def test_a_stop_keeps_finished_folds_and_ends_at_the_same_scores() -> None:
    x, y = halves(24)
    store, asked = MemoryStore(), [0]

    def stop() -> bool:
        asked[0] += 1
        return asked[0] > 12

    with pytest.raises(Interrupted):
        fit_ensemble(x, y, Objective.of("ap"), members=FOR_PICTURES, folds=2, store=store, stop=stop)
    assert list(store.kept) == ["pictures_network-0"]
    resumed = fit_ensemble(x, y, Objective.of("ap"), members=FOR_PICTURES, folds=2, store=store)
    whole = fit_ensemble(x, y, Objective.of("ap"), members=FOR_PICTURES, folds=2)
    assert torch.equal(resumed.scores(x), whole.scores(x))


def test_members_for_pictures_need_pictures_and_tables_stay_tables() -> None:
    with pytest.raises(InputError, match="none that can learn"):
        fit_ensemble(torch.randn(20, 3), torch.arange(20) % 2, Objective.of("auroc"), members=FOR_PICTURES)
    with pytest.raises(InputError, match="pictures \\(n, c, h, w\\)"):
        fit_ensemble(torch.randn(20, 3, 4), torch.arange(20) % 2, Objective.of("auroc"))


def test_maps_of_one_pixel_have_a_gradient() -> None:
    """torch's own group norm ends the process here."""
    x = torch.randn(8, 192, 1, 1, requires_grad=True)
    norm = GroupNorm(1, 192)
    (norm(x.to(memory_format=torch.channels_last)) * torch.randn(8, 192, 1, 1)).sum().backward()
    assert bool(x.grad.isfinite().all())
    y = torch.randn(2, 16, 5, 3)
    assert torch.allclose(GroupNorm(8, 16)(y), nn.functional.group_norm(y, 8), atol=1e-6)
