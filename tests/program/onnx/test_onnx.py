"""An ensemble as one ONNX file: a row has the answer that `predict` and `MetricClassifier` give, however it comes."""

from __future__ import annotations

import json
import unicodedata
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pandas as pd
import pytest
import torch
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from aimfor.cli.main import app
from aimfor.data.columns import TableEncoder, columns_of
from aimfor.data.columns.quantities import calendar
from aimfor.errors import InputError
from aimfor.integrations.sklearn import MetricClassifier
from aimfor.learners.ensemble import fit_ensemble
from aimfor.learners.ensemble.calibration import Scale
from aimfor.onnx import Reading, check, columns, members, run_model
from aimfor.targets import folds
from aimfor.targets.calibrate import probability
from aimfor.targets.objective import Objective
from kinds_of_cells import CELLS, ROW, N, Table, guessed, routes, training_table, typed

CPU = ["CPUExecutionProvider"]
WORDLESS = [name for name in CELLS if name != "opinion"]


def learned(names: list[str], classes: int, **how: Any) -> tuple[Table, MetricClassifier]:
    """A small ensemble of all members on a column of every kind."""
    table = training_table(3)
    rng = np.random.default_rng(0)
    signal = np.array([float(cell) for cell in table["whole"]]) / 500 + np.array([c == "Bern" for c in table["city"]])
    y = np.digitize(signal + rng.normal(size=N) / 3, np.quantile(signal, np.arange(1, classes) / classes))
    model = MetricClassifier("f1" if classes == 2 else "auroc_ovr", random_state=0, **how)
    folds.SMALL_FOLDS, usual = 2, folds.SMALL_FOLDS  # ten would only take longer
    try:
        model.fit(pd.DataFrame({name: table[name] for name in names}), y)
    finally:
        folds.SMALL_FOLDS = usual
    return table, model


def inputs(table: Table) -> dict[str, Any]:
    """What a user of the file makes of the cells by hand, without aimfor."""
    found: dict[str, Any] = {}
    for name, cells in typed(table).items():
        kind = CELLS[name][1]
        if kind in ("number", "boolean"):
            found[name] = np.array([np.nan if one is None else float(one) for one in cells])
        elif kind == "date":
            found[name] = np.array(cells, dtype="M8[us]").astype(np.int64)
        else:
            text = [unicodedata.normalize("NFC", cell).strip() for cell in table[name]]
            found[name] = np.array(text, dtype=object)
    return found


class Both:
    """A classifier for all columns, and the ONNX file of one for all but free text, of two or three classes."""

    def __init__(self, classes: int) -> None:
        self.known, self.model = learned(WORDLESS, classes)
        table = self.model.table_
        labels, threshold = [str(one) for one in self.model.classes_], table.ensemble.threshold.value
        reading = Reading("f1", labels, classes == 2, threshold)
        content = run_model(table.encoder, table.ensemble, reading).SerializeToString()
        check.check(content, table.encoder, table.ensemble.scores, reading)
        onnx.checker.check_model(onnx.load_from_string(content))
        self.session = onnxruntime.InferenceSession(content, providers=CPU)


@pytest.fixture(scope="module", params=[2, 3])
def both(request: pytest.FixtureRequest) -> Both:
    return Both(request.param)


@settings(
    max_examples=2, deadline=None, phases=[Phase.explicit, Phase.generate], suppress_health_check=list(HealthCheck)
)
@given(rows=st.lists(ROW, min_size=1, max_size=5))
def test_a_row_has_one_answer_through_the_classifier_and_the_onnx_file(
    both: Both, tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, int]]
) -> None:
    new = {name: [CELLS[name][0](row[name]) for row in rows] for name in WORDLESS}
    together = {name: new[name] + both.known[name] for name in WORDLESS}
    wanted = both.model.predict_proba(pd.DataFrame(together))
    decided = both.model.predict(pd.DataFrame(together))
    for chosen in (list(range(len(rows)))[::-1], [0]):
        few = {name: [cells[i] for i in chosen] for name, cells in new.items()}
        read = routes(few, tmp_path_factory.mktemp("law")) | guessed(few, tmp_path_factory.mktemp("guessed"))
        for route, held in list(read.items())[len(chosen) % 2 :: 2]:  # their encoded rows are equal in another test
            found = both.model.table_.scores(held)
            np.testing.assert_array_equal(_stated(found), wanted[chosen], err_msg=route)
        stated, decision = both.session.run(["probability", "decision"], inputs(few))
        last = wanted[chosen][:, 1] if stated.ndim == 1 else wanted[chosen]
        np.testing.assert_allclose(stated, last, rtol=0, atol=1e-5)
        assert decision.tolist() == [str(one) for one in decided[chosen]]
    alone = {name: cells[:1] for name, cells in new.items()}
    np.testing.assert_array_equal(both.model.predict_proba(pd.DataFrame(alone)), wanted[:1])


