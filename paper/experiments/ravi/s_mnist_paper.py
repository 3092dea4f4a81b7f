"""S-MNIST as long and as sharp as in the papers: 40 epochs, full resolution, every α with the single layer too.

The images are MNIST's at 28 × 28, doubled to 56 × 56. By default 5,000 digits (10,000 images) and a hidden layer of
100, so that a small machine is done in minutes; ``--full`` takes all 60,000 and a hidden layer of 500. The single layer
comes first, for all seeds, because it is the papers' own model.
"""

from __future__ import annotations

from ...experiment import Cell, Experiment, Options
from .s_mnist import ALPHAS, report, run


def cells(options: Options) -> list[Cell]:
    size = {"digits": 60_000, "width": 500} if options.full else {"digits": 5_000, "width": 100}
    return [
        {"model": model, "alpha": alpha, "mode": "ravi", "data": "mnist", "epochs": 40, **size, "seed": seed}
        for model in ("linear", "hidden")
        for seed in range(options.seeds)
        for alpha in (0.0, *ALPHAS)
    ]


EXPERIMENT = Experiment(
    name="s_mnist_paper",
    title="S-MNIST for 40 epochs at full resolution, 5,000 digits",
    paper="Ravi 2020, Figure 3 column 1; Venkatesh 2019, Figure 6",
    cells=cells,
    run=run,
    report=report,
)
