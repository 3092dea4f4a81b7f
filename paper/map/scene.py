"""``python -m paper.map.scene``: the rarest classes in one CamVid test picture, and what three losses make of them.

Network, learning rates and steps are the map's (`map_masks`, seed 0). The picture is the one in which the three rarest
classes have most pixels, so that no loss chose it. Writes ``docs/map_masks.png``; the photograph is not in it.
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from ..data.mask_data import CLASSES, IGNORED
from ..data.tables import arrays
from ..experiment import Options, data_folder, find_data
from ..report.figures import drawing
from .masks import METHODS, METRICS, load
from .training import Run, train

#: Loss → learning rate that its trials chose (`paper/results/map_masks`).
RATES = {"cross-entropy": 0.009486833, "1/√frequency": 0.005334838, "metric": 0.005334838}
#: Of the three rarest classes.
INKS = ((0.85, 0.2, 0.1), (0.05, 0.35, 0.75), (0.9, 0.7, 0.0))


def main(path: Path = Path("docs/map_masks.png")) -> None:
    folder = data_folder(Options(data=find_data(None)), "camvid")
    task = load(folder, "camvid", METRICS, 0)
    rare, truth = task.shares.argsort()[:3], task.parts["confirm"].y
    row = int(torch.isin(truth, rare).flatten(1).sum(1).argmax())
    classes, masks = CLASSES["camvid"], {"truth": truth[row]}
    for method in METHODS:
        if method.name in RATES:
            run = Run(task, method.make(task.shares, 0.0, ""), RATES[method.name], 0)
            scores = train(run, False, False, ("confirm",))[-1]["confirm"]
            masks[method.name] = scores[row].argmax(0)
    names = arrays(folder / "camvid" / "test.npz")["classes"].tolist()
    with drawing(path, (10.0, 2.6)) as figure:
        for axes, (name, ids) in zip(figure.subplots(1, len(masks)), masks.items(), strict=True):
            axes.imshow(painted(ids, classes, rare))
            axes.set_title(name, fontsize=9)
            axes.set_axis_off()
        for ink, class_id in zip(INKS, rare.tolist(), strict=True):
            axes.plot([], [], "s", color=ink, label=names[class_id])
        figure.legend(loc="outside lower center", ncols=3, frameon=False)


def painted(ids: Tensor, classes: int, rare: Tensor) -> Tensor:
    """Rare classes in their inks, the others in greys, white where nobody knows."""
    colours = torch.linspace(0.55, 0.85, classes)[:, None].expand(-1, 3).clone()
    colours[rare] = torch.tensor(INKS)
    clipped = ids.long().clamp_max(classes - 1)
    return torch.where((ids == IGNORED)[:, :, None], 1.0, colours[clipped])


if __name__ == "__main__":
    main()
