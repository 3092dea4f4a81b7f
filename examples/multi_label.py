"""Several labels at once: mean average precision as the loss, labels that are missing, and a threshold for each label.

Ten labels, from common to rare; a fifth of them was never annotated (−1). After training every label gets the threshold
that is best for its own F1 on validation rows.
"""

# %%
import torch
from matplotlib.figure import Figure

import aimfor
from aimfor.metrics import MultiLabel

torch.manual_seed(0)
rates = torch.linspace(0.3, 0.03, 10)
directions = torch.randn(12, 10)
features = torch.randn(6000, 12)
signal = features @ directions / 12**0.5 + 0.7 * torch.randn(6000, 10)
labels = (
    signal > torch.stack([column.quantile(1 - rate) for column, rate in zip(signal.t(), rates, strict=True)])
).long()
annotated = labels.masked_fill(torch.rand(6000, 10) < 0.2, -1)
train, held, test = slice(0, 3000), slice(3000, 4500), slice(4500, 6000)

# %%
model = torch.nn.Linear(12, 10)
optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
loss_fn = aimfor.MetricLoss(MultiLabel("ap"), ignore_index=-1)
for _ in range(6):
    for rows in torch.randperm(3000).split(250):
        optimizer.zero_grad()
        loss_fn(model(features[rows]), annotated[rows]).backward()
        optimizer.step()
with torch.no_grad():
    scores = model(features)
print(f"mean average precision on new rows: {float(MultiLabel('ap').value(scores[test], labels[test])):.3f}")

# %%
plain = MultiLabel("f1")
tuned = MultiLabel("f1", thresholds=plain.decide(scores[held], labels[held]))
before, after = (float(metric.value(scores[test], labels[test])) for metric in (plain, tuned))
print(f"macro-F1 on new rows: {before:.3f} at 0, {after:.3f} at a threshold for each label")

figure = Figure(figsize=(5.5, 3.2), layout="constrained")
axes = figure.subplots()
f1 = aimfor.FBeta(1.0)
assert tuned.thresholds is not None
for name, at in (("threshold 0", [0.0] * 10), ("own threshold", list(tuned.thresholds))):
    values = [float(f1.value(scores[test, k] - at[k], labels[test, k]).nan_to_num(0.0)) for k in range(10)]
    axes.plot(range(10), values, marker="o", label=name)
axes.set(xlabel="label, from common to rare", ylabel="F1 on new rows", title="A threshold for each label")
axes.legend()
figure.savefig("multi_label.svg")
assert after > before
