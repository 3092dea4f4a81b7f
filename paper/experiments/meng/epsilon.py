"""Meng's table of ε: how much does the AUC loss depend on it, by the paper's scheme and by a solver that converges?

The paper writes ε for two things: the margin of (1), which the sentence about the table names, and the penalty of (3),
which its rule for choosing ε is about. Both are varied here, each with the other held at the authors' value.

The program of (1) with fixed scores falls apart into one program per pair, ``min z, z >= ε − (f_i − f_j), z >= 0``, and
so does every step of the paper's scheme. They are solved as a batch of programs in one variable, which is the same
computation (tested) without a matrix of pairs × pairs.
"""

from __future__ import annotations

import statistics
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from aimfor import AUROC, MetricLoss
from aimfor.lp import ActiveSet, Implicit, LPEngine, plain_scheme, solve

from ...claims import judging
from ...data.images import binary_parts
from ...experiment import Cell, Experiment, Options, Result, data_folder
from ...networks.models import NETWORKS, network
from ...protocol.choosing import chosen
from ...protocol.protocol import Budget, Contender, Contest, Loss, cross_entropy
from ...protocol.training import train_all
from ...report.figures import dots
from ...report.pages import write_table
from ...report.scoreboard import markdown
from ...report.statistics import Paired, paired_by_seed

EPSILONS = (0.1, 0.01, 0.001)
#: What the authors' code holds.
MARGIN, PENALTY = 0.01, 1e-3
PLAIN = "plain scheme, margin"
#: Scheme → what stands in the table about it.
SCHEMES = {
    PLAIN: "20 Newton steps as in the authors' code; ε is the margin",
    "plain scheme, penalty": "the same; ε is the penalty, margin 0.01",
    "solver, margin": "solved exactly; ε is the margin",
    "solver, penalty": "solved exactly, gradient of the penalised optimum; ε is the penalty, margin 0.01",
    "value, margin": 'engine "lp": the value of the program itself is the loss; ε is the margin',
}
BASE = "cross-entropy"
Plan = tuple[str, float | None]
PLANS: tuple[Plan, ...] = ((BASE, None), *((scheme, epsilon) for scheme in SCHEMES for epsilon in EPSILONS))
SETTING = (
    "Test AUROC on cats_vs_dogs, 71 % positives (at most 1,000), a quarter for validation. Images halved to "
    "16 × 16, three strided convolutions, scores through a sigmoid as in the authors' code, 300 AdamW steps of 32 "
    "images at rate 0.002, the best of 6 looks at validation data. The loss is the paper's: 1 − mean relu(1 − z/margin)"
    " over pairs, z the solution of the program. `--full`: ResNet-20, 4,000 steps, three rates."
)


def pair_programs(scores: Tensor, targets: Tensor, margin: float) -> tuple[Tensor, Tensor, Tensor]:
    """c, A, b of one program ``min z, −z <= f_i − f_j − margin, −z <= 0`` per pair of a positive i and a negative j."""
    gaps = (scores[targets == 1][:, None] - scores[targets == 0][None, :]).reshape(-1)
    b = torch.stack((gaps - margin, torch.zeros_like(gaps)), 1)
    one = torch.ones(len(gaps), 1, dtype=scores.dtype, device=scores.device)
    return one, -one[:, None, :].expand(-1, 2, -1), b


def ramp_of(z: Tensor, margin: float) -> Tensor:
    """The paper's loss from z (its formula is one minus AUC): the share of pairs, each counted by how far z is up."""
    return 1.0 - (1.0 - z / margin).clamp_min(0.0).mean()


def pair_loss(scheme: str, epsilon: float, scores: Tensor, targets: Tensor, shares: Tensor) -> Tensor:
    """The loss of one scheme at one ε; zero, attached, on a batch without pairs."""
    margin = epsilon if scheme.endswith("margin") else MARGIN
    penalty = epsilon if scheme.endswith("penalty") else PENALTY
    f = torch.sigmoid(scores)
    if scheme.startswith("value"):
        value: Tensor = MetricLoss(AUROC(), LPEngine(margin=margin))(f, targets)
        return value
    program = pair_programs(f, targets, margin)
    if not len(program[0]):
        return scores.sum() * 0.0
    if scheme.startswith("plain"):
        z = plain_scheme(*program, epsilon=penalty).x
    else:
        rule = Implicit(penalty) if scheme.endswith("penalty") else ActiveSet()
        z = solve(*program, gradient=rule).x
    return ramp_of(z[:, 0], margin)


