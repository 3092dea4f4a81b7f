"""`aimfor.decide`: any kind of column, words for groups, the base install's imports, and refusals by name."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch

import aimfor
from aimfor.constraints import fpr, precision, recall
from aimfor.errors import InputError


def rows(n: int = 2500, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y, sex = rng.random(n) < 0.3, np.where(rng.random(n) < 0.5, "female", "male")
    return rng.normal(size=n) + 2.0 * y, y, sex


KINDS: dict[str, Any] = {
    "array": np.asarray,
    "tensor": torch.as_tensor,
    "list": lambda values: values.tolist(),
    "pandas": pd.Series,
    "nullable": lambda values: pd.Series(values).convert_dtypes(),
    "polars": lambda values: pl.Series(values.tolist()),
    "arrow": pa.array,
    "chunks": lambda values: pa.chunked_array([values[:100], values[100:]]),
}


@pytest.mark.parametrize("kind", KINDS)
def test_columns_of_every_kind_get_the_same_threshold(kind: str) -> None:
    scores, y, _ = rows()
    asked = {"maximize": "recall", "subject_to": "precision >= 0.8"}
    given = aimfor.decide(KINDS[kind](scores), KINDS[kind](y), **asked)
    problem = aimfor.maximize(recall, precision >= 0.8)
    assert given.threshold is not None
    assert given.threshold == problem.decide(torch.as_tensor(scores), torch.as_tensor(y), guarantee=0.95).threshold


def test_a_decision_answers_in_the_kind_of_the_scores() -> None:
    decision = aimfor.decide(*rows()[:2], minimize="fnr", subject_to=[fpr <= 0.1])
    scores = np.array([-3.0, 5.0])
    assert isinstance(decision(scores), np.ndarray)
    assert isinstance(decision(torch.as_tensor(scores)), torch.Tensor)
    assert decision(scores).tolist() == decision(torch.as_tensor(scores)).tolist() == [False, True]


def test_groups_may_be_words() -> None:
    scores, y, sex = rows(6000)
    asked = {"maximize": "accuracy", "subject_to": ["recall[sex=female] >= 0.5", "gap(fpr, sex) <= 10%"]}
    words = aimfor.decide(scores, y, groups={"sex": sex}, **asked)
    numbers = ["recall[sex=0] >= 0.5", "gap(fpr, sex) <= 10%"]
    coded = aimfor.decide(scores, y, groups={"sex": sex == "male"}, maximize="accuracy", subject_to=numbers)
    assert words.threshold is not None
    assert words.threshold == coded.threshold


@pytest.mark.parametrize(
    ("change", "argument", "word"),
    [
        ({"maximize": None}, "maximize", "one of them"),
        ({"minimize": "fpr"}, "maximize", "one of them"),
        ({"subject_to": "precsion >= 0.8"}, "expression", "Did you mean 'precision'"),
        ({"subject_to": "recall[sex=femal] >= 0.5"}, "sex", "Did you mean 'female'"),
        ({"confidence": 95}, "guarantee", "95"),
        ({"subject_to": "gap(fpr, age) <= 0.1"}, "groups", "age"),
        ({"subject_to": "precision >= 0"}, "subject_to", "got precision >= 0, expected a bound between 0 and 1. Every"),
        ({"subject_to": precision >= 0.0}, "subject_to", "Every decision keeps it: leave it out."),
        ({"subject_to": "precision >= 1"}, "subject_to", "No number of rows can show"),
        ({"subject_to": ["recall >= 0.5", "worst(precision, sex) >= 100%"]}, "subject_to", "No number of rows"),
        ({"subject_to": "gap(fpr, sex) <= 0"}, "subject_to", "No number of rows can show"),
        ({"subject_to": "gap(fpr, sex) <= 1"}, "subject_to", "Every decision keeps it"),
        ({"subject_to": "fpr <= 1"}, "subject_to", "Every decision keeps it"),
        ({"subject_to": "2*recall >= 2"}, "subject_to", "No number of rows can show"),
        ({"subject_to": "-fpr >= 0"}, "subject_to", "No number of rows can show"),
        ({"subject_to": "-fpr >= -1"}, "subject_to", "Every decision keeps it"),
        ({"subject_to": "precision >= 1.2"}, "bound of precision >=", "Write 0.012, or 1.2% in words"),
        ({"subject_to": "precision >= 90"}, "bound of precision >=", "Write 0.9, or 90% in words"),
        ({"subject_to": "precision >= -0.1"}, "bound of precision >=", "-0.1"),
    ],
)
def test_what_is_wrong_is_named(change: dict[str, Any], argument: str, word: str) -> None:
    scores, y, sex = rows(500)
    asked: dict[str, Any] = {"maximize": "recall", "subject_to": "precision >= 0.8", "groups": {"sex": sex}}
    with pytest.raises(InputError) as caught:
        aimfor.decide(scores, y, **(asked | change))
    assert caught.value.argument == argument
    assert word in str(caught.value)


@pytest.mark.parametrize(
    ("scores", "targets", "argument"),
    [
        ([0.1, 0.2], [1], "targets"),
        (["a", "b"], [0, 1], "scores"),
        ([0.1, float("nan")], [0, 1], "scores"),
        ([0.1, 0.2], [1, 2], "targets"),
        ([0.1, 0.2], ["no", "yes"], "targets"),
        ({"a": 1}, [0, 1], "scores"),
    ],
)
def test_bad_columns_are_named(scores: Any, targets: Any, argument: str) -> None:
    with pytest.raises(InputError) as caught:
        aimfor.decide(scores, targets, maximize="recall", subject_to="precision >= 0.8")
    assert caught.value.argument == argument


HEAVY = ("torch", "pyarrow", "typer", "jinja2", "matplotlib", "pydantic", "sklearn", "scipy.stats", "scipy.optimize")


def test_deciding_and_checking_a_csv_file_import_numpy_and_scipy_alone(tmp_path: Path) -> None:
    scores, y, _ = rows()
    lines = [f"{s:.6f},{int(label)}" for s, label in zip(scores, y, strict=True)]
    (tmp_path / "scores.csv").write_text("\n".join(["s,y", *lines]) + "\n")
    (tmp_path / "new.csv").write_text("\n".join(["s,y", *lines[::2]]) + "\n")
    floor = ["--target", "y", "--score", "s", "--maximize", "recall", "--subject-to", "precision >= 0.8"]
    code = (
        "import sys; from aimfor.__main__ import main\n"
        f"assert main(['decide', 'scores.csv', *{floor!r}, '--out', 'here']) == 0\n"
        "assert main(['check', 'here', 'new.csv']) in (0, 3)\n"
        f"print('heavy:', *(name for name in {HEAVY!r} if name in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1].split() == ["heavy:"]


WORDS: dict[str, Any] = {
    "array": np.asarray,
    "objects": lambda words: words.astype(object),
    "list": lambda words: words.tolist(),
    "pandas": lambda words: pd.Series(words).astype("category"),
    "polars": lambda words: pl.Series(words.tolist()).cast(pl.Categorical),
    "arrow": lambda words: pa.array(words).dictionary_encode(),
}


@pytest.mark.parametrize("kind", WORDS)
def test_a_decision_reads_the_words_that_it_was_made_with(kind: str) -> None:
    scores, y, sex = rows()
    given = {"sex": WORDS[kind](sex)}
    decision = aimfor.decide(scores, y, maximize="recall", subject_to="worst(precision, sex) >= 0.7", groups=given,
                             per_group="sex")  # fmt: skip
    cuts = dict(zip(("female", "male"), decision.thresholds.values(), strict=True))
    assert cuts["female"] != cuts["male"]
    wanted = scores > np.where(sex == "female", cuts["female"], cuts["male"])
    assert decision(scores, given).tolist() == wanted.tolist()
    assert decision(scores, {"sex": np.where(sex == "female", 0, 1)}).tolist() == wanted.tolist()
    with pytest.raises(InputError, match="one of female, male"):
        decision(scores[:2], {"sex": ["female", "other"]})
