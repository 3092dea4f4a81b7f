"""S-MNIST: does F₁ of "big against small" as a regularizer help a digit classifier? (Ravi §4, Venkatesh §3.2)

Every digit comes twice, as it is and with its foreground doubled. The task is the digit; the regularizer is F₁ of the
size on an extra output. Baseline and regularized runs share seeds, order of batches, optimizer and learning rate.

Two models. "linear" is one layer from pixels to ten classes and the extra node, as both papers say. Its outputs share
no weight, so the regularizer *cannot* change the classes: the runs with α > 0 are there to show the accuracies equal to
the last digit. "hidden" has one hidden layer that both outputs read, as the authors' code has (4096-500-10).
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from aimfor import FBeta, LagrangianEngine, MetricLoss
from aimfor.lagrangian import size_labels
from aimfor.regularized import Regularized

from ...data.images import read_split
from ...experiment import Cell, Experiment, Options, Result, data_folder
from ...report.figures import COLOURS, band, drawing, tidy
from ...report.pages import write_table
from ...report.scoreboard import markdown
from ...report.statistics import paired_by_seed
from .as_printed import AS_PRINTED, AS_PRINTED_RATE, PLAIN

ALPHAS = (1e-2, 1e-3, 1e-4)
BATCH = 100
BINS = 24
#: Adam's: ours, and as printed.
RATES = (1e-3, AS_PRINTED_RATE)
#: When projections are made, in words.
WHEN = {"ravi": "once per epoch", "ravi-full": "every step", PLAIN: "once per epoch, as printed"}
#: A pixel brighter than this is foreground; scaling leaves a faint rim around the digit.
FOREGROUND = 0.1


def cells(options: Options) -> list[Cell]:
    epochs = 40 if options.full else 10
    plans = [("hidden", alpha, "ravi") for alpha in (0.0, *ALPHAS)]
    plans += [("hidden", ALPHAS[0], "ravi-full"), ("linear", 0.0, "ravi"), ("linear", ALPHAS[0], "ravi")]
    plans += [(model, alpha, PLAIN) for model in ("hidden", "linear") for alpha in (0.0, ALPHAS[0])]
    return [
        {"model": model, "alpha": alpha, "mode": mode, "data": "mnist", "epochs": epochs, "seed": seed}
        for seed in range(options.seeds)
        for model, alpha, mode in plans
    ]


# ---------------------------------------------------------------- data


def two_sizes(images: Tensor) -> tuple[Tensor, Tensor]:
    """``(m, h, w)`` images as ``(2m, 2h·2w)``: centred as they are, then with the foreground doubled; and the sizes.

    The size is the number of pixels that are not background.
    """
    h, w = images.shape[1:]
    small = functional.pad(images, (w // 2, w - w // 2, h // 2, h - h // 2))
    big = functional.interpolate(images[:, None], scale_factor=2, mode="bilinear", align_corners=False)[:, 0]
    both = torch.cat((small, big)).flatten(1)
    return both, (both > FOREGROUND).sum(1)


def load(name: str, options: Options, seed: int, digits: int | None = None) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Images in [0, 1] and digits of the training part and of the test part, drawn by the seed.

    ``"mnist"``: ``mnist/train.npz`` and ``mnist/test.npz`` of the data folder, or MNIST's own idx files there.
    ``"digits"``: scikit-learn's small digits, which need no folder. The argument ``digits`` asks for that many of
    MNIST's, at full resolution.
    """
    if name == "mnist":
        parts = [read_split(data_folder(options, "mnist"), "mnist", part) for part in ("train", "test")]
        x, y = ([torch.tensor(part[key]) for part in parts] for key in (0, 1))
        full = options.full or digits is not None
        sizes = (digits or 60_000, 7_000) if full else (3_000, 2_000)
        if not full:  # half the resolution: a small machine is done in minutes
            x = [functional.avg_pool2d(part[:, None].float(), 2)[:, 0] for part in x]
    else:
        from sklearn.datasets import load_digits

        raw = load_digits()
        whole, truth = torch.from_numpy(raw.images) * (255 / 16), torch.from_numpy(raw.target)
        order = torch.randperm(len(whole), generator=torch.Generator().manual_seed(12345))  # one split for all seeds
        cut = 2 * len(whole) // 3
        x, y = [whole[order[:cut]], whole[order[cut:]]], [truth[order[:cut]], truth[order[cut:]]]
        sizes = (cut, len(whole) - cut)
    draw = torch.Generator().manual_seed(seed)
    rows = torch.randperm(len(x[0]), generator=draw)[: sizes[0]]
    return x[0][rows].float() / 255, y[0][rows].long(), x[1][: sizes[1]].float() / 255, y[1][: sizes[1]].long()


