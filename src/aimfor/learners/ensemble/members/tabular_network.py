"""The ensemble's network: several small perceptrons in one pass over columns and their pieces.

The perceptrons share all weights but a scaling of their inputs and their last layer (TabM-mini), by the package `tabm`
(Apache 2.0 licence, 17 kB).

References:
    Gorishniy, Kotelnikov, Babenko, TabM: advancing tabular deep learning with parameter-efficient ensembling, 2025.
"""

from __future__ import annotations

import warnings

import torch
from torch import Tensor, nn

#: Perceptrons in one network; their mean speaks.
HEADS = 8
WIDTH, BLOCKS = 64, 2
#: Of the inputs, once for all heads: a mask for every head would cost more time than the heads.
DROPOUT = 0.1


class TabularNetwork(nn.Module):
    """``(n, width)`` rows of a `Design` to ``(n, k, outputs)`` scores of its k heads."""

    def __init__(self, width: int, outputs: int, heads: int = HEADS) -> None:
        from tabm import EnsembleView, LinearEnsemble, make_tabm_backbone

        super().__init__()
        self.dropout, self.view = nn.Dropout(DROPOUT), EnsembleView(k=heads)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the package warns about old names of torch
            self.backbone = make_tabm_backbone(
                d_in=width,
                n_blocks=BLOCKS,
                d_block=WIDTH,
                dropout=0.0,
                k=heads,
                arch_type="tabm-mini",
                start_scaling_init="normal",
                start_scaling_init_chunks=[1] * width,
            )
        self.last = LinearEnsemble(WIDTH, outputs, k=heads)

    def forward(self, inputs: Tensor) -> Tensor:
        scores: Tensor = self.last(self.backbone(self.view(self.dropout(inputs))))
        return scores


def scores_with(network: nn.Module, weights: dict[str, Tensor], inputs: Tensor) -> Tensor:
    """Scores ``(n, k, outputs)`` with these weights in place of the network's own, without gradient."""
    chunk = 8192 if inputs.ndim == 2 else 64
    mode = network.training
    network.eval()
    with torch.no_grad():
        parts = [torch.func.functional_call(network, weights, (part,)) for part in inputs.split(chunk)]
    network.train(mode)
    return torch.cat(parts)


def together(scores: Tensor) -> Tensor:
    """What k heads ``(n, k, outputs)`` say as one: the mean of their log-odds, ``(n,)`` or ``(n, outputs)``."""
    mean = scores.mean(1)
    return mean.squeeze(1) if mean.shape[1] == 1 else mean
