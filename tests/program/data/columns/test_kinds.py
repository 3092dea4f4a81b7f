"""What columns are taken for, and that numbers, dates and words come out as other libraries read them."""

from __future__ import annotations

import json
import shlex
from typing import Any

import numpy as np
import pandas as pd
import pytest

from aimfor.data.columns import TableEncoder, columns_of
from aimfor.data.columns.coders import Remarks
from aimfor.data.columns.encoder import VERSION, near_perfect
from aimfor.data.columns.quantities import PLAIN, STYLES, Scale, Style, calendar, parse
from aimfor.errors import InputError


def fitted(cells: list[Any], wish: str | None = None) -> TableEncoder:
    table = columns_of({"c": cells, "other": np.random.default_rng(0).normal(size=len(cells))})
    return TableEncoder.fit(table, requested={"c": wish} if wish else None)


def spec(encoder: TableEncoder) -> Any:
    return next((one for one in encoder.state["columns"] if one["name"] == "c"), None)


def repeated(*cells: str, times: int = 10) -> list[str]:
    return list(cells) * times


@pytest.mark.parametrize(
    ("style", "text", "value"),
    [
        (PLAIN, "-1.5e3", -1500.0),
        (PLAIN, "+.5", 0.5),
        (PLAIN, "12 %", 0.12),
        (PLAIN, "$5", 5.0),
        (PLAIN, "-$5", -5.0),
        (PLAIN, "$-5", -5.0),
        (PLAIN, "(5)", -5.0),
        (PLAIN, "5 EUR", 5.0),
        (PLAIN, "1,5", None),
        (PLAIN, "--5", None),
        (PLAIN, "-$-5", None),
        (PLAIN, "(5", None),
        (PLAIN, "5 kg", None),
        (PLAIN, "1_000", None),
        (PLAIN, "inf", None),
        (PLAIN, "٣", None),
        (Style(decimal=","), "1,5", 1.5),
        (Style(decimal=","), "1.5", None),
        (Style(thousands=","), "1,234,567.25", 1234567.25),
        (Style(thousands=","), "1234.5", 1234.5),
        (Style(thousands=","), "1,23", None),
        (Style(thousands=","), "0,123", None),
        (Style(decimal=",", thousands="."), "1.234,5", 1234.5),
        (Style(decimal=",", thousands=" "), "1\u202f234,5 €", 1234.5),
        (Style(thousands="'"), "1’234.5", 1234.5),
    ],
)
def test_numbers_are_read_as_a_person_reads_them(style: Style, text: str, value: float | None) -> None:
    assert style.parse(text) == value


@pytest.mark.parametrize("style", STYLES, ids=lambda style: style.words)
def test_each_style_is_found_from_its_numbers_and_gives_the_same_matrix(style: Style) -> None:
    values = np.random.default_rng(1).integers(10**5, 10**9, 200) / 100
    cells = [f"{v:,.2f}".replace(",", "T").replace(".", style.decimal).replace("T", style.thousands) for v in values]
    found = fitted(cells)
    assert spec(found)["style"] == {"decimal": style.decimal, "thousands": style.thousands}
    plain = fitted(values.tolist())
    other = np.zeros(200)
    np.testing.assert_array_equal(
        found.transform(columns_of({"c": cells, "other": other})),
        plain.transform(columns_of({"c": values, "other": other})),
    )


def test_a_comma_before_three_digits_throughout_is_a_thousands_separator_and_named_as_doubtful() -> None:
    found = fitted(repeated("1,234", "25,100", "999", "7,001"))
    assert spec(found)["style"]["thousands"] == ","
    assert "decimal comma" in found.notes[0]
    assert spec(fitted(repeated("1,234", "25,10", "999")))["style"]["decimal"] == ","


def test_words_among_numbers_are_missing_values_with_an_output_of_their_own() -> None:
    cells = [str(v) for v in range(98)] + ["unknown", "see file"]
    found = fitted(cells)
    assert found.feature_names[:2] == ["c", "c: missing"]
    assert "'unknown' and another word (2 of 100 rows) read as missing" in found.notes[0]
    encoded = found.transform(columns_of({"c": cells, "other": np.zeros(100)}))
    np.testing.assert_array_equal(encoded[:, 1], [0.0] * 98 + [1.0] * 2)
    assert encoded[98, 0] == encoded[99, 0]
    remarks = Remarks()
    found.transform(columns_of({"c": ["3", "?", "lost"], "other": np.zeros(3)}), remarks)
    assert remarks.sentences == ["column 'c': 1 of 3 rows hold words, read as missing (such as 'lost')"]