# ---------------------------------------------------------------- one cell


def run(cell: Cell, options: Options) -> Result:
    """Trains one model and follows it epoch by epoch."""
    x, y, test_x, test_y = load(cell["data"], options, cell["seed"], cell.get("digits"))
    images, sizes = two_sizes(x)
    digits, labels = torch.cat((y, y)), size_labels(sizes)
    test_images, _ = two_sizes(test_x)
    torch.manual_seed(cell["seed"])
    device = torch.device(options.device)
    width = cell.get("width", 500 if options.full else 100)
    model = _model(cell["model"], images.shape[1], width).to(device)
    plain = cell["mode"] == PLAIN
    engine = LagrangianEngine(labels, **AS_PRINTED) if plain else LagrangianEngine(labels, mode=cell["mode"])
    metric_loss = MetricLoss(FBeta(1.0), engine).to(device)
    objective = Regularized(nn.CrossEntropyLoss(), metric_loss, cell["alpha"])
    optimizer = torch.optim.Adam([*model.parameters(), *(engine.parameters() if plain else ())], lr=RATES[plain])
    curve: dict[str, list[float]] = {"accuracy": [], "small": [], "big": [], "seconds": []}
    for _ in range(cell["epochs"]):
        began = time.process_time()
        steps(model, objective, optimizer, torch.randperm(len(images)).split(BATCH), (images, digits, labels))
        objective.end_epoch()
        curve["seconds"].append(time.process_time() - began)
        right = _right(model, test_images.to(device), torch.cat((test_y, test_y)).to(device))
        half = len(test_y)
        curve["accuracy"].append(float(right.mean()))
        curve["small"].append(float(right[:half].mean()))
        curve["big"].append(float(right[half:].mean()))
    history = {name: engine.history[name] for name in ("sum_tau", "bound", "f_beta", "projections")}
    top = float(sizes.max())
    return {
        **curve,
        **history,
        "erm": [row["erm"] for row in objective.log],
        "projection_seconds": sum(engine.history.seconds),
        "histogram": {
            "small": torch.histc(sizes[: len(x)].float(), BINS, 0, top).tolist(),
            "big": torch.histc(sizes[len(x) :].float(), BINS, 0, top).tolist(),
            "top": top,
            "threshold": float(sizes.double().mean()),
        }
        if cell["seed"] == 0
        else None,
    }


def steps(
    model: nn.Module,
    objective: Regularized,
    optimizer: torch.optim.Optimizer,
    batches: Iterable[Tensor],
    data: tuple[Tensor, Tensor, Tensor],
) -> None:
    """One optimizer step for each batch of positions in (images, digits, sizes)."""
    images, digits, labels = data
    device = next(model.parameters()).device
    for index in batches:
        where = index.to(device)
        out = model(images[index].to(device))
        loss = objective(out[:, :10], digits[index].to(device), out[:, 10], labels[index].to(device), index=where)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def _model(name: str, pixels: int, hidden: int) -> nn.Module:
    if name == "linear":
        return nn.Linear(pixels, 11)
    return nn.Sequential(nn.Linear(pixels, hidden), nn.ReLU(), nn.Linear(hidden, 11))


@torch.no_grad()
def _right(model: nn.Module, images: Tensor, digits: Tensor) -> Tensor:
    return torch.cat([model(part)[:, :10].argmax(1) for part in images.split(2000)]).eq(digits).float()


# ---------------------------------------------------------------- report