def loss_of(cell: Cell) -> Loss:
    return cross_entropy if cell["scheme"] == BASE else partial(pair_loss, cell["scheme"], cell["epsilon"])


def cells(options: Options) -> list[Cell]:
    return [
        {"scheme": scheme, "epsilon": epsilon, "seed": seed}
        for seed in range(options.seeds)
        for scheme, epsilon in PLANS
    ]


def budget(options: Options) -> Budget:
    if options.full:
        return Budget(4000, 0, batch=32, rates=(3e-4, 1e-3, 3e-3), looks=8)
    return Budget(300, 0, batch=32, rates=(2e-3,), looks=6)


def run(cell: Cell, options: Options) -> Result:
    size = None if options.full else 1000
    parts = binary_parts(data_folder(options), "cats_vs_dogs", 0.71, cell["seed"], size)
    task = Contest(*parts, network(options))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"Implicit\(epsilon")  # the smoothing is what is measured here
        pools = train_all(task, [Contender(cell["scheme"], loss_of(cell))], budget(options), cell["seed"])
    found = chosen(task, AUROC(), pools[cell["scheme"]])
    return {"validation": found.validation, "test": found.test}


# ---------------------------------------------------------------- report


def by_seed(results: list[dict[str, Any]], scheme: str, epsilon: float | None) -> dict[int, float]:
    wanted = {"scheme": scheme, "epsilon": epsilon}
    return {seed: found["test"] for seed, found in judging.by_seed(results, wanted).items()}


def difference(
    results: list[dict[str, Any]], ours: tuple[str, float | None], theirs: tuple[str, float | None]
) -> Paired:
    """Test AUROC of one (scheme, ε) minus another's, over the seeds that both have."""
    return paired_by_seed(by_seed(results, *ours), by_seed(results, *theirs))


def report(results: list[dict[str, Any]], folder: Path) -> None:
    present = [plan for plan in PLANS if by_seed(results, *plan)]
    rows: list[list[str]] = []
    drawn: list[tuple[str, Paired]] = []
    for scheme, epsilon in present:
        values = by_seed(results, scheme, epsilon)
        row = [scheme, "" if epsilon is None else f"{epsilon:g}", f"{statistics.fmean(values.values()):.4f}"]
        middle = (scheme, 0.01)
        if epsilon not in (None, 0.01) and middle in present:
            gap = difference(results, (scheme, epsilon), middle)
            drawn.append((f"{scheme}: {epsilon:g}", gap))
            row += [str(gap), gap.verdict]
        else:
            row += ["", ""]
        row += [
            str(difference(results, (scheme, epsilon), (BASE, None)))
            if scheme != BASE and (BASE, None) in present
            else ""
        ]
        rows.append([*row, str(len(values)), SCHEMES.get(scheme, "")])
    head = ("scheme", "ε", "AUROC", "− ε = 0.01 [95 %]", "verdict", "− cross-entropy [95 %]", "seeds", "what it is")
    text = [f"# {EXPERIMENT.title}", "", SETTING, "", markdown(head, rows)]
    if drawn:
        names, gaps = [name for name, _ in drawn], [gap for _, gap in drawn]
        title, xlabel = "test AUROC by ε", "this ε − ε = 0.01, with 95 % interval over seeds"
        means, lows, highs = ([getattr(gap, key) for gap in gaps] for key in ("mean", "low", "high"))
        dots(names, means, lows, highs, folder / "epsilon.svg", title, xlabel)
        text += ["", "![AUROC at other ε, minus that at 0.01](epsilon.svg)"]
    write_table(folder, text)


EXPERIMENT = Experiment(
    "meng_epsilon",
    "The AUC program's ε on cats and dogs",
    "Meng 2021, §5 ε",
    cells,
    run,
    report,
    seeds=3,
    networks=NETWORKS,
)
