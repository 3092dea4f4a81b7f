"""The claims of Meng 2021. Numbers in the text are the paper's; ours are computed."""

from __future__ import annotations

from ..experiments.meng import heads
from ..rivals import ppd
from .judging import Claim, meng_against, step_time
from .judging_meng import (
    auc_reduction,
    backward_cost,
    batch_growth,
    epsilon_table,
    f1_accuracy,
    f1_predicted,
    f1_trap,
    heads_against,
    newton_or_descent,
    perturbed_costs,
    reduction,
    roc_above,
    short_steps,
    sparse_memory,
)

_CNN = "16 × 16 images, small CNN, at most 1,000 positives (`meng_table1`)"
_FAR_CNN = "a small CNN of 16 × 16 pixels instead of a ResNet of 32 × 32, a fifth of the data, fewer iterations"
_HEADS = "one linear layer on frozen features, every rate tuned (`meng_heads`)"
_FAR_HEADS = "frozen features of a pretrained network and one layer, at most 1,000 images of a class; loss as printed"
_STEPS = "random programs (`paper/benchmarks/bench_lp_steps.py`)"
_F1 = "balanced data, small CNN, four sets, 3 seeds (`meng_f1`)"


def _scarce(cell: dict[str, object]) -> bool:
    return cell["positives"] == 91


