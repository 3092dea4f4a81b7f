"""A batch larger than memory, scored in parts: how exact it is, what it costs, and the memory it needs.

python paper/benchmarks/bench_in_parts.py exact    the gradient beside the whole batch's, and ordinary accumulation's
python paper/benchmarks/bench_in_parts.py cost     CPU time beside a plain epoch, and the cached loss of
                                                   sentence-transformers beside ours on the same model (left out
                                                   where sentence_transformers cannot be imported)
python paper/benchmarks/bench_in_parts.py memory   resident memory of a child process from n to 8 n, and ResNet-18 at
                                                   64 pixels at the n for which the plain batch keeps 8 GB
"""

from __future__ import annotations

import argparse
import itertools
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

import aimfor

sys.path.insert(0, str(Path(__file__).parent))
from common import median_seconds, peak_extra_megabytes, record

COMMAND = "python paper/benchmarks/bench_in_parts.py"
METRICS = (
    "auroc",
    "ap",
    "f1",
    "iou",
    "recall@precision=0.9",
    "tpr@fpr=0.1",
    "ndcg",
    "map@r",
    "mrr",
    "auc_mu",
    "f1_macro",
)
ROWS, PART, GIGABYTES = 384, 48, 8


def small_cnn(outputs: int = 1) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(
        *(nn.Conv2d(1, 8, 3, 2, 1), nn.Tanh(), nn.Conv2d(8, 16, 3, 2, 1), nn.Tanh()),
        *(nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(64, outputs)),
    )


