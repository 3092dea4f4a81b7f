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
    "mean_iou": "miou",
    "m_iou": "miou",
    "mean_jaccard": "miou",
    "matthews": "mcc",
    "matthews_corrcoef": "mcc",
    "phi": "mcc",
    "quadratic_kappa": "qwk",
    "quadratic_weighted_kappa": "qwk",
    "weighted_kappa": "qwk",
    "equal_error_rate": "eer",
    "macro_f1": "f1_macro",
    "weighted_f1": "f1_weighted",
    "micro_f1": "f1_micro",
    "average_precision": "ap",
    "avg_precision": "ap",
    "map": "ap",
    "mean_average_precision": "ap",
    "reciprocal_rank": "mrr",
    "mean_reciprocal_rank": "mrr",
}

#: Other spellings of names with a parameter. FNMR at an FMR is one minus TPR at that FPR, and training is the same.
_SPELLINGS = (
    (r"^(p|prec|precision)(@|_at_)(\d+)$", r"precision@\3"),
    (r"^(r|rec|recall)(@|_at_)(\d+)$", r"recall@\3"),
    (r"^hit(s|_?rate|_?ratio)?(@|_at_)(\d+)$", r"hit@\3"),
    (r"^(ndcg|auprc)_at_(\d+)$", r"\1@\2"),
    (r"^(pauc|pauroc)@(max_)?fpr=", "pauc@fpr="),
    (r"^(fnmr@fmr|tar@far|frr@far|tpr@far)=", "tpr@fpr="),
)

#: (pattern of the plain name, where to go): quantities that are not registered, by their meaning.
_HINTS = (
    (r"(au_?prc?|pr_?auc|auc_?pr|area_under_pr)", "'ap' is the area as scikit-learn computes it, 'auprc@10' a grid."),
    (r"(pauroc|pauc|partial.*auc|auc.*max_fpr).*", "A part of the curve is 'pauc@fpr=0.1'."),
    (r"hit(_?rate|s|_?ratio)?", "The share of lists with a relevant item among their first ten is 'hit@10'."),
    (r"(mrr|reciprocal_rank|mean_reciprocal_rank)@.*", "Of whole lists it is 'mrr'."),
    (r"(precision|ppv)", "A precision needs a floor on recall: 'precision@recall=0.8'."),
    (r"(recall|sensitivity|tpr)", "A recall needs a floor or a ceiling: 'recall@precision=0.9', 'tpr@fpr=0.1'."),
    (r"(specificity|tnr)", "Hold it and raise the other: 'tpr@fpr=0.1' is sensitivity at a specificity of 0.9."),
    (r"(fnmr|fmr|far|tar|frr)", "A rate needs the other one: 'fnmr@fmr=0.001', which is 'tpr@fpr=0.001'."),
    (r"(g_?mean|kappa|youden.*|informedness)", "Write it as aimfor.Confusion(...)."),
    (r"(tversky.*|fpr|fnr|npv)", "Write it as aimfor.metrics.CountRatio(...)."),
    (r"(ndcg|dcg)(_at_|@).*", "For the first ten places: 'ndcg@10'."),
    (r"(dcg|lambda_?rank|lambdamart)", "Normalised, it is 'ndcg' or 'ndcg@10'."),
    (r"(log_?loss|cross_?entropy|nll|bce|brier.*|focal.*)", "That is a sum over examples: torch has it as a loss."),
    (r"(r?mse|mae|r2|mean_(squared|absolute)_error|rmsle)", "Metrics here rank or decide; use torch's own loss."),
    (r"(f1?_?samples|samples_f1)", "Means over classes are 'f1_macro', 'f1_weighted' and 'f1_micro'."),
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
    for pattern, spelling in _SPELLINGS:
        plain = re.sub(pattern, spelling, plain)
    return plain


def hint(text: str, registered: Iterable[str]) -> str:
    """Where to go for an unknown name: by what it means, else by how it is spelt, else nothing."""
    plain = canonical(text)
    for pattern, sentence in _HINTS:
        if re.fullmatch(pattern, plain):
            return sentence
    number = re.search(r"(?<=[@=])[\d.]+$", plain)  # of 'recal@10' keep the ten
    names = registered if number is None else [re.sub(r"(?<=[@=])[\d.]+$", number[0], name) for name in registered]
    spelt = {**{name: name for name in names}, **ALIASES}
    near = list(dict.fromkeys(spelt[name] for name in difflib.get_close_matches(plain, spelt, n=6, cutoff=0.6)))[:3]
    return f"Did you mean {' or '.join(map(repr, near))}?" if near else ""
