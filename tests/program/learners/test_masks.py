"""Mask networks: folds that keep groups whole, out-of-fold scores, offsets, and going on after a stop."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from aimfor.errors import InputError, Interrupted
from aimfor.learners.ensemble import MemoryStore
from aimfor.learners.masks import LOSSES, Masks, fit_masks, group_folds, make_network, scores_of
from aimfor.targets.pixels import IGNORED


def scenes(n: int = 12, seed: int = 0) -> Masks:
    """Three classes by the value of one channel, the last of them rare; noise in a second, coarser map."""
    generator = torch.Generator().manual_seed(seed)
    y = torch.multinomial(torch.tensor([0.6, 0.35, 0.05]), n * 64, True, generator=generator).view(n, 8, 8)
    fine = y[:, None].float() + 0.3 * torch.randn(n, 1, 8, 8, generator=generator)
    fine = torch.cat((fine, fine.square()), 1)
    return Masks((fine, torch.randn(n, 4, 4, 4, generator=generator)), y.byte(), torch.arange(n) % 4)


def test_folds_keep_groups_whole_and_are_about_equal() -> None:
    groups = torch.tensor([0] * 7 + [1] * 3 + [2] * 4 + [3])
    fold = group_folds(groups, 3, seed=0)
    assert all(len(fold[groups == one].unique()) == 1 for one in range(4))
    assert sorted(torch.bincount(fold).tolist()) == [4, 4, 7]
    assert len(group_folds(torch.tensor([0, 0, 1]), 5, 0).unique()) == 2
    with pytest.raises(InputError, match="one cluster only"):
        group_folds(torch.zeros(4), 3, 0)


def test_networks_learn_masks_and_speak_about_pictures_they_have_not_seen() -> None:
    data = scenes()
    found = fit_masks(data, 3, folds=2, epochs=40)
    assert found.out_of_fold is not None
    assert len(found.networks) == 2
    assert found.offsets.argmax > 0.5
    for fold, network in enumerate(found.networks):
        own = (found.folds == fold).nonzero().reshape(-1)
        said = scores_of(network, [one[own] for one in data.maps]).log_softmax(1).clamp_min(-12)
        torch.testing.assert_close(found.out_of_fold[own].float(), said, rtol=2e-3, atol=2e-3)
    new = scenes(4, seed=1)
    called = found.offsets.decide(found.scores(new.maps))
    assert float((called == new.y).float().mean()) > 0.8
    alone = found.scores([one[2:3] for one in new.maps])
    assert torch.equal(alone[0], found.scores(new.maps)[2])


@pytest.mark.parametrize("name", LOSSES)
def test_every_loss_by_name_learns_and_its_folds_are_its_own(name: str) -> None:
    data, store = scenes(6), MemoryStore()
    found = fit_masks(data, 3, folds=2, epochs=8, make_loss=LOSSES[name], store=store)
    assert found.offsets.argmax > fit_masks(data, 3, folds=2, epochs=1, make_loss=LOSSES[name]).offsets.argmax
    other = next(one for one in LOSSES if one != name)
    again = fit_masks(data, 3, folds=2, epochs=8, make_loss=LOSSES[other], store=store)
    assert not torch.equal(again.scores(data.maps), found.scores(data.maps))


def test_pixels_that_do_not_count_teach_nothing() -> None:
    data = scenes(4)
    other = Masks(data.maps, data.y.clone(), data.groups)
    data.y[:, :4] = IGNORED
    other.y[:, :4] = IGNORED
    changed = Masks((data.maps[0], data.maps[1]), other.y, data.groups)
    first, second = (fit_masks(one, 3, folds=2, epochs=1) for one in (data, changed))
    assert torch.equal(first.scores(data.maps), second.scores(data.maps))
    everything = Masks(data.maps, torch.full_like(data.y, IGNORED), data.groups)
    with pytest.raises(InputError, match="no pixel that counts"):
        fit_masks(everything, 3, folds=2, epochs=1)


def test_finished_folds_are_kept_and_other_data_is_not_mistaken_for_them() -> None:
    data, store, told = scenes(6), MemoryStore(), []
    asked = {"times": 0}

    def stop() -> bool:
        asked["times"] += 1
        return len(told) >= 2 and asked["times"] > 2

    with pytest.raises(Interrupted):
        fit_masks(data, 3, folds=2, epochs=2, store=store, tell=lambda done, total: told.append(done), stop=stop)
    assert list(store.kept) == ["fold-0"]
    again = fit_masks(data, 3, folds=2, epochs=2, store=store, tell=lambda done, total: told.append(done))
    assert told == [1, 2, 3, 4]
    whole = fit_masks(data, 3, folds=2, epochs=2)
    assert torch.equal(again.scores(data.maps), whole.scores(data.maps))
    fit_masks(scenes(6, seed=9), 3, folds=2, epochs=2, store=store, tell=lambda done, total: told.append(done))
    assert told[4:] == [1, 2, 3, 4]


@pytest.mark.parametrize(("channels", "stride"), [([3], 2), ([24, 40, 112], 1)])
def test_networks_score_every_pixel_of_their_finest_map(channels: list[int], stride: int) -> None:
    maps: list[Tensor] = [torch.randn(2, c, 32 >> i, 48 >> i) for i, c in enumerate(channels)]
    assert make_network(channels, 5)(maps).shape == (2, 5, 32 // stride, 48 // stride)


def test_the_callers_generator_is_left_alone() -> None:
    before = torch.get_rng_state()
    fit_masks(scenes(4), 3, folds=2, epochs=1)
    assert torch.equal(torch.get_rng_state(), before)
