"""Is there an automatic ε for average precision? Shares of one unit against `"auto"`, on parts of training data.

The unit weighs the score against the loss: the ε at which a random order, whose score is 0 and whose loss is about the
share of negatives, is level with the predicted one in F + εΔ: the mean of |φ_i − φ_j| over pairs, over that share. All
rows at once, Adam, positive updates: on features of EfficientNet-Lite0 a linear layer, 300 steps at 0.003; on tables a
perceptron of 64 units, 200 steps at 0.01. A third of the training rows judges, after the last step; the best of looks
at every fiftieth is after the slash. VOC's actions, phoneme and page_blocks0 were looked at first; then it was fixed
what the others (★) should show: on tables 0.03 above `"auto"`, on features 1 above `"auto"` and that above 0.03.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from aimfor import DirectEngine

from ...data import voc
from ...data.tables import stratified, table
from ...experiment import Cell, Experiment, Options, Result, data_folder
from ...report.pages import report_of
from ...report.scoreboard import markdown
from ...report.statistics import paired
from ..ours import meng_features
from .action_features import features
from .multilabel import entropies, lists, mean_ap, ranked

SHARES = (0.03, 0.1, 0.3, 1.0, 3.0)
AUTO, ENTROPY = "auto", "cross-entropy"
ACTIONS, TABLES = "actions", ("phoneme", "page_blocks0", "satimage", "spambase", "optdigits")
#: Two classes on frozen features, 91 % of one: the rare one is the positive.
IMAGES = ("cats_vs_dogs", "stl10")
FIRST = (ACTIONS, *TABLES[:2])
LOOK = 50
Part = tuple[Tensor, Tensor]


def unit(scores: Tensor, relevant: Tensor, where: Tensor) -> float:
    """The mean over lists of the mean distance of a positive's score and a negative's, over the negatives' share."""
    found = []
    for row, positive, inside in zip(scores.detach(), relevant == 1, where, strict=True):
        high, low = row[positive & inside], row[~positive & inside]
        if len(high) and len(low):
            found.append(float((high[:, None] - low).abs().mean()) * (1 + len(high) / len(low)))
    return max(statistics.fmean(found), 1e-6)


def direct(share: float | None) -> Callable[[Tensor, Tensor], Tensor]:
    """Average precision by the direct engine, at a share of the unit of the scores at hand; None: ``"auto"``."""
    if share is None:
        return ranked(DirectEngine(AUTO, 1))
    at = [1.0]
    by_engine = ranked(DirectEngine(lambda step: at[0], 1))

    def loss(scores: Tensor, y: Tensor) -> Tensor:
        at[0] = share * unit(*lists(scores, y))
        return by_engine(scores, y)

    return loss


def parts(folder: Path, name: str, seed: int) -> tuple[Part, Part]:
    """Training and judging part, both of training rows; labels ``(n, lists)``."""
    if name in TABLES:
        fit, judge, _ = table(folder, name, seed)
        return (fit.x, fit.y[:, None]), (judge.x, judge.y[:, None])
    if name in IMAGES:
        x, y, *_ = meng_features.task({"set": name, "positives": 91, "seed": seed}, folder)
        rows, y = stratified(y, 1 / 3, seed), (1 - y)[:, None]
    else:
        x, y, _, _, persons = features(folder)
        rows = tuple(torch.from_numpy(some) for some in voc.by_image(persons, 1 / 3, seed))  # type: ignore[assignment]
    return (x[rows[0]], y[rows[0]]), (x[rows[1]], y[rows[1]])


def cells(options: Options) -> list[Cell]:
    return [{"data": name, "seed": seed} for name in (ACTIONS, *TABLES, *IMAGES) for seed in range(options.seeds)]


def run(cell: Cell, options: Options) -> Result:
    fit, judge = parts(data_folder(options), cell["data"], cell["seed"])
    losses = {ENTROPY: entropies, AUTO: direct(None), **{f"{share:g}": direct(share) for share in SHARES}}
    return {name: trained(fit, judge, loss, cell) for name, loss in losses.items()}


def trained(fit: Part, judge: Part, loss: Callable[[Tensor, Tensor], Tensor], cell: Cell) -> dict[str, Any]:
    torch.manual_seed(cell["seed"])
    inputs, outputs, wide = fit[0].shape[1], fit[1].shape[1], cell["data"] in TABLES
    hidden = [nn.Linear(inputs, 64), nn.ReLU()] if wide else []
    model = nn.Sequential(*hidden, nn.Linear(64 if wide else inputs, outputs))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2 if wide else 3e-3)
    looks = []
    for step in range(1, (200 if wide else 300) + 1):
        optimizer.zero_grad()
        loss(model(fit[0]), fit[1]).backward()
        optimizer.step()
        if step % LOOK == 0:
            with torch.no_grad():
                looks.append(mean_ap(model(judge[0]), judge[1]))
    with torch.no_grad():
        return {"looks": looks, "train": mean_ap(model(fit[0]), fit[1])}


def lines(results: list[dict[str, Any]]) -> list[str]:
    rows = []
    for name in dict.fromkeys(entry["cell"]["data"] for entry in results):
        found = [entry["result"] for entry in results if entry["cell"]["data"] == name]
        row = [name if name in FIRST else f"{name} ★", str(len(found))]
        for way in found[0]:
            last, best = ([pick(one[way]["looks"]) for one in found] for pick in (lambda looks: looks[-1], max))
            train = statistics.fmean(one[way]["train"] for one in found)
            row.append(f"{statistics.fmean(last):.3f} / {statistics.fmean(best):.3f} ({train:.2f})")
        ours, auto = ([one[way]["looks"][-1] for one in found] for way in ("0.03" if name in TABLES else "1", AUTO))
        rows.append((*row, f"{'0.03' if name in TABLES else '1'}: {paired(ours, auto)}"))
    head = ("validation AP, last / best look (training AP)", "seeds", *results[0]["result"], "last − auto")
    return [(__doc__ or "").split("\n\n", 1)[1], markdown(head, rows), ""]


TITLE = "An automatic ε for average precision (Song, the choice of ε)"
EXPERIMENT = Experiment("song_epsilon", TITLE, "Song 2016, §4", cells, run, report_of(TITLE, lines), seeds=3)
