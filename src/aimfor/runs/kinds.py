"""A run is source × target × learner: a kind is one line that names three, and has the options that those declare.

What nobody declared is refused by name, before anything is read. A `Task` is what a kind says for itself; `driver` does
the rest.
"""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..data.backbones import is_backbone
from ..data.chunks import is_stream
from ..data.features import Work
from ..data.settings import Settings
from ..data.source import Source
from ..data.tables import memory_needed
from ..errors import InputError
from ..targets.objective import is_retrieval

if TYPE_CHECKING:
    from .evaluation import AnyEvaluation

Stop = Callable[[], bool]
#: Options of `aimfor train` by who declares them; those that nobody names act on every kind.
SOURCES = {
    "rows": ("column", "group", "cluster", "time", "encoding", "rows", "memory", "test"),
    "rows of lists": ("column", "encoding", "rows", "memory", "test"),
    "chunks": ("column", "group", "cluster", "encoding", "memory", "threads"),
    "images": ("group", "cluster", "encoding", "image_size", "skip_corrupt"),
    "photos": ("model", "encoding", "rows", "image_size", "skip_corrupt"),
    "scenes": ("model", "cluster", "image_size", "masks"),
}
TARGETS = {
    "classes": ("target", "positive"),
    "grades": ("target", "query"),
    "labels": ("target",),
    "identities": ("target",),
    "pixels": ("classes", "ignore"),
}
LEARNERS = {
    "ensemble": ("members", "fast", "budget", "jobs", "holdout"),
    "ensemble of chunks": ("members", "fast", "budget"),
    "ensemble on pixels": ("fast", "budget", "jobs", "holdout"),
    "ensemble on features": ("members", "fast", "budget", "jobs", "holdout"),
    "an ensemble a label": ("members", "budget"),
    "embedding": ("epochs",),
    "mask network": ("epochs", "loss"),
}


@dataclass(frozen=True)
class Step:
    """How far the work is: what is being done, in words and as a share; about how many seconds are left, if known."""

    doing: str
    value: str
    done: float
    total: float
    left: float | None = None


Tell = Callable[[Step], None]


class Task(ABC):
    """A source that has been read and a target that has been encoded, for one learner.

    Attributes:
        kind: A key of `KINDS`.
        settings: What was asked for.
        name: Of the data, for folders and titles.
        notes: Sentences about what was dropped or assumed.
        facts: What config.json keeps beside the settings, to read the run again without its data.
        fingerprint: Changes when the data does; a resumed run checks it.
    """

    kind: str
    settings: Settings
    name: str
    notes: list[str]
    facts: dict[str, Any]
    fingerprint: str

    @abstractmethod
    def fit(self, folder: Path, tell: Tell, stop: Stop) -> Any:
        """Learns what the folder does not hold yet."""

    @abstractmethod
    def evaluate(self, fitted: Any, tell: Tell, stop: Stop) -> AnyEvaluation:
        """On rows that took no part."""

    @abstractmethod
    def save(self, folder: Path, fitted: Any, evaluation: Any) -> None:
        """Everything that predictions need."""

    def sheets(self, fitted: Any, evaluation: Any) -> list[dict[str, Any]] | None:
        """Contact sheets of pictures worth a look; None for a table."""
        return None


@dataclass
class Reading:
    """What a task is made of.

    Attributes:
        settings: What the run depends on.
        work: How features of pictures are computed.
        folder: From a name to the run's folder, for a source that needs one while it is read.
    """

    settings: Settings
    work: Work
    folder: Callable[[str], Path]

    @cached_property
    def source(self) -> Source:
        """Rows or pictures in memory, read once."""
        from .prepared import read_source

        return read_source(self.settings, self.work)


@dataclass(frozen=True)
class Kind:
    """What a run reads, what it predicts, who learns; the task that does it, and when a run is of this kind.

    Attributes:
        title: In words.
        source: A key of `SOURCES`.
        target: A key of `TARGETS`.
        learner: A key of `LEARNERS`.
        task: ``module:callable`` from a `Reading` to a `Task`.
        hub: What model hubs call it.
        suits: Whether such settings are of this kind.
        fits: Whether such a source is, where the settings leave it open.
    """

    title: str
    source: str
    target: str
    learner: str
    task: str
    hub: str
    suits: Callable[[Settings], bool]
    fits: Callable[[Source], bool] | None = None

    @property
    def options(self) -> set[str]:
        return {*SOURCES[self.source], *TARGETS[self.target], *LEARNERS[self.learner]}


def _scenes(settings: Settings) -> bool:
    return settings.masks is not None


def _neighbours(settings: Settings) -> bool:
    """Such a metric on pictures; a table of paths needs a backbone to be one."""
    pictures = is_backbone(settings.model) or Path(settings.data).is_dir()
    return not _scenes(settings) and is_retrieval(settings.metric) and settings.query is None and pictures


def _chunks(settings: Settings) -> bool:
    """A folder of tables, or a file too large for the memory that was named."""
    path = Path(settings.data)
    if _scenes(settings) or _neighbours(settings) or is_backbone(settings.model):
        return False
    if path.is_file():
        return bool(settings.memory) and path.suffix.lower() != ".npz" and memory_needed(path) > settings.memory
    return is_stream(settings.data)


def _lists(settings: Settings) -> bool:
    return settings.query is not None and not (_scenes(settings) or _chunks(settings))


