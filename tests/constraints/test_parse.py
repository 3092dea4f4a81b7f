"""Expressions as text are the same objects as in Python, and errors point at the word."""

from __future__ import annotations

import pytest

from aimfor.constraints.parse import NAMES, parse_constraint, parse_objective
from aimfor.decisions import Problem
from aimfor.errors import InputError
from aimfor.rates import accuracy, error_rate, fn, fp, fpr, npv, parse, positive_rate, precision, recall, tpr

SAME = [
    ("precision >= 0.9", precision >= 0.9),
    ("  precision>=.9 ", precision >= 0.9),
    ("0.9 <= precision", precision >= 0.9),
    ("positive_rate <= 2%", positive_rate <= 0.02),
    ("precision ≥ 90%", precision >= 0.9),
    ("gap(fpr, sex) <= 0.05", fpr.gap("sex") <= 0.05),
    ('fpr.gap("sex") <= 0.05', fpr.gap("sex") <= 0.05),
    ("worst(recall, site) >= 0.5", recall.worst("site") >= 0.5),
    ("recall.worst('site') >= 0.5", recall.worst("site") >= 0.5),
    ("recall[sex=1] >= recall[sex=0] - 0.1", recall.on(sex=1) >= recall.on(sex=0) - 0.1),
    ("recall.on(sex=1, age=2) >= 0.5", recall.on(sex=1, age=2) >= 0.5),
    ("recall.on(young) >= 0.5", recall.on("young") >= 0.5),
    ("gap(fpr[age=2], sex) <= 0.1", fpr.on(age=2).gap("sex") <= 0.1),
    ("precision[label=fraud] >= 0.9", precision.on(label="fraud") >= 0.9),
    ("precision.on(label='fraud') >= 0.9", precision.on(label="fraud") >= 0.9),
    ("precision[label=2] >= 0.9", precision.on(label=2) >= 0.9),
    ("1 - accuracy <= 0.1", 1 - accuracy <= 0.1),
    ("5*fn + fp <= 100", 5 * fn + fp <= 100),
    ("(fn * 5 + fp) / 2 <= 50", (5 * fn + fp) / 2 <= 50),
    ("-error_rate >= -1e-1", -error_rate >= -0.1),
    ("tpr - fpr", tpr - fpr),
    ("npv", npv),
]


@pytest.mark.parametrize(("text", "expected"), SAME, ids=[text for text, _ in SAME])
def test_text_is_the_expression_it_stands_for(text: str, expected: object) -> None:
    assert repr(parse(text)) == repr(expected)
    assert parse(text) == expected


@pytest.mark.parametrize(("text", "expected"), SAME, ids=[text for text, _ in SAME])
def test_what_is_printed_can_be_read_again(text: str, expected: object) -> None:
    assert parse(repr(expected)) == expected


def test_text_where_an_expression_belongs_is_told_what_reads_it() -> None:
    for objective, bounds in ((recall, "precision >= 0.9"), (recall, ["precision >= 0.9"]), ("precision >= 0.9", ())):
        with pytest.raises(InputError, match=r"aimfor.constraints.parse\('precision >= 0.9'\)"):
            Problem("maximize", objective, bounds)  # type: ignore[arg-type]


def test_every_rate_has_its_name() -> None:
    assert all(parse(name) is rate for name, rate in NAMES.items())


@pytest.mark.parametrize(
    ("text", "came", "remedy"),
    [
        ("precsion >= 0.9", "'precsion' at character 1", "Did you mean 'precision'?"),
        ("recall >= 0.9 and fpr <= 0.1", "'and' at character 15", ""),
        ("gap(fpr sex) <= 0.1", "'sex' at character 9", ""),
        ("fpr.gab(sex) <= 0.1", "'gab' at character 5", "Did you mean 'gap'?"),
        ("precision > 0.9", "'>' at character 11", "write >= instead of >"),
        ("precision", "precision", ""),
        ("recall >=", "'the end' at character 10", ""),
        ("recall >= 0.9 )", "')' at character 15", ""),
        ("recall * fpr >= 0.1", "'*' at character 8", "not multiplied"),
        ("recall[sex=male] >= 0.1", "'male' at character 12", ""),
        ("recall § fpr", "'§' at character 8", ""),
        ("0.3 <= 0.4", "'0.3 <= 0.4' at character 1 of", ""),
        ("0.3 + 0.4", "'0.3 + 0.4' at character 1 of", ""),
        ("gap(0.5, sex) <= 0.1", "'gap(0.5, sex) <= 0.1' at character 1 of", ""),
        ("", "'the end' at character 1", ""),
    ],
)
def test_errors_point_at_the_word(text: str, came: str, remedy: str) -> None:
    with pytest.raises(InputError) as error:
        parse_constraint(text)
    assert came in error.value.came
    assert remedy in error.value.remedy


def test_bounds_are_checked_as_in_python() -> None:
    with pytest.raises(InputError, match=r"bound of precision"):
        parse("precision >= 1.2")
    with pytest.raises(InputError, match="without an inequality"):
        parse_objective("precision >= 0.5")
    with pytest.raises(InputError, match="text such as"):
        parse(0.5)  # type: ignore[arg-type]


def test_labels_that_are_words_are_looked_up() -> None:
    known = {("sex", "male"): 3.0, ("sex", "not said"): 4.0, ("age", "-1"): 5.0}
    found = parse("recall[sex=male] - recall[sex='not said', age=-1] >= 0", lambda *key: known[key])
    assert found == (recall.on(sex=3) - recall.on(sex=4, age=5) >= 0)
    assert parse("recall[label=male] >= 0.5", lambda *_: 6.0) == (recall.on(label=6) >= 0.5)