def test_spellings_that_training_tells_apart_are_levels_of_their_own_and_others_are_one() -> None:
    versions = fitted(repeated("1.1", "1.10", "v2"))
    assert set(spec(versions)["levels"]) == {"1.1", "1.10", "v2"}
    assert "'1.1' and '1.10' are kept apart" in versions.notes[0]
    assert set(spec(fitted(repeated("02139", "True", "v2")))["levels"]) == {"2139", "true", "v2"}


def test_too_many_words_make_a_category() -> None:
    assert spec(fitted(repeated("1", "2", "3", "4", "x")))["kind"] == "category"


@pytest.mark.parametrize(
    "form",
    [
        "%d/%m/%Y", "%m/%d/%Y", "%d.%m.%Y", "%Y/%m/%d", "%d-%b-%Y", "%B %d, %Y", "%d/%m/%y", "%m/%d/%Y %I:%M %p",
        "%d.%m.%Y %H:%M:%S",
    ],
)  # fmt: skip
def test_dates_are_found_in_their_format_and_agree_with_pandas(form: str) -> None:
    days = pd.Timestamp("2019-12-28") + pd.to_timedelta(np.random.default_rng(0).integers(0, 900_000, 300), unit="min")
    days = days if "%H" in form or "%I" in form else days.normalize()
    cells = days.strftime(form).tolist()
    found = fitted(cells)
    assert (spec(found)["kind"], spec(found)["format"]) == ("date", form)
    moments = pd.to_datetime(cells, format=form)
    parts = calendar(moments.to_numpy().astype("M8[us]"))
    np.testing.assert_array_equal(parts["month"], moments.month)
    np.testing.assert_array_equal(parts["day"], moments.day)
    np.testing.assert_array_equal(parts["weekday"], moments.day_of_week)
    np.testing.assert_allclose(parts["hour"], moments.hour + moments.minute / 60 + moments.second / 3600)
    np.testing.assert_allclose(parts["days"], (moments - pd.Timestamp(0)) / pd.Timedelta(days=1))
    typed = fitted(moments.tolist())
    zeros = np.zeros(300)
    np.testing.assert_array_equal(
        found.transform(columns_of({"c": cells, "other": zeros})),
        typed.transform(columns_of({"c": moments, "other": zeros})),
    )


def test_a_date_that_could_be_either_is_read_as_day_and_month_and_said_so() -> None:
    cells = [f"{d:02d}/{m:02d}/2020" for d in range(1, 13) for m in range(1, 13)]
    found = fitted(cells)
    assert spec(found)["format"] == "%d/%m/%Y"
    assert "--column c=date:%m/%d/%Y" in found.notes[0]
    other = fitted(cells, "date:%m/%d/%Y")
    assert spec(other)["format"] == "%m/%d/%Y"
    assert other.notes == []
    assert parse("03/04/2020", "%m/%d/%Y") == np.datetime64("2020-03-04")


def test_dates_as_text_and_as_objects_may_stand_in_one_column() -> None:
    found = fitted([f"{d:02d}/{m:02d}/2020" for d in range(1, 29) for m in (1, 6, 12)])
    zeros = np.zeros(3)
    text = columns_of({"c": ["31/01/2020", "02/06/2020", "03/12/2020"], "other": zeros})
    mixed = columns_of({"c": [pd.Timestamp("2020-01-31"), "02/06/2020", pd.Timestamp("2020-12-03")], "other": zeros})
    np.testing.assert_array_equal(found.transform(mixed), found.transform(text))


def test_a_zone_is_brought_to_utc_from_text_and_from_types() -> None:
    moments = pd.date_range("2024-03-30 12:00", periods=60, freq="h", tz="Europe/Zurich")
    found = fitted([one.isoformat() for one in moments])
    zeros = np.zeros(60)
    wanted = found.transform(columns_of({"c": [one.isoformat() for one in moments], "other": zeros}))
    np.testing.assert_array_equal(found.transform(columns_of({"c": moments, "other": zeros})), wanted)
    np.testing.assert_array_equal(found.transform(columns_of({"c": moments.tolist(), "other": zeros})), wanted)


def test_wishes_decide() -> None:
    cells = [f"2020{m:02d}{d:02d}" for m in range(1, 13) for d in range(1, 28)]
    assert spec(fitted(cells))["kind"] == "number"
    assert spec(fitted(cells, "date:%Y%m%d"))["found"][0]["name"] == "days"
    typed = fitted([int(cell) for cell in cells], "date:%Y%m%d")
    assert typed.state == fitted(cells, "date:%Y%m%d").state
    assert spec(fitted(repeated("1", "2", "3"), "category"))["levels"] == ["1", "2", "3"]
    assert spec(fitted(repeated("1", "2", "3"), "ignore")) is None
    assert spec(fitted(repeated("02139", "10001")))["kind"] == "category"
    assert spec(fitted(repeated("02139", "10001"), "number"))["kind"] == "number"
    assert spec(fitted(repeated("a", "b"), "text"))["kind"] == "text"


