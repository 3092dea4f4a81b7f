"""Exact metrics of many scores, beside torchmetrics, scikit-learn and a bare sort.

python paper/benchmarks/bench_exact.py
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from common import median_seconds, record
from sklearn import metrics as sk
from torch import Tensor
from torchmetrics.functional import classification as of_classes
from torchmetrics.functional import retrieval as of_lists

import aimfor

COMMAND = "python paper/benchmarks/bench_exact.py"
Peer = Callable[[Tensor, Tensor], Any]
#: Name → torchmetrics, scikit-learn (without precision at k). Scores are probabilities: torchmetrics squashes others.
PEERS: dict[str, tuple[Peer, Peer | None]] = {
    "auroc": (of_classes.binary_auroc, lambda s, y: sk.roc_auc_score(y, s)),
    "ap": (of_classes.binary_average_precision, lambda s, y: sk.average_precision_score(y, s)),
    "f1": (of_classes.binary_f1_score, lambda s, y: sk.f1_score(y, s > 0.5)),
    "mcc": (of_classes.binary_matthews_corrcoef, lambda s, y: sk.matthews_corrcoef(y, s > 0.5)),
    "ndcg": (of_lists.retrieval_normalized_dcg, lambda s, y: sk.ndcg_score(y[None], s[None])),
    "precision@10": (lambda s, y: of_lists.retrieval_precision(s, y, top_k=10), None),
}


def main() -> None:
    generator, rows = torch.Generator().manual_seed(0), []
    for n, repeats in ((10_000, 15), (1_000_000, 5)):
        scores, grades = torch.rand(n, generator=generator), torch.randint(5, (n,), generator=generator)
        for name, (theirs, scikit) in PEERS.items():
            targets = grades if name == "ndcg" else (grades == 0).long()
            loss_fn = aimfor.MetricLoss(name, threshold=0.5) if name in ("f1", "mcc") else aimfor.MetricLoss(name)
            functions = {
                "ours": lambda loss_fn=loss_fn, y=targets, s=scores: loss_fn.value(s, y),
                "torchmetrics": lambda theirs=theirs, y=targets, s=scores: theirs(s, y),
            }
            if scikit is not None:
                functions["scikit-learn"] = lambda scikit=scikit, y=targets, s=scores: scikit(s, y)
            values = {who: float(function()) for who, function in functions.items()}
            seconds = median_seconds(functions | {"sort": scores.sort}, repeats, 1)
            apart = max(abs(values["ours"] - value) for value in values.values())
            row: dict[str, Any] = {"metric": name, "n": f"{n:,}"}
            for who in ("ours", "torchmetrics", "scikit-learn", "sort"):
                row[f"{who}, ms"] = round(1e3 * seconds[who], 2) if who in seconds else ""
            for who in ("torchmetrics", "scikit-learn"):
                row[f"{who} / ours"] = round(seconds[who] / seconds["ours"], 1) if who in seconds else ""
            rows.append(row | {"largest difference": f"{apart:.0e}"})
    record("exact", "Exact metrics of n scores, a fifth positive (NDCG: grades 0 to 4)", COMMAND, rows)


if __name__ == "__main__":
    main()
