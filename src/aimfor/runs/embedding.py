"""A run on neighbours: ``aimfor train photos/ --metric map@r``, and the vectors that `embed` writes."""

from __future__ import annotations

import io
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ..data import checkpoint
from ..data.backbones import WORTH, is_backbone
from ..data.features import Work
from ..data.pictures import Pictures
from ..errors import InputError
from ..learners.embedding import CLASSES, EXAMPLES, TITLES, EmbeddingFit, Examples, empty, fit_embedding, vectors_of
from ..learners.ensemble import FolderStore
from ..targets.folds import rows_of_each
from ..targets.identities import Preprocessing, gallery_of, query_values
from ..targets.intervals import bootstrap_interval
from ..targets.objective import depth_of
from .evaluation import Measured, NeighboursEvaluation, NeighboursPart
from .folder import CELLS, fingerprint_of, finished_run
from .kinds import Reading, Step, Stop, Task, Tell
from .prepared import read_source
from .sheets import neighbour_sheets

#: Vectors of the run's own pictures.
OWN = "vectors.npy"
#: Depths of the lists that are reported beside the metric.
DEPTHS = (1, 5, 10)


class EmbeddingTask(Task):
    """Pictures × identities × an embedding. Classes are checked before features are computed."""

    kind = "embedding"

    def __init__(self, reading: Reading) -> None:
        settings, work = reading.settings, reading.work
        source = read_source(settings, work, one_by_one=True)
        self.settings, self.name, self.gallery = settings, source.name, gallery_of(settings, source)
        self.notes = self.gallery.notes
        if not is_backbone(settings.model):
            if settings.model != "auto":
                expected = "efficientnet-lite0, timm/NAME, or nothing, for map@r"
                raise InputError("--model", repr(settings.model), expected)
            self.notes.append(WORTH.split(". ")[0])
        preprocessing, work.hashes = Preprocessing.of(settings), source.hashes
        self.x = preprocessing.see(self.gallery.pictures, work)
        self.facts = {"sight": asdict(preprocessing)}
        self.fingerprint = fingerprint_of(self.x, self.gallery.y, self.gallery.test, self.gallery.names)

    def fit(self, folder: Path, tell: Tell, stop: Stop) -> EmbeddingFit:
        rows = torch.from_numpy(self.gallery.rows(test=False))
        y = torch.from_numpy(self.gallery.y)[rows]
        return fit_embedding(
            Examples(self.x[rows], y.unique(return_inverse=True)[1]),
            self.settings.metric,
            steps=self.settings.epochs * max(1, len(rows) // (CLASSES * EXAMPLES)),
            seed=self.settings.seed,
            store=FolderStore(folder / CELLS),
            tell=lambda done, total: tell(Step("training", f"{done} of {total} steps", done, total)),
            stop=stop,
        )

    def evaluate(self, fitted: EmbeddingFit, tell: Tell, stop: Stop) -> NeighboursEvaluation:
        """On classes that took no part, trained and untrained."""
        gallery = self.gallery
        rows = torch.from_numpy(gallery.rows(test=True))
        x, y = self.x[rows], torch.from_numpy(gallery.y)[rows]
        vectors = fitted.vectors(x)
        return NeighboursEvaluation(
            metric=self.settings.metric,
            test=self._on(vectors, y),
            untrained=self._on(vectors_of(nn.Flatten(), x), y, thorough=False),
            ways={TITLES[way]: value for way, value in fitted.values.items()},
            chosen=TITLES[fitted.way],
            steps=fitted.steps,
            width=vectors.shape[1],
            classes={"train": int((~gallery.test).sum()), "test": int(gallery.test.sum())},
            pictures={"train": len(gallery.y) - len(rows), "test": len(rows)},
            test_classes=[name for name, aside in zip(gallery.names, gallery.test, strict=True) if aside],
            notes=gallery.notes,
        )

    def _on(self, vectors: Tensor, y: Tensor, *, thorough: bool = True) -> NeighboursPart:
        """Means over queries of the test classes, with 95 % of bootstrap draws of classes."""
        metric, seed, classes = self.settings.metric, self.settings.seed, rows_of_each(y)
        depths = sorted({depth for depth in (*DEPTHS, depth_of(metric)) if depth < len(y)})
        means: dict[str, Measured] = {}
        for name, each in query_values(vectors, y, tuple(depths)).items():
            sums, sizes = (torch.tensor([float(f(each[rows])) for rows in classes]) for f in (torch.sum, len))

            def mean(drawn: Tensor, sums: Tensor = sums, sizes: Tensor = sizes) -> float:
                return float(sums[drawn].sum() / sizes[drawn].sum())

            interval = bootstrap_interval(mean, len(classes), seed=seed) if thorough else None
            means[name] = Measured(float(each.mean()), interval)
        return NeighboursPart(metric=means[metric].value, interval=means[metric].interval, all=means)

    def save(self, folder: Path, fitted: EmbeddingFit, evaluation: NeighboursEvaluation) -> None:
        """The network, and the vectors of its own pictures."""
        tensors = dict(fitted.network.state_dict()) or {"none": torch.zeros(1)}
        checkpoint.save(folder / "model.safetensors", tensors, {"way": fitted.way, "width": evaluation.width})
        labels = [self.gallery.names[number] for number in self.gallery.y]
        vectors = fitted.vectors(self.x).numpy()
        write_vectors(folder / OWN, Vectors(self.gallery.pictures.names, vectors, labels))

    def sheets(self, fitted: EmbeddingFit, evaluation: NeighboursEvaluation) -> list[dict[str, Any]]:
        return neighbour_sheets(self.gallery, fitted.vectors(self.x))


@dataclass
class EmbeddingRun:
    """A finished run, ready to embed."""

    folder: Path
    preprocessing: Preprocessing
    network: nn.Module

    def vectors(self, pictures: Pictures, work: Work | None = None) -> Tensor:
        work = work or Work(self.folder.resolve().parent, write=False)
        return vectors_of(self.network, self.preprocessing.see(pictures, work))


def load_run(folder: Path) -> EmbeddingRun:
    """Raises `InputError` for an unfinished or damaged run, or one of another kind."""
    with finished_run(folder, EmbeddingTask.kind, "a run with --metric map@r or recall@1") as (config, _):
        tensors, facts = checkpoint.load(folder / "model.safetensors")
        with checkpoint.reading(folder / "config.json"):
            preprocessing = Preprocessing(**config["sight"])
            shape = preprocessing.shape
        with checkpoint.reading(folder / "model.safetensors"):
            network = empty(str(facts["way"]), shape, int(facts["width"]))
            if facts["way"] != "plain":
                network.load_state_dict(tensors)
    return EmbeddingRun(folder, preprocessing, network.eval())


@dataclass(frozen=True)
class Vectors:
    """``(n, d)`` float32, a name each, and the class of each where it is known."""

    names: list[str]
    rows: NDArray[np.float32]
    labels: list[str] | None = None


def check_suffix(path: Path) -> None:
    """Raises `InputError` for a file that is neither kind."""
    if path.suffix.lower() not in (".npy", ".parquet"):
        raise InputError("--out", str(path), "a file that ends in .npy or .parquet")


def write_vectors(path: Path, vectors: Vectors) -> list[Path]:
    """``.npy`` with a ``.json`` of names beside it, or one ``.parquet`` table; the files written.

    Names come first, so that whoever sees vectors finds their names.
    """
    check_suffix(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix.lower() == ".parquet":
        checkpoint.write_bytes(path, _parquet(vectors))
        return [path]
    beside = path.with_suffix(".json")
    checkpoint.write_json(beside, {"names": vectors.names, "classes": vectors.labels})
    content = io.BytesIO()
    np.save(content, vectors.rows.astype(np.float32), allow_pickle=False)
    checkpoint.write_bytes(path, content.getvalue())
    return [path, beside]


def _parquet(vectors: Vectors) -> bytes:
    import pyarrow
    from pyarrow import parquet

    flat = pyarrow.array(np.ascontiguousarray(vectors.rows, dtype=np.float32).reshape(-1))
    columns = {"name": pyarrow.array(vectors.names, pyarrow.string())}
    if vectors.labels is not None:
        columns["class"] = pyarrow.array(vectors.labels, pyarrow.string())
    columns["vector"] = pyarrow.FixedSizeListArray.from_arrays(flat, vectors.rows.shape[1])
    sink = pyarrow.BufferOutputStream()
    parquet.write_table(pyarrow.table(columns), sink)
    return bytes(sink.getvalue().to_pybytes())
