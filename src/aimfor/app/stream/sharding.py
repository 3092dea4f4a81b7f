"""One network cut among the processes (FSDP2): each keeps its part of the weights, gradients and optimizer state, and a
layer is whole only while it is used. On disk there is no difference: files hold whole tensors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from torch import Tensor, nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor


def shard(model: nn.Module) -> nn.Module:
    """Cuts every part of the network that is called by itself, and then the rest."""
    for part in _parts(model):
        if any(True for _ in part.parameters()):
            fully_shard(part)
    fully_shard(model)
    return model


def _parts(model: nn.Module) -> Iterator[nn.Module]:
    """Children; of lists of modules, which are never called, their entries."""
    for child in model.children():
        if isinstance(child, nn.ModuleList | nn.ModuleDict):
            yield from _parts(child)
        else:
            yield child


def whole(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Whole tensors of cut ones. All processes must ask, in the same order."""
    return {name: one.full_tensor() if isinstance(one, DTensor) else one for name, one in tensors.items()}


def cut_like(tensors: Mapping[str, Tensor], model: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """This process's parts of whole tensors, cut as the model's tensors of the same names are."""
    return {name: _cut(one, model.get(name)) for name, one in tensors.items()}


def _cut(tensor: Tensor, like: Any) -> Tensor:
    if not isinstance(like, DTensor) or tensor.shape != like.shape:
        return tensor
    return distribute_tensor(tensor, like.device_mesh, like.placements, src_data_rank=None)


def cut_moments(moments: Mapping[str, Tensor], parameters: list[nn.Parameter]) -> dict[str, Tensor]:
    """The same for an optimizer's state, ``NUMBER.NAME`` of the parameter with that number."""
    return {name: _cut(one, parameters[int(name.split(".")[0])]) for name, one in moments.items()}
