"""Which options act on which kind of run: one table, by which `aimfor train` refuses what would have no effect."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

#: Kinds of runs, in words.
KINDS = {
    "table": "a table in memory",
    "lists": "ranked lists (--query)",
    "stream": "a table read as a stream",
    "pixels": "pictures without --model",
    "features": "pictures with --model",
    "labels": "several labels of pictures",
    "masks": "masks",
    "embedding": "neighbours (--metric map@r)",
}
_ENSEMBLE = ("table", "lists", "stream", "pixels", "features")
#: Option of `train` → the kinds it acts on. Options that are not named here act on all.
ACTS: dict[str, tuple[str, ...]] = {
    "target": (*_ENSEMBLE, "labels", "embedding"),
    "positive": ("table", "stream", "pixels", "features"),
    "column": ("table", "lists", "stream"),
    "group": ("table", "lists", "stream", "pixels", "masks"),
    "query": ("lists",),
    "model": ("features", "labels", "masks", "embedding"),
    "members": ("table", "lists", "stream", "features", "labels"),
    "fast": _ENSEMBLE,
    "budget": (*_ENSEMBLE, "labels"),
    "workers": ("table", "lists", "pixels", "features"),
    "epochs": ("masks", "embedding"),
    "threads": ("stream",),
    "image_size": ("pixels", "features", "labels", "masks", "embedding"),
    "augment": ("pixels", "features"),
    "fine_tune": ("features",),
    "skip_corrupt": ("pixels", "features", "labels", "embedding"),
    "masks": ("masks",),
    "classes": ("masks",),
    "ignore": ("masks",),
    "encoding": (*_ENSEMBLE, "labels", "embedding"),
    "rows": ("table", "lists", "features", "labels", "embedding"),
    "memory": ("table", "lists", "stream"),
    "split_by": ("stream",),
}
_TEXT = (".csv", ".tsv", ".txt", ".gz")
#: Option → forms of data (see `form_of`) that have what it is about; the others act on any.
_FORMS = {
    "target": ("text", "binary", "array", "tables"),
    "encoding": ("text", "tables"),
    "rows": ("text", "binary"),
    "group": ("text", "binary", "array", "tables"),
    "skip_corrupt": ("text", "binary", "pictures"),
}
_WORDS = {
    "text": "a CSV file",
    "binary": "a Parquet or Arrow file",
    "array": "an npz file or a built-in set",
    "tables": "a folder of tables",
    "pictures": "a folder of pictures or a COCO file",
}


def form_of(data: str) -> str:
    """What the data is, by its name alone: a key of `_WORDS`."""
    from ..data.images import SUFFIXES
    from ..stream.table import is_stream

    path = Path(data)
    suffix = path.suffix.lower()
    if path.is_dir():
        return "tables" if is_stream(data) else "pictures"
    if suffix in (".json", *SUFFIXES):
        return "pictures"
    if suffix == ".npz" or not path.exists():
        return "array"
    return "text" if suffix in _TEXT else "binary"


def flag(option: str) -> str:
    return "--" + option.replace("_", "-")


def check_options(typed: Iterable[str], kinds: tuple[str, ...], data: str) -> None:
    """Raises `InputError` for an option that acts on none of the kinds the run may be of, or not on such data."""
    from ...errors import InputError

    form = form_of(data)
    for option in typed:
        acts = ACTS.get(option, tuple(KINDS))
        if not set(kinds) & set(acts):
            came, others = KINDS[kinds[0]], " or ".join(KINDS[one] for one in acts)
            raise InputError(flag(option), f"the option for {came}", others, "Leave it out.")
        forms = _FORMS.get(option, tuple(_WORDS))
        if form not in forms and kinds != ("masks",):
            others = " or ".join(_WORDS[one] for one in forms)
            raise InputError(flag(option), f"the option for {_WORDS[form]}", others, "Leave it out.")


def matrix() -> str:
    """The table in Markdown: an option acts on a kind of run, or is refused by name."""
    lines = [f"| option | {' | '.join(KINDS.values())} |", "|---" * (1 + len(KINDS)) + "|"]
    for option, kinds in ACTS.items():
        words = ("acts" if kind in kinds else "refused" for kind in KINDS)
        lines.append(f"| `{flag(option)}` | {' | '.join(words)} |")
    return "\n".join(lines)
