"""The settings of a run as checked data."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ..errors import InputError

#: Of what the program no longer does.
_RETIRED = {
    *("hidden", "dropout", "batch_size", "learning_rate", "weight_decay", "patience", "checkpoint_seconds"),
    *("readers", "shard", "split_by", "workers", "augment", "fine_tune"),
}


class Settings(BaseModel):
    """Everything a run depends on; stored as config.json and restored by --resume."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    data: str
    metric: str
    target: str | None = None
    positive: str | None = None
    #: The column that the report breaks rates down by.
    group: str | None = None
    #: Rows with the same value of this column (masks: pictures with the same match of this expression) stay together.
    cluster: str | None = None
    #: The column that names the query of each row, for metrics of ranked lists.
    query: str | None = None
    model: str = "auto"
    #: Passes over the pictures, for masks and embeddings; 0 takes what suits them.
    epochs: int = Field(default=0, ge=0, le=1_000_000)
    seed: int = Field(default=0, ge=0, lt=2**31)
    threads: int = Field(default=1, ge=1)
    #: What columns are to be, where it should not be inferred: "NAME=KIND", see columns/schema.py.
    column: tuple[str, ...] = ()
    encoding: str = "utf8"
    rows: int | None = Field(default=None, ge=1)
    image_size: int = Field(default=0, ge=0, le=1024)
    #: Pictures that cannot be read are left out instead of being an error.
    skip_corrupt: bool = False
    #: Masks: their folder, a file of class names, the value of pixels that do not count.
    masks: str | None = None
    classes: str | None = None
    ignore: int | None = Field(default=None, ge=0, le=255)
    #: What masks are trained on: a key of learners.masks.LOSSES.
    loss: Literal["iou", "lovasz", "cross-entropy"] = "lovasz"
    #: Tables: bytes that may be used (0: a default).
    memory: int = Field(default=0, ge=0)
    #: The share of the rows that test and are not learned from; 0 for none.
    holdout: float = Field(default=0.0, ge=0, le=0.5)
    #: The column that orders rows: folds learn from what was before.
    time: str | None = None
    #: A file of test rows.
    test: str | None = None
    #: Kinds of members of the ensemble.
    members: tuple[str, ...] = ("linear", "trees", "network")
    #: One member and one split.
    fast: bool = False
    #: Members that would end later are left out.
    budget_minutes: float | None = Field(default=None, ge=0)
    #: Processes; 0 takes one per core for tables that are large enough.
    jobs: int = Field(default=0, ge=0)

    @property
    def requested(self) -> dict[str, str]:
        """Column and kind. Raises `InputError` for an entry without ``=``."""
        pairs = [text.rpartition("=") for text in self.column]
        wrong = next((kind for name, mark, kind in pairs if not mark or not name), None)
        if wrong is not None:
            raise InputError("--column", repr(wrong), "NAME=KIND", "For instance: --column when=date:%d/%m/%Y.")
        return {name.strip(): kind for name, _, kind in pairs}

    @classmethod
    def stored(cls, facts: dict[str, Any]) -> Settings:
        """Settings from a config.json; those of networks that earlier versions trained are left aside."""
        kept = {name: value for name, value in facts.items() if name not in _RETIRED}
        kept["jobs"] = facts.get("jobs", facts.get("workers", 0))
        if "cluster" not in facts:  # until then: --split-by on streams, --group on masks
            together = facts.get("split_by") or (facts.get("masks") and facts.get("group"))
            kept |= {"cluster": together or None, "group": None if facts.get("masks") else facts.get("group")}
        return cls(**kept)


def settings(**values: Any) -> Settings:
    """Checked settings; None means "not given". Raises `InputError` naming the flag.

    Example:
        >>> settings(data="table.csv", target="label", metric="f1", seed=5).seed
        5
    """
    try:
        return Settings(**{key: value for key, value in values.items() if value is not None})
    except ValidationError as error:
        first = error.errors()[0]
        flag = "--" + str(first["loc"][0]).replace("_", "-") if first["loc"] else "settings"
        raise InputError(flag, repr(first.get("input")), str(first["msg"]).lower()) from None
