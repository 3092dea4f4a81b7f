"""The claims of the four papers: the table of `claims.md`, and the judges that it names."""

from __future__ import annotations

from pathlib import Path

from ..experiments.meng.heads import PLAIN as ENTROPY
from ..experiments.ravi.as_printed import PLAIN
from ..experiments.ravi.mask_recipe import FULL, PAPER, SIZES
from ..experiments.ravi.mask_report import regularizer_gap
from ..experiments.ravi.sky_plain import sky_plain_gap
from ..report.action_board import table1
from ..report.detection_board import table2
from ..rivals import ppd
from . import judging_meng as meng
from . import judging_ravi as ravi
from .judging import Claim, Judge, equivalent, meng_against, song_gap, step_time

#: Differences that are called none, fixed before the test was written: half a point of accuracy, a point of mean IoU.
ACCURACY, MEAN_IOU = 0.005, 0.01
_OURS, _PLAIN = ((1e-2, "ravi"), (0.0, "ravi")), ((0.0, PLAIN), (1e-2, PLAIN))

JUDGES: dict[str, Judge] = {
    "AUROC: ramp": meng_against("auroc", "ramp from scratch"),
    "AUROC: squared hinge": meng_against("auroc", "squared_hinge from scratch"),
    "AUROC: squared hinge, 91 %": meng_against(
        "auroc", "squared_hinge from scratch", lambda cell: cell["positives"] == 91
    ),
    "AUC_mu": meng_against("auc_mu", "AUC_mu from scratch"),
    "AUC_mu: one-versus-all": meng_against("auroc_ovr", "AUC_mu from scratch"),
    "heads: AUROC": meng.heads_against("auroc", (ENTROPY, *ppd.NAMES)),
    "heads: AUROC, 91 %": meng.heads_against("auroc", (ENTROPY,), scarce=True),
    "heads: AUC_mu": meng.heads_against("auc_mu", (ENTROPY,)),
    "S-MNIST: hidden": ravi.s_mnist_gap("hidden", *_OURS),
    "S-MNIST: hidden, as printed": ravi.s_mnist_gap("hidden", *_PLAIN[::-1]),
    "S-MNIST: linear": ravi.s_mnist_gap("linear", *_OURS),
    "S-MNIST: every epoch": ravi.s_mnist_throughout(PLAIN),
    "S-MNIST: deviation": ravi.s_mnist_gap("hidden", *_PLAIN, ravi.unrest, "deviation, baseline less ours"),
    "S-MNIST: small and big": ravi.s_mnist_gap(
        "hidden", *_PLAIN, ravi.apart, "difference of small and big, baseline less ours"
    ),
    "S-MNIST: once or every step": equivalent(
        ravi.s_mnist_gap("hidden", (1e-2, "ravi"), (1e-2, "ravi-full")), ACCURACY
    ),
    "masks: regularizer": regularizer_gap(),
    "masks: mean over sizes": regularizer_gap(SIZES),
    "masks: once or every step": equivalent(regularizer_gap(PAPER, FULL), MEAN_IOU),
    "synthetic: nonlinear": song_gap("nonlinear", "pos-AP", ("logistic", "hinge-AP", "per-AP", "hinge-01", "per-01")),
    "synthetic: nonlinear, negative": song_gap("nonlinear", "pos-AP", ("neg-AP",)),
    "synthetic: linear": song_gap("linear", "neg-AP", ("pos-AP",)),
    "synthetic: noisy": song_gap("noisy", "pos-AP", ("neg-AP", "per-AP")),
}
for _judge in (
    *(meng.epsilon_table, meng.roc_above, meng.f1_accuracy, meng.f1_trap, meng.f1_predicted, meng.batch_growth),
    *(meng.backward_cost, meng.reduction, meng.auc_reduction, meng.short_steps, meng.newton_or_descent),
    *(meng.perturbed_costs, meng.sparse_memory, step_time, ravi.rate_of_convergence, ravi.projections_on_programs),
    *(ravi.projections_by_batch, ravi.sky_varies_most, ravi.inner_schedules, sky_plain_gap, table1, table2),
):
    JUDGES[_judge.__name__] = _judge


def read(text: str) -> tuple[Claim, ...]:
    """The rows of the table; each names a judge of `JUDGES`."""
    rows = [line[2:-2].split(" | ") for line in text.splitlines() if line.startswith("| ")][1:]
    return tuple(
        Claim(paper, where, claim, setting, results, JUDGES[judge], distance, near == "yes")
        for paper, where, claim, setting, results, judge, distance, near in rows
    )


CLAIMS = read((Path(__file__).parent / "claims.md").read_text(encoding="utf8"))
