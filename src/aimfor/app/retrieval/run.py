"""A run on retrieval: ``aimfor train photos/ --metric map@r``, and what `embed` and `search` read back."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ...errors import InputError
from ...fitting import checkpoint
from ...fitting.backbones import WORTH, is_backbone
from ...fitting.committee import FolderStore
from ...fitting.config import Settings
from ...fitting.embedding import EmbeddingFit, Part, fit_embedding, query_values
from ...fitting.embedding.fit import CLASSES, EXAMPLES, TITLES, vectors_of
from ...fitting.embedding.near import depth_of
from ...fitting.embedding.networks import empty
from ...fitting.grouping import rows_of_each
from ...fitting.intervals import bootstrap_interval
from ..data.features import Work
from ..data.pictures import Pictures
from ..data.sources import Source
from ..run.committee_files import CELLS, forget_cells
from ..run.folder import check_finished, fingerprint_of, new_run
from .data import Gallery, Sight, gallery_of
from .vectors import Vectors, write_vectors

KIND, OWN = "retrieval", "vectors.npy"
#: Places that are reported beside the metric.
DEPTHS = (1, 5, 10)


@dataclass
class Ready:
    """Pictures as numbers, and who tests."""

    settings: Settings
    gallery: Gallery
    sight: Sight
    x: Tensor

    @property
    def fingerprint(self) -> str:
        """Changes when the data does; a resumed run checks it."""
        return fingerprint_of(self.x, self.gallery.y, self.gallery.test, self.gallery.names)


def prepare(settings: Settings, source: Source, work: Work) -> Ready:
    """Checks the classes first: features of a folder that cannot be used need not be computed."""
    gallery = gallery_of(settings, source)
    if not is_backbone(settings.model):
        if settings.model != "auto":
            raise InputError("--model", repr(settings.model), "efficientnet-lite0, timm/NAME, or nothing, for map@r")
        gallery.notes.append(WORTH.split(". ")[0])
    sight = Sight.of(settings)
    work.hashes = source.hashes
    return Ready(settings, gallery, sight, sight.see(gallery.pictures, work))


def start(settings: Settings, source: Source, out: Path | None, work: Work) -> tuple[Path, Ready]:
    """Checks everything, then makes the folder and writes config.json."""
    ready = prepare(settings, source, work)
    facts = {"sight": asdict(ready.sight), "fingerprint": ready.fingerprint}
    return new_run(out, f"{source.name}-{settings.metric}", KIND, settings, **facts), ready


def finish(
    folder: Path, ready: Ready, tell: Callable[[int, int], None] | None, stop: Callable[[], bool]
) -> dict[str, Any]:
    """Learns what is not in the folder yet, evaluates on classes that took no part, writes every file."""
    began, gallery = time.monotonic(), ready.gallery
    learn, test = (torch.from_numpy(gallery.rows(test=aside)) for aside in (False, True))
    y = torch.from_numpy(gallery.y)
    fit = fit_embedding(
        Part(ready.x[learn], y[learn].unique(return_inverse=True)[1]),
        ready.settings.metric,
        steps=ready.settings.epochs * max(1, len(learn) // (CLASSES * EXAMPLES)),
        seed=ready.settings.seed,
        store=FolderStore(folder / CELLS),
        tell=tell,
        stop=stop,
    )
    vectors = fit.vectors(ready.x)
    labels = [gallery.names[one] for one in gallery.y]
    metrics = {
        "metric": ready.settings.metric,
        "test": evaluated(vectors[test], y[test], ready.settings),
        "untrained": evaluated(fit_plain(ready.x[test]), y[test], ready.settings, thorough=False),
        "ways": {TITLES[way]: value for way, value in fit.values.items()},
        "chosen": TITLES[fit.way],
        "steps": fit.steps,
        "width": vectors.shape[1],
        "classes": {"train": int((~gallery.test).sum()), "test": int(gallery.test.sum())},
        "pictures": {"train": len(learn), "test": len(test)},
        "test_classes": [name for name, aside in zip(gallery.names, gallery.test, strict=True) if aside],
        "notes": gallery.notes,
        "seconds": round(time.monotonic() - began, 3),
    }
    save(folder, fit, vectors.shape[1])
    write_vectors(folder / OWN, Vectors(gallery.pictures.names, vectors.numpy(), labels))
    checkpoint.write_json(folder / "metrics.json", metrics)
    forget_cells(folder)
    return metrics


def fit_plain(x: Tensor) -> Tensor:
    """What there is without any training: the numbers as they are."""
    return vectors_of(nn.Flatten(), x)


def evaluated(vectors: Tensor, y: Tensor, settings: Settings, *, thorough: bool = True) -> dict[str, Any]:
    """Means over queries of the test classes, with 95 % of bootstrap draws of classes."""
    depths = sorted({one for one in (*DEPTHS, depth_of(settings.metric)) if one < len(y)})
    values = query_values(vectors, y, tuple(depths))
    classes = rows_of_each(y)
    found: dict[str, Any] = {}
    for name, each in values.items():
        sums, sizes = (torch.tensor([float(f(each[rows])) for rows in classes]) for f in (torch.sum, len))
        mean = partial(_mean_of, sums, sizes)
        interval = bootstrap_interval(mean, len(classes), seed=settings.seed) if thorough else None
        found[name] = {"value": float(each.mean()), "interval": interval}
    return {"metric": found[settings.metric]["value"], "interval": found[settings.metric]["interval"], "all": found}


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
    sight: Sight
    network: nn.Module

    def vectors(self, pictures: Pictures, work: Work | None = None) -> Tensor:
        work = work or Work(self.folder.resolve().parent, write=False)
        return vectors_of(self.network, self.sight.see(pictures, work))


def load_run(folder: Path) -> RetrievalRun:
    """Raises `InputError` for an unfinished or damaged run, or one of another kind."""
    if not folder.is_dir():
        raise InputError("run", f"{folder}, which is no folder", "the folder of a run with --metric map@r")
    config = checkpoint.read_json(folder / "config.json")
    if config.get("kind") != KIND:
        raise InputError("run", f"{folder}, which has no embedding", "a run with --metric map@r or recall@1")
    check_finished(folder)
    tensors, facts = checkpoint.load(folder / "model.safetensors")
    with checkpoint.reading(folder / "config.json"):
        settings, sight = Settings.stored(config["settings"]), Sight(**config["sight"])
        shape = sight.shape
    with checkpoint.reading(folder / "model.safetensors"):
        network = empty(str(facts["way"]), shape, int(facts["width"]))
        if facts["way"] != "plain":
            network.load_state_dict(tensors)
    return RetrievalRun(folder, settings, sight, network.eval())
