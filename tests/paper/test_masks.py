"""Mask experiments: rivals' formulas, judges, networks, readers of published folders, one small cell of each."""

from __future__ import annotations

import builtins
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import aimfor
from aimfor.errors import InputError
from aimfor.lagrangian import class_fractions
from paper import Options, evidence
from paper.data import mask_data
from paper.experiments.ravi import mask_judges as judges
from paper.experiments.ravi import multiclass_segmentation
from paper.experiments.ravi import sky_segmentation as sky
from paper.experiments.ravi.mask_pictures import packed, unpacked
from paper.experiments.ravi.mask_recipe import FULL, PAPER, SIZES, run_all
from paper.experiments.ravi.mask_report import regularizer_gap
from paper.experiments.ravi.mask_training import MaskBudget, Regularizer, known, train
from paper.networks import mask_networks as networks
from paper.protocol.protocol import Contender, cross_entropy
from paper.rivals import mask_rivals

SHARES = torch.ones(1)
TINY = MaskBudget(2, 1, batch=4, large=8, rates=(5e-3,), extra_rates=(0.3,))


# ---------------------------------------------------------------- formulas


def test_with_certain_scores_dice_is_one_less_f1_and_the_others_one_less_iou() -> None:
    truth, guess = torch.randint(0, 2, (200,)), torch.randint(0, 2, (200,))
    scores = 60.0 * (guess - 0.5)
    f1 = float(aimfor.FBeta(1.0).value(scores, truth))
    iou = float(aimfor.IoU().value(scores, truth))
    rest = float(aimfor.IoU().value(-scores, 1 - truth))
    assert float(mask_rivals.dice(scores, truth, SHARES)) == pytest.approx(1 - f1, abs=1e-6)
    assert float(mask_rivals.soft_iou(scores, truth, SHARES)) == pytest.approx(1 - (iou + rest) / 2, abs=1e-6)
    classes, decided = torch.randint(0, 3, (300,)), torch.randint(0, 3, (300,))  # a fourth class is nowhere
    scores = 60.0 * torch.nn.functional.one_hot(decided, 4).float()
    mean = float(aimfor.IoU(classes="mean").value(scores, classes))
    assert float(mask_rivals.lovasz(scores, classes, SHARES)) == pytest.approx(1 - mean, abs=1e-6)
    assert float(mask_rivals.soft_iou(scores, classes, SHARES)) == pytest.approx(1 - mean, abs=1e-6)


def test_the_lovasz_hinge_is_the_integral_over_its_level_sets() -> None:
    scores, truth = torch.randn(9, dtype=torch.float64), torch.tensor([1, 0, 0, 1, 1, 0, 1, 0, 0])
    errors = (1 - scores * (2 * truth - 1)).clamp_min(0)
    expected, below = 0.0, 0.0
    for level in errors.unique().tolist():
        wrong = errors >= level  # for thresholds in (below, level] these pixels are mispredicted
        hits = float((~wrong & (truth == 1)).sum())
        union = float(((truth == 1) | wrong).sum())
        expected += (level - below) * (1 - hits / union)
        below = level
    assert float(mask_rivals.lovasz(scores, truth, SHARES)) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("loss", [mask_rivals.dice, mask_rivals.lovasz, mask_rivals.soft_iou])
@pytest.mark.parametrize("classes", [1, 3])
def test_gradients_are_those_of_finite_differences(loss: Any, classes: int) -> None:
    truth = torch.arange(12) % max(classes, 2)
    shape = (12,) if classes == 1 else (12, classes)
    scores = torch.randn(shape, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda s: loss(s, truth, SHARES), (scores,))


def test_rivals_equal_those_of_the_library() -> None:
    library = pytest.importorskip("segmentation_models_pytorch", exc_type=ImportError).losses
    masks = torch.randint(0, 3, (4, 6, 8))
    masks[0, 0] = mask_data.IGNORED
    scores = 3 * torch.randn(4, 3, 6, 8)
    for ours, theirs in (
        (mask_rivals.dice, library.DiceLoss("multiclass", ignore_index=mask_data.IGNORED)),
        (mask_rivals.lovasz, library.LovaszLoss("multiclass", ignore_index=mask_data.IGNORED)),
    ):
        assert float(ours(*known(scores, masks), SHARES)) == pytest.approx(float(theirs(scores, masks)), abs=1e-6)
    binary, one = (masks == 1).long(), scores[:, :1]
    for ours, theirs in (
        (mask_rivals.dice, library.DiceLoss("binary")),
        (mask_rivals.lovasz, library.LovaszLoss("binary")),
    ):
        assert float(ours(*known(one, binary), SHARES)) == pytest.approx(float(theirs(one, binary)), abs=1e-6)


