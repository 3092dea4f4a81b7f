"""Retrieval of unseen characters (Omniglot, split by alphabet): our losses against those of metric learning."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from aimfor.fitting.per_class import PerClassBatchSampler
from aimfor.fitting.statistics import paired_difference
from aimfor.retrieval import RetrievalLoss, evaluate

from ...data.tables import arrays
from ...experiment import Cell, Experiment, Options, Result, data_folder

SETTING = (
    "Five alphabets: one for test, one for validation, three for training, five splits. Three convolutions (16, 32, "
    "32), embeddings of 64, 12 classes × 5 drawings a batch, 150 Adam steps at 0.002, cosine similarity. Each method's "
    "temperature (scale, margin) is chosen among three by MAP@R on the validation alphabet; the numbers are of the "
    "test alphabet."
)
TITLE = "Retrieval of unseen characters: MAP@R and recall@1"
STEPS = 150
Loss = Callable[[Tensor, Tensor], Tensor]


class Encoder(nn.Sequential):
    """Three convolutions and a linear layer: 28 × 28 to 64 numbers."""

    def __init__(self) -> None:
        layers: list[nn.Module] = []
        for before, after in ((1, 16), (16, 32), (32, 32)):
            layers += [nn.Conv2d(before, after, 3, padding=1), nn.BatchNorm2d(after), nn.ReLU(), nn.MaxPool2d(2)]
        super().__init__(*layers, nn.Flatten(), nn.Linear(32 * 9, 64))


class Softmax(nn.Module):
    """Cross-entropy on a last layer over the training classes, by products or by cosines at a scale."""

    def __init__(self, classes: int, scale: float, cosine: bool) -> None:
        super().__init__()
        self.scale, self.cosine = scale, cosine
        self.last = nn.Linear(64, classes, bias=not cosine)

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        if not self.cosine:
            return functional.cross_entropy(self.scale * self.last(embeddings), labels)
        logits = functional.normalize(embeddings) @ functional.normalize(self.last.weight).t()
        return functional.cross_entropy(self.scale * logits, labels)


def _pairs(embeddings: Tensor, labels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Cosines, pairs of one class without the diagonal, pairs of two classes."""
    unit = functional.normalize(embeddings)
    same, self_pair = labels[:, None] == labels, torch.eye(len(labels), dtype=torch.bool)
    return unit @ unit.t(), same & ~self_pair, ~same


def supervised_contrastive(embeddings: Tensor, labels: Tensor, temperature: float) -> Tensor:
    cosines, positive, _ = _pairs(embeddings, labels)
    logits = (cosines / temperature).masked_fill(torch.eye(len(labels), dtype=torch.bool), -torch.inf)
    logs = logits - logits.logsumexp(1, keepdim=True)
    return -(torch.where(positive, logs, 0.0).sum(1) / positive.sum(1)).mean()


def multi_similarity(embeddings: Tensor, labels: Tensor, base: float) -> Tensor:
    """With the usual weights 2 and 50, and pairs mined at a margin of 0.1; ``base`` is where similarities are cut."""
    cosines, positive, negative = _pairs(embeddings, labels)
    hardest = cosines.masked_fill(~negative, -torch.inf).amax(1, keepdim=True)
    easiest = cosines.masked_fill(~positive, torch.inf).amin(1, keepdim=True)
    pulled, pushed = positive & (cosines - 0.1 < hardest), negative & (cosines + 0.1 > easiest)
    pull = torch.where(pulled, torch.exp(-2.0 * (cosines - base)), 0.0).sum(1)
    push = torch.where(pushed, torch.exp(50.0 * (cosines - base)), 0.0).sum(1)
    return (torch.log1p(pull) / 2.0 + torch.log1p(push) / 50.0).mean()


def triplet(embeddings: Tensor, labels: Tensor, margin: float) -> Tensor:
    """All triplets of the batch that violate the margin, by cosines."""
    cosines, positive, negative = _pairs(embeddings, labels)
    gaps = functional.relu(cosines[:, None, :] - cosines[:, :, None] + margin)
    gaps = gaps[positive[:, :, None] & negative[:, None, :]]
    return gaps.sum() / (gaps > 0).sum().clamp_min(1)


