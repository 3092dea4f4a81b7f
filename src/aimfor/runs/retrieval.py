"""A run on retrieval: ``aimfor train photos/ --metric map@r``, and what `embed` and `search` read back."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ..data import checkpoint
from ..data.backbones import WORTH, is_backbone
from ..data.features import Work
from ..data.pictures import Pictures
from ..data.settings import Settings
from ..errors import InputError
from ..learners.embedding import EmbeddingFit, Part, fit_embedding, query_values
from ..learners.embedding.fit import CLASSES, EXAMPLES, TITLES, vectors_of
from ..learners.embedding.networks import empty
from ..learners.ensemble import FolderStore
from ..targets.folds import rows_of_each
from ..targets.identities import Gallery, Preprocessing, gallery_of
from ..targets.intervals import bootstrap_interval
from ..targets.neighbours import depth_of
from .evaluation import Measured, NeighboursEvaluation, NeighboursPart
from .folder import check_finished, check_sealed, fingerprint_of, kind_of
from .kinds import Reading
from .prepared import read_source
from .sheets import neighbour_sheets
from .task import CELLS, Step, Stop, Task, Tell
from .vectors import Vectors, write_vectors

#: Vectors of the run's own pictures.
OWN = "vectors.npy"
#: Places that are reported beside the metric.
DEPTHS = (1, 5, 10)


@dataclass
class EmbeddingTask(Task):
    """Pictures × identities × an embedding."""

    kind = "embedding"
    settings: Settings
    name: str
    gallery: Gallery
    preprocessing: Preprocessing
    x: Tensor

    @property
    def notes(self) -> list[str]:
        return self.gallery.notes

    @property
    def facts(self) -> dict[str, Any]:
        return {"sight": asdict(self.preprocessing)}

    @property
    def fingerprint(self) -> str:
        return fingerprint_of(self.x, self.gallery.y, self.gallery.test, self.gallery.names)

    def fit(self, folder: Path, tell: Tell, stop: Stop) -> EmbeddingFit:
        rows = torch.from_numpy(self.gallery.rows(test=False))
        y = torch.from_numpy(self.gallery.y)[rows]
        return fit_embedding(
            Part(self.x[rows], y.unique(return_inverse=True)[1]),
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
        learn, test = (torch.from_numpy(gallery.rows(test=aside)) for aside in (False, True))
        x, y = self.x[test], torch.from_numpy(gallery.y)[test]
        vectors = fitted.vectors(x)
        return NeighboursEvaluation(
            metric=self.settings.metric,
            test=evaluated(vectors, y, self.settings),
            untrained=evaluated(fit_plain(x), y, self.settings, thorough=False),
            ways={TITLES[way]: value for way, value in fitted.values.items()},
            chosen=TITLES[fitted.way],
            steps=fitted.steps,
            width=vectors.shape[1],
            classes={"train": int((~gallery.test).sum()), "test": int(gallery.test.sum())},
            pictures={"train": len(learn), "test": len(test)},
            test_classes=[name for name, aside in zip(gallery.names, gallery.test, strict=True) if aside],
            notes=gallery.notes,
        )

    def save(self, folder: Path, fitted: EmbeddingFit, evaluation: NeighboursEvaluation) -> None:
        """The network, and the vectors of its own pictures."""
        save(folder, fitted, evaluation.width)
        labels = [self.gallery.names[one] for one in self.gallery.y]
        vectors = fitted.vectors(self.x).numpy()
        write_vectors(folder / OWN, Vectors(self.gallery.pictures.names, vectors, labels))

    def sheets(self, fitted: EmbeddingFit, evaluation: NeighboursEvaluation) -> list[dict[str, Any]]:
        return neighbour_sheets(self.gallery, fitted.vectors(self.x))


def of_identities(reading: Reading) -> EmbeddingTask:
    """Checks the classes first: features of a folder that cannot be used need not be computed."""
    settings, work = reading.settings, reading.work
    source = read_source(settings, work, one_by_one=True)
    gallery = gallery_of(settings, source)
    if not is_backbone(settings.model):
        if settings.model != "auto":
            raise InputError("--model", repr(settings.model), "efficientnet-lite0, timm/NAME, or nothing, for map@r")
        gallery.notes.append(WORTH.split(". ")[0])
    preprocessing = Preprocessing.of(settings)
    work.hashes = source.hashes
    return EmbeddingTask(settings, source.name, gallery, preprocessing, preprocessing.see(gallery.pictures, work))


def fit_plain(x: Tensor) -> Tensor:
    """What there is without any training: the numbers as they are."""
    return vectors_of(nn.Flatten(), x)


def evaluated(vectors: Tensor, y: Tensor, settings: Settings, *, thorough: bool = True) -> NeighboursPart:
    """Means over queries of the test classes, with 95 % of bootstrap draws of classes."""
    depths = sorted({one for one in (*DEPTHS, depth_of(settings.metric)) if one < len(y)})
    values = query_values(vectors, y, tuple(depths))
    classes = rows_of_each(y)
    found: dict[str, Measured] = {}
    for name, each in values.items():
        sums, sizes = (torch.tensor([float(f(each[rows])) for rows in classes]) for f in (torch.sum, len))
        mean = partial(_mean_of, sums, sizes)
        interval = bootstrap_interval(mean, len(classes), seed=settings.seed) if thorough else None
        found[name] = Measured(float(each.mean()), interval)
    return NeighboursPart(found[settings.metric].value, found[settings.metric].interval, found)


def _mean_of(sums: Tensor, sizes: Tensor, drawn: Tensor) -> float:
    """Over the queries of the classes that were drawn."""
    return float(sums[drawn].sum() / sizes[drawn].sum())


def save(folder: Path, fit: EmbeddingFit, width: int) -> None:
    tensors = dict(fit.network.state_dict()) or {"none": torch.zeros(1)}
    checkpoint.save(folder / "model.safetensors", tensors, {"way": fit.way, "width": width})


@dataclass
class RetrievalRun:
    """A finished run, ready to embed."""

    folder: Path
    settings: Settings
    preprocessing: Preprocessing
    network: nn.Module

    def vectors(self, pictures: Pictures, work: Work | None = None) -> Tensor:
        work = work or Work(self.folder.resolve().parent, write=False)
        return vectors_of(self.network, self.preprocessing.see(pictures, work))


def load_run(folder: Path) -> RetrievalRun:
    """Raises `InputError` for an unfinished or damaged run, or one of another kind."""
    if not folder.is_dir():
        raise InputError("run", f"{folder}, which is no folder", "the folder of a run with --metric map@r")
    config = checkpoint.read_json(folder / "config.json")
    if kind_of(folder) != EmbeddingTask.kind:
        raise InputError("run", f"{folder}, which has no embedding", "a run with --metric map@r or recall@1")
    check_finished(folder)
    tensors, facts = checkpoint.load(folder / "model.safetensors")
    with checkpoint.reading(folder / "config.json"):
        settings, preprocessing = Settings.stored(config["settings"]), Preprocessing(**config["sight"])
        shape = preprocessing.shape
    with checkpoint.reading(folder / "model.safetensors"):
        network = empty(str(facts["way"]), shape, int(facts["width"]))
        if facts["way"] != "plain":
            network.load_state_dict(tensors)
    check_sealed(folder)
    return RetrievalRun(folder, settings, preprocessing, network.eval())