def _rows(settings: Settings) -> bool:
    """None of the above: classes or labels, of rows or of pictures in memory."""
    return settings.query is None and not (_scenes(settings) or _neighbours(settings) or _chunks(settings))


def _pixels(settings: Settings) -> bool:
    return _rows(settings) and not is_backbone(settings.model)


def _photos(settings: Settings) -> bool:
    return _rows(settings) and is_backbone(settings.model)


KINDS = {
    "table": Kind(
        *("a table in memory", "rows", "classes", "ensemble", ".ensemble:of_rows", "tabular-classification"),
        *(_pixels, lambda read: read.images is None),
    ),
    "lists": Kind(
        *("ranked lists (--query)", "rows of lists", "grades", "ensemble", ".ensemble:of_rows", "tabular-ranking"),
        _lists,
    ),
    "stream": Kind(
        *("a table read as a stream", "chunks", "classes", "ensemble of chunks", ".stream:StreamTask"),
        *("tabular-classification", _chunks),
    ),
    "pixels": Kind(
        *("pictures without --model", "images", "classes", "ensemble on pixels", ".ensemble:of_rows"),
        *("image-classification", _pixels, lambda read: read.images is not None),
    ),
    "features": Kind(
        *("pictures with --model", "photos", "classes", "ensemble on features", ".ensemble:of_rows"),
        *("image-classification", _photos, lambda read: not read.label_names),
    ),
    "labels": Kind(
        *("several labels of pictures", "photos", "labels", "an ensemble a label", ".labels:LabelsTask"),
        *("image-classification", _photos, lambda read: bool(read.label_names)),
    ),
    "masks": Kind(*("masks", "scenes", "pixels", "mask network", ".masks:MasksTask", "image-segmentation", _scenes)),
    "embedding": Kind(
        *("neighbours (--metric map@r)", "photos", "identities", "embedding", ".embedding:EmbeddingTask"),
        *("image-feature-extraction", _neighbours),
    ),
}
#: Option → the kinds that it acts on.
ACTS = {
    option: tuple(name for name, kind in KINDS.items() if option in kind.options)
    for declared in (SOURCES, TARGETS, LEARNERS)
    for options in declared.values()
    for option in options
}


def prepare(
    settings: Settings, work: Work, folder: Callable[[str], Path], check: Callable[[tuple[str, ...]], None]
) -> Task:
    """The task of these settings. All input errors surface here, before anything is written.

    ``check`` is called with the kinds that are still possible; it may refuse options that would have no effect.
    """
    reading = Reading(settings, work, folder)
    names = tuple(name for name, kind in KINDS.items() if kind.suits(settings))
    check(names)
    if len(names) > 1:
        names = tuple(name for name in names if (fits := KINDS[name].fits) is None or fits(reading.source))
        check(names)
    module, _, name = KINDS[names[0]].task.partition(":")
    return getattr(importlib.import_module(module, __package__), name)(reading)  # type: ignore[no-any-return]


_TEXT = (".csv", ".tsv", ".txt", ".gz")
#: Option → forms of data (see `form_of`) that have what it is about; the others act on any.
_FORMS = {
    "target": ("text", "binary", "array", "tables"),
    "encoding": ("text", "tables"),
    "rows": ("text", "binary"),
    "group": ("text", "binary", "array", "tables"),
    "cluster": ("text", "binary", "array", "tables"),
    "skip_corrupt": ("text", "binary", "pictures"),
}
_WORDS = {
    "text": "a CSV file",
    "binary": "a Parquet or Arrow file",
    "array": "an npz file or a built-in set",
    "tables": "a folder of tables",
    "pictures": "a folder of pictures",
}


def form_of(data: str) -> str:
    """What the data is, by its name alone: a key of `_WORDS`."""
    from ..data.pictures import SUFFIXES

    path = Path(data)
    suffix = path.suffix.lower()
    if path.is_dir():
        return "tables" if is_stream(data) else "pictures"
    if suffix in SUFFIXES:
        return "pictures"
    if suffix == ".npz" or not path.exists():
        return "array"
    return "text" if suffix in _TEXT else "binary"


def flag(option: str) -> str:
    return "--" + option.replace("_", "-")


def check_options(typed: Iterable[str], kinds: tuple[str, ...], data: str) -> None:
    """Raises `InputError` for an option that acts on none of the kinds the run may be of, or not on such data."""
    form = form_of(data)
    for option in typed:
        acts = ACTS.get(option, tuple(KINDS))
        if not set(kinds) & set(acts):
            others = " or ".join(KINDS[kind].title for kind in acts)
            raise InputError(flag(option), f"the option for {KINDS[kinds[0]].title}", others, "Leave it out.")
        forms = _FORMS.get(option, tuple(_WORDS))
        if form not in forms and kinds != ("masks",):
            others = " or ".join(_WORDS[fine] for fine in forms)
            raise InputError(flag(option), f"the option for {_WORDS[form]}", others, "Leave it out.")


def matrix() -> str:
    """The table in Markdown: an option acts on a kind of run, or is refused by name."""
    lines = [f"| option | {' | '.join(kind.title for kind in KINDS.values())} |", "|---" * (1 + len(KINDS)) + "|"]
    for option, kinds in ACTS.items():
        words = ("acts" if kind in kinds else "refused" for kind in KINDS)
        lines.append(f"| `{flag(option)}` | {' | '.join(words)} |")
    return "\n".join(lines)
