"""Decision: thresholds for scores, and what was promised about them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from ..constraints.counts import Array
from ..errors import InputError
from .band import Band
from .certificate import Certificate
from .price import Price
from .rows import column, like


@dataclass(frozen=True)
class Guarantee:
    """What `decide(..., guarantee=...)` promises, or why it cannot.

    Attributes:
        confidence: The promise holds with at least this probability over the draw of the calibration rows.
        promise: The constraints, as printed.
        rows: Calibration rows that the tests rest on.
        learned_on: Rows that chose the order of the tests.
        steps: Thresholds that were accepted; 0 where nothing can be guaranteed.
        sentence: All of this in words.
        more: Without a threshold: about how many more rows would be needed; None where that has no answer.
        today: Without a threshold: the hardest bounds that these rows do support, all together.
        start: Without a threshold: the threshold where they do (or one for each group label); else the first tried.
        region: The lowest and highest threshold that were accepted, where one threshold is for everyone.
        price: The objective with the promise, without it and for a constant answer, and the labels that halve the gap.
        copies: Rows that are copies of others; with any, the promise is not kept as often as it says.
        best_effort: Without a threshold: the best one (or one for each group label) on all labelled rows that keeps the
            bounds there, or misses them by least. Nothing is promised about it.

    Example:
        >>> import torch, aimfor
        >>> from aimfor.rates import precision, recall
        >>> problem = aimfor.maximize(recall, subject_to=[precision >= 0.5])
        >>> decision = problem.decide(torch.arange(200.0), torch.arange(200) >= 100, guarantee=0.95)
        >>> decision.guarantee.confidence, decision.guarantee.rows + decision.guarantee.learned_on
        (0.95, 200)
    """

    confidence: float
    promise: str
    rows: int
    learned_on: int
    steps: int
    sentence: str
    more: int | None = None
    today: tuple[str, ...] = ()
    start: tuple[float, ...] = ()
    region: tuple[float, ...] = ()
    price: Price | None = None
    copies: int = 0
    best_effort: tuple[float, ...] = ()

    def __str__(self) -> str:
        return self.sentence


@dataclass(frozen=True)
class Decision:
    """Predict positive where ``score > threshold``, with one threshold for everyone or one for each group label.

    Attributes:
        threshold: For everyone, and for labels that were not there when the thresholds were chosen; None where no
            threshold can be guaranteed, and then the decision cannot be called.
        attribute: The group attribute that has thresholds of its own, or None.
        thresholds: By label.
        feasible: Whether the constraints held with the margin or guarantee asked for.
        margin: "guarantee", or the margin that was reached: "certify", "confident", "none", or "infeasible".
        certificate: On the data that chose the thresholds: optimistic, for orientation only.
        guarantee: What was promised, where a guarantee was asked for.
        band: Bounds at all thresholds of a grid together, where they were asked for.
        words: What the labels 0, 1, … of the attribute are called, where they came as words.

    Example:
        >>> import torch
        >>> from aimfor.rates import Decision
        >>> Decision(threshold=0.5)(torch.tensor([0.4, 0.5, 0.6])).tolist()
        [False, False, True]
    """

    threshold: float | None
    attribute: str | None = None
    thresholds: Mapping[float, float] = field(default_factory=dict)
    feasible: bool = True
    margin: str = "none"
    certificate: Certificate | None = None
    guarantee: Guarantee | None = None
    band: Band | None = None
    words: tuple[str, ...] = ()

    def __call__(self, scores: Any, groups: Mapping[str, Any] | None = None) -> Any:
        """Decisions of the scores' shape: a bool tensor for a tensor, else a bool array."""
        return like(self.decided(column("scores", scores), groups), scores)

    def decided(self, scores: Array, groups: Mapping[str, Any] | None = None) -> Array:
        """The same of a NumPy array."""
        scores = np.asarray(scores, dtype=np.float64)
        if self.threshold is None:
            raise InputError("decision", "no threshold", "a decision with a threshold", str(self.guarantee or ""))
        if self.attribute is None:
            return np.asarray(scores > self.threshold)
        if not groups or self.attribute not in groups:
            raise InputError("groups", repr(sorted(groups or {})), f"labels for {self.attribute!r}")
        labels = self._numbered(column(f"groups[{self.attribute!r}]", groups[self.attribute]).reshape(scores.shape))
        if self.guarantee is not None and not bool(np.isin(labels, list(self.thresholds)).all()):
            raise InputError(
                f"groups[{self.attribute!r}]",
                "a label that the calibration rows did not have",
                "one of " + ", ".join(self.words or [f"{label:g}" for label in self.thresholds]),
                "Nothing was promised to other groups.",
            )
        own = np.full(scores.shape, self.threshold)
        for label, threshold in self.thresholds.items():
            own = np.where(labels == label, threshold, own)
        return np.asarray(scores > own)

    def _numbered(self, labels: Array) -> Array:
        """Words by their place among the known ones, −1 for others; numbers as they are."""
        if not self.words or labels.dtype.kind in "biuf":
            return labels
        codes = {word: code for code, word in enumerate(self.words)}
        return np.array([codes.get(str(label), -1) for label in labels.reshape(-1)]).reshape(labels.shape)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        plain: dict[str, Any] = {
            "threshold": self.threshold,
            "attribute": self.attribute,
            "thresholds": {f"{label:g}": threshold for label, threshold in self.thresholds.items()},
            "feasible": self.feasible,
            "margin": self.margin,
        }
        if self.guarantee is not None:
            plain["guarantee"] = asdict(self.guarantee)
            if not self.guarantee.best_effort:  # where something is promised there is no need of it
                del plain["guarantee"]["best_effort"]
        return plain if self.band is None else plain | {"band": self.band.to_dict()}
