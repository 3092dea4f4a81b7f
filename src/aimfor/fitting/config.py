"""Recipes and settings as checked data: TOML files below, flags above."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ..errors import InputError, nearest

BUILT_IN_RECIPES = Path(__file__).with_name("recipes.toml")


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Stage(_Strict):
    """One phase of training; see recipes.toml for the meaning of each field."""

    loss: Literal["ce", "weighted_ce", "focal", "metric", "head"]
    balanced: bool = False
    start: Literal["scratch", "best"] = "scratch"
    epochs: float = Field(default=1.0, gt=0, le=10)
    rate: float = Field(default=1.0, gt=0)
    batch: int = Field(default=0, ge=-1)
    #: An optional stage is skipped, with a note, where the metric cannot be trained that way.
    optional: bool = False
    #: The stage's best replaces what was best before only if it is clearly better on validation rows.
    convincing: bool = False


class Recipe(_Strict):
    """A named list of stages."""

    name: str
    title: str
    rival: bool = False
    stages: tuple[Stage, ...] = Field(min_length=1)


class Settings(_Strict):
    """Everything a run depends on; stored as config.json and restored by --resume."""

    data: str
    metric: str
    target: str | None = None
    positive: str | None = None
    group: str | None = None
    #: The column that names the query of each row, for metrics of ranked lists.
    query: str | None = None
    model: str = "auto"
    hidden: int = Field(default=128, ge=1, le=65536)
    dropout: float = Field(default=0.1, ge=0, lt=1)
    epochs: int = Field(default=0, ge=0, le=1_000_000)
    batch_size: int = Field(default=0, ge=0)
    learning_rate: float = Field(default=1e-3, gt=0)
    weight_decay: float = Field(default=1e-4, ge=0)
    patience: int = Field(default=15, ge=1)
    seed: int = Field(default=0, ge=0, lt=2**31)
    threads: int = Field(default=1, ge=1)
    #: What columns are to be, where it should not be inferred: "NAME=KIND", see columns/schema.py.
    column: tuple[str, ...] = ()
    encoding: str = "utf8"
    rows: int | None = Field(default=None, ge=1)
    image_size: int = Field(default=0, ge=0, le=1024)
    #: Pictures are changed at random while a network learns from their pixels, as suits their sort.
    augment: bool = True
    #: The backbone's last block learns too, as one more member.
    fine_tune: bool = False
    #: Pictures that cannot be read are left out instead of being an error.
    skip_corrupt: bool = False
    #: Masks: their folder, a file of class names, the value of pixels that do not count.
    masks: str | None = None
    classes: str | None = None
    ignore: int | None = Field(default=None, ge=0, le=255)
    #: Tables read as a stream: bytes that may be used (0: a default), the column to split by.
    memory: int = Field(default=0, ge=0)
    split_by: str | None = None
    checkpoint_seconds: float = Field(default=10.0, ge=0)
    #: Kinds of members of the committee.
    members: tuple[str, ...] = ("linear", "trees", "network")
    #: One member and one split.
    fast: bool = False
    #: Members that would end later are left out.
    budget_minutes: float | None = Field(default=None, ge=0)
    #: Processes; 0 takes one per core for tables that are large enough.
    workers: int = Field(default=0, ge=0)

    @property
    def wishes(self) -> dict[str, str]:
        """Column and kind. Raises `InputError` for an entry without ``=``."""
        pairs = [one.rpartition("=") for one in self.column]
        wrong = next((kind for name, mark, kind in pairs if not mark or not name), None)
        if wrong is not None:
            raise InputError("--column", repr(wrong), "NAME=KIND", "For instance: --column when=date:%d/%m/%Y.")
        return {name.strip(): kind for name, _, kind in pairs}

    def budget(self, n: int, image: bool) -> Settings:
        """Epochs and batch size where they were left open, from the number of training rows."""
        size = self.batch_size or min(512, max(64, 2 ** ((n // 20).bit_length() - 1)))
        if image and not self.batch_size:
            size = 64
        size = min(size, n)
        steps = max(1, n // size)
        most, wanted = (20, 600) if image else (60, 1000)  # pictures cost more per step
        epochs = self.epochs or min(most, max(8, round(wanted / steps)))
        return self.model_copy(update={"batch_size": size, "epochs": epochs})


def recipes(path: Path | None = None) -> dict[str, Recipe]:
    """All recipes of a TOML file (the built-in ones by default), by name.

    Raises:
        InputError: The file is not TOML, or a field is wrong; the message names the recipe and the field.
    """
    path = path or BUILT_IN_RECIPES
    try:
        tables = tomllib.loads(path.read_text(encoding="utf8"))
    except OSError as error:
        raise InputError("recipe", f"{path} ({error.strerror})", "a TOML file of recipes") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError("recipe", f"{path.name}, which is not TOML ({error})", "a file like recipes.toml") from None
    return {name: _recipe(name, table) for name, table in tables.items()}


def _recipe(name: str, table: Any) -> Recipe:
    if not isinstance(table, dict):
        raise InputError("recipe", f"{name} = {table!r}", f"a table [{name}] with stages")
    try:
        return Recipe(**{"title": name.replace("_", " "), **table, "name": name})
    except ValidationError as error:
        raise InputError(f"recipe {name}", first_problem(error), "the fields described in recipes.toml") from None


def find_recipe(text: str) -> Recipe:
    """``NAME`` of a built-in recipe, ``FILE.toml:NAME``, or ``FILE.toml`` with one recipe.

    Example:
        >>> [stage.loss for stage in find_recipe("ce_then_metric").stages]
        ['ce', 'metric']
    """
    file, _, name = text.rpartition(":") if ".toml" in text else ("", "", text)
    if not file and name.endswith(".toml"):
        file, name = name, ""
    known = recipes(Path(file) if file else None)
    if not name and len(known) == 1:
        name = next(iter(known))
    if name not in known:
        raise InputError("recipe", repr(name), "a recipe", nearest(name, known))
    return known[name]


def settings(**values: Any) -> Settings:
    """Checked settings; None means "not given". Raises `InputError` naming the flag.

    Example:
        >>> settings(data="table.csv", target="label", metric="f1", epochs=5).epochs
        5
    """
    try:
        return Settings(**{key: value for key, value in values.items() if value is not None})
    except ValidationError as error:
        first = error.errors()[0]
        flag = "--" + str(first["loc"][0]).replace("_", "-") if first["loc"] else "settings"
        raise InputError(flag, repr(first.get("input")), str(first["msg"]).lower()) from None


def first_problem(error: ValidationError) -> str:
    first = error.errors()[0]
    return f"{'.'.join(str(part) for part in first['loc'])}: {first['msg']}"