def digits(n: int, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
    """Pictures of noise, brighter in the corner where they are positive (one in sixteen)."""
    generator = torch.Generator().manual_seed(0)
    y = (torch.arange(n) % 16 == 0).long()
    x = torch.randn(n, 1, 16, 16, generator=generator, dtype=dtype)
    x[y == 1, :, :8, :8] += 0.3
    order = torch.randperm(n, generator=generator)
    return x[order], y[order]


def gradients(name: str, dtype: torch.dtype, way: str) -> Tensor:
    """Of all weights in one vector; lists are cut by `groups` with their rows shuffled."""
    metric = aimfor.metric_from_name(name)
    classes = metric.layout == "multiclass"
    model = small_cnn(3 if classes else 1).to(dtype)
    x, y = digits(ROWS, dtype)
    y = torch.arange(ROWS) % 3 if classes else y
    lists = {"groups": torch.arange(ROWS) % 24} if metric.layout == "lists" and name != "ap" else {}

    def loss(scores: Tensor, rows: slice) -> Tensor:
        given = {key: value[rows] for key, value in lists.items()}
        return aimfor.MetricLoss(name)(scores if classes else scores.squeeze(1), y[rows], **given)

    if way == "accumulated":
        cuts = [slice(start, start + PART) for start in range(0, ROWS, PART)]
        total = torch.stack([loss(model(x[rows]), rows) for rows in cuts]).mean()
    else:
        total = loss(model(x) if way == "whole" else aimfor.in_parts(model, x, rows=PART), slice(None))
    return torch.cat([part.flatten() for part in torch.autograd.grad(total, list(model.parameters()))]).double()


def exact() -> None:
    rows = []
    for name in METRICS:
        row: dict[str, Any] = {"metric": name}
        for dtype in (torch.float64, torch.float32):
            whole = gradients(name, dtype, "whole")
            off = float((gradients(name, dtype, "parts") - whole).norm() / whole.norm())
            row[f"in parts, {str(dtype).removeprefix('torch.')}"] = f"{off:.0e}"
        apart = gradients(name, torch.float64, "accumulated")
        whole = gradients(name, torch.float64, "whole")
        row["accumulated"] = f"{100 * float((apart - whole).norm() / whole.norm()):.0f} %"
        row["its cosine"] = round(float(functional.cosine_similarity(apart, whole, 0)), 2)
        rows.append(row)
    title = f"A batch of {ROWS} in parts of {PART}: all weights' gradient, relative difference from the whole batch's"
    record("in_parts_exact", title, f"{COMMAND} exact", rows)


def cost() -> None:
    """One pass over 4,096 rows: plain batches by cross-entropy are 1."""
    rows = []
    n, part = 4096, 256
    loss_fn = aimfor.MetricLoss("ap")
    models = {"small CNN": (small_cnn(), digits(n)), "3 × 512": (_wide(), _table(n))}
    for title, (model, (x, y)) in models.items():
        seconds = median_seconds(
            {
                "plain": lambda model=model, x=x, y=y: _plain(model, x, y, part),
                "whole": lambda model=model, x=x, y=y: loss_fn(model(x).squeeze(1), y).backward(),
                "parts": lambda model=model, x=x, y=y: loss_fn(_scored(model, x, part), y).backward(),
            },
            5,
            1,
        )
        rows.append(_cost_row(title, seconds, "plain epoch of cross-entropy in 256s", ("whole", "parts")))
    found = cached_beside_parts()
    if found is not None:
        title, seconds = found
        beside = "the plain loss of in-batch negatives, at once"
        rows.append(_cost_row(title, seconds, beside, ("plain", "parts"), seconds["cached"]))
    record("in_parts_cost", "One pass over a batch, forward and backward, CPU time", f"{COMMAND} cost", rows)


def cached_beside_parts() -> tuple[str, dict[str, float]] | None:
    """The in-batch negatives of sentence-transformers, whole, cached by them, and in parts by us: the same model."""
    try:
        from sentence_transformers import SentenceTransformer, models
        from sentence_transformers.losses import CachedMultipleNegativesRankingLoss, MultipleNegativesRankingLoss
    except ImportError:
        return None
    from transformers import BertConfig, BertModel

    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=1000, hidden_size=128, num_hidden_layers=4, num_attention_heads=4, intermediate_size=512
    )
    config.hidden_dropout_prob = config.attention_probs_dropout_prob = 0.0
    with tempfile.TemporaryDirectory() as folder:
        BertModel(config).save_pretrained(folder)
        (Path(folder) / "vocab.txt").write_text(
            "\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *map(str, range(995))])
        )
        encoder = models.Transformer(folder)
        model = SentenceTransformer(modules=[encoder, models.Pooling(128)], device="cpu")
    n, part = 256, 32
    sides = [
        {"input_ids": torch.randint(5, 1000, (n, 32)), "attention_mask": torch.ones(n, 32).long()} for _ in range(2)
    ]
    plain, peer = MultipleNegativesRankingLoss(model), CachedMultipleNegativesRankingLoss(model, mini_batch_size=part)

    def step(loss: Callable[[], Tensor]) -> Callable[[], None]:
        def run() -> None:
            model.zero_grad()
            loss().backward()

        return run

    def embedded(side: dict[str, Tensor]) -> Tensor:
        return aimfor.in_parts(model, side, rows=part, scores=lambda output: output["sentence_embedding"])

    def ours() -> Tensor:
        a, b = (functional.normalize(embedded(side)) for side in sides)
        return functional.cross_entropy(20.0 * a @ b.T, torch.arange(n))

    def copies() -> list[dict[str, Tensor]]:
        return [dict(side) for side in sides]  # their model adds its output to the mapping

    losses = {"plain": lambda: plain(copies(), None), "cached": lambda: peer(copies(), None), "parts": ours}
    steps, slopes = {name: step(loss) for name, loss in losses.items()}, {}
    for name, run in steps.items():
        run()
        slopes[name] = torch.cat([weight.grad.flatten() for weight in model.parameters() if weight.grad is not None])
        assert (slopes[name] - slopes["plain"]).norm() < 1e-3 * slopes["plain"].norm(), name
    seconds = median_seconds(steps, 5, 1)
    return "BERT of 4 layers × 128, 256 pairs of 32 tokens, parts of 32", seconds


def _scored(model: nn.Module, x: Tensor, part: int) -> Tensor:
    return aimfor.in_parts(model, x, rows=part).squeeze(1)


