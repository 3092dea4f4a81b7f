"""A task: a source that has been read and a target that has been encoded, for one learner. `driver` does the rest."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from ..data.settings import Settings
from .evaluation import Evaluation

Stop = Callable[[], bool]
#: Where a task puts its work that is not finished, below the run's folder.
CELLS = "cells"


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
    """What a kind of run says for itself; all else is the same for every kind.

    Attributes:
        kind: As it stands in config.json, and in the table of options (`kinds.ACTS`).
        settings: What was asked for.
        name: Of the data, for folders and titles.
        notes: Sentences about what was dropped or assumed.
        facts: What config.json keeps beside the settings, to read the run again without its data.
        fingerprint: Changes when the data does; a resumed run checks it.
    """

    kind: ClassVar[str]
    settings: Settings
    name: str

    @property
    @abstractmethod
    def notes(self) -> list[str]: ...

    @property
    @abstractmethod
    def facts(self) -> dict[str, Any]: ...

    @property
    @abstractmethod
    def fingerprint(self) -> str: ...

    @abstractmethod
    def fit(self, folder: Path, tell: Tell, stop: Stop) -> Any:
        """Learns what the folder does not hold yet."""

    @abstractmethod
    def evaluate(self, fitted: Any, tell: Tell, stop: Stop) -> Evaluation:
        """On rows that took no part."""

    @abstractmethod
    def save(self, folder: Path, fitted: Any, evaluation: Any) -> None:
        """Everything that predictions need."""

    def sheets(self, fitted: Any, evaluation: Any) -> list[dict[str, Any]] | None:
        """Contact sheets of pictures worth a look; None for a table."""
        return None