CLAIMS: tuple[Claim, ...] = (
    Claim(
        "Meng",
        "Table 1",
        "The AUC loss beats cross-entropy by a large margin (15 of 16 cells; 65.2 → 72.5 on CIFAR-10 at 91 %).",
        f"Their loss as it reads (ramp) from scratch; {_CNN}",
        "meng_table1",
        meng_against("auroc", "ramp from scratch"),
        distance=_FAR_CNN,
    ),
    Claim(
        "Meng",
        "Table 1",
        "The same, with the loss made convex (squared hinge over the same pairs), which is ours.",
        _CNN,
        "meng_table1",
        meng_against("auroc", "squared_hinge from scratch"),
        distance="another loss than the paper's; " + _FAR_CNN,
    ),
    Claim(
        "Meng",
        "Table 1",
        "The gain is largest on imbalanced data (91 % positives).",
        f"The four cells at 91 %; {_CNN}",
        "meng_table1",
        meng_against("auroc", "squared_hinge from scratch", _scarce),
        distance="another loss than the paper's; " + _FAR_CNN,
    ),
    Claim(
        "Meng",
        "Table 1",
        "The AUC loss beats cross-entropy by a large margin, and PPD-SG and PPD-AdaGrad slightly.",
        f"Their loss on sigmoid scores with margin 0.01; {_HEADS}",
        "meng_heads",
        heads_against("auroc", (heads.PLAIN, *ppd.NAMES)),
        distance=_FAR_HEADS,
    ),
    Claim(
        "Meng",
        "Table 1",
        "The gain over cross-entropy is largest on imbalanced data.",
        f"The four cells at 91 %; {_HEADS}",
        "meng_heads",
        heads_against("auroc", (heads.PLAIN,), scarce=True),
        distance=_FAR_HEADS,
    ),
    Claim(
        "Meng",
        "Table 2",
        "The multi-class loss beats cross-entropy in AUC_mu.",
        _HEADS,
        "meng_heads",
        heads_against("auc_mu", (heads.PLAIN,)),
        distance=_FAR_HEADS,
    ),
    Claim(
        "Meng",
        "Table 2",
        "The multi-class loss beats cross-entropy in AUC one-versus-all (7 of 8 cells).",
        "AUC_mu loss from scratch, small CNN (`meng_table2`)",
        "meng_table2",
        meng_against("auroc_ovr", "AUC_mu from scratch"),
        distance=_FAR_CNN,
    ),
    Claim(
        "Meng",
        "Table 2",
        "The multi-class loss beats cross-entropy in AUC_mu (8 of 8 cells).",
        "AUC_mu loss from scratch, small CNN (`meng_table2`)",
        "meng_table2",
        meng_against("auc_mu", "AUC_mu from scratch"),
        distance=_FAR_CNN,
    ),
    Claim(
        "Meng",
        "§5, ε",
        "ε = 0.1 is slightly worse than 0.01, and 0.001 much worse (Cat&Dog).",
        "71 % positives, small CNN; ε as the margin of (1) and as the penalty of (3), by the paper's scheme and by a "
        "solver that converges (`meng_epsilon`)",
        "meng_epsilon",
        epsilon_table,
        distance=_FAR_CNN + "; 3 seeds",
    ),
    Claim(
        "Meng",
        "§5, time",
        "An iteration takes 0.069 s against cross-entropy's 0.018 s (3.8 times).",
        "exact sum over pairs on one core (`paper/benchmarks/bench_iteration.py`)",
        "bench:iteration",
        step_time,
        distance="our loss is a closed form, theirs 20 Newton steps on a GPU: the ratio is of another computation",
    ),
    Claim(
        "Meng",
        "Fig. 2",
        "ROC curves on STL-10 at 90 % drop lie above cross-entropy's.",
        "three groups of classes, mean of the three curves, small CNN (`meng_roc`)",
        "meng_roc",
        roc_above,
        distance=_FAR_CNN,
    ),
    Claim(
        "Meng",
        "§5, F1",
        "Optimising F1 raises accuracy by 0.9 to 3 points over cross-entropy on balanced data (four sets).",
        f"bound on F1 as a program, at threshold 0 and with the threshold free, from scratch and after cross-entropy; "
        f"{_F1}",
        "meng_f1",
        f1_accuracy,
        distance=_FAR_CNN,
    ),
    Claim(
        "Meng",
        "§5, F1",
        "Optimising F1 has a trap, the all-positive answer (F1 66.7 %). The paper's method stays out of it; CVXPY-SCS "
        "(except on cats and dogs) and AP-Perf end there.",
        f"CVXPY-SCS is the same program by cvxpylayers, AP-Perf the package ap_perf 0.1.1; {_F1}",
        "meng_f1",
        f1_trap,
        distance=_FAR_CNN,
    ),
    Claim(
        "Meng",
        "Fig. 3a",
        "The predicted F1 follows the true F1.",
        f"the program's bound and the true F1 of each training batch; {_F1}",
        "meng_f1",
        f1_predicted,
        distance="small CNN; the bound is the same program",
        near=True,
    ),
    Claim(
        "Meng",
        "Fig. 3b",
        "Time hardly grows with the batch, while a black-box solver's does.",
        "one CPU core, where the paper has a GPU (`paper/benchmarks/bench_lp_large.py`)",
        "bench:lp_blackbox",
        batch_growth,
        distance="a CPU core instead of a GPU, which the claim is about",
    ),
    Claim(
        "Meng",
        "Fig. 3b, Table 3",
        "The backward pass is nearly free; the black box's costs another forward pass, perturbation costs N.",
        "programs of 14 examples, 16 at a time (`paper/benchmarks/bench_lp_large.py`)",
        "bench:lp_properties",
        backward_cost,
        distance="ratios within one process: the machine does not enter",
        near=True,
    ),
    Claim(
        "Meng",
        "Fig. 3c",
        "Sketching trades size for accuracy reasonably.",
        "random programs of 1,000 rows (`paper/benchmarks/bench_lp_large.py`)",
        "bench:lp_reduction",
        reduction,
        distance="random programs; the paper does not say which programs its figure has",
    ),
    Claim(
        "Meng",
        "Fig. 3c",
        "The same for the AUC program itself.",
        "a quarter of the pairs, or directions by sliced inverse regression (`paper/benchmarks/bench_lp_sdr.py`)",
        "bench:lp_sdr",
        auc_reduction,
        distance="linear scorers on three data sets; the paper does not say which programs its figure has",
        near=True,
    ),
    Claim(
        "Meng",
        "Theorem 2",
        "With short steps and without a line search Newton's method converges globally.",
        f"ε = 0.01, ρ = 0.001, from the scheme's own start; {_STEPS}",
        "bench:lp_steps",
        short_steps,
        distance="the theorem covers every program with one optimum and bounded level sets, as these are",
        near=True,
    ),
    Claim(
        "Meng",
        "§4.1",
        "Newton's method does better than gradient descent.",
        _STEPS,
        "bench:lp_steps",
        newton_or_descent,
        near=True,
    ),
    Claim(
        "Meng",
        "Theorem 2",
        "That the optimum is unique is easily had by perturbing the cost vector.",
        f"programs whose optima are a face; {_STEPS}",
        "bench:lp_unique",
        perturbed_costs,
        near=True,
    ),
    Claim(
        "Meng",
        "§5, large LPs",
        "Sparse operations save ten times the memory (11 GB to 1 GB on a GPU).",
        "host memory of the AUC program with 10,000 pairs; no GPU, no ResNet-18 (`paper/benchmarks/bench_lp_large.py`)",
        "bench:lp_memory",
        sparse_memory,
        distance="the matrix and its solve alone, on the host; no GPU, no ResNet-18",
    ),
)
