"""Train a tagger on the loss it is judged by: the share of sentences with any wrong tag.

The output is a whole sequence of tags with transition scores between neighbours, so the prediction is found by Viterbi.
The loss of a sentence is 0 if every tag is right and 1 otherwise, which no sum over positions expresses:
loss-augmented inference needs the best sequence *other than the truth*, and a Viterbi that remembers whether it has
left the truth yet finds it.
"""

import torch
from matplotlib.figure import Figure
from torch import Tensor

from aimfor.direct import DirectEngine, StructuredLoss

TAGS, LENGTH = 3, 6


def chain_score(x: Tensor, y: Tensor) -> Tensor:
    """Score of tag sequences. x: unary scores (b, l, t) followed by transitions (b, t, t) along dimension 1."""
    unary, transition = x[:, :LENGTH], x[:, LENGTH:]
    at = unary.gather(2, y[..., None]).squeeze(2).sum(1)
    return at + transition[torch.arange(len(y))[:, None], y[:, :-1], y[:, 1:]].sum(1)


def viterbi(x: Tensor, avoid: Tensor | None = None) -> Tensor:
    """The best sequence, or the best that differs from ``avoid`` somewhere. States: (has left ``avoid``?, tag)."""
    unary, transition = x[:, :LENGTH], x[:, LENGTH:]
    impossible = torch.full((len(x), 2, TAGS, 2, TAGS), -1e9)
    on = torch.zeros(len(x), LENGTH, TAGS, dtype=torch.bool)
    if avoid is not None:
        on = torch.nn.functional.one_hot(avoid, TAGS).bool()
    value = torch.stack((unary[:, 0].where(on[:, 0], -1e9), unary[:, 0].where(~on[:, 0], -1e9)), 1)
    back = []
    for place in range(1, LENGTH):
        step = impossible.clone()
        step[:, 0, :, 0] = transition.where(on[:, place, None], -1e9)  # still on the way to avoid
        step[:, 0, :, 1] = transition.where(~on[:, place, None], -1e9)  # leaving it now
        step[:, 1, :, 1] = transition  # left it before
        best, origin = (value[..., None, None] + step).flatten(1, 2).max(1)
        value = best + unary[:, place, None]
        back.append(origin.flatten(1))
    state = TAGS + value[:, 1].argmax(1)
    path = [state]
    for origin in reversed(back):
        path.append(origin.gather(1, path[-1][:, None]).squeeze(1))
    return torch.stack(path[::-1], 1) % TAGS


def wrong(y: Tensor, z: Tensor) -> Tensor:
    return (y != z).any(1).float()


def augmented(x: Tensor, y: Tensor, epsilon: float) -> Tensor:
    """argmax of score + epsilon · loss: the truth, or the best of all others, whichever then scores higher."""
    other = viterbi(x, avoid=y)
    return torch.where((chain_score(x, other) + epsilon > chain_score(x, y))[:, None], other, y)


def make_data(sentences: int) -> tuple[Tensor, Tensor]:
    """Tags follow a cycle that is now and then broken; words show the tag through noise."""
    start = torch.randint(0, TAGS, (sentences, 1))
    jumps = (torch.rand(sentences, LENGTH - 1) < 0.15).long()
    tags = torch.cat((start, start + (1 + jumps).cumsum(1)), 1) % TAGS
    return torch.nn.functional.one_hot(tags, TAGS) + 0.7 * torch.randn(sentences, LENGTH, TAGS), tags


class Tagger(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.unary = torch.nn.Linear(TAGS, TAGS)
        self.transition = torch.nn.Parameter(torch.zeros(TAGS, TAGS))

    def forward(self, words: Tensor) -> Tensor:
        return torch.cat((self.unary(words), self.transition.expand(len(words), -1, -1)), 1)


def main() -> None:
    torch.manual_seed(0)
    train, test = make_data(200), make_data(500)
    model = Tagger()
    loss_fn = StructuredLoss(chain_score, viterbi, augmented, wrong, DirectEngine(epsilon=3.0, sign="both"))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    history = []
    for _ in range(30):
        optimizer.zero_grad()
        loss = loss_fn(model(train[0]), train[1])
        loss.backward()
        optimizer.step()
        history.append(loss.item())
    with torch.no_grad():
        end = wrong(test[1], viterbi(model(test[0]))).mean().item()
    print(f"sentences with a wrong tag: {history[0]:.2f} before, {history[-1]:.2f} after, {end:.2f} on new sentences")
    figure = Figure(figsize=(5.5, 3.2), layout="constrained")
    axes = figure.subplots()
    axes.plot(history)
    axes.axhline(end, color="black", linewidth=0.8)
    axes.set(
        xlabel="step",
        ylabel="sentences with a wrong tag",
        title="The true loss while it is trained; the line: new sentences",
    )
    figure.savefig("sequence_labelling.svg")
    assert end < 0.75 * history[0]


if __name__ == "__main__":
    main()
