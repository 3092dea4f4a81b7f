"""Offsets per class: exact counts along a line, the optimum against brute force, the guard by groups."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor

from aimfor.errors import InputError
from aimfor.targets.offsets import _ascend, _checked, _counts_along, class_ratios, confusion, fit_offsets


def images(seed: int, n: int = 4, classes: int = 3, noise: float = 1.0) -> tuple[Tensor, Tensor]:
    """Scores that know something, truth that is mostly class 0."""
    generator = torch.Generator().manual_seed(seed)
    y = torch.multinomial(torch.tensor([0.8, 0.15, 0.05][:classes]), n * 48, True, generator=generator).view(n, 6, 8)
    hot = torch.nn.functional.one_hot(y, classes).permute(0, 3, 1, 2).float()
    prior = torch.tensor([1.5, 0.0, -1.5][:classes]).view(1, -1, 1, 1)
    return prior + 1.5 * hot + noise * torch.randn(hot.shape, generator=generator), y


@pytest.mark.parametrize("one", [0, 1, 2])
def test_counts_along_a_line_are_the_confusion_at_each_candidate(one: int) -> None:
    scores, y = images(0)
    y[0, 0] = 255
    scores = scores.mul(2).round().div(2)  # ties, which argmax gives to the first class
    (pixels,) = _checked([scores], [y], None, 255, "iou")
    offsets, values = torch.tensor([0.5, -0.5, 1.0], dtype=torch.float64), torch.linspace(-4, 4, 17).double()
    found = _counts_along([pixels], offsets, one, values)
    for place, value in enumerate(values.tolist()):
        moved = offsets.clone()
        moved[one] = value
        torch.testing.assert_close(found[:, place], confusion(pixels, moved), rtol=0, atol=0)


def test_iou_of_the_counts_is_scikit_learns() -> None:
    from sklearn.metrics import f1_score, jaccard_score

    scores, y = images(1)
    (pixels,) = _checked([scores], [y], None, 255, "iou")
    counts, called = confusion(pixels, torch.zeros(3)), scores.argmax(1).flatten()
    expected = torch.from_numpy(jaccard_score(y.flatten(), called, average=None))
    torch.testing.assert_close(class_ratios(counts), expected)
    expected = torch.from_numpy(f1_score(y.flatten(), called, average=None))
    torch.testing.assert_close(class_ratios(counts, "dice"), expected)


def test_the_ascent_is_as_good_as_a_grid_over_all_offsets() -> None:
    scores, y = images(2, n=2)
    pixels = _checked([scores], [y], None, 255, "iou")
    judged = torch.ones(3, dtype=torch.bool)
    found = float(class_ratios(confusion(pixels[0], _ascend(pixels, judged, "iou"))).mean())
    grid = torch.linspace(-4, 4, 41).tolist()
    best = max(
        float(class_ratios(confusion(pixels[0], torch.tensor([0.0, a, b]))).mean())
        for a, b in itertools.product(grid, grid)
    )
    plain = float(class_ratios(confusion(pixels[0], torch.zeros(3))).mean())
    assert found >= best - 0.005  # one axis at a time: a grid over both may be a hair better
    assert found > plain + 0.05


def test_offsets_help_on_new_images_where_the_network_underrates_a_class() -> None:
    blocks = [images(seed, noise=0.7) for seed in range(3, 7)]
    found = fit_offsets([a for a, _ in blocks], [b for _, b in blocks], groups=[0, 0, 1, 1])
    assert found.cross_validated > found.argmax
    assert float(found.values.mean()) == pytest.approx(0.0, abs=1e-12)
    scores, y = images(99, n=40, noise=0.7)
    (pixels,) = _checked([scores], [y], None, 255, "iou")
    with_offsets, without = (
        float(class_ratios(confusion(pixels, one)).mean()) for one in (found.values, 0 * found.values)
    )
    assert with_offsets > without + 0.03
    assert "2 groups" in found.text


def test_offsets_that_do_not_carry_over_are_left_out() -> None:
    """Two drives that ask for opposite offsets: what either chose is wrong on the other."""
    scores = torch.zeros(1, 2, 1, 4)
    scores[0, 0] = torch.tensor([1.0, 1.0, -1.0, -1.0])
    up, down = torch.tensor([[[0, 0, 0, 1]]]), torch.tensor([[[0, 1, 1, 1]]])
    found = fit_offsets([scores, scores], [up, down])
    assert found.values.tolist() == [0.0, 0.0]
    assert found.cross_validated == found.argmax
    assert "argmax" in found.text


def test_a_binary_mask_counts_its_foreground_alone() -> None:
    scores, y = torch.zeros(2, 2, 1, 3), torch.tensor([[[0, 1, 1]], [[0, 1, 0]]])
    scores[:, 1] = torch.tensor([[-3.0, -1.0, -1.0], [-3.0, -1.0, -2.5]])[:, None]
    found = fit_offsets([scores[:1], scores[1:]], [y[:1], y[1:]], counted=[False, True])
    assert found.argmax == 0.0
    assert found.cross_validated == 1.0
    torch.testing.assert_close(found.decide(scores), y)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda s, y: ([s], [y[:, :2]]), "scores"),
        (lambda s, y: ([s], [y + 7]), "ids 7"),
        (lambda s, y: ([s / 0], [y]), "not finite"),
        (lambda s, y: ([s], [y * 0 + 255]), "no pixel that counts"),
        (lambda s, y: ([], []), "at least 1"),
    ],
)
def test_bad_input_is_one_sentence(change: object, said: str) -> None:
    scores, y = images(5, n=1)
    with pytest.raises(InputError, match=said):
        fit_offsets(*change(scores, y))  # type: ignore[operator]
    with pytest.raises(InputError, match="groups"):
        fit_offsets([scores], [y], groups=[0, 1])
    with pytest.raises(InputError, match="measure"):
        fit_offsets([scores], [y], measure="f1")


def test_the_part_that_is_taken_is_the_best_on_groups_left_out() -> None:
    from sklearn.metrics import jaccard_score

    blocks = [images(seed, n=1, noise=2.0) for seed in (9, 10, 11)]
    scores, targets = [one for one, _ in blocks], [one for _, one in blocks]
    pixels, judged = _checked(scores, targets, None, 255, "iou"), torch.ones(3, dtype=torch.bool)
    truth = torch.cat([one.flatten() for one in targets])

    def value(part: float) -> float:
        called = []
        for place, one in enumerate(scores):
            offsets = part * _ascend([p for p in pixels if p.group != place], judged, "iou")
            called.append((one + offsets.float().view(1, -1, 1, 1)).argmax(1).flatten())
        return float(jaccard_score(truth, torch.cat(called), average="macro"))

    by_part = {part: value(part) for part in (0.0, 0.25, 0.5, 0.75, 1.0)}
    best = max(by_part, key=by_part.__getitem__)
    assert 0 < best < 1, by_part  # else the case says nothing about parts
    found = fit_offsets(scores, targets)
    assert found.cross_validated == pytest.approx(by_part[best])
    torch.testing.assert_close(found.values, best * _ascend(pixels, judged, "iou"))
