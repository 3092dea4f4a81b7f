"""Masks of a rare class, with pixels that nobody labelled: IoU by a small network, an ignored label and no tuning.

Discs of 3 % of the pixels hide in noise, and a border of 255 surrounds each, as in data sets drawn by hand. The same
network decides at 0 after cross-entropy and after IoU.
"""

# %%
import torch
from matplotlib.figure import Figure
from torch import Tensor, nn

import aimfor

torch.manual_seed(0)


def pictures(count: int) -> tuple[Tensor, Tensor]:
    """``(count, 1, 24, 24)`` pictures and masks of 0, 1 and 255."""
    place = torch.randint(4, 20, (count, 2, 1, 1))
    rows, columns = torch.arange(24)[:, None], torch.arange(24)[None, :]
    away = ((rows - place[:, 0]) ** 2 + (columns - place[:, 1]) ** 2).float().sqrt()
    masks = (away < 2.5).long()
    masks[(away >= 2.5) & (away < 3.5)] = 255
    return (0.9 * (away < 3.0).float() + 0.7 * torch.randn(count, 24, 24))[:, None], masks


(x, y), (x_test, y_test) = pictures(96), pictures(64)
iou = aimfor.MetricLoss("iou", ignore_index=255)


# %%
def trained(by_metric: bool) -> tuple[Tensor, Tensor]:
    """Scores of the training and of the test pictures."""
    torch.manual_seed(1)
    net = nn.Sequential(nn.Conv2d(1, 8, 5, padding=2), nn.ReLU(), nn.Conv2d(8, 8, 5, padding=2), nn.ReLU())
    net.append(nn.Conv2d(8, 1, 1))
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    for _ in range(6):
        for batch in torch.randperm(96).split(16):
            scores = net(x[batch])[:, 0]
            counted = y[batch] != 255
            if by_metric:
                loss = iou(scores, y[batch])
            else:
                loss = nn.functional.binary_cross_entropy_with_logits(scores[counted], y[batch][counted].float())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    with torch.no_grad():
        return net(x)[:, 0], net(x_test)[:, 0]


both = {"cross-entropy": trained(False), "IoU": trained(True)}
scores = {name: test for name, (_, test) in both.items()}
found = {name: float(iou.value(one, y_test)) for name, one in scores.items()}
threshold, _ = iou.metric.best_threshold(both["cross-entropy"][0][y != 255], y[y != 255])
tuned = float(iou.value(scores["cross-entropy"] - threshold, y_test))
print("Discs hide in noise, on 3 % of the pixels.")
print(f"Trained by cross-entropy, the network marks none of them: IoU {found['cross-entropy']:.2f}")
print(f"(with a threshold tuned on the training pictures {tuned:.2f}).")
print(f"Trained on IoU, one line changed and nothing tuned: IoU {found['IoU']:.2f}.")

# %%
figure = Figure(figsize=(6.4, 2.3), layout="constrained")
shown = [("picture", x_test[0, 0]), ("mask", y_test[0].where(y_test[0] != 255, torch.tensor(0)))]
shown += [(f"{name}: {found[name]:.2f}", (one[0] > 0).long()) for name, one in scores.items()]
for axes, (title, picture) in zip(figure.subplots(1, 4), shown, strict=True):
    axes.imshow(picture.numpy(), cmap="gray")
    axes.set(title=title, xticks=[], yticks=[])
figure.savefig("rare_masks.svg")
assert found["IoU"] > found["cross-entropy"]
