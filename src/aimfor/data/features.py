"""Features of pictures by a pretrained network, computed once: kept beside the runs by the hash of each picture.

A folder of shards, ``<backbone>-<size>-<weights>/00000.npy`` with ``00000.json`` (the hashes of its rows), each written
whole or not at all, the JSON last. A run that was stopped goes on after its last shard; a picture that moved, or is in
another folder, is found by its hash; other weights or another size have a folder of their own.
"""

from __future__ import annotations

import io
import json
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
from .pictures import Pictures, digest
from .processes import cores

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
    known: dict[str, tuple[int, int]] = field(default_factory=dict)
    shards: list[Matrix] = field(default_factory=list)

    @classmethod
    def beside(cls, runs: Path, backbone: Backbone, side: int, *, write: bool = True) -> FeatureStore:
        """The store for one network and size in the folder that holds the runs."""
        name = f"{backbone.name.replace('/', '_')}-{side}-{backbone.digest}"
        return cls(runs / FOLDER / name, write).opened(backbone.width)

    def opened(self, width: int) -> FeatureStore:
        """Reads what is there; a damaged shard counts as absent and is computed again."""
        for path in sorted(self.folder.glob("*.json")) if self.folder is not None else ():
            try:
                names = json.loads(path.read_text(encoding="utf8"))
                rows = np.load(path.with_suffix(".npy"), allow_pickle=False)
            except (OSError, ValueError, EOFError):
                continue
            fits = isinstance(names, list) and rows.shape == (len(names), width) and rows.dtype == np.float32
            if fits and bool(np.isfinite(rows).all()):
                self._remember([str(name) for name in names], rows)
        return self

    def _remember(self, names: list[str], rows: Matrix) -> None:
        self.known |= {name: (len(self.shards), row) for row, name in enumerate(names)}
        self.shards.append(rows)

    def put(self, names: list[str], rows: Matrix) -> None:
        self._remember(names, rows)
        if self.folder is None or not self.write:
            return
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            place = self._free_place(self.folder)
            content = io.BytesIO()
            np.save(content, rows, allow_pickle=False)
            checkpoint.write_bytes(self.folder / f"{place:05d}.npy", content.getvalue())
            checkpoint.write_json(self.folder / f"{place:05d}.json", names)
        except OSError as error:
            raise InputError("--out", f"{self.folder} ({error.strerror})", "a folder that may be written") from None

    @staticmethod
    def _free_place(folder: Path) -> int:
        """The number of a new shard, taken by an empty file: runs that write at the same time never share one."""
        place = 1 + max((int(one.stem) for one in folder.glob("*.npy") if one.stem.isdigit()), default=-1)
        while True:
            try:
                (folder / f"{place:05d}.npy").touch(exist_ok=False)
                return place
            except FileExistsError:
                place += 1

    def rows(self, names: list[str]) -> Matrix:
        return np.stack([self.shards[shard][row] for shard, row in (self.known[name] for name in names)])


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
    """``(n, width)``. Pictures whose hash the store knows are not read again.

    Args:
        pictures: All of them readable, as `read_pictures` leaves them.
        backbone: The network.
        side: Pixels.
        store: Where features are kept.
        tell: Called with pictures done and in all.
        stop: True ends with `Interrupted`; finished shards are kept.
        hashes: Of the pictures, where they are known already.

    Raises:
        InputError: A picture that cannot be read.
        Interrupted: ``stop()`` became true.
    """
    names = hashes or [digest(pictures.content(row)) for row in range(len(pictures))]
    first = {name: row for row, name in reversed(list(enumerate(names))) if name not in store.known}
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
                rows, found = todo[start : start + SHARD], []
                batches = [rows[place : place + BATCH] for place in range(0, len(rows), BATCH)]
                for part in pool.map(one_batch, batches):
                    if stop():
                        pool.shutdown(wait=False, cancel_futures=True)
                        raise Interrupted("stopped; features of finished pictures are kept")
                    found.append(part)
                    if tell is not None:
                        tell(done + start + sum(map(len, found)), len(names))
                store.put([names[row] for row in rows], np.concatenate(found))
    finally:
        torch.set_num_threads(threads)
    return store.rows(names)


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
        found = work.features(pictures, network, side)
        components = Components.fit(torch.from_numpy(found[rows]))
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
        hashes: Of the pictures, where they are known already.
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
