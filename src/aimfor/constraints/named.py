"""The rates by their names, and the four counts."""

from __future__ import annotations

from .counts import FN, FP, TN, TP
from .expressions import Rate

recall = tpr = Rate("recall", (TP,), (TP, FN))
fnr = Rate("fnr", (FN,), (TP, FN))
fpr = Rate("fpr", (FP,), (FP, TN))
tnr = Rate("tnr", (TN,), (FP, TN))
precision = Rate("precision", (TP,), (TP, FP))
npv = Rate("npv", (TN,), (FN, TN))
positive_rate = Rate("positive_rate", (TP, FP), (TP, FP, FN, TN))
accuracy = Rate("accuracy", (TP, TN), (TP, FP, FN, TN))
error_rate = Rate("error_rate", (FP, FN), (TP, FP, FN, TN))
tp = Rate("tp", (TP,), ())
fp = Rate("fp", (FP,), ())
fn = Rate("fn", (FN,), ())
tn = Rate("tn", (TN,), ())
predicted_positives = Rate("predicted_positives", (TP, FP), ())
