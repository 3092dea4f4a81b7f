"""What decision.json answers, question by question: where each threshold applies, and what stands beside it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .parts import Parts


@dataclass(frozen=True)
class Answered:
    """One question: its thresholds ``(where, threshold)``, promised or, without any, those of the best effort."""

    name: str
    cuts: list[tuple[str, str]]
    best: list[tuple[str, str]]
    decision: dict[str, Any]
    described: dict[str, Any]

    @property
    def promise(self) -> dict[str, Any]:
        found: dict[str, Any] = self.decision["guarantee"]
        return found


def questions(document: dict[str, Any]) -> list[Answered]:
    """One for a decision or an abstention, else one for each class, category or side."""
    if document["kind"] == "decisions":
        parts = Parts(document["attribute"], document["target"], document["scores"], document["positive"])
        return [
            _answered(name, [parts.where(name)], [one["threshold"]], one, document["parts"][name])
            for name, one in document["decisions"].items()
        ]
    decision = document["decision"]
    if document["kind"] == "abstention":
        where, cuts = ["every row whose largest score is ahead of the next by more than"], [decision["threshold"]]
    elif document.get("group") is None:
        where, cuts = ["everyone"], [decision["threshold"]]
    else:
        where = [f"{document['group']} = {word}" for word in document["groups"][document["group"]]]
        cuts = list(decision["thresholds"].values())
    return [_answered("", where, cuts, decision, document)]


def _answered(
    name: str, where: list[str], cuts: list[float | None], decision: dict[str, Any], described: dict[str, Any]
) -> Answered:
    promised = [] if decision["threshold"] is None else _lines(where, cuts)
    best = [] if promised else _lines(where, decision["guarantee"].get("best_effort", ()))
    return Answered(name, promised, best, decision, described)


def _lines(where: list[str], cuts: Any) -> list[tuple[str, str]]:
    return [(who, f"{cut:.10g}") for who, cut in zip(where, cuts, strict=False)]