def _cost_row(
    model: str, seconds: dict[str, float], beside: str, ours: tuple[str, str], peer: float = 0.0
) -> dict[str, Any]:
    plain = seconds["plain"]
    return {
        "model": model,
        "1 is": beside,
        "the batch at once": round(seconds[ours[0]] / plain, 2),
        "in parts": round(seconds[ours[1]] / plain, 2),
        "sentence-transformers, cached": round(peer / plain, 2) if peer else "",
    }


def _plain(model: nn.Module, x: Tensor, y: Tensor, part: int) -> None:
    for rows in torch.arange(len(y)).split(part):
        functional.binary_cross_entropy_with_logits(model(x[rows]).squeeze(1), y[rows].float()).backward()


def _wide() -> nn.Module:
    torch.manual_seed(0)
    layers = [nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(512, 1))


def _table(n: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(n, 64, generator=generator)
    return x, (x[:, 0] + torch.randn(n, generator=generator) > 1.5).long()


CHILD = """
import sys; sys.path.insert(0, {here!r})
from bench_in_parts import *
model, n = {model}, {n}
y = (torch.arange(n) % 4 == 0).long()
picture = torch.randn(64, {channels}, {side}, {side})
def load(index): return model(picture[index % 64] + index[:, None, None, None] / n)
small, x = nn.Linear(2, 1), torch.randn(64, 2)
aimfor.MetricLoss("ap")(aimfor.in_parts(small, x, rows=16)[:, 0], y[:64]).backward()
"""
IN_PARTS = "aimfor.MetricLoss('ap')(aimfor.in_parts(load, torch.arange(n), rows={part})[:, 0], y).backward()"
AT_ONCE = "aimfor.MetricLoss('ap')(load(torch.arange(n))[:, 0], y).backward()"


def memory() -> None:
    """From n to 8 n; what the library loads once is loaded before."""
    rows = []
    each = kept_by_row()
    large = round(GIGABYTES * 1e9 / each)
    plain = f"{GIGABYTES},000 (it keeps {each / 1e6:.2f} a picture)"
    for model, make, channels, side, part, sizes in (
        ("small CNN, 32 pixels", "small_cnn()", 1, 32, 1024, (4096, 8 * 4096)),
        ("ResNet-18, 64 pixels", "resnet18()", 3, 64, 32, (large // 8, large)),
    ):
        for n in sizes:
            setup = CHILD.format(here=str(Path(__file__).parent), model=make, n=n, channels=channels, side=side)
            at_once = plain if n == large else "" if n == large // 8 else round(peak_extra_megabytes(setup, AT_ONCE))
            rows.append(
                {
                    "model": model,
                    "n": f"{n:,}",
                    "rows of a part": part,
                    "in parts, MB": round(peak_extra_megabytes(setup, IN_PARTS.format(part=part))),
                    "the batch at once, MB": at_once,
                }
            )
            print(*rows[-1].values(), sep="\t", flush=True)
    title = "Resident memory that one step adds in a process of its own, loading inside the model, AP"
    record("in_parts_memory", title, f"{COMMAND} memory", rows)


def resnet18() -> nn.Module:
    """ResNet-18 with its published first layer, and group norm."""
    from paper.networks.models import Residual

    torch.manual_seed(0)
    widths = (64, 64, 64, 128, 128, 256, 256, 512, 512)
    blocks = [Residual(a, b, 1 if a == b else 2) for a, b in itertools.pairwise(widths)]
    stem = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.GroupNorm(8, 64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    return nn.Sequential(*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 1))


def kept_by_row() -> float:
    """Bytes that a ResNet-18 keeps for the gradient of one more picture of 64 pixels."""

    def kept(n: int) -> int:
        sizes: dict[int, int] = {}

        def note(tensor: Tensor) -> Tensor:
            sizes[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
            output = model(torch.zeros(n, 3, 64, 64))
        del output
        return sum(sizes.values())

    model = resnet18()
    return (kept(12) - kept(4)) / 8


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("exact", "cost", "memory"))
    torch.set_num_threads(1)
    {"exact": exact, "cost": cost, "memory": memory}[parser.parse_args().what]()


if __name__ == "__main__":
    main()