# ---------------------------------------------------------------- judges


def test_the_mean_iou_of_a_table_is_the_metrics_own() -> None:
    scores, truth = torch.randn(500, 4), torch.randint(0, 3, (500,))  # class 3 is decided, never true
    table = torch.zeros(4, 4)
    for row, column in zip(truth, scores.argmax(1), strict=True):
        table[row, column] += 1
    expected = float(aimfor.IoU(classes="mean").value(scores, truth))
    assert float(judges.iou_of_table(table)) == pytest.approx(expected, abs=1e-12)


def test_offsets_never_lower_mean_iou_and_reach_the_best_of_a_grid() -> None:
    truth = torch.multinomial(torch.tensor([0.9, 0.07, 0.03]), 4000, replacement=True)
    scores = 0.8 * torch.nn.functional.one_hot(truth, 3) + torch.randn(4000, 3)
    scores[:, 0] += 1.5
    offsets = judges.best_offsets(scores, truth, sweeps=3)

    def value(shift: Tensor) -> float:
        return float(aimfor.IoU(classes="mean").value(scores + shift, truth))

    grid = [torch.tensor([0.0, a, b]) for a, b in product(np.linspace(-1, 3, 17), repeat=2)]
    assert value(torch.tensor(offsets)) >= max(value(shift) for shift in grid) - 0.003
    assert value(torch.tensor(offsets)) > value(torch.zeros(3)) + 0.01


def test_judges_leave_out_unlabelled_pixels_and_tune_the_threshold() -> None:
    masks = torch.tensor([[[1, 1, 0, 255]]], dtype=torch.uint8)
    scores = torch.tensor([[[[3.0, 1.5, 1.0, 9.0]]]])
    judge = judges.SKY_JUDGES["sky_iou"]
    assert judge.value(scores, masks) == pytest.approx(2 / 3)
    value, shift = judge.tune(scores, masks)
    assert (value, shift) == (1.0, [pytest.approx(-1.25)])
    both = judges.SKY_JUDGES["mean_iou"]
    assert both.value(scores, masks) == pytest.approx((2 / 3 + 0) / 2)
    classes = torch.stack((-scores[:, 0], scores[:, 0]), 1)
    assert judges.PLAIN.value(classes, masks) == both.value(scores, masks)


# ---------------------------------------------------------------- networks and data


def test_networks_give_a_score_per_pixel_and_one_per_image() -> None:
    pixels, size = networks.SegNet(1, (4, 8))(torch.randn(2, 3, 16, 24))
    assert (pixels.shape, size.shape) == ((2, 1, 16, 24), (2,))
    pixels, size = networks.DeepLab(5, 4)(torch.randn(2, 3, 32, 48))
    assert (pixels.shape, size.shape) == ((2, 5, 16, 24), (2,))


def test_segnet_unpools_to_where_the_maximum_was() -> None:
    """With encoder and decoder as identities, what is left is max-pooling and its inverse."""
    net = networks.SegNet(1, (3,))
    for stage in (*net.encoder, *net.decoder):
        torch.nn.init.dirac_(stage[0].weight)
    torch.nn.init.constant_(net.classify.weight, 1.0)
    torch.nn.init.zeros_(net.classify.bias)
    x = torch.rand(1, 3, 4, 4)
    pixels, _ = net.eval()(x)
    peaks = torch.nn.functional.max_pool2d(x, 2).repeat_interleave(2, 2).repeat_interleave(2, 3)
    kept = torch.where(x == peaks, x, 0.0).sum(1, keepdim=True)
    assert torch.allclose(pixels, kept, rtol=1e-4)  # batch norm divides by sqrt(1 + 1e-5), twice


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    refuse(monkeypatch, "segmentation_models_pytorch")
    with pytest.raises(InputError, match="pip install segmentation-models-pytorch"):
        networks.LibraryDeepLab(3)


