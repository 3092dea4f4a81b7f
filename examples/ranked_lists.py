"""Ranked lists of different lengths: NDCG by query, with one number per row that names its list.

Queries for expensive goods get higher grades, but within a query the cheaper offer is better. A loss of single rows
learns that a high price is a good sign, because that is true of all rows together. A loss of lists looks inside each.
"""

# %%
import torch
from matplotlib.figure import Figure

import aimfor

torch.manual_seed(0)
queries = torch.randint(0, 120, (1500,)).sort().values
dear = 2.0 * torch.randn(120)
features = torch.randn(1500, 4)
price = dear[queries] + features[:, 0]
quality = dear[queries] - features[:, 0] + 0.5 * features[:, 1] + 0.3 * torch.randn(1500)
features[:, 0] = price
grades = torch.bucketize(quality, torch.tensor([0.0, 1.5, 3.0]))
train = queries < 60
ndcg = aimfor.metric_from_name("ndcg@10")


# %%
def history(by_list: bool) -> list[float]:
    """NDCG@10 of new queries after each epoch."""
    torch.manual_seed(1)
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    loss_fn, found = aimfor.MetricLoss("ndcg@10"), []
    for _ in range(25):
        for lists in torch.randperm(60).split(20):
            rows = torch.isin(queries, lists)
            scores = model(features[rows]).squeeze(1)
            if by_list:
                loss = loss_fn(scores, grades[rows], groups=queries[rows])
            else:
                loss = (scores - grades[rows]).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            scores = model(features[~train]).squeeze(1)
            found.append(float(ndcg.value(scores, grades[~train], groups=queries[~train])))
    return found


# %%
figure = Figure(figsize=(5.5, 3.2), layout="constrained")
axes = figure.subplots()
last = {}
for name, by_list in (("squared error of each row", False), ("NDCG@10 of the lists", True)):
    found = history(by_list)
    last[by_list] = found[-1]
    axes.plot(range(1, 26), found, label=name)
    print(f"trained by {name}: NDCG@10 {found[-1]:.3f} on new queries")
axes.set(xlabel="epoch", ylabel="NDCG@10, new queries", title="Lists of different lengths")
axes.legend()
figure.savefig("ranked_lists.svg")
assert last[True] > last[False] + 0.05
