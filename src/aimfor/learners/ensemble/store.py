"""Where finished cells are kept, so that a run that was stopped goes on from there."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

from torch import Tensor

from ...data import checkpoint

Kept = tuple[dict[str, Tensor], dict[str, Any]]


class Store(Protocol):
    """Named tensors with JSON facts. A name that was never put is None.

    Example:
        >>> class Nowhere:
        ...     def get(self, name): return None
        ...     def put(self, name, tensors, facts): pass
        >>> store: Store = Nowhere()
    """

    def get(self, name: str) -> Kept | None: ...

    def put(self, name: str, tensors: dict[str, Tensor], facts: dict[str, Any]) -> None: ...


class MemoryStore:
    """Forgets with the process.

    Example:
        >>> import torch
        >>> store = MemoryStore()
        >>> store.put("linear-0", {"weight": torch.ones(2)}, {"seconds": 0.1})
        >>> store.get("linear-0")[1], store.get("linear-1")
        ({'seconds': 0.1}, None)
    """

    def __init__(self) -> None:
        self.kept: dict[str, Kept] = {}

    def get(self, name: str) -> Kept | None:
        return self.kept.get(name)

    def put(self, name: str, tensors: dict[str, Tensor], facts: dict[str, Any]) -> None:
        self.kept[name] = (tensors, facts)


class FolderStore:
    """One safetensors file per cell, written whole or not at all; a damaged one is named, not used.

    Example:
        >>> import tempfile, torch
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     FolderStore(Path(folder)).put("linear-0", {"weight": torch.ones(2)}, {"seconds": 0.1})
        ...     FolderStore(Path(folder)).get("linear-0")
        ({'weight': tensor([1., 1.])}, {'seconds': 0.1})
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def get(self, name: str) -> Kept | None:
        path = self._path(name)
        return checkpoint.load(path) if path.exists() else None

    def put(self, name: str, tensors: dict[str, Tensor], facts: dict[str, Any]) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        checkpoint.save(self._path(name), tensors, facts)

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.safetensors"