def refuse(monkeypatch: pytest.MonkeyPatch, module: str) -> None:
    original = builtins.__import__

    def guarded(name: str, *rest: Any, **more: Any) -> Any:
        if name.split(".")[0] == module:
            raise ImportError(name)
        return original(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", guarded)


def write_set(folder: Path, name: str, images: int = 12) -> None:
    """Pictures whose upper rows are bright "sky" (class 0), with a strip of unlabelled pixels."""
    generator = np.random.default_rng(0)
    (folder / name).mkdir()
    for split in ("train", "test"):
        horizon = generator.integers(2, 14, images)
        mask = np.where(np.arange(16)[None, :, None] < horizon[:, None, None], 0, 1) + np.zeros((1, 1, 24), dtype=int)
        mask[:, 12:, 12:] = 2
        x = np.where((mask == 0)[..., None], 220, 60) + generator.integers(-30, 30, (images, 16, 24, 3))
        mask[:, :, 0] = 250
        np.savez(folder / name / f"{split}.npz", x=x.astype(np.uint8), mask=mask.astype(np.uint8))


def test_parts_are_disjoint_and_unlabelled_pixels_marked(tmp_path: Path) -> None:
    write_set(tmp_path, "camvid")
    parts = mask_data.load_parts(tmp_path, "camvid", 0, images=1, masks=2)
    assert [len(part) for part in parts] == [10, 2, 12]
    rows = {tuple(x.flatten()[:40].tolist()) for part in parts for x in part.x}
    assert len(rows) == 24
    assert parts[0].x.shape[2:] == (16, 24)
    assert parts[0].y.shape[1:] == (8, 12)
    assert bool((parts[0].fine[:, :, 0] == mask_data.IGNORED).all())
    binary = mask_data.one_class(parts[0], 0)
    assert torch.equal(binary.y == 1, parts[0].y == 0)
    assert torch.equal(binary.fine == mask_data.IGNORED, parts[0].fine == mask_data.IGNORED)


def test_missing_sets_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="without camvid"):
        sky.run({"set": "camvid", "seed": 0}, Options(data=tmp_path))


# ---------------------------------------------------------------- published folders


def write_image(path: Path, values: np.ndarray[Any, Any], palette: bool = False) -> None:
    image = pytest.importorskip("PIL.Image")
    path.parent.mkdir(parents=True, exist_ok=True)
    picture = image.fromarray(values)
    if palette:
        picture.putpalette([value for value in range(256) for _ in range(3)])
    picture.save(path)


def test_voc_folders_are_read_by_their_lists(tmp_path: Path) -> None:
    root = tmp_path / "VOCdevkit" / "VOC2012"
    masks = np.random.default_rng(0).choice([0, 1, 20, 255], (3, *mask_data.SIZE)).astype(np.uint8)
    for number, mask in enumerate(masks):
        write_image(root / "JPEGImages" / f"a{number}.jpg", np.full((*mask.shape, 3), 40 * number, dtype=np.uint8))
        write_image(root / "SegmentationClass" / f"a{number}.png", mask, palette=True)
    lists = root / "ImageSets" / "Segmentation"
    lists.mkdir(parents=True)
    (lists / "train.txt").write_text("a2\na0\n")
    (lists / "val.txt").write_text("a1\n")
    pictures, ids = mask_data.read_voc(root, "train")
    assert np.array_equal(ids, masks[[2, 0]])
    assert [int(picture.mean().round()) for picture in pictures] == [80, 0]
    options = Options(data=tmp_path, full=True)
    assert "voc" in {cell["set"] for cell in multiclass_segmentation.cells(options)}
    assert "voc" not in {cell["set"] for cell in sky.cells(options)}
    parts = mask_data.load_parts(tmp_path, "voc", 0, images=1, masks=2)
    assert np.array_equal(parts[2].fine.numpy(), masks[[1]])
    (lists / "train.txt").write_text("a2\nnot_there\n")
    with pytest.raises(InputError, match=r"not_there\.jpg"):
        mask_data.read_voc(root, "train")
    with pytest.raises(InputError, match="without ImageSets"):
        mask_data.read_voc(tmp_path, "train")


def test_coco_stuff_folders_are_numbered_from_its_first_stuff(tmp_path: Path) -> None:
    mask = np.random.default_rng(0).choice([0, 91, 92, 157, 183], mask_data.SIZE).astype(np.uint8)
    root = tmp_path / "coco_stuff"
    write_image(root / "images" / "train2017" / "7.jpg", np.zeros((*mask.shape, 3), dtype=np.uint8))
    write_image(root / "pixelmaps" / "train2017" / "7.png", mask)
    _, ids = mask_data.read_coco_stuff(root, "train")
    expected = {0: 255, 91: 255, 92: 0, 157: mask_data.SKY["coco_stuff"], 183: 91}
    assert np.array_equal(ids[0], np.vectorize(expected.get)(mask))
    with pytest.raises(InputError, match="without masks in pixelmaps/val2017"):
        mask_data.read_coco_stuff(root, "val")
    write_image(root / "images" / "train2017" / "7.jpg", np.zeros((5, 5, 3), dtype=np.uint8))
    with pytest.raises(InputError, match="a mask of its image's size"):
        mask_data.read_coco_stuff(root, "train")
    write_image(root / "pixelmaps" / "train2017" / "7.png", np.zeros((5, 5, 3), dtype=np.uint8))
    with pytest.raises(InputError, match="mode RGB"):
        mask_data.read_coco_stuff(root, "train")


