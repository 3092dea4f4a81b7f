"""What people call the metrics: other names for the same thing, and where to go for things that have no name here."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

#: Other names of registered metrics, in lower case with underscores; a closing ``_score`` is dropped before.
ALIASES = {
    "auc": "auroc",
    "roc_auc": "auroc",
    "rocauc": "auroc",
    "roc": "auroc",
    "area_under_roc": "auroc",
    "c_statistic": "auroc",
    "roc_auc_ovr": "auroc_ovr",
    "auc_ovr": "auroc_ovr",
    "aucmu": "auc_mu",
    "dice": "f1",
    "dice_coefficient": "f1",
    "f": "f1",
    "f_measure": "f1",
    "fmeasure": "f1",
    "fscore": "f1",
    "jaccard": "iou",
    "jaccard_index": "iou",
    "intersection_over_union": "iou",
    "acc": "accuracy",
    "bacc": "balanced_accuracy",
    "balanced_acc": "balanced_accuracy",
    "macro_f1": "f1_macro",
    "micro_f1": "f1_micro",
    "average_precision": "ap",
    "avg_precision": "ap",
    "map": "ap",
    "mean_average_precision": "ap",
    "reciprocal_rank": "mrr",
    "mean_reciprocal_rank": "mrr",
}

#: (pattern of the plain name, where to go): quantities that are not registered, by their meaning.
_HINTS = (
    (r"(au_?prc?|pr_?auc|auc_?pr|area_under_pr)", "'ap' is the area as scikit-learn computes it, 'auprc@10' a grid."),
    (r"(pauroc|pauc|partial.*auc|auc.*max_fpr).*", "For a part of the curve pass aimfor.AUROC(max_fpr=0.1)."),
    (r"hit(_?rate|s|_?ratio)?(@.*)?", "A list with a relevant item among its first k: aimfor.metrics.HitAtK(k)."),
    (r"(mrr|reciprocal_rank|mean_reciprocal_rank)@.*", "Of whole lists it is 'mrr'."),
    (r"recall(@|_at_)\d+", "For the first k places of a list pass aimfor.metrics.RecallAtK(k)."),
    (r"(precision|ppv)", "A precision needs a floor on recall: 'precision@recall=0.8'."),
    (r"(recall|sensitivity|tpr|hit)", "A recall needs a floor or a ceiling: 'recall@precision=0.9', 'tpr@fpr=0.1'."),
    (r"(specificity|tnr)", "Hold it and raise the other: 'tpr@fpr=0.1' is sensitivity at a specificity of 0.9."),
    (r"(mcc|matthews.*|g_?mean|kappa|youden.*|informedness)", "Write it as aimfor.Confusion(...)."),
    (r"(tversky.*|fpr|fnr|npv)", "Write it as aimfor.metrics.CountRatio(...)."),
    (r"(ndcg|dcg)(_at_|@).*", "For the first ten places: 'ndcg@10'."),
    (r"(dcg|lambda_?rank|lambdamart)", "Normalised, it is 'ndcg' or 'ndcg@10'."),
    (r"(mean_iou|miou|m_iou)", 'For the mean over classes pass aimfor.IoU(classes="mean").'),
    (r"(log_?loss|cross_?entropy|nll|bce|brier.*|focal.*)", "That is a sum over examples: torch has it as a loss."),
    (r"(r?mse|mae|r2|mean_(squared|absolute)_error|rmsle)", "Metrics here rank or decide; use torch's own loss."),
    (r"(f1?_?(weighted|samples)|(weighted|samples)_f1)", "Means over classes are 'f1_macro' and 'f1_micro'."),
)


def canonical(text: str) -> str:
    """The registered spelling of a name, as far as it is known: case, spaces, hyphens and aliases do not matter.

    Example:
        >>> from aimfor.metrics.names import canonical
        >>> [canonical(name) for name in ("AUROC", "ROC AUC", "dice", "F0.5", "NDCG_at_10", "average_precision_score")]
        ['auroc', 'auroc', 'f1', 'fbeta=0.5', 'ndcg@10', 'ap']
    """
    plain = re.sub(r"\s+|(?<=[a-z0-9])-(?=[a-z])", "_", text.strip().lower())
    plain = plain.removesuffix("_score")
    if plain in ALIASES:
        return ALIASES[plain]
    beta = re.fullmatch(r"f_?(?:beta_?)?(\d+(?:\.\d+)?)", plain)
    if beta is not None:
        return "f1" if float(beta[1]) == 1.0 else f"fbeta={beta[1]}"
    plain = re.sub(r"^(p|prec|precision)(@|_at_)(\d+)$", r"precision@\3", plain)
    return re.sub(r"^(ndcg|auprc)_at_(\d+)$", r"\1@\2", plain)


def hint(text: str, known: Iterable[str]) -> str:
    """Where to go for an unknown name: by what it means, else by how it is spelt, else nothing."""
    plain = canonical(text)
    for pattern, sentence in _HINTS:
        if re.fullmatch(pattern, plain):
            return sentence
    spelt = {**{name: name for name in known}, **ALIASES}
    near = difflib.get_close_matches(plain, spelt, n=1, cutoff=0.6)
    return f"Did you mean {spelt[near[0]]!r}?" if near else ""