def _stated(scores: torch.Tensor) -> Any:
    if scores.ndim == 2:
        return scores.softmax(1).numpy()
    positive = probability(scores).numpy()
    return np.stack((1 - positive, positive), 1)


def test_the_calendar_of_the_file_is_numpys() -> None:
    moments = np.random.default_rng(0).integers(-6 * 10**16, 2 * 10**17, 4000)
    graph = columns.Graph()
    given_moments = graph.input("t", columns.INT64, ["rows"])
    found = columns._calendar(graph, given_moments)
    for name, value in found.items():
        graph.output(name, value, columns.DOUBLE, ["rows"])
    session = onnxruntime.InferenceSession(graph.model({}).SerializeToString(), providers=CPU)
    wanted = calendar(moments.astype("M8[us]"))
    for name, values in zip(found, session.run(list(found), {"t": moments}), strict=True):
        np.testing.assert_array_equal(values, wanted[name], err_msg=name)


def test_levels_are_recognised_in_every_spelling_that_predict_knows() -> None:
    cells = ["true", "2", "2020-01-01", "2020-01-01T10:00:00", "A7", "12345678901234567", "inf"] * 3
    encoder = TableEncoder.fit(columns_of({"c": cells}), requested={"c": "category"})
    spelled = ["TRUE", "True", "02", "2.0", "+2", "2e0", "2020-01-01 00:00", "2020-01-01T00:00:00.000", "A7", "a7",
               "NA", "2020-01-01 10:00", "2020-01-01T10:00:00Z", "2020-01-01 11:00", "12345678901234567", "",
               "inf", "9e99", "012345678901234567", "nan", "-2", "tru"]  # fmt: skip
    graph = columns.Graph()
    graph.output("x", columns.encoded(graph, encoder), columns.FLOAT, ["rows", len(encoder.feature_names)])
    session = onnxruntime.InferenceSession(graph.model({}).SerializeToString(), providers=CPU)
    found = session.run(None, {"c": np.array(spelled, dtype=object)})[0]
    np.testing.assert_array_equal(found, encoder.transform(columns_of({"c": spelled})))


@pytest.mark.parametrize("classes", [2, 3])
def test_statistics_of_many_levels_are_in_the_file(classes: int) -> None:
    rng = np.random.default_rng(0)
    which = rng.integers(0, 90, 1500)
    table = columns_of({"a": rng.normal(size=1500), "shop": [f"s{one}" for one in which], "b": rng.normal(size=1500)})
    y = torch.from_numpy((which + (rng.random(1500) < 0.2)) % classes)
    encoder = TableEncoder.fit(table)
    x, objective = torch.from_numpy(encoder.transform(table)), Objective.of("f1" if classes == 2 else "f1_macro")
    how = {"kinds": ("linear", "trees", "network"), "folds": 2, "levels": encoder.levels}
    fitted = fit_ensemble(x, y, objective, outputs=1 if classes == 2 else 3, **how)
    names = [str(one) for one in range(classes)]
    reading = Reading(objective.name, names, classes == 2, fitted.threshold.value)
    content = run_model(encoder, fitted, reading).SerializeToString()
    check.check(content, encoder, fitted.scores, reading)
    other = replace(fitted, weighted_members=[replace(one, levels=[]) for one in fitted.weighted_members])
    if classes == 2:  # without the statistics the file answers otherwise
        with pytest.raises(InputError, match="off by"):
            check.check(content, encoder, other.scores, reading)


def test_hashed_levels_are_refused_by_name() -> None:
    names = [f"s{one}" for one in range(6000)] * 2
    encoder = TableEncoder.fit(columns_of({"a": list(range(12_000)), "shop": names}), requested={"shop": "category"})
    with pytest.raises(InputError, match=r"'shop', whose levels are too many .*--column shop=ignore"):
        columns.encoded(columns.Graph(), encoder)


