"""F1 where nobody tunes a threshold: cross-entropy decides at one half, the metric's own loss where F1 is best.

Positives are rare and overlap with the rest. A model trained with cross-entropy gives honest probabilities, few of
which exceed one half, so decisions at 0 miss most positives. Trained on F1, the same model is best near 0.
"""

# %%
import torch
from matplotlib.figure import Figure

import aimfor

torch.manual_seed(0)
labels = (torch.rand(8000) < 0.08).long()
features = torch.randn(8000, 6) + 0.7 * labels[:, None]
train, test = slice(0, 4000), slice(4000, 8000)
f1 = aimfor.metric_from_name("f1")


# %%
def trained(loss_fn: torch.nn.Module) -> torch.Tensor:
    """Scores of the test rows after the same training."""
    torch.manual_seed(1)
    model = torch.nn.Linear(6, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(8):
        for rows in torch.randperm(4000).split(128):
            optimizer.zero_grad()
            loss_fn(model(features[rows]).squeeze(1), labels[rows]).backward()
            optimizer.step()
    with torch.no_grad():
        return model(features[test]).squeeze(1)


class CrossEntropy(torch.nn.BCEWithLogitsLoss):
    def forward(self, scores: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return super().forward(scores, targets.float())


scores = {"cross-entropy": trained(CrossEntropy()), "F1": trained(aimfor.MetricLoss("f1"))}

# %%
figure = Figure(figsize=(5.5, 3.2), layout="constrained")
axes = figure.subplots()
at_zero = {}
for name, found in scores.items():
    thresholds = torch.linspace(-4.0, 2.0, 121)
    values = [float(f1.value(found - threshold, labels[test])) for threshold in thresholds]
    axes.plot(thresholds, values, label=f"trained by {name}")
    at_zero[name] = float(f1.value(found, labels[test]))
    print(f"{name:>13}: F1 {at_zero[name]:.3f} at threshold 0, {max(values):.3f} at the best of all")
axes.axvline(0.0, color="black", linewidth=0.8)
axes.set(xlabel="threshold", ylabel="F1 on new rows", title="Where F1 is best")
axes.legend()
figure.savefig("f1_without_tuning.svg")
assert at_zero["F1"] > at_zero["cross-entropy"] + 0.1
