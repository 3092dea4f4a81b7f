"""Sentences of a comparison are about the rows they stand under; members have rows of their own."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from aimfor.data.settings import settings
from aimfor.runs.compare.entrants import ENSEMBLE, FOR_TABLES, NETWORKS
from aimfor.runs.compare.plan import BEST_OF_ALL, BEST_RIVAL, Plan, summarize
from aimfor.runs.compare.verdicts import floor_sentences

MEMBERS = ("linear", "trees", "network")


def cells(rng: np.random.Generator, shift: float = 0.0, seeds: int = 4) -> tuple[Plan, dict[str, Any]]:
    """A comparison with random numbers; ``shift`` is added to the ensemble's."""
    entrants = (*FOR_TABLES, NETWORKS[0])
    plan = Plan(settings(data="iris", metric="f1", positive="setosa"), entrants, seeds, "", ("nothing: no",))
    results: dict[str, Any] = {}
    for one in entrants:
        for seed in range(seeds):
            value = 0.5 + 0.1 * rng.random() + (shift if one is ENSEMBLE else 0.0)
            found = {"entrant": one.name, "seed": seed, "test": {"metric": value}, "validation": float(rng.random())}
            found |= {"seconds": 1.0, "megabytes": 1.0, "rows": [100, 20, 20], "ensemble": None}
            if one is ENSEMBLE:
                found["ensemble"] = {"members": [_member(rng, name) for name in MEMBERS]}
            results.setdefault(one.name, {})[seed] = found
    return plan, results


def _member(rng: np.random.Generator, name: str) -> dict[str, Any]:
    numbers = {key: float(rng.random()) for key in ("weight", "out_of_fold", "seconds")}
    return {"name": name, "title": f"the {name}", "test": 0.5 + 0.12 * rng.random(), **numbers}


@pytest.mark.parametrize("seed", range(40))
def test_every_number_of_a_sentence_is_one_of_its_table(seed: int) -> None:
    rng = np.random.default_rng(seed)
    plan, results = cells(rng, shift=float(rng.choice([-0.2, 0.0, 0.0, 0.2])))
    summary = summarize(results, plan)
    rows = {row["name"]: row for row in summary["table"]}
    first = summary["verdicts"][0]
    ensemble = rows["ensemble"]
    numbers = [float(one) for one in re.findall(r"[+-]\d+\.\d+", first)]
    assert numbers == [round(100 * ensemble[key], 2) for key in ("difference", "low", "high")]
    word = "better" if ensemble["low"] > 0 else "worse" if ensemble["high"] < 0 else "no difference"
    assert first.startswith(f"Ensemble (what train makes): {word}")
    assert ensemble["difference"] == pytest.approx(ensemble["test"] - rows[BEST_RIVAL]["test"])
    alone = [row for row in rows.values() if row["name"] not in (BEST_RIVAL, BEST_OF_ALL)]
    best = max(alone, key=lambda row: row["test"])
    highest = [one for one in summary["verdicts"] if one.startswith("The highest mean")]
    if best is ensemble:
        assert not highest
    else:
        title = best["title"].removeprefix("· ")
        assert highest[0].startswith(
            f"The highest mean on test rows is that of {title}, {best['test']:.4f} (ensemble {ensemble['test']:.4f})"
        )
    spoken = next(one for one in summary["verdicts"] if one.startswith("Weights in the ensemble"))
    for name in MEMBERS:
        weight = np.mean([m["weight"] for one in results["ensemble"].values() for m in one["ensemble"]["members"]
                          if m["name"] == name])  # fmt: skip
        assert f"the {name} {weight:.2f}" in spoken
        assert rows[f"ensemble/{name}"]["title"] == f"· the {name} alone (weight {weight:.2f})"


def test_members_stand_below_the_ensemble_and_are_no_rivals() -> None:
    plan, results = cells(np.random.default_rng(1))
    table = summarize(results, plan)["table"]
    names = [row["name"] for row in table]
    assert names[:4] == ["ensemble", "ensemble/linear", "ensemble/trees", "ensemble/network"]
    member = table[1]
    one = [found["ensemble"]["members"][0] for found in results["ensemble"].values()]
    assert member["test"] == pytest.approx(np.mean([each["test"] for each in one]))
    assert member["validation"] == pytest.approx(np.mean([each["out_of_fold"] for each in one]))
    assert "difference" not in member
    results["ensemble"][2]["ensemble"]["members"].pop(1)  # the trees of one seed were left out
    assert "ensemble/trees" not in [row["name"] for row in summarize(results, plan)["table"]]


def test_a_floor_is_counted_on_test_rows_of_every_split() -> None:
    rates = [{"precision": 0.96, "recall": 0.5}, {"precision": 0.94, "recall": 0.7}, {"precision": 0.95, "recall": 0.6}]
    (text,) = floor_sentences({"Ensemble": rates}, "recall@precision=0.95")
    assert text == (
        "Ensemble: precision was to be 0.95 or more; on test rows it was 0.940 to 0.960, held in 2 of 3 splits, "
        "with recall 0.600."
    )
    tight = [{"false positive rate": 0.1, "recall": 0.8}, {"false positive rate": 0.2, "recall": 0.9}]
    (text,) = floor_sentences({"Rival": tight}, "tpr@fpr=0.1")
    assert "fpr was to be 0.1 or less" in text
    assert "held in 1 of 2 splits" in text
    (text,) = floor_sentences({"Rival": [{"precision": float("nan"), "recall": 0.0}]}, "recall@precision=0.95")
    assert "undefined" in text
    assert floor_sentences({"Rival": rates}, "f1") == []
