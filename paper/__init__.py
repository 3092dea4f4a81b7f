"""Every claim a command: the papers' tables and figures on real data, under one fair protocol.

One experiment is one module of ``paper.experiments`` or ``paper.map`` with a module-level ``EXPERIMENT`` (or another
name after a colon), listed by name in `NAMES`.
``python -m paper NAME`` runs it, from the root of the repository. None of this is part of the installed package.
"""

from .experiment import Cell, Experiment, Options, Result, data_folder

#: Name of an experiment (and of its folder of results) → its module, seen from ``paper.experiments``, in the order they
#: are listed to the user.
NAMES: dict[str, str] = {
    "map_masks": ".map.masks",
    "map_rare": ".map.tables:RARE",
    "map_untuned": ".map.tables:UNTUNED",
    "map_tuned": ".map.tables:TUNED",
    "map_lists": ".map.lists",
    "map_unseen": ".map.unseen",
    "map_labels": ".map.labels",
    "map_detection": ".map.detection",
    "map_regret": ".map.regret",
    "map_curves": ".map.curves",
    "from_scratch": "scratch.from_scratch",
    "tables": "ours.tables",
    "committee": "ours.committee",
    "strong_rivals": "ours.strong_rivals",
    "autogluon": "ours.autogluon",
    "many_levels": "ours.many_levels",
    "expected": "ours.expected",
    "mq2008": "ours.mq2008",
    "mq2008_committee": "ours.mq2008_committee",
    "retrieval": "ours.retrieval",
    "retrieval_features": "ours.retrieval_features",
    "voc_features": "ours.voc_features",
    "voc_smooth": "ours.voc_smooth",
    "meng_features": "ours.meng_features",
    "mask_offsets": "ours.mask_offsets",
    "batch_size": "ours.batch_size",
    "meng_table1": "meng.table1",
    "meng_table2": "meng.table2",
    "meng_heads": "meng.heads",
    "meng_f1": "meng.f1",
    "meng_epsilon": "meng.epsilon",
    "meng_roc": "meng.roc",
    "song_synthetic": "song.synthetic",
    "voc_action": "song.voc_action",
    "song_action": "song.action_features",
    "song_detection": "song.detection",
    "song_epsilon": "song.epsilon",
    "s_mnist": "ravi.s_mnist",
    "s_mnist_paper": "ravi.s_mnist_paper",
    "sky_segmentation": "ravi.sky_segmentation",
    "sky_plain": "ravi.sky_plain",
    "multiclass_segmentation": "ravi.multiclass_segmentation",
    "positive_unlabelled": "ravi.positive_unlabelled",
    "weak_boxes": "ravi.weak_boxes",
    "second_label": "ravi.second_label",
    "rate_duals": "ravi.rate_duals",
    "adult_constraints": "ours.adult_constraints",
    "validity": "ours.validity",
    "promises": "ours.promises",
    "peeking": "ours.peeking",
    "out_of_fold": "ours.out_of_fold",
    "floors": "ours.floors",
}

__all__ = ["NAMES", "Cell", "Experiment", "Options", "Result", "data_folder"]
