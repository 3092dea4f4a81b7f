"""The claims of Meng 2021. Numbers in the text are the paper's; ours are computed."""

from __future__ import annotations

from ..judging import NOT_HERE, Claim, meng_against, step_time

_CNN = "16 × 16 images, small CNN, at most 1,000 positives, 3 seeds (`meng_table1`)"


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
    ),
    Claim(
        "Meng",
        "Table 1",
        "The same, with the loss made convex (squared hinge over the same pairs), which is ours.",
        _CNN,
        "meng_table1",
        meng_against("auroc", "squared_hinge from scratch"),
    ),
    Claim(
        "Meng",
        "Table 1",
        "The gain is largest on imbalanced data (91 % positives).",
        f"The four cells at 91 %; {_CNN}",
        "meng_table1",
        meng_against("auroc", "squared_hinge from scratch", _scarce),
    ),
    Claim(
        "Meng",
        "Table 2",
        "The multi-class loss beats cross-entropy in AUC one-versus-all (7 of 8 cells).",
        "AUC_mu loss from scratch, small CNN (`meng_table2`)",
        "meng_table2",
        meng_against("auroc_ovr", "AUC_mu from scratch"),
    ),
    Claim(
        "Meng",
        "Table 2",
        "The multi-class loss beats cross-entropy in AUC_mu (8 of 8 cells).",
        "AUC_mu loss from scratch, small CNN (`meng_table2`)",
        "meng_table2",
        meng_against("auc_mu", "AUC_mu from scratch"),
    ),
    Claim("Meng", "§5, ε", "ε = 0.1 is slightly worse than 0.01, and 0.001 much worse (Cat&Dog).", "–"),
    Claim(
        "Meng",
        "§5, time",
        "An iteration takes 0.069 s against cross-entropy's 0.018 s (3.8 times).",
        "exact sum over pairs on one core (`benchmarks/bench_iteration.py`)",
        "bench:iteration",
        step_time,
    ),
    Claim("Meng", "Fig. 2", "ROC curves on STL-10 at 90 % drop lie above cross-entropy's.", "–"),
    Claim(
        "Meng",
        "§5, F1",
        "Optimising F1 raises accuracy by 0.9 to 3 points over cross-entropy; "
        "other solvers end at the all-positive answer (F1 66.7 %).",
        "–",
    ),
    Claim("Meng", "Fig. 3a", "The predicted F1 follows the true F1.", "–"),
    Claim(
        "Meng",
        "Fig. 3b, Table 3",
        "The backward pass is nearly free, and time hardly grows with the batch.",
        'the benchmarks of the engine "lp"',
    ),
    Claim("Meng", "Fig. 3c", "Sketching trades size for accuracy reasonably.", 'the benchmarks of the engine "lp"'),
    Claim(
        "Meng",
        "§5, large LPs",
        "Sparse operations save ten times the memory (11 GB to 1 GB on a GPU).",
        'no GPU; the benchmarks of the engine "lp" measure the host',
        otherwise=NOT_HERE,
    ),
)