@pytest.mark.parametrize(
    ("wish", "line"),
    [
        ("date", "for cells such as 'a'"),
        ("date:%Y", "for cells such as 'a'"),
        ("number", "for cells such as 'a'"),
        ("integer", "one of number, category, date, text, ignore"),
        ("number:%Y", "one of number"),
        ("date:now", "a format such as %d/%m/%Y"),
    ],
)
def test_wishes_that_cannot_be_met_are_refused(wish: str, line: str) -> None:
    with pytest.raises(InputError, match=line):
        fitted(repeated("a", "b"), wish)
    with pytest.raises(InputError, match="Did you mean 'other'"):
        TableEncoder.fit(columns_of({"other": [1, 2, 3]}), requested={"othr": "number"})


def test_row_numbers_are_left_out_and_ids_named() -> None:
    rng = np.random.default_rng(0)
    assert "left out: the rows numbered from 7" in fitted(list(range(7, 107))).notes[0]
    ids = rng.choice(10**9, 100, replace=False)
    table = columns_of({"customer_id": ids, "income": ids + 0, "half": ids / 2})
    notes = TableEncoder.fit(table).notes
    assert [note.split(":")[0] for note in notes] == ["column 'customer_id'"]
    assert "--column customer_id=ignore" in notes[0]
    assert spec(fitted(list(range(100)), "number"))["kind"] == "number"


def test_a_column_that_gives_the_target_away_is_named_whatever_its_kind() -> None:
    rng = np.random.default_rng(0)
    y = rng.random(300) < 0.3
    table = columns_of({
        "honest": y + rng.normal(size=300), "leak": y * 2.0 + rng.random(300),
        "code": np.where(y, "a", rng.choice(["b", "c"], 300)),
        "when": pd.Timestamp("2020-01-01") + pd.to_timedelta(y * 40 + rng.integers(0, 20, 300), unit="D"),
    })  # fmt: skip
    encoder = TableEncoder.fit(table)
    notes = near_perfect(encoder, encoder.transform(table), y.astype(np.int64))
    assert [note.split("'")[1] for note in notes] == ["leak", "code", "when"]
    three = (rng.random(300) * 3).astype(np.int64)
    table = columns_of({"one": (three == 1) + 0.1 * rng.random(300), "all": np.array(["x", "y", "z"])[three]})
    encoder = TableEncoder.fit(table)
    assert [n.split("'")[1] for n in near_perfect(encoder, encoder.transform(table), three)] == ["all"]
    assert near_perfect(encoder, encoder.transform(table)[:20], three[:20]) == []


def test_free_text_counts_words_and_ignores_case_and_marks() -> None:
    rng = np.random.default_rng(0)
    cells = [" ".join(rng.choice(["late", "early", "refund", "thanks", "again"], 8)) for _ in range(60)]
    found = fitted(cells)
    assert spec(found)["kind"] == "text"

    def one(text: str | None) -> Any:
        return found.transform(columns_of({"c": [text], "other": [0.0]}))[0, :128]

    np.testing.assert_array_equal(one("Late, refund!"), one("late refund"))
    assert not np.array_equal(one("late refund"), one("refund late"))  # pairs know the order
    assert np.linalg.norm(one("late refund again")) == pytest.approx(3, abs=1e-6)  # whatever the number of words
    assert np.linalg.norm(one("late")) == pytest.approx(3, abs=1e-6)
    assert not one(None).any()


def test_features_name_their_columns() -> None:
    days = pd.date_range("2020-01-01", periods=90).tolist()
    table = columns_of({"when": days, "city": ["a", "b", None] * 30, "x": [1.0, None, 3.0] * 30})
    encoder = TableEncoder.fit(table)
    assert len(encoder.feature_columns) == encoder.transform(table).shape[1] == encoder.shape[0]
    assert encoder.feature_columns == ["when"] * 4 + ["city"] * 3 + ["x"] * 2
    assert len(set(encoder.feature_names)) == encoder.shape[0]


def test_numbers_keep_their_order_and_stay_finite_however_wild() -> None:
    values = np.array([*np.arange(100.0), 1e12, 3e38, 1.7e308, -1.7e308, 5e-324])
    encoder = TableEncoder.fit(columns_of({"c": values}))
    encoded = encoder.transform(columns_of({"c": values}))[:, 0]
    assert np.isfinite(encoded).all()
    order = np.argsort(values, kind="stable")
    assert (np.diff(encoded[order]) >= 0).all()
    assert len(np.unique(encoded[:100])) == 100  # one wild value does not squeeze the others together
    assert Scale.fit(np.array([3.0, 3.0])).constant