def report(results: list[dict[str, Any]], folder: Path) -> None:
    """table.md, accuracy.svg, sizes.svg and projections.svg."""
    groups: dict[tuple[str, float, str], dict[int, Result]] = {}
    for row in results:
        cell = row["cell"]
        groups.setdefault((cell["model"], cell["alpha"], cell["mode"]), {})[cell["seed"]] = row["result"]
    write_table(folder, _table(groups, results[0]["cell"]))
    _figures(groups, folder)


def _table(groups: dict[tuple[str, float, str], dict[int, Result]], cell: Cell) -> list[str]:
    head = ("model", "α", "projections", "seeds", "accuracy", "small", "big", "difference", "verdict", "Στ")
    rows = []
    for (model, alpha, mode), runs in groups.items():
        base = groups.get((model, 0.0, PLAIN if mode == PLAIN else "ravi"), {})
        mean = {
            key: statistics.mean(r[key][-1] for r in runs.values())
            for key in ("accuracy", "small", "big", "sum_tau", "bound", "f_beta", "projections")
        }
        compared = ("–", "baseline" if alpha == 0 else "no baseline yet")
        if alpha > 0 and runs.keys() & base.keys():
            last = ({seed: one["accuracy"][-1] for seed, one in some.items()} for some in (runs, base))
            against = paired_by_seed(*last)
            compared = (str(against), against.verdict)
        accuracies = (f"{mean[key]:.4f}" for key in ("accuracy", "small", "big"))
        size = f"{mean['sum_tau']:.3f}", f"{mean['bound']:.3f} / {mean['f_beta']:.3f}", f"{mean['projections']:.0f}"
        rows.append((model, f"{alpha:g}", WHEN[mode], str(len(runs)), *accuracies, *compared, *size))
    text = (
        f"S-MNIST ({cell['data']}, {cell['epochs']} epochs), test accuracy after the last epoch; difference from the "
    )
    text += "baseline (α = 0) with a 95 % interval over paired seeds."
    return [text, "", markdown((*head, "F₁ of size: bound / true", "projections made"), rows)]


def _figures(groups: dict[tuple[str, float, str], dict[int, Result]], folder: Path) -> None:
    with drawing(folder / "accuracy.svg", (10, 4)) as figure:
        for axes, model in zip(figure.subplots(1, 2), ("linear", "hidden"), strict=True):
            mine = {(alpha, mode): runs for (name, alpha, mode), runs in groups.items() if name == model}
            for ((alpha, mode), runs), colour in zip(mine.items(), COLOURS, strict=False):
                curves = [r["accuracy"] for r in runs.values()]
                label = f"α = {alpha:g}" + ("" if mode == "ravi" else f", {mode}")
                band(axes, range(1, len(curves[0]) + 1), curves, label, colour)
            tidy(axes, "epoch", title=f"{model}: test accuracy (band: all seeds)")
            if mine:
                axes.legend()
    first = next((r["histogram"] for runs in groups.values() for r in runs.values() if r["histogram"]), None)
    if first is not None:
        with drawing(folder / "sizes.svg", (6, 3)) as figure:
            axes = figure.subplots()
            edges = [first["top"] * i / BINS for i in range(BINS + 1)]
            for size in ("small", "big"):
                axes.stairs(first[size], edges, fill=True, alpha=0.5, label=f"{size} copies")
            axes.axvline(first["threshold"], color="black", label="mean: S⁺ to the right")
            tidy(axes, "foreground pixels", "images")
            axes.legend()
    with drawing(folder / "projections.svg", (6, 3)) as figure:
        axes = figure.subplots()
        for (model, alpha, mode), runs in groups.items():
            if model == "hidden" and alpha == ALPHAS[0]:
                axes.plot(next(iter(runs.values()))["projections"], label=mode)
        axes.set(yscale="log")
        tidy(axes, "epoch", title="projections so far")
        if axes.lines:
            axes.legend()


EXPERIMENT = Experiment(
    name="s_mnist",
    title="S-MNIST: F₁ of the size as a regularizer of a digit classifier",
    paper="Ravi 2020, Figure 3 columns 1 and 2; Venkatesh 2019, Figure 6",
    cells=cells,
    run=run,
    report=report,
)
