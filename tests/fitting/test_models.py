"""Networks of the user's own: what is wrong with one is said in a sentence."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import nn

from aimfor.errors import InputError
from aimfor.fitting.models import build


class Pair(nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        return x, x


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (nn.Linear(99, 1), "fails on two examples"),
        (Pair(), "gives a tuple"),
        (nn.Linear(3, 4), "output of shape"),
    ],
)
def test_a_network_that_does_not_fit_is_one_sentence(
    made: nn.Module, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = ModuleType("my_networks")
    module.factory = lambda shape, outputs: made  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "my_networks", module)
    with pytest.raises(InputError, match=said):
        build("my_networks:factory", (3,), 1)
