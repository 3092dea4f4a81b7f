"""Boxes: pooling and overlap against sums over cells, suppression and average precision by hand, the file's faults."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.metrics import average_precision_score

from aimfor.errors import InputError
from paper.detection import data, windows
from paper.detection.average_precision import Detected, Truth, box_ap
from paper.detection.boxes import checked, overlaps, pooled

ONE = {
    "images": [{"id": 7, "file_name": "a.jpg", "width": 40, "height": 30}],
    "categories": [{"id": 1, "name": "cat"}, {"id": 2, "name": "dog"}],
    "annotations": [{"id": 1, "image_id": 7, "category_id": 2, "bbox": [4, 5, 10, 12], "difficult": 0}],
}


def drawn(seed: int, n: int) -> np.ndarray[Any, Any]:
    random = np.random.default_rng(seed)
    low = random.uniform(0, 20, (n, 2))
    return np.concatenate((low, low + random.uniform(1, 10, (n, 2))), 1)


def test_pooled_means_are_those_of_covered_shares_of_cells() -> None:
    maps, boxes = torch.rand(3, 6, 8, dtype=torch.float64), torch.from_numpy(drawn(0, 30)) / 4
    for mean, (x0, y0, x1, y1) in zip(pooled(maps, boxes), boxes.tolist(), strict=True):
        across = torch.tensor([max(0.0, min(x1, j + 1) - max(x0, j)) for j in range(8)], dtype=torch.float64)
        down = torch.tensor([max(0.0, min(y1, i + 1) - max(y0, i)) for i in range(6)], dtype=torch.float64)
        by_hand = torch.einsum("chw,h,w->c", maps, down, across) / (across.sum() * down.sum())
        torch.testing.assert_close(mean, by_hand, rtol=1e-9, atol=1e-12)


def test_overlap_is_that_of_a_fine_grid() -> None:
    first, second = np.floor(drawn(1, 6)), np.ceil(drawn(2, 5))
    first[:, 2:] += 1
    cells = np.stack(np.meshgrid(np.arange(40) + 0.5, np.arange(40) + 0.5), -1).reshape(-1, 2)

    def inside(box: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return (cells > box[:2]).all(1) & (cells < box[2:]).all(1)

    by_hand = [[(inside(a) & inside(b)).sum() / (inside(a) | inside(b)).sum() for b in second] for a in first]
    np.testing.assert_allclose(overlaps(first, second), by_hand, atol=1e-12)


def test_voc_rule_by_hand() -> None:
    """Two true boxes and a difficult one: right, doubled (wrong), on the difficult one (nothing), wrong, right."""
    true = np.array([[0, 0, 10, 10], [20, 0, 30, 10], [0, 20, 10, 30]], dtype=float)
    truth = [Truth(true, np.array([False, False, True]))]
    boxes = np.array([[0, 0, 10, 10], [0, 0, 10, 9], [0, 20, 10, 30], [20, 20, 30, 30], [20, 0, 30, 10]], dtype=float)
    found = [Detected(boxes, np.array([0.9, 0.8, 0.7, 0.6, 0.5]))]
    assert box_ap(truth, found) == pytest.approx(0.5 * 1 + 0.5 * (2 / 4))
    # COCO counts the difficult one as any other: recalls 1/3 at precision 1, 1 at 3/5 (of its places 2/3 at 2/3).
    assert box_ap(truth, found, "coco") == pytest.approx((34 * 1 + 33 * (2 / 3) + 34 * (3 / 5)) / 101)


def test_boxes_that_all_are_right_or_wrong_have_the_ranking_s_average_precision() -> None:
    random = np.random.default_rng(3)
    right, scores = random.random(40) < 0.4, random.permutation(40) / 40
    place = 20.0 * np.arange(40)
    boxes = np.stack((place, place, place + 10, place + 10), 1)
    truth = [Truth(boxes[right], np.zeros(int(right.sum()), dtype=bool))]
    interpolated = box_ap(truth, [Detected(boxes, scores)])
    order = np.argsort(-scores)
    precision = right[order].cumsum() / np.arange(1, 41)
    by_hand = np.mean([precision[i:].max() for i in np.flatnonzero(right[order])])
    assert interpolated == pytest.approx(by_hand)
    assert interpolated >= average_precision_score(right, scores)


def test_a_class_without_truth_has_no_average_precision() -> None:
    box, none = np.array([[0.0, 0.0, 1.0, 1.0]]), np.zeros((0, 4))
    found = [Detected(box, np.array([0.5]))]
    assert np.isnan(box_ap([Truth(none, np.zeros(0, dtype=bool))], found))
    assert np.isnan(box_ap([Truth(box, np.array([True]))], found))  # all difficult
    assert box_ap([Truth(box, np.array([False]))], [Detected(none, np.zeros(0))]) == 0.0


@pytest.mark.parametrize("bad", [[[5, 5, 5, 9]], [[5, 5, 9, 4]], [[0, 0, 50, 10]], [[-1, 0, 5, 5]], [[0, 0, 1]]])
def test_bad_boxes_are_named(bad: list[list[float]]) -> None:
    with pytest.raises(InputError, match="boxes"):
        checked("boxes", np.array(bad, dtype=float), (40, 30))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"bbox": [4, 5, 0, 3]}, "without area"),
        ({"bbox": [30, 5, 20, 3]}, "in a picture of"),
        ({"image_id": 8}, "picture 8"),
        ({"category_id": 3}, "class 3"),
    ],
)
def test_faults_of_a_coco_file_are_one_line(change: dict[str, Any], words: str, tmp_path: Path) -> None:
    raw = copy.deepcopy(ONE)
    path = tmp_path / "val.json"
    path.write_text(json.dumps(raw))
    _, known, names = data.truth(path)
    assert known[7][0]["class"] == 1
    assert names == ("cat", "dog")
    raw["annotations"][0].update(change)
    path.write_text(json.dumps(raw))
    with pytest.raises(InputError, match=words) as caught:
        data.truth(path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kind", ["images", "categories", "annotations"])
def test_an_id_twice_is_refused(kind: str, tmp_path: Path) -> None:
    raw = {**ONE, kind: ONE[kind] * 2}
    (tmp_path / "val.json").write_text(json.dumps(raw))
    with pytest.raises(InputError, match=f"{kind}: got {len(ONE[kind])} ids twice"):
        data.truth(tmp_path / "val.json")


def test_windows_are_labelled_by_the_box_they_overlap_most() -> None:
    windows = np.array([[0, 0, 10, 10], [0, 0, 10, 30], [20, 0, 30, 9], [50, 50, 60, 60]], dtype=float)
    boxes = np.array([[0, 0, 10, 11], [20, 0, 30, 10]], dtype=float)
    part = data.Part([1], [windows], [boxes], [np.array([3, 5])], [np.array([False, True])], ("a",))
    assert data.labelled(part, 0).tolist() == [3, -1, -2, -1]
    empty = data.Part([1], [windows], [np.zeros((0, 4))], [np.zeros(0, int)], [np.zeros(0, bool)], ("a",))
    assert data.labelled(empty, 0).tolist() == [-1] * 4


SEEN = {7: ("a.jpg", 40, 30), 8: ("b.jpg", 40, 30)}
FOUND = {"id": 1, "image_id": 7, "category_id": 2, "bbox": [4.0, 5.0, 10.0, 12.0], "score": 0.5}


def test_results_are_sorted_by_class_and_picture() -> None:
    cats, dogs = data.detections([FOUND, {**FOUND, "id": 2, "score": 0.9}], SEEN, ("cat", "dog"))
    assert [len(cats[number].boxes) for number in (7, 8)] == [0, 0]
    np.testing.assert_array_equal(dogs[7].boxes, [[4, 5, 14, 17]] * 2)
    assert dogs[7].scores.tolist() == [0.5, 0.9]
    truth = [Truth(np.array([[4.0, 5, 14, 17]]), np.array([False])), Truth(np.zeros((0, 4)), np.zeros(0, dtype=bool))]
    assert box_ap(truth, [dogs[7], dogs[8]]) == 1.0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"id": 1}, "1 ids twice"),
        ({"image_id": 9}, "picture 9"),
        ({"category_id": 3}, "class 3"),
        ({"bbox": [4.0, 5.0, 0.0, 12.0]}, "without area"),
        ({"bbox": [35.0, 5.0, 10.0, 12.0]}, "inside their picture"),
        ({"score": float("nan")}, "the score nan"),
    ],
)
def test_faulty_results_are_refused_in_one_line(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        data.detections([FOUND, {**FOUND, "id": 2, **change}], SEEN, ("cat", "dog"))


def test_boxes_of_all_classes_at_once_are_those_of_one_class_in_one_picture() -> None:
    """Against one box after another and `box_ap`, with more windows than a class keeps and difficult boxes."""
    random = np.random.default_rng(0)
    corners = [random.uniform(0, 80, (count, 2)) for count in (90, 70, 40)]
    boxes = [np.concatenate((one, one + random.uniform(10, 40, one.shape)), 1) for one in corners]
    truth = [one[random.permutation(len(one))[:6]] + random.uniform(-2, 2, (6, 4)) for one in boxes]
    classes, hard = [random.integers(0, 3, 6) for _ in truth], [random.random(6) < 0.3 for _ in truth]
    part = data.Part([0, 1, 2], boxes, truth, classes, hard, ("a", "b", "c"))
    of_windows = torch.from_numpy(np.concatenate([data.labelled(part, place) for place in range(3)]))
    w = windows.Windows(torch.zeros(200, 1), of_windows, [90, 160, 200], part)
    scores = torch.from_numpy(random.normal(size=(200, 3))).float()
    scores[of_windows >= 0, of_windows[of_windows >= 0]] += 1.5
    expected = []
    for one in range(3):
        real, found = [], []
        for place, (begin, end) in enumerate(((0, 90), (90, 160), (160, 200))):
            mine, value = classes[place] == one, scores[begin:end, one].numpy()
            top = np.argsort(-value, kind="stable")[: windows.KEPT]
            kept: list[int] = []
            for box in top:  # it falls to a better one that stays
                if all(overlaps(boxes[place][[box]], boxes[place][[other]]) <= 0.3 for other in kept):
                    kept.append(int(box))
            real.append(Truth(truth[place][mine], hard[place][mine]))
            found.append(Detected(boxes[place][kept], value[kept]))
        expected.append(box_ap(real, found))
    assert windows.Judge(w, range(3))(scores).tolist() == pytest.approx(expected)
    assert 0.05 < min(expected) < 0.95
    # A box that is found again is wrong: right, wrong, right of two.
    assert windows._ap(np.array([3.0, 2.0, 1.0]), np.array([7, 7, 8]), 2) == pytest.approx(0.5 * 1 + 0.5 * 2 / 3)