def test_a_tree_that_never_split_keeps_its_leaf() -> None:
    forest = members._Forest()
    forest.add({"leaf_value": "0.25"}, 1)
    children = {"left_child": "-1", "right_child": "-2"}
    forest.add({"leaf_value": "1 2", "split_feature": "3", "threshold": "0.5", **children}, 0)
    assert (forest.roots, forest.values, forest.targets) == ([0, 1], [0.25, 1.0, 2.0], [1, 0, 0])
    assert forest.to == {"left_child": [0, 1], "right_child": [0, 2]}


def test_a_file_that_answers_otherwise_is_not_kept() -> None:
    x = torch.randn(120, 1, generator=torch.Generator().manual_seed(0))
    y, table = (x[:, 0] > 0.3).long(), columns_of(x.double().numpy())
    encoder = TableEncoder.fit(table)
    fitted = fit_ensemble(torch.from_numpy(encoder.transform(table)), y, Objective.of("f1"), kinds=("linear",))
    reading = Reading("f1", ["no", "yes"], True, fitted.threshold.value)
    moved = replace(fitted, scale=Scale(fitted.scale.slope, (fitted.scale.offsets[0] + 0.01,)))
    later = replace(reading, threshold=reading.threshold + 1)
    for other, read, word in ((moved, reading, "off by"), (fitted, later, "decides")):
        wrong = run_model(encoder, other, read).SerializeToString()
        with pytest.raises(InputError, match=word):
            check.check(wrong, encoder, fitted.scores, reading)


def run(*words: object) -> Any:
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("onnx")
    rng = np.random.default_rng(0)
    size, city = rng.normal(size=200), rng.choice(["Rome", "Bern"], 200)
    note = [f"some words about number {i}" for i in rng.integers(0, 99, 200)]
    label = np.where(size + (city == "Rome") + rng.normal(size=200) / 2 > 1, "yes", "no")
    frame = pd.DataFrame({"probability": size, "city": city, "note": note, "label": label})
    frame.to_csv(place / "t.csv", index=False)
    runs = {"run": ["--fast"], "wordy": ["--fast", "--column", "note=text"], "network": ["--members", "network"]}
    for name, words in runs.items():
        words += [] if name == "wordy" else ["--column", "note=ignore"]
        options = ["--target", "label", "--metric", "f1", "-q", "--out", place / name]
        assert run("train", place / "t.csv", *options, *words).exit_code == 0
    return place


@pytest.mark.parametrize("name", ["run", "network"])
def test_export_is_one_file_from_columns_to_decisions(folder: Path, name: str) -> None:
    done = run("export", folder / name, "--onnx")
    assert done.exit_code == 0, done.stderr
    path = Path(done.stdout.strip().splitlines()[-1])
    assert path == folder / name / "model.onnx"
    frame = pd.read_csv(folder / "t.csv")
    session = onnxruntime.InferenceSession(path, providers=CPU)
    told = json.loads(session.get_modelmeta().custom_metadata_map["aimfor"])
    assert told["classes"] == ["no", "yes"]
    assert [one["input"] for one in told["columns"]] == ["column probability", "city"]  # an output has the other name
    assert told["columns"][1]["takes"] == "string, empty where missing"
    given_columns = {
        "column probability": frame["probability"].to_numpy(),
        "city": frame["city"].to_numpy(dtype=object),
    }
    stated, decision = session.run(None, given_columns)
    assert run("predict", folder / name, folder / "t.csv", "--out", folder / "p.csv").exit_code == 0
    predicted = pd.read_csv(folder / "p.csv")
    np.testing.assert_allclose(stated, predicted["probability"], rtol=0, atol=1e-5)
    assert decision.tolist() == predicted["decision"].tolist()


def test_what_cannot_be_exported_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = run("export", folder / "wordy", "--onnx")
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
    assert "the column 'note' of free text" in done.stderr
    assert "--column note=ignore" in done.stderr
    assert not (folder / "wordy" / "model.onnx").exists()
    done = run("export", folder / "run")
    assert done.exit_code == 2
    assert "Add --onnx" in done.stderr
    monkeypatch.setattr("aimfor.onnx.export.find_spec", lambda name: None)
    done = run("export", folder / "run", "--onnx")
    assert done.exit_code == 2
    assert "no package onnx" in done.stderr
