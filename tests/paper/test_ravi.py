"""Judges of the algorithm's claims, on rows made by hand and on the recorded ones; the long S-MNIST's cells."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from paper import Options
from paper.claims import judging_ravi
from paper.claims.catalogue import CLAIMS
from paper.claims.judging_ravi import AGAINST, ONCE_AGAINST_EVERY, inner_schedules, projections_on_programs
from paper.experiments.ravi import s_mnist, s_mnist_paper
from paper.run import cell_key

RECORDED = Path(__file__).parents[2] / "paper" / "benchmarks" / "results"


@pytest.mark.parametrize(
    ("gap", "verdict"),
    [
        ("-0.0300 [-0.0400, -0.0200]", "not confirmed"),  # a serious improvement
        ("-0.0050 [-0.0060, -0.0040]", "confirmed"),  # sure, but not serious
        ("-0.0300 [-0.0900, +0.0300]", "confirmed"),  # not sure
        ("+0.0300 [+0.0200, +0.0400]", "confirmed"),
    ],
)
def test_schedules_are_judged_by_a_sure_and_serious_gain(gap: str, verdict: str) -> None:
    constant = {"inner loops": "5 always", "kind": "constant", "problems": 20, AGAINST: "-0.5 [-0.6000, -0.4000]"}
    growing = {"inner loops": "1, 2, 3, …", "kind": "growing", "problems": 20, AGAINST: gap}
    found = inner_schedules([constant, growing])
    assert found.verdict == verdict
    assert gap in found.numbers
    assert "always" not in found.numbers


@pytest.mark.parametrize(
    ("gap", "verdict"),
    [
        ("+0.2 [+0.1, +0.3]", "not confirmed"),
        ("+0.0 [-0.1, +0.1]", "not testable here"),
        ("+0.0008 [-0.0001, +0.0017]", "confirmed"),
    ],
)
def test_rare_projections_are_judged_by_being_as_good(gap: str, verdict: str) -> None:
    rows = [
        {"problems": 20, "projections per run": count, ONCE_AGAINST_EVERY: text}
        for count, text in (("100", gap), ("5100", ""))
    ]
    found = projections_on_programs(rows)
    assert found.verdict.split(":")[0] == verdict
    assert "100 projections against 5100" in found.numbers


def test_recorded_rows_reach_a_verdict() -> None:
    judged = [claim for claim in CLAIMS if claim.experiment.startswith("bench:lagrangian")]
    recorded = {claim.where: RECORDED / f"{claim.experiment.removeprefix('bench:')}.json" for claim in judged}
    assert len(judged) == 4
    for claim in judged:
        rows = json.loads(recorded[claim.where].read_text())["rows"] if recorded[claim.where].exists() else []
        verdict = claim.judged({claim.experiment: rows}).verdict
        assert (
            verdict.startswith(("confirmed", "not confirmed")) if rows else verdict == claim.otherwise == "not run yet"
        )


def test_the_long_experiment_is_the_short_one_with_other_sizes() -> None:
    short, long = s_mnist.cells(Options(seeds=2)), s_mnist_paper.cells(Options(seeds=2))
    assert {cell["alpha"] for cell in long if cell["model"] == "linear"} == {0.0, *s_mnist.ALPHAS}
    assert {(cell["epochs"], cell["digits"], cell["width"]) for cell in long} == {(40, 5_000, 100)}
    full = s_mnist_paper.cells(Options(seeds=2, full=True))
    assert {(cell["epochs"], cell["digits"], cell["width"]) for cell in full} == {(40, 60_000, 500)}
    keys = [cell_key(cell) for cell in (*short, *long, *full)]
    assert len(set(keys)) == len(keys)


def test_projections_by_batch_are_judged_in_two_halves() -> None:
    def rows(few: str, many: str) -> list[dict[str, str]]:
        return [{"n": "10,000", "B": "log n = 9", "ratio": few}, {"n": "10,000", "B": "√n = 100", "ratio": many}]

    verdicts = [
        judging_ravi.projections_by_batch(rows(*pair)).verdict for pair in (("0.5", "2"), ("9", "2"), ("9", "0.5"))
    ]
    assert verdicts == ["confirmed", "partly confirmed: at √n alone", "not confirmed"]


def test_the_sky_is_ranked_among_the_classes_of_each_set() -> None:
    rows = [{"set": name, "class": kind} for name in ("a", "b") for kind in ("sky", "tree")]
    assert judging_ravi.sky_varies_most(rows).verdict == "confirmed"
    found = judging_ravi.sky_varies_most([*rows[:2], *rows[:1:-1]])
    assert (found.verdict, found.numbers.split(": ", 1)[1]) == ("not confirmed", "a: sky is 1 of 2; b: sky is 2 of 2")
