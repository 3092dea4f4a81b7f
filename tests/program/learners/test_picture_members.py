"""Networks on pixels in an ensemble: folds of one network, changed as suits their sort, restored bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from aimfor.data.backbones import LITE0, installed, load_backbone
from aimfor.errors import InputError, Interrupted
from aimfor.learners.ensemble import Ensemble, MemoryStore, fit_ensemble
from aimfor.learners.ensemble.members import for_pictures
from aimfor.learners.networks.augment import DRAWINGS, PHOTOS, Augment, shifted, sort_of
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
    who = for_pictures(PHOTOS)
    found = fit_ensemble(x, y, Objective.of("auroc"), members=who, folds=2)
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

    who = for_pictures()
    with pytest.raises(Interrupted):
        fit_ensemble(x, y, Objective.of("ap"), members=who, folds=2, store=store, stop=stop)
    assert list(store.kept) == ["pictures_network-0"]
    resumed = fit_ensemble(x, y, Objective.of("ap"), members=who, folds=2, store=store)
    whole = fit_ensemble(x, y, Objective.of("ap"), members=who, folds=2)
    assert torch.equal(resumed.scores(x), whole.scores(x))


def test_members_for_pictures_need_pictures_and_tables_stay_tables() -> None:
    with pytest.raises(InputError, match="none that can learn"):
        fit_ensemble(torch.randn(20, 3), torch.arange(20) % 2, Objective.of("auroc"), members=for_pictures())
    with pytest.raises(InputError, match="pictures \\(n, c, h, w\\)"):
        fit_ensemble(torch.randn(20, 3, 4), torch.arange(20) % 2, Objective.of("auroc"))


def test_sorts_of_pictures() -> None:
    random = np.random.default_rng(0)
    photo = random.integers(0, 256, (5, 16, 16, 3), dtype=np.uint8)
    gray = np.repeat(photo[..., :1], 3, axis=3)
    page = np.full((5, 16, 16, 3), 255, dtype=np.uint8)
    page[:, 4:6, 3:12] = (200, 10, 10)
    assert [sort_of(one) for one in (photo, gray, photo[..., :1], page)] == [PHOTOS, DRAWINGS, DRAWINGS, DRAWINGS]


def test_shifts_move_whole_pictures_and_drawings_are_never_mirrored() -> None:
    x = torch.arange(16 * 16, dtype=torch.float32).reshape(1, 1, 16, 16).repeat(64, 3, 1, 1)
    torch.manual_seed(0)
    moved = shifted(x)
    rows = moved[:, 0, 8, 8] // 16 - 8
    columns = moved[:, 0, 8, 8] % 16 - 8
    assert set(rows.tolist()) <= {-2.0, -1.0, 0.0, 1.0, 2.0}
    assert len(set(columns.tolist())) > 2
    assert torch.equal(moved[:, 0], moved[:, 2])
    drawn = Augment(DRAWINGS).train()(x)
    assert bool((drawn[:, :, :, 1:] - drawn[:, :, :, :-1] >= 0).all())  # brightness grows to the right, as before
    photo = Augment(PHOTOS).train()(x)
    falls = (photo[:, 0, 8, 12] < photo[:, 0, 8, 4]).float().mean()
    assert 0.2 < float(falls) < 0.8
    assert Augment(PHOTOS).eval()(x) is x


def test_maps_of_one_pixel_have_a_gradient() -> None:
    """torch's own group norm ends the process here."""
    x = torch.randn(8, 192, 1, 1, requires_grad=True)
    norm = GroupNorm(1, 192)
    (norm(x.to(memory_format=torch.channels_last)) * torch.randn(8, 192, 1, 1)).sum().backward()
    assert bool(x.grad.isfinite().all())
    y = torch.randn(2, 16, 5, 3)
    assert torch.allclose(GroupNorm(8, 16)(y), nn.functional.group_norm(y, 8), atol=1e-6)


@pytest.mark.skipif(not installed(LITE0), reason="the weights of EfficientNet-Lite0 are not installed")
def test_stem_and_tail_are_the_whole_backbone() -> None:
    backbone = load_backbone(LITE0)
    pixels = np.random.default_rng(0).integers(0, 256, (3, 64, 64, 3), dtype=np.uint8)
    shape = backbone.stem_shape(64)
    assert shape == (192, 2, 2)
    with torch.no_grad():
        found = backbone.tail()(backbone.stems(pixels).reshape(3, *shape))
    assert torch.allclose(found, backbone.features(pixels), atol=1e-4)
    assert found.shape == (3, backbone.width)
