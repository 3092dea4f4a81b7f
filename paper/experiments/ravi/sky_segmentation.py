"""Sky segmentation with SegNet: does F₁ of "much against little sky" as a regularizer raise mean IoU? Does IoU itself?

Ravi 2020, Figure 3 columns 3 and 4; Venkatesh 2019, Figures 7 and 8. Their images (COCO-Stuff) are replaced by CamVid
and Stanford Background. One training image of all is to 60 % sky, so "big" is more sky than their mean, which is
Ravi's rule.
"""

from __future__ import annotations

from functools import partial

from torch import Tensor

from aimfor.lagrangian import class_fractions

from ...data.mask_data import SKY, MaskTask, load_parts, one_class, sets_for, with_class
from ...experiment import Cell, Experiment, Options, Result, data_folder
from ...networks.mask_networks import SegNet
from .mask_judges import SKY_JUDGES
from .mask_recipe import run_cell
from .mask_report import report_masks
from .mask_training import MaskBudget

SETTING = (
    "Test IoU from counts summed over all labelled pixels of the test images at 96 × 128: of the sky, and the mean of "
    "sky and rest. SegNet (widths 16, 32, 64) on images of 48 × 64, 4 epochs of batches of 8, rate 0.001 or 0.005 "
    "falling to zero; then an epoch more from the best checkpoint, with its own loss or with IoU. Every method's "
    "threshold, rate and epoch are chosen on validation data, and so is α of the papers' regularizer (0.01, 0.001, "
    "0.0001). The papers report 80 % against 77.6 % (Ravi) and a gain of 4 % (Venkatesh) on COCO-Stuff."
)


def budget(options: Options) -> MaskBudget:
    return MaskBudget(40, 10) if options.full else MaskBudget(4, 1)


def cells(options: Options) -> list[Cell]:
    return [{"set": name, "seed": seed} for seed in range(options.seeds) for name in sets_for(options, SKY)]


def task_of(cell: Cell, options: Options) -> MaskTask:
    shrink = 1 if options.full else 2
    name, sky = cell["set"], SKY[cell["set"]]
    parts = load_parts(data_folder(options), name, cell["seed"], images=shrink, masks=shrink)
    if name == "coco_stuff":  # the papers take the images with sky alone
        parts = (with_class(parts[0], sky), with_class(parts[1], sky), with_class(parts[2], sky))
    train, validation, test = (one_class(part, sky) for part in parts)
    mean = float(class_fractions(train.y, 2)[:, 1].mean())

    def bigger_than_mean(masks: Tensor) -> Tensor:
        return class_fractions(masks, 2)[:, 1] > mean

    network = partial(SegNet, 1, (32, 64, 128, 256) if options.full else (16, 32, 64))
    return MaskTask(train, validation, test, network, 2, {"mean": bigger_than_mean})


def run(cell: Cell, options: Options) -> Result:
    return run_cell(task_of(cell, options), SKY_JUDGES, budget(options), cell, options)


TITLE = "Sky segmentation with SegNet: sky IoU and mean IoU on two sets"
report = partial(report_masks, title=TITLE, setting=SETTING)
EXPERIMENT = Experiment(
    "sky_segmentation",
    TITLE,
    "Ravi 2020, Figure 3 columns 3 and 4; Venkatesh 2019, Figures 7 and 8",
    cells,
    run,
    report,
    seeds=3,
)
