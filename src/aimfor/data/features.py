"""Features of pictures by a pretrained network, computed once: kept beside the runs by the hash of each picture.

A folder of shards, ``<backbone>-<size>-<weights>/NAME.safetensors`` with the hashes of its rows, each written whole or
not at all. A run that was stopped goes on after its last shard; a picture that moved, or is in another folder, is
found by its hash; other weights or another size have a folder of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ..errors import InputError, Interrupted
from . import checkpoint
from .backbones import BATCH, Backbone, load_backbone
from .components import Components
from .executors import cores
from .pictures import Pictures, digest

Matrix = NDArray[np.float32]
#: Pictures in a shard: what is lost at most when a run is stopped.
SHARD = 256
#: The side pictures are scaled to when the user does not say.
SIDE = 160
FOLDER = "features"


@dataclass
class FeatureStore:
    """Features by picture hash. ``folder`` None keeps them in memory only; ``write`` False never writes."""

    folder: Path | None = None
    write: bool = True
    rows: dict[str, Matrix] = field(default_factory=dict)

    @classmethod
    def beside(cls, runs: Path, backbone: Backbone, side: int, *, write: bool = True) -> FeatureStore:
        """The store for one network and size in the folder that holds the runs."""
        name = f"{backbone.name.replace('/', '_')}-{side}-{backbone.digest}"
        return cls(runs / FOLDER / name, write).opened(backbone.width)

    def opened(self, width: int) -> FeatureStore:
        """Reads what is there; a damaged shard counts as absent and is computed again."""
        for path in sorted(self.folder.glob("*.safetensors")) if self.folder is not None else ():
            try:
                tensors, names = checkpoint.load(path)
            except InputError:
                continue
            features = tensors.get("features", torch.zeros(0))
            if isinstance(names, list) and features.shape == (len(names), width) and bool(features.isfinite().all()):
                self.rows |= dict(zip(names, features.float().numpy(), strict=True))
        return self

    def put(self, names: list[str], rows: Matrix) -> None:
        """Keeps the features of these pictures; runs that write at the same time write different or equal files."""
        self.rows |= dict(zip(names, rows, strict=True))
        if self.folder is None or not self.write:
            return
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError("--out", f"{self.folder} ({error.strerror})", "a folder that may be written") from None
        file = self.folder / f"{digest(' '.join(names).encode())}.safetensors"
        checkpoint.save(file, {"features": torch.from_numpy(rows)}, names)


def features_of(
    pictures: Pictures,
    backbone: Backbone,
    side: int,
    store: FeatureStore,
    *,
    tell: Callable[[int, int], None] | None = None,
    stop: Callable[[], bool] = lambda: False,
    hashes: list[str] | None = None,
) -> Matrix:
    """``(n, width)``. Pictures whose hash the store has are not read again.

    Args:
        pictures: All of them readable, as `read_pictures` leaves them.
        backbone: The network.
        side: Pixels.
        store: Where features are kept.
        tell: Called with pictures done and in all.
        stop: True ends with `Interrupted`; finished shards are kept.
        hashes: Of the pictures, where they were computed before.

    Raises:
        InputError: A picture that cannot be read.
        Interrupted: ``stop()`` became true.
    """
    names = hashes or [digest(pictures.content(row)) for row in range(len(pictures))]
    first = {name: row for row, name in reversed(list(enumerate(names))) if name not in store.rows}
    todo = sorted(first.values())
    done = len(names) - len(todo)

    def one_batch(rows: list[int]) -> Matrix:
        torch.set_num_threads(1)  # a thread of our own each: the network's threads would wait for one another
        pixels = np.stack([pictures.square(row, side) for row in rows])
        return np.asarray(backbone.features(pixels).numpy())

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with ThreadPoolExecutor(cores()) as pool:
            for start in range(0, len(todo), SHARD):
                rows, batches = todo[start : start + SHARD], list[Matrix]()
                for batch in pool.map(one_batch, [rows[i : i + BATCH] for i in range(0, len(rows), BATCH)]):
                    if stop():
                        pool.shutdown(wait=False, cancel_futures=True)
                        raise Interrupted("stopped; features of finished pictures are kept")
                    batches.append(batch)
                    if tell is not None:
                        tell(done + start + sum(map(len, batches)), len(names))
                store.put([names[row] for row in rows], np.concatenate(batches))
    finally:
        torch.set_num_threads(threads)
    return np.stack([store.rows[name] for name in names])


@dataclass
class FeatureEncoder:
    """Pictures to components of a pretrained network's features, ``(n, d)``.

    What a run stores is the network's name, the size, the hash of its weights, and the components.
    """

    backbone: str
    side: int
    weights: str
    components: Components
    notes: list[str] = field(default_factory=list)
    kind: str = "features"
    #: Where features are kept, whom to tell and when to stop; not part of the state.
    work: Work = field(default_factory=lambda: Work())

    @classmethod
    def fit(cls, pictures: Pictures, rows: NDArray[np.int64], backbone: str, side: int, work: Work) -> FeatureEncoder:
        """Features of all pictures (kept in the store), components of the training rows among them."""
        network = load_backbone(backbone)
        side = side or SIDE
        features = work.features(pictures, network, side)
        components = Components.fit(torch.from_numpy(features[rows]))
        return cls(backbone, side, network.digest, components, work=work)

    @property
    def state(self) -> dict[str, Any]:
        plain = {"backbone": self.backbone, "side": self.side, "weights": self.weights, "notes": self.notes}
        return {**plain, "kind": self.kind, "components": self.components.state}

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.components.width,)

    def transform(self, pictures: Pictures) -> Matrix:
        features = self.work.features(pictures, trained_with(self.backbone, self.weights), self.side)
        return np.asarray(self.components(torch.from_numpy(features)).numpy(), dtype=np.float32)


def trained_with(name: str, weights: str) -> Backbone:
    """The network of a finished run. Raises `InputError` where its weights are not those of training."""
    network = load_backbone(name)
    if network.digest != weights:
        raise InputError("run", f"{name} with other weights than in training", "the same weights", "Train again.")
    return network


@dataclass
class Work:
    """How features are computed: where they are kept, whom to tell, when to stop.

    Attributes:
        runs: The folder of the runs, beside which features are kept; None keeps them in memory only.
        write: False only reads what is there.
        tell: Called with pictures done and in all.
        stop: True ends with `Interrupted`.
        hashes: Of the pictures, where they were computed before.
    """

    runs: Path | None = None
    write: bool = True
    tell: Callable[[int, int], None] | None = None
    stop: Callable[[], bool] = lambda: False
    hashes: list[str] | None = None
    _opened: dict[str, FeatureStore] = field(default_factory=dict)

    def store(self, network: Backbone, side: int) -> FeatureStore:
        key = f"{network.digest}-{side}"
        if key not in self._opened:
            beside = None if self.runs is None else FeatureStore.beside(self.runs, network, side, write=self.write)
            self._opened[key] = beside or FeatureStore()
        return self._opened[key]

    def features(self, pictures: Pictures, network: Backbone, side: int) -> Matrix:
        """As `features_of` computes them, kept where this says."""
        store = self.store(network, side)
        return features_of(pictures, network, side, store, tell=self.tell, stop=self.stop, hashes=self.hashes)


def restore_features(state: dict[str, Any]) -> FeatureEncoder:
    """Raises `InputError` for a damaged state."""
    try:
        fine = set(state) == {"backbone", "side", "weights", "notes", "kind", "components"}
        fine = fine and all(isinstance(state[key], str) for key in ("backbone", "weights")) and int(state["side"]) >= 1
        encoder = FeatureEncoder(**{**state, "components": Components.restore(state["components"])}) if fine else None
    except (TypeError, ValueError):
        encoder = None
    if encoder is None:
        raise InputError("run", "a damaged description of pictures", "the one training wrote")
    return encoder
