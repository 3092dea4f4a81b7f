"""Every claim a command: the papers' tables and figures on real data, under one fair protocol.

One experiment is one module of this package with a module-level ``EXPERIMENT``, listed by name in `NAMES`.
``aimfor reproduce NAME`` runs it.
"""

from .experiment import Cell, Experiment, Options, Result, data_folder

#: Modules of this package that hold an ``EXPERIMENT``, in the order they are listed to the user.
NAMES: tuple[str, ...] = (
    "tables",
    "recipe_search",
    "mq2008",
    "meng_table1",
    "meng_table2",
    "meng_f1",
    "meng_epsilon",
    "meng_roc",
    "song_synthetic",
    "voc_action",
    "s_mnist",
    "s_mnist_paper",
    "sky_segmentation",
    "multiclass_segmentation",
    "adult_constraints",
)

__all__ = ["NAMES", "Cell", "Experiment", "Options", "Result", "data_folder"]