def test_a_float32_is_the_decimal_it_prints_as() -> None:
    values = np.random.default_rng(0).normal(size=80).astype(np.float32)
    text = [str(value) for value in values]
    encoder = TableEncoder.fit(columns_of({"c": text}))
    wanted = encoder.transform(columns_of({"c": text}))
    np.testing.assert_array_equal(encoder.transform(columns_of({"c": values})), wanted)
    np.testing.assert_array_equal(encoder.transform(columns_of(pd.DataFrame({"c": values}))), wanted)
    halves = values.astype(np.float16)
    np.testing.assert_array_equal(
        encoder.transform(columns_of({"c": halves})), encoder.transform(columns_of({"c": [str(h) for h in halves]}))
    )


def test_whole_numbers_beyond_float64_keep_their_digits_as_levels() -> None:
    ids = [2**60 + i % 3 for i in range(60)]
    assert len(spec(fitted(ids, "category"))["levels"]) == 3
    found = fitted(ids, "category")
    zeros = np.zeros(60)
    np.testing.assert_array_equal(
        found.transform(columns_of({"c": ids, "other": zeros})),
        found.transform(columns_of({"c": [str(one) for one in ids], "other": zeros})),
    )


@pytest.mark.parametrize(
    "data", [3, "text", [1, 2], {}, {"a": []}, {"a": [1], "b": [1, 2]}, {"a": [{}, "x"]}, {"a": [1], "a ": [2]}]
)
def test_what_is_no_table_is_refused_in_a_sentence(data: Any) -> None:
    with pytest.raises(InputError, match="expected"):
        columns_of(data)


@pytest.mark.parametrize(
    "damage",
    [
        lambda state: state.pop("version"),
        lambda state: state.update(version=VERSION - 1),
        lambda state: state.pop("columns"),
        lambda state: state["columns"][0].update(kind="pickle"),
        lambda state: state["columns"][0].pop("scale"),
        lambda state: state["columns"][0]["scale"].update(mean=float("nan")),
        lambda state: state.update(columns=[]),
        lambda state: state.update(columns="text"),
    ],
)
def test_a_state_of_another_version_or_damaged_is_refused(damage: Any) -> None:
    state = json.loads(json.dumps(fitted(repeated("1", "2", "3")).state))
    damage(state)
    with pytest.raises(InputError, match=r"another version|damaged"):
        TableEncoder.restore(state)


def test_advice_about_a_column_is_fit_for_a_shell() -> None:
    name = "unit price (€)"
    notes = TableEncoder.fit(columns_of({name: ["1,50", "2,75"] * 20, "x": range(40)})).notes
    advice = next(note for note in notes if repr(name) in note).split("as they are: ")[1].removesuffix(")")
    assert shlex.split(advice) == ["--column", f"{name}=category"]


def test_the_example_in_a_note_shows_what_the_note_says() -> None:
    notes = fitted(repeated("$641.49", "$93,683.02", times=20)).notes
    assert any("commas between thousands ('$93,683.02' is 93683.02)" in note for note in notes)


def test_lists_and_structures_are_left_out_and_may_lie_in_new_rows() -> None:
    plain = {"x": [1.0, 2.0, 4.0, 8.0]}
    encoder = TableEncoder.fit(columns_of(plain | {"tags": [["a"], ["b"], [], ["c"]], "spot": [{"a": 1}] * 4}))
    assert [note.split(":")[0] for note in encoder.notes] == ["column 'tags' left out", "column 'spot' left out"]
    new = columns_of(plain | {"more": [[1], [2], [3], [4]]})
    assert (encoder.transform(new) == encoder.transform(columns_of(plain))).all()
    with pytest.raises(InputError, match=r"list<.*> in the column 'x'"):
        encoder.transform(columns_of({"x": [[1.0], [2.0]]}))
    with pytest.raises(InputError, match="column: got tags=text for the type list<"):
        TableEncoder.fit(columns_of(plain | {"tags": [["a"]] * 4}), requested={"tags": "text"})


def test_a_column_that_is_used_already_is_not_proposed_for_a_missing_one() -> None:
    encoder = TableEncoder.fit(columns_of({"usage": [1.0, 2.0, 4.0], "age": [5.0, 6.0, 9.0]}))
    with pytest.raises(InputError, match=r"without the column 'usage', expected .* trained on\.$"):
        encoder.transform(columns_of({"age": [5.0]}))
    with pytest.raises(InputError, match="Did you mean 'Usage'"):
        encoder.transform(columns_of({"age": [5.0], "Usage": [1.0]}))