def test_without_pillow_the_remedy_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refuse(monkeypatch, "PIL")
    with pytest.raises(InputError, match="pip install pillow"):
        mask_data.read_pairs([tmp_path], [tmp_path])


# ---------------------------------------------------------------- training and whole cells


def small_task(folder: Path) -> mask_data.MaskTask:
    write_set(folder, "camvid")
    parts = [mask_data.one_class(part, 0) for part in mask_data.load_parts(folder, "camvid", 0, images=1, masks=1)]
    rule = {"mean": lambda masks: class_fractions(masks, 2)[:, 1] > 0.4}
    return mask_data.MaskTask(*parts, partial(networks.SegNet, 1, (4, 8)), 2, rule)


def test_the_regularizer_at_zero_changes_no_pixel_and_at_one_the_encoder(tmp_path: Path) -> None:
    task = small_task(tmp_path)
    method = Contender("cross-entropy", cross_entropy)

    def weights(regularizer: Regularizer | None) -> dict[str, Tensor]:
        return train(task, judges.SKY_JUDGES, method, 5e-3, TINY, 0, regularizer=regularizer)[-1].state

    plain, zero, one = weights(None), weights(Regularizer(0.0, "mean")), weights(Regularizer(1.0, "mean"))
    pixels = [name for name in plain if not name.startswith("size")]
    assert all(torch.equal(plain[name], zero[name]) for name in pixels)
    assert not torch.equal(plain["encoder.0.0.weight"], one["encoder.0.0.weight"])


@pytest.mark.parametrize("module", [sky, multiclass_segmentation], ids=lambda module: module.__name__.split(".")[-1])
def test_a_small_cell_runs_reports_and_is_judged(module: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_set(tmp_path, "camvid")
    monkeypatch.setattr(module, "budget", lambda options: TINY)
    options = Options(seeds=1, data=tmp_path)
    cell = module.cells(options)[0]
    task = module.task_of(cell, options)
    if module is multiclass_segmentation:  # three classes here, of which an image always holds most
        rule = {share: lambda masks: class_fractions(masks, 3)[:, 0] > 0.4 for share in ("0.05", "0.01")}
        task = mask_data.MaskTask(task.train, task.validation, task.test, task.make_model, 11, rule)
    monkeypatch.setattr(module, "task_of", lambda cell, options: task)
    result = module.run(cell, options)
    for found in result.values():
        assert found["default"]["validation"] >= found["rival"]["validation"]
        assert 0.0 <= found["default"]["test"] <= 1.0
    assert PAPER in result["mean_iou"]["papers"]
    assert (FULL if module is sky else SIZES) in result["mean_iou"]["papers"]
    entries = [{"cell": {**cell, "seed": seed}, "result": result, "seconds": 1.0} for seed in range(3)]
    module.report(entries, tmp_path)
    page = (tmp_path / "table.md").read_text()
    assert "best rival" in page
    assert "masks_camvid.png" in page
    assert 0 < (tmp_path / "masks_camvid.png").stat().st_size < 200_000
    assert (tmp_path / "curves_camvid.svg").exists()
    assert f"{result['mean_iou']['papers'][PAPER]:.3f} against" in regularizer_gap()(entries).numbers
    assert "mean_iou" in evidence.render({module.EXPERIMENT.name: entries})


def test_on_real_data_a_short_run_finds_the_sky(real_data: Path) -> None:
    cell, options = {"set": "stanford_background", "seed": 0}, Options(seeds=1, data=real_data)
    if not (real_data / cell["set"]).is_dir():  # type: ignore[operator]
        pytest.skip("no stanford_background in the folder of real data")
    task = sky.task_of(cell, options)
    assert [len(part) for part in (task.train, task.validation, task.test)] == [360, 90, 119]
    task = mask_data.MaskTask(
        mask_data.rows(task.train, torch.arange(64)),
        mask_data.rows(task.validation, torch.arange(24)),
        mask_data.rows(task.test, torch.arange(8)),
        task.make_model,
        2,
        task.sizes,
    )
    rivals = mask_rivals.MASK_RIVALS[:1]
    result = run_all(task, judges.SKY_JUDGES, TINY, 0, rivals=rivals, alphas=(1e-2,))
    assert result["mean_iou"]["rival"]["validation"] > 0.6  # all "rest" would be at 0.43


def test_masks_are_kept_and_come_back() -> None:
    values = torch.randint(0, 256, (2, 5, 7, 3))
    assert np.array_equal(unpacked(packed(values)), values.numpy())
