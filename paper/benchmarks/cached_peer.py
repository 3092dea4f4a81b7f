"""The cached loss of sentence-transformers beside scores in parts, on the same model and the same pairs."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import torch
from common import median_seconds
from torch import Tensor
from torch.nn import functional

import aimfor


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

    found = {}
    for name, loss in {
        "plain": lambda: plain(copies(), None),
        "cached": lambda: peer(copies(), None),
        "ours": ours,
    }.items():
        step(loss)()
        found[name] = torch.cat([weight.grad.flatten() for weight in model.parameters() if weight.grad is not None])
    for name in ("cached", "ours"):
        assert (found[name] - found["plain"]).norm() < 1e-3 * found["plain"].norm(), name
    seconds = median_seconds(
        {
            "plain": step(lambda: plain(copies(), None)),
            "cached": step(lambda: peer(copies(), None)),
            "parts": step(ours),
        },
        5,
        1,
    )
    return "BERT of 4 layers × 128, 256 pairs of 32 tokens, parts of 32", seconds
