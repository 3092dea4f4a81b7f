"""Segmentation of all classes with DeepLabV3+: the size regularizer by majority vote, and mean IoU itself.

Ravi 2020, Figures 4 and 7, in small: CamVid (11 classes) and Stanford Background (8) instead of COCO-Stuff's 164
thousand images. An image is big when most of the classes in it cover at least a share of it: 5 %, and the mean of the
results over several shares.
"""

from __future__ import annotations

import importlib.util
from functools import partial

from torch import Tensor

from aimfor.lagrangian import class_fractions, size_labels

from ...data.mask_data import CLASSES, MaskTask, load_parts, sets_for
from ...experiment import Cell, Experiment, Options, Result, data_folder
from ...networks.mask_networks import DeepLab, LibraryDeepLab
from .mask_judges import PLAIN, TUNED
from .mask_recipe import run_cell
from .mask_report import report_masks
from .mask_training import MaskBudget

#: "mean_iou" decides by the highest score after an offset per class, tuned on validation data for every method;
#: "mean_iou_argmax" by the highest score as it is.
JUDGES = {"mean_iou": TUNED, "mean_iou_argmax": PLAIN}
SETTING = (
    "Test mean IoU over all classes, from the confusion matrix summed over all labelled pixels of the test images at "
    "96 × 128. mean_iou: the highest score decides after an offset per class, which is what a threshold is for several "
    "classes and is tuned on validation data for every method; mean_iou_argmax: the highest score decides. A "
    "DeepLabV3+ in small (126 thousand weights; strides 2, 4, 8, atrous pyramid, decoder) on images of 48 × 64, 4 "
    "epochs of batches of 8, rate 0.005 falling to zero; then an epoch more from the best checkpoint, with its own "
    "loss or with IoU. The papers' regularizer: majority-vote size label at 5 %, α from 0.01, 0.001, 0.0001 chosen on "
    "validation data; with that α also the mean over the labels at 1, 5 and 9 % (on Stanford Background 5 and 9 %: at "
    "1 % every image is big). Ravi reports 0.32 against 0.30 on COCO-Stuff 164K."
)


def budget(options: Options) -> MaskBudget:
    return MaskBudget(40, 10) if options.full else MaskBudget(4, 1, rates=(5e-3,))


def cells(options: Options) -> list[Cell]:
    library = options.full and importlib.util.find_spec("segmentation_models_pytorch") is not None
    network = "library" if library else "ours"
    sets = sets_for(options, CLASSES)
    return [{"set": name, "network": network, "seed": seed} for seed in range(options.seeds) for name in sets]


def task_of(cell: Cell, options: Options) -> MaskTask:
    classes, shrink = CLASSES[cell["set"]], 1 if options.full else 2
    parts = load_parts(data_folder(options), cell["set"], cell["seed"], images=shrink, masks=2 * shrink)

    def big(masks: Tensor, share: float) -> Tensor:
        return size_labels(class_fractions(masks, classes), share)

    shares = sorted(
        (0.01, 0.03, 0.05, 0.07, 0.09) if options.full else (0.01, 0.05, 0.09), key=lambda share: share != 0.05
    )
    shares = [share for share in shares if 0 < int(big(parts[0].y, share).sum()) < len(parts[0])]
    ours = partial(DeepLab, classes, 48 if options.full else 12)
    network = partial(LibraryDeepLab, classes) if cell["network"] == "library" else ours
    return MaskTask(*parts, network, classes, {f"{share:g}": partial(big, share=share) for share in shares})


def run(cell: Cell, options: Options) -> Result:
    return run_cell(task_of(cell, options), JUDGES, budget(options), cell, options)


TITLE = "All classes with a DeepLabV3+ in small: mean IoU on two sets"
report = partial(report_masks, title=TITLE, setting=SETTING)
EXPERIMENT = Experiment(
    "multiclass_segmentation", TITLE, "Ravi 2020, Figures 4 and 7, in small", cells, run, report, seeds=3
)