#: Every method with the three values of its own parameter.
METHODS: dict[str, tuple[tuple[float, ...], Callable[[int, float], Loss]]] = {
    "softmax": ((0.5, 1.0, 2.0), lambda classes, value: Softmax(classes, value, False)),
    "cosine softmax": ((4.0, 8.0, 16.0), lambda classes, value: Softmax(classes, value, True)),
    "supervised contrastive": ((0.05, 0.1, 0.2), lambda _, value: lambda x, y: supervised_contrastive(x, y, value)),
    "multi-similarity": ((0.3, 0.5, 0.7), lambda _, value: lambda x, y: multi_similarity(x, y, value)),
    "triplet": ((0.05, 0.1, 0.2), lambda _, value: lambda x, y: triplet(x, y, value)),
    "aimfor ap": ((0.02, 0.05, 0.1), lambda _, value: RetrievalLoss("ap", temperature=value)),
    "aimfor map@r": ((0.02, 0.05, 0.1), lambda _, value: RetrievalLoss("map@r", temperature=value)),
}


def cells(options: Options) -> list[Cell]:
    return [{"split": split, "seed": seed} for seed in range(options.seeds) for split in range(5)]


def parts(folder: Path, split: int) -> list[tuple[Tensor, Tensor]]:
    """Training, validation and test drawings: different alphabets."""
    raw = arrays(folder / "omniglot" / "train.npz")
    x, y, alphabet = (torch.from_numpy(np.asarray(raw[name])) for name in ("x", "y", "alphabet"))
    x = x[:, None].float() / 255.0
    number = alphabet.unique().tolist()
    test, validation = number[split], number[(split + 1) % len(number)]
    chosen = [(alphabet != test) & (alphabet != validation), alphabet == validation, alphabet == test]
    return [(x[rows], y[rows].unique(return_inverse=True)[1]) for rows in chosen]


def train(drawings: list[tuple[Tensor, Tensor]], loss_fn: Any, seed: int) -> tuple[dict[str, float], dict[str, float]]:
    """MAP@R and recall@1 of validation and test characters after the last step."""
    x, y = drawings[0]
    model = Encoder()
    own = list(loss_fn.parameters()) if isinstance(loss_fn, nn.Module) else []
    optimizer = torch.optim.Adam([*model.parameters(), *own], 2e-3)
    sampler, done = PerClassBatchSampler(y, 12, 5, seed=seed), 0
    while done < STEPS:
        for batch in sampler:
            optimizer.zero_grad()
            loss_fn(model(x[batch]), y[batch]).backward()
            optimizer.step()
            done += 1
            if done == STEPS:
                break
    model.eval()
    with torch.no_grad():
        found = [evaluate(model(images), labels, k=[1]) for images, labels in drawings[1:]]
    return found[0], found[1]


def run(cell: Cell, options: Options) -> Result:
    drawings = parts(data_folder(options, "omniglot"), cell["split"])
    classes = int(drawings[0][1].max()) + 1
    result: Result = {}
    for name, (values, make) in METHODS.items():
        tried = []
        for value in values:
            torch.manual_seed(1000 * cell["seed"] + cell["split"])  # the same start for every method
            validation, test = train(drawings, make(classes, value), cell["seed"])
            tried.append((validation["map@r"], value, test["map@r"], test["recall@1"]))
        best = max(tried)
        result[name] = {"map@r": best[2], "recall@1": best[3], "parameter": best[1]}
    return result


def report(results: list[dict[str, Any]], folder: Path) -> None:
    found = [entry["result"] for entry in results]
    lines = [f"# {TITLE}", "", SETTING, "", f"{len(found)} runs (splits × seeds).", ""]
    lines += ["| method | MAP@R | recall@1 | MAP@R of aimfor map@r − this |", "|---|---|---|---|"]
    ours = [one["aimfor map@r"]["map@r"] for one in found]
    for name in METHODS:
        mine = [one[name]["map@r"] for one in found]
        gap = paired_difference(ours, mine, test_share=1 / 3)
        between = f"{100 * gap.mean:+.1f} ({100 * gap.low:+.1f} to {100 * gap.high:+.1f})"
        between = "" if name == "aimfor map@r" else between
        first = np.mean([one[name]["recall@1"] for one in found])
        lines.append(f"| {name} | {np.mean(mine):.3f} | {first:.3f} | {between} |")
    (folder / "table.md").write_text("\n".join(lines) + "\n")


EXPERIMENT = Experiment("retrieval", TITLE, "aimfor", cells, run, report, seeds=1)
