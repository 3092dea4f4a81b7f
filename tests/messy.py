"""Tables as people have them. Each function writes one file and says how the same data looks when cleaned by hand."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet

N = 800
Write = Callable[[pd.DataFrame, Path], "Case | Path"]


@dataclass
class Case:
    """A file, the data cleaned by hand, and what a user would type."""

    path: Path
    clean: pd.DataFrame | None = None
    requested: dict[str, str] = field(default_factory=dict)
    encoding: str = "utf8"


def clean_table(seed: int = 0, n: int = N, bias: float = 0.5) -> pd.DataFrame:
    """Numbers, dates, a category, codes, a truth value and a label that depends on all of them."""
    rng = np.random.default_rng(seed)
    amount = (rng.gamma(2.0, 1500.0, n) + 12).round(2)
    rate = (rng.random(n) * 100).round() / 100
    when = pd.Timestamp("2019-01-03 00:00") + pd.to_timedelta(rng.integers(0, 1400, n), unit="D")
    city = rng.choice(["Bern", "Genève", "Zürich", "Köln"], n)
    code = rng.choice(["02139", "10001", "00501"], n)
    flag = rng.random(n) < 0.4
    days = ((when - when.min()) / pd.Timedelta(days=1)).to_numpy()
    z = amount / 1500 + 3 * rate + days / 400 + 1.5 * (city == "Bern") + 1.2 * (code == "00501") + 1.5 * flag
    y = z + 1.2 * rng.normal(size=n) > np.quantile(z, bias)
    label = np.where(y, "yes", "no")
    return pd.DataFrame(
        {"amount": amount, "rate": rate, "when": when, "city": city, "code": code, "flag": flag, "label": label}
    )


def _text(frame: pd.DataFrame, **columns: object) -> pd.DataFrame:
    return frame.assign(when=frame["when"].dt.strftime("%Y-%m-%d")).assign(**columns)


def _csv(frame: pd.DataFrame, path: Path, **options: object) -> Path:
    (frame if frame["when"].dtype != "datetime64[ns]" else _text(frame)).to_csv(path, index=False, **options)  # type: ignore[call-overload]
    return path


def _with(name: str, make: Callable[[pd.Series], object], **options: object) -> Write:
    """One column written in another way, all else plain."""
    return lambda frame, folder: _csv(_text(frame, **{name: make(frame[name])}), folder / "t.csv", **options)


def _dates(form: str) -> Write:
    return _with("when", lambda when: when.dt.strftime(form))


def _grouped(thousands: str, decimal: str, before: str = "", after: str = "") -> Callable[[pd.Series], object]:
    def write(value: float) -> str:
        text = f"{value:,.2f}".replace(",", "T").replace(".", decimal).replace("T", thousands)
        return f"{before}{text}{after}"

    return lambda column: column.map(write)


def _raw(write: Callable[[str, Path], None]) -> Write:
    """The plain CSV as text, stored in some way."""

    def make(frame: pd.DataFrame, folder: Path) -> Path:
        write(_text(frame).to_csv(index=False), folder / "t.csv")
        return folder / "t.csv"

    return make


def _gz(frame: pd.DataFrame, folder: Path) -> Path:
    with gzip.open(folder / "t.csv.gz", "wt", encoding="utf8") as file:
        file.write(_text(frame).to_csv(index=False))
    return folder / "t.csv.gz"


def _parquet(change: Callable[[pd.DataFrame], pd.DataFrame] = lambda frame: frame) -> Write:
    def make(frame: pd.DataFrame, folder: Path) -> Path:
        change(frame).to_parquet(folder / "t.parquet")
        return folder / "t.parquet"

    return make


def _feather(frame: pd.DataFrame, folder: Path) -> Path:
    frame.to_feather(folder / "t.feather")
    return folder / "t.feather"


def _latin(frame: pd.DataFrame, folder: Path) -> Case:
    return Case(_csv(frame, folder / "t.csv", encoding="latin-1"), encoding="latin-1")


def _words(frame: pd.DataFrame, folder: Path) -> Case:
    lost = np.random.default_rng(1).random(len(frame)) < 0.02
    messy = _text(frame, amount=frame["amount"].astype(str).mask(lost, "unknown"))
    return Case(_csv(messy, folder / "t.csv"), frame.assign(amount=frame["amount"].mask(lost)))


def _many_words_for_nothing(frame: pd.DataFrame, folder: Path) -> Case:
    rng = np.random.default_rng(1)
    lost = rng.random(len(frame)) < 0.1
    nothing = rng.choice(["NA", "?", "-", "null", "", "N/A", "None"], len(frame))
    messy = _text(frame, amount=np.where(lost, nothing, frame["amount"].astype(str)))
    return Case(_csv(messy, folder / "t.csv"), frame.assign(amount=frame["amount"].mask(lost)))


def _dates_with_words(frame: pd.DataFrame, folder: Path) -> Case:
    lost = np.random.default_rng(1).random(len(frame)) < 0.03
    messy = _text(frame, when=frame["when"].dt.strftime("%d/%m/%Y").mask(lost, "pending"))
    return Case(_csv(messy, folder / "t.csv"), frame.assign(when=frame["when"].mask(lost)))


def _infinite(frame: pd.DataFrame, folder: Path) -> Case:
    lost = np.arange(len(frame)) % 97 == 0
    frame.assign(amount=frame["amount"].mask(lost, np.inf)).to_parquet(folder / "t.parquet")
    return Case(folder / "t.parquet", frame.assign(amount=frame["amount"].mask(lost)))


def _wild(frame: pd.DataFrame, folder: Path) -> Case:
    messy = frame["amount"].copy()
    messy.iloc[:3] = [1e30, 1e15, -1e12]
    held = messy.clip(0, 20_000)
    return Case(_csv(frame.assign(amount=messy), folder / "t.csv"), frame.assign(amount=held))


def _more(make: Callable[[pd.DataFrame], dict[str, object]], *, helps: bool = False) -> Write:
    """Further columns that a person would drop (or, with ``helps``, keep)."""

    def write(frame: pd.DataFrame, folder: Path) -> Case:
        more = frame.assign(**make(frame))
        return Case(_csv(more, folder / "t.csv"), more if helps else frame)

    return write


def _renamed(names: dict[str, str]) -> Write:
    def make(frame: pd.DataFrame, folder: Path) -> Case:
        _text(frame).rename(columns=names).to_csv(folder / "t.csv", index=False)
        return Case(folder / "t.csv", frame)

    return make


def _ambiguous(frame: pd.DataFrame, folder: Path) -> Case:
    """Every day up to the twelfth, months first: only the user can know."""
    when = frame["when"].dt.to_period("M").dt.to_timestamp() + pd.to_timedelta(frame["when"].dt.day % 12, unit="D")
    messy = _csv(_text(frame, when=when.dt.strftime("%m/%d/%Y")), folder / "t.csv")
    return Case(messy, frame.assign(when=when), {"when": "date:%m/%d/%Y"})


def _eight_digits(frame: pd.DataFrame, folder: Path) -> Case:
    path = _csv(_text(frame, when=frame["when"].dt.strftime("%Y%m%d")), folder / "t.csv")
    return Case(path, requested={"when": "date:%Y%m%d"})


def _free_text(frame: pd.DataFrame, folder: Path) -> Case:
    rng = np.random.default_rng(2)
    angry = np.where(frame["label"] == "yes", rng.random(len(frame)) < 0.7, rng.random(len(frame)) < 0.2)
    filler = rng.choice(["the", "parcel", "came", "on", "monday", "in", "a", "box", "with", "tape"], (len(frame), 7))
    ends = [f"{'refund' if one else 'thanks'} case{i}" for i, one in enumerate(angry)]
    said = [" ".join([*words, end]) for words, end in zip(filler, ends, strict=True)]
    return Case(_csv(frame.assign(comment=said), folder / "t.csv"), frame.assign(comment=angry))


def _many_levels(frame: pd.DataFrame, folder: Path) -> Case:
    shop = np.random.default_rng(3).integers(0, 200, len(frame))
    return Case(_csv(frame.assign(shop=[f"shop {one}" for one in shop]), folder / "t.csv"), frame)


def _unlabelled(frame: pd.DataFrame, folder: Path) -> Case:
    lost = np.random.default_rng(1).random(len(frame)) < 0.05
    messy = _csv(_text(frame, label=frame["label"].mask(lost, "")), folder / "t.csv")
    return Case(messy, frame[~lost].reset_index(drop=True))


def _sliced(n: int) -> Write:
    return lambda frame, folder: Case(_csv(frame[:n], folder / "t.csv"), frame[:n])


def _rare(frame: pd.DataFrame, folder: Path) -> Case:
    few = clean_table(seed=5, n=2000, bias=0.97)
    return Case(_csv(few, folder / "t.csv"), few)


def _indexed(frame: pd.DataFrame, folder: Path) -> Case:
    _text(frame).to_csv(folder / "t.csv")
    return Case(folder / "t.csv", frame)


def _zone(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.assign(when=frame["when"].dt.tz_localize("UTC").dt.tz_convert("Asia/Tokyo"))


def _strings(frame: pd.DataFrame) -> pd.DataFrame:
    return _text(frame).astype(str)


_SHUFFLED = np.random.default_rng(4).permutation(N) + 10_000
_NOISE = np.random.default_rng(6).normal(size=(N, 60))

#: Tables that train as well as the same data cleaned by hand.
TRAINS: dict[str, Write] = {
    "plain": _with("city", lambda c: c),
    "semicolons": _with("city", lambda c: c, sep=";"),
    "tabs": _with("city", lambda c: c, sep="\t"),
    "pipes": _with("city", lambda c: c, sep="|"),
    "everything quoted": _with("city", lambda c: c, quoting=csv.QUOTE_ALL),
    "Windows line ends": _with("city", lambda c: c, lineterminator="\r\n"),
    "gzip": _gz,
    "Parquet": _parquet(),
    "Parquet of text": _parquet(_strings),
    "Parquet of float32": _parquet(lambda f: f.astype({"amount": "float32", "rate": "float32"})),
    "Parquet of categories": _parquet(lambda f: f.astype({"city": "category", "code": "category"})),
    "Parquet with a time zone": _parquet(_zone),
    "feather": _feather,
    "byte order mark": _raw(lambda text, path: path.write_text(text, encoding="utf-8-sig")),
    "UTF-16": _raw(lambda text, path: path.write_text(text, encoding="utf-16")),
    "UTF-16 without a mark": _raw(lambda text, path: path.write_bytes(text.encode("utf-16-le"))),
    "Latin-1, named": _latin,
    "blank lines at the end": _raw(lambda text, path: path.write_text(text + "\n\n\n")),
    "no line end at the end": _raw(lambda text, path: path.write_text(text.rstrip("\n"))),
    "decimal commas": _with("amount", lambda c: c.map(lambda v: f"{v:.2f}".replace(".", ",")), sep=";"),
    "thousands and decimal commas": _with("amount", _grouped(".", ",")),
    "thousands commas": _with("amount", _grouped(",", ".")),
    "spaces between thousands": _with("amount", _grouped(" ", ",")),
    "apostrophes between thousands": _with("amount", _grouped("’", ".")),
    "percent": _with("rate", lambda c: c.map(lambda v: f"{100 * v:.0f}%")),
    "dollars": _with("amount", _grouped(",", ".", "$")),
    "euros": _with("amount", _grouped(".", ",", after=" €")),
    "accountants' brackets": _with("rate", lambda c: (c - 0.5).map(lambda v: f"({-v:.2f})" if v < 0 else f"{v:.2f}")),
    "plus signs": _with("amount", lambda c: c.map(lambda v: f"{v:+.2f}")),
    "exponents": _with("amount", lambda c: c.map(lambda v: f"{v:.6e}")),
    "day/month/year": _dates("%d/%m/%Y"),
    "month/day/year": _dates("%m/%d/%Y"),
    "day.month.year": _dates("%d.%m.%Y"),
    "day-Mon-year": _dates("%d-%b-%Y"),
    "Month day, year": _dates("%B %d, %Y"),
    "two-digit years": _dates("%d/%m/%y"),
    "ISO with time and zone": _dates("%Y-%m-%dT%H:%M:%SZ"),
    "twelve-hour clock": _dates("%m/%d/%Y %I:%M %p"),
    "dates only the user knows": _ambiguous,
    "dates of eight digits": _eight_digits,
    "dates with words": _dates_with_words,
    "numbers with words": _words,
    "seven words for missing": _many_words_for_nothing,
    "infinite numbers": _infinite,
    "wild numbers": _wild,
    "yes and no": _with("flag", lambda c: c.map({True: "yes", False: "no"})),
    "TRUE and FALSE": _with("flag", lambda c: c.map({True: "TRUE", False: "FALSE"})),
    "1 and 0": _with("flag", lambda c: c.astype(int)),
    "spaces around cells": _with("city", lambda c: "  " + c + " "),
    "decomposed accents": _with("city", lambda c: c.str.normalize("NFD")),
    "line breaks in cells": _with("city", lambda c: c + "\nSwitzerland, or near"),
    "a customer number": _more(lambda f: {"customer_id": _SHUFFLED}),
    "row numbers": _more(lambda f: {"row": np.arange(len(f))}),
    "pandas' own index": _indexed,
    "a code for every row": _more(lambda f: {"uuid": [f"{i * 7919 % 99991:05x}-{i}" for i in range(len(f))]}),
    "numbers of 19 digits": _more(lambda f: {"account": [str(10**18 + 7 * int(i)) for i in _SHUFFLED]}),
    "constant and empty columns": _more(lambda f: {"same": 7, "nothing": "", "word": "x"}),
    "two hundred levels": _many_levels,
    "wide": _more(lambda f: {f"noise {i}": _NOISE[: len(f), i] for i in range(60)}, helps=True),
    "free text": _free_text,
    "names with marks": _renamed({"amount": 'amount, "net"', "rate": "rate; %", "city": " city "}),
    "names beyond ASCII": _renamed({"amount": "Betrag (€)", "when": "日付", "city": "ville\u0301"}),
    "rows without a label": _unlabelled,
    "labels 1.0 and 0.0": _with("label", lambda c: c.map({"yes": "1.0", "no": "0.0"})),
    "labels True and False": _with("label", lambda c: c == "yes"),
    "small": _sliced(120),
    "rare positives": _rare,
}  # fmt: skip


def _bytes(content: bytes, name: str = "t.csv") -> Write:
    def make(frame: pd.DataFrame, folder: Path) -> Path:
        (folder / name).write_bytes(content)
        return folder / name

    return make


def _nested(frame: pd.DataFrame, folder: Path) -> Path:
    pyarrow.parquet.write_table(pa.table({"a": [[1], [2]] * 10, "label": [0, 1] * 10}), folder / "t.parquet")
    return folder / "t.parquet"


#: Tables that stop, with a part of the one line that says why.
STOPS: dict[str, tuple[Write, str]] = {
    "Latin-1, not named": (lambda f, p: _csv(f, p / "t.csv", encoding="latin-1"), "--encoding latin-1"),
    "two columns of one name": (_bytes(b"a,a,label\n" + b"1,2,yes\n3,4,no\n" * 20), "'a' more than once"),
    "more fields than names": (_bytes(b"a,label\n1,yes\n" * 20 + b"1,2,no\n"), "as many fields as the header"),
    "empty": (_bytes(b""), "empty"),
    "a header alone": (_bytes(b"a,label\n"), "0 rows"),
    "a spreadsheet": (_bytes(b"PK\x03\x04" + bytes(range(256)) * 40, "t.xlsx"), "which is a zip archive"),
    "a damaged Parquet file": (_bytes(b"PAR1 and no more", "t.parquet"), "cannot be read"),
    "a damaged feather file": (_bytes(b"ARROW1 and no more", "t.feather"), "cannot be read"),
    "lists alone in cells": (_nested, "column 'a' left out: its type, list<"),
    "one class": (_bytes(b"a,label\n" + b"1,yes\n2,yes\n" * 20), "one value only"),
    "only codes": (_bytes(b"a,label\n" + b"".join(b"k%d,%d\n" % (i, i % 2) for i in range(60))), "60 different texts"),
}  # fmt: skip
