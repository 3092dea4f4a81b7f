"""VOC 2012 actions: the data in both forms, the multi-label losses, one small cell, and the claims' judge."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.metrics import average_precision_score
from torch import Tensor, nn

import aimfor
from aimfor.errors import InputError
from paper import Options
from paper.data import voc
from paper.experiments.song import action_features, epsilon, multilabel, voc_action
from paper.protocol.protocol import Budget, Checkpoint, Contest, Split
from paper.report import action_board
from paper.rivals import libauc

TINY = Budget(3, 2, batch=64, large=64, rates=(3e-3,), looks=1)


def masked_targets(n: int = 60, labels: int = 3) -> Tensor:
    targets = (torch.rand(n, labels) < 0.3).long()
    targets[::7, 0] = -1
    return targets


def first(persons: voc.Persons, count: int) -> voc.Persons:
    return voc.Persons(persons.crops[:count], persons.labels[:count], persons.images[:count])


# ---------------------------------------------------------------- the experiment


@pytest.mark.parametrize("task", ["action", "proposals"])
@pytest.mark.filterwarnings("ignore::aimfor.errors.DegenerateBatchWarning")
def test_a_small_cell_runs_and_reports(
    task: str, real_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(voc_action, "budget", lambda task, options: TINY)
    monkeypatch.setattr(voc_action, "pretrained", lambda folder, full: voc_action.network(20, full).state_dict())
    monkeypatch.setattr(voc_action, "RIVALS", voc_action.RIVALS[:3])
    monkeypatch.setattr(voc_action, "WINDOWS", 1)
    monkeypatch.setattr(libauc, "installed", lambda: False)
    monkeypatch.setattr(multilabel, "OBJECTIVES", ("all pairs",))
    monkeypatch.setattr(multilabel, "RIDGES", (1.0,))
    everyone = voc.load
    monkeypatch.setattr(voc, "load", lambda folder, split: first(everyone(folder, split), 400))
    options = Options(seeds=1, data=real_data)
    cell = {"task": task, "seed": 0}
    assert cell in voc_action.cells(options)
    found = voc_action.run(cell, options)["ap"]
    assert set(found["rivals"]) == {"cross-entropy", "hinge", "weighted"}
    assert found["rival_all"] == found["ours"]["rivals averaged"]
    assert found["ours"]["head"]["validation"] >= found["rival"]["validation"] - 0.02
    for name, value in {**found["rivals"], **found["papers"], "default": found["default"]["test"]}.items():
        assert statistics.fmean(found["classes"][name].values()) == pytest.approx(value)
    voc_action.report([{"cell": cell, "result": {"ap": found}, "seconds": 1.0}], tmp_path)
    text = (tmp_path / "table.md").read_text()
    assert "best rival" in text
    assert ("66.7" in text) == (task == "action")
    assert (tmp_path / f"{task}.svg").exists()


def test_missing_data_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="data: got"):
        voc_action.run({"task": "action", "seed": 0}, Options(data=tmp_path))
    with pytest.raises(InputError, match="without VOC 2012's actions"):
        voc.load(tmp_path, "train")


def test_no_image_has_persons_in_two_parts(real_data: Path) -> None:
    persons = voc.load(real_data, "train")
    rest, taken = voc.by_image(persons, 0.25, seed=3)
    assert not set(persons.images[rest]) & set(persons.images[taken])
    assert sorted([*rest, *taken]) == list(range(951))
    assert 0.2 < len(taken) / 951 < 0.3
    part = persons.part(taken)
    assert part.x.shape[1:] == (3, 32, 32)
    assert float(part.x.abs().max()) <= 1.0
    assert set(part.y.unique().tolist()) == {-1, 0, 1}


def test_badly_placed_windows_are_negative_for_every_action() -> None:
    crops = np.random.default_rng(0).integers(0, 256, (5, 64, 64, 3), dtype=np.uint8)
    part = voc.Persons(crops, np.ones((5, 10), dtype=np.int64), np.arange(5)).part()
    more = voc_action.with_windows(part, crops, seed=0)
    assert len(more) == 5 * (1 + voc_action.WINDOWS)
    assert torch.equal(more.x[:5], part.x)
    assert not bool(more.y[5:].any())
    # The largest window's intersection over union with the person's box, the box being 1/1.3 of the crop.
    assert (voc_action.SIDES[1] * 1.3) ** 2 < 1 / 3


# ---------------------------------------------------------------- mean average precision and the losses


def test_mean_ap_is_scikit_learns_mean_over_what_is_annotated() -> None:
    targets, scores = masked_targets(), torch.randn(60, 3)
    expected = []
    for label in range(3):
        known = targets[:, label] >= 0
        expected.append(average_precision_score(targets[known, label].numpy(), scores[known, label].numpy()))
    assert multilabel.label_aps(scores, targets) == pytest.approx(expected)
    assert multilabel.mean_ap(scores, targets) == pytest.approx(statistics.fmean(expected))


ALL = (*voc_action.RIVALS, *voc_action.PAPERS, voc_action.OURS)


@pytest.mark.parametrize("way", ALL, ids=lambda way: way.name)
def test_losses_ignore_what_is_not_annotated_and_a_step_helps(way: multilabel.Way) -> None:
    targets = masked_targets()
    rows = torch.arange(60)
    scores = torch.randn(60, 3, requires_grad=True)
    loss = way.make(targets)(scores, targets, rows)
    (gradient,) = torch.autograd.grad(loss, scores)
    assert not bool(gradient[targets < 0].any())
    moved = torch.where(targets < 0, 9.0, scores.detach())
    assert float(way.make(targets)(moved, targets, rows)) == pytest.approx(loss.item(), rel=1e-6)
    better = scores.detach() - 0.3 * gradient / gradient.norm() * scores.norm()
    assert multilabel.mean_ap(better, targets) > multilabel.mean_ap(scores.detach(), targets)


def test_losses_equal_their_formulas() -> None:
    scores, targets = torch.tensor([[2.0, -1.0], [0.5, 3.0]]), torch.tensor([[1, 0], [0, -1]])
    log = torch.nn.functional.softplus
    terms = torch.stack((log(torch.tensor(-2.0)), log(torch.tensor(-1.0)), log(torch.tensor(0.5))))
    assert float(multilabel.entropies(scores, targets)) == pytest.approx(float(terms.mean()))
    assert float(multilabel.hinge(scores, targets)) == pytest.approx((0.0 + 0.0 + 1.5) / 3)
    weighed = multilabel.weighted(torch.tensor([[1, 0], [0, 1], [0, 0]]))(scores, targets, torch.arange(2))
    assert float(weighed) == pytest.approx(float((2 * terms[0] + terms[1] + terms[2]) / 4))


def test_libaucs_loss_trains_when_it_is_installed() -> None:
    pytest.importorskip("libauc")
    targets, scores = masked_targets(), torch.randn(60, 3, requires_grad=True)
    (gradient,) = torch.autograd.grad(multilabel.libauc_ap(targets)(scores, targets, torch.arange(60)), scores)
    assert bool(gradient.any())
    assert not bool(gradient[targets < 0].any())


def test_balanced_draws_take_every_label_and_none_alike() -> None:
    targets = torch.zeros(1000, 2, dtype=torch.long)
    targets[:100, 0] = 1
    targets[100:110, 1] = 1
    rows = multilabel.draw(targets, 9000, True, torch.Generator().manual_seed(0))
    counts = [(rows < 100).sum(), ((rows >= 100) & (rows < 110)).sum(), (rows >= 110).sum()]
    assert [int(count) for count in counts] == pytest.approx([3000, 3000, 3000], rel=0.06)


def test_shaken_images_are_mirrored_or_not_and_shifted() -> None:
    x = torch.randn(40, 3, 8, 8)
    still = multilabel.shaken(x, torch.Generator().manual_seed(0), reach=0)
    same = [torch.equal(a, b) for a, b in zip(still, x, strict=True)]
    mirrored = [torch.equal(a, b.flip(2)) for a, b in zip(still, x, strict=True)]
    assert all(a != b for a, b in zip(same, mirrored, strict=True))
    assert any(same)
    assert any(mirrored)
    ramp = torch.arange(8.0).expand(40, 3, 8, 8)
    moved = multilabel.shaken(ramp, torch.Generator().manual_seed(0), reach=2)[:, 0, 0, 3]
    assert set(moved.tolist()) == {1.0, 2.0, 3.0, 4.0, 5.0, 6.0}  # 3 ± 2, and 4 ± 2 in the mirror


# ---------------------------------------------------------------- averaging and choosing


def tiny_task() -> Contest:
    part = Split(torch.randn(30, 4), (torch.rand(30, 2) < 0.5).long())
    return Contest(part, part, part, lambda: nn.Linear(4, 2), 2)


def test_the_average_is_the_mean_of_each_pools_best_weights() -> None:
    task = tiny_task()
    pools = []
    for _ in range(3):
        points = [multilabel.checkpoint(task, "x", nn.Linear(4, 2).state_dict(), 0.1) for _ in range(4)]
        pools.append(points)
    tops = [multilabel.best(task, pool)[0] for pool in pools]
    for top, pool in zip(tops, pools, strict=True):
        value = multilabel.mean_ap(top.validation, task.validation.y)
        assert value == max(multilabel.mean_ap(point.validation, task.validation.y) for point in pool)
    found = voc_action.averaged(task, pools)
    expected = sum(top.state["weight"] for top in tops) / 3
    assert torch.allclose(found.state["weight"], torch.as_tensor(expected))


def test_a_broken_average_gives_way_to_the_rival() -> None:
    task = tiny_task()
    perfect = task.validation.y + 0.01 * torch.rand(30, 2)  # no ties
    wrong = -perfect
    good, bad = (Checkpoint(name, {}, scores, 0.1) for name, scores in (("good", perfect), ("bad", wrong)))
    middle = Checkpoint("middle", {}, torch.rand(30, 2), 0.1)
    rival = Checkpoint("rival", {}, perfect, 0.1)
    assert voc_action.guarded(task, bad, rival, [middle, good, middle]) is rival
    assert voc_action.guarded(task, good, rival, [middle, bad]) is good
    assert voc_action.guarded(task, middle, rival, [bad, good, good]) is rival


# ---------------------------------------------------------------- the published folders


def devkit(folder: Path) -> Path:
    """Two images: a person who jumps beside a horse, and two persons, one of whom no list of jumping names."""
    root = folder / "VOCdevkit" / "VOC2012"
    for name in ("Annotations", "JPEGImages", "ImageSets/Action"):
        (root / name).mkdir(parents=True)
    boxes = {"a": [("horse", 0, 0, 9, 9), ("person", 10, 10, 30, 30)], "b": [("person", 0, 0, 20, 40)] * 2}
    for image, objects in boxes.items():
        picture = np.zeros((60, 80, 3), dtype=np.uint8)
        picture[10:30, 10:30] = (200, 100, 50)
        Image.fromarray(picture).save(root / "JPEGImages" / f"{image}.jpg", quality=100, subsampling=0)
        text = "".join(
            f"<object><name>{name}</name><bndbox><xmax>{x1}</xmax><xmin>{x0}</xmin><ymax>{y1}</ymax><ymin>{y0}</ymin>"
            "</bndbox></object>"
            for name, x0, y0, x1, y1 in objects
        )
        (root / "Annotations" / f"{image}.xml").write_text(f"<annotation>{text}</annotation>")
    for action in voc.ACTIONS:
        lines = ["a  2  1", "b  1 -1"] if action == "jumping" else ["a  2 -1", "b  1 -1", "b  2  1"]
        for listed in ("train", "val"):
            (root / "ImageSets" / "Action" / f"{action}_{listed}.txt").write_text("\n".join(lines) + "\n")
    return root


def test_persons_are_cut_out_of_the_published_folders(tmp_path: Path) -> None:
    devkit(tmp_path)
    for split in ("train", "test"):
        persons = voc.load(tmp_path, split)
        assert persons.images.tolist() == ["a", "b", "b"]
        assert persons.labels[:, 0].tolist() == [1, 0, -1]
        assert persons.labels[:, 1].tolist() == [0, 0, 1]
        assert persons.crops.shape == (3, 64, 64, 3)
    # 20 pixels and 3 more on either side: the person fills the middle, the margin is black.
    assert persons.crops[0, 32, 32].tolist() == pytest.approx([200, 100, 50], abs=4)
    assert persons.crops[0, 2, 2].max() < 12
    assert persons.crops[0, 32, 12].tolist() == pytest.approx([200, 100, 50], abs=12)


@pytest.mark.parametrize(
    ("path", "content", "message"),
    [
        ("ImageSets/Action/walking_train.txt", "a 1 1\n", "a horse"),
        ("ImageSets/Action/walking_train.txt", "a 7 1\n", "a None"),
        ("ImageSets/Action/walking_train.txt", "a 1\n", "the line 'a 1'"),
        ("Annotations/b.xml", "<annotation><object><name>person</name></object></annotation>", "with the box"),
    ],
)
def test_folders_that_contradict_themselves_are_refused(tmp_path: Path, path: str, content: str, message: str) -> None:
    (devkit(tmp_path) / path).write_text(content)
    with pytest.raises(InputError, match=message):
        voc.load(tmp_path, "train")


def test_a_missing_list_is_named(tmp_path: Path) -> None:
    (devkit(tmp_path) / "ImageSets" / "Action" / "running_train.txt").unlink()
    with pytest.raises(InputError, match=r"without running_train\.txt"):
        voc.load(tmp_path, "train")


# ---------------------------------------------------------------- claims


def test_table_1_is_judged_over_actions() -> None:
    def cell(seed: int, direct: float) -> dict[str, Any]:
        def found(value: float) -> dict[str, Any]:
            return {"setting": "rate 1", "validation": {}, "classes": [value + 0.01 * k for k in range(10)]}

        result = {"logistic": found(0.6), "hinge": found(0.5), "direct AP": found(direct + 0.001 * seed)}
        return {"cell": {"seed": seed}, "result": result}

    for direct, verdict in ((0.7, "confirmed"), (0.55, "partly confirmed"), (0.4, "not confirmed")):
        assert action_board.table1([cell(seed, direct) for seed in range(3)]).verdict == verdict
    assert "64.8 | 64.5 |" in "\n".join(action_board.lines([cell(0, 0.7)]))


def test_the_unit_of_epsilon_is_where_a_random_order_is_level_with_the_predicted_one() -> None:
    torch.manual_seed(0)
    scores, targets = torch.randn(1, 40, dtype=torch.float64), torch.arange(40)[None] % 4 == 0
    form = aimfor.AveragePrecision().argmax_form(aimfor.AveragePrecision().check(scores, targets.long()))
    found = epsilon.unit(scores, targets.long(), torch.ones_like(targets))
    assert float(form.score(form.predict())) == pytest.approx(found * 0.75)


@pytest.mark.parametrize("name", ["phoneme", "stl10"])
def test_a_small_cell_of_epsilon_runs_and_reports(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    x, y = torch.randn(60, 3), (torch.rand(60, 1) < 0.3).long()
    monkeypatch.setattr(epsilon, "parts", lambda folder, name, seed: ((x + y, y), (x - y, y)))
    cell = {"data": name, "seed": 0}
    assert cell in epsilon.EXPERIMENT.cells(Options(seeds=1))
    found = epsilon.run(cell, Options(data=tmp_path, seeds=1))
    assert all(one["train"] > 0.6 > max(one["looks"]) for one in found.values())  # the judging part is turned round
    epsilon.EXPERIMENT.report([{"cell": cell, "result": found}] * 2, tmp_path)
    assert ("0.03: " if name == "phoneme" else "1: ") in (tmp_path / "table.md").read_text()


def test_a_small_cell_on_features_tunes_every_method(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    y = (torch.rand(90, 10) < 0.3).long()
    y[::9, 0] = -1
    x = torch.randn(90, 6) + y[:, :6]
    persons = voc.Persons(np.zeros((90, 1, 1, 3), np.uint8), y.numpy(), np.arange(90) // 2)
    monkeypatch.setattr(action_features, "features", lambda folder: (x, y, x + 0.1, y, persons))
    monkeypatch.setattr(action_features, "STEPS", 20)
    monkeypatch.setattr(action_features, "data_folder", lambda options, name: tmp_path)
    found = action_features.run({"seed": 0}, Options(seeds=1))
    assert list(found) == [*action_features.CANDIDATES, action_features.AFTER]
    for method, candidates in action_features.CANDIDATES.items():
        values = found[method]["validation"]
        assert list(values) == [setting for setting, _, _ in candidates]
        assert values[found[method]["setting"]] == max(values.values())
        assert statistics.fmean(found[method]["classes"]) > 0.35  # a third of the labels are positive
    action_board.report([{"cell": {"seed": 0}, "result": found}], tmp_path)
    assert action_features.AFTER in (tmp_path / "table.md").read_text()


def test_large_crops_keep_what_nobody_annotated_apart(real_data: Path) -> None:
    persons = voc.load_large(real_data, "val")
    assert persons.crops.shape == (2140, 160, 160, 3)
    assert (persons.labels == -1).sum(0).tolist() == [222, *[0] * 9]
    assert (persons.labels == 1).sum(0).tolist() == [171, 157, 221, 184, 205, 184, 182, 148, 160, 208]
