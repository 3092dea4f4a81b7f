"""What the evidence page says of guaranteed thresholds, from a few cells made by hand."""

from __future__ import annotations

from typing import Any

from paper.experiment import Options
from paper.experiments.ours import floors, out_of_fold, validity
from paper.report.guarantee_board import guarantee_board


def outcome(value: float | None, given: bool = True, sense: str = ">=", bound: float = 0.8) -> dict[str, Any]:
    return {"given": given, "value": value, "bound": bound, "sense": sense, "trials": 400.0, "goal": 0.5}


def test_a_floor_is_kept_missed_by_chance_or_clearly_broken() -> None:
    assert floors.holds(outcome(0.8))
    assert not floors.holds(outcome(0.79))
    assert not floors.clearly_broken(outcome(0.79))  # four of 400
    assert floors.clearly_broken(outcome(0.7))
    assert floors.holds(outcome(0.05, sense="<=", bound=0.1))
    assert floors.clearly_broken(outcome(0.2, sense="<=", bound=0.1))
    assert not floors.holds(outcome(None))


def test_only_thresholds_that_were_given_count() -> None:
    found = {name: outcome(0.7, given=False) for name in floors.FLOORS} | {floors.FLOORS[0]: outcome(0.9)}
    lines = floors.board([{"cell": {}, "result": {"floors": found}}])
    assert lines[2].startswith(f"| {floors.FLOORS[0]} | 1 of 1 | 1 (100.0%) | 0 |")
    assert lines[-1].startswith("| all | 1 of 6 | 1 (100.0%) | 0 |")


def test_cells_of_the_earlier_order_of_tests_are_told_apart() -> None:
    cells = validity.cells(Options())
    assert {cell["order"] for cell in cells} == {"rehearsal"}
    old = {"cell": {"setting": "a", "seed": 0}, "result": {"draws": 100, "given": 90, "wrong": 4}}
    new = {"cell": {"setting": "a", "seed": 0, "order": "rehearsal"}, "result": {"draws": 50, "given": 9, "wrong": 1}}
    text = "\n".join(guarantee_board({"validity": [old, new]}))
    assert "with the order by rehearsal: 50 draws in 1 settings. The promise was broken in 2.00%" in text
    assert "with the earlier order of tests, most power first: 100 draws" in text
    assert guarantee_board({}) == []


def test_the_worst_setting_of_the_anytime_check_is_told() -> None:
    results = [
        {"streams": 2000, "rows": 500, "met": 40, "missed": 10},
        {"streams": 2000, "rows": 900, "met": 4, "missed": 30},
    ]
    text = "\n".join(guarantee_board({"peeking": [{"cell": {}, "result": one} for one in results]}))
    assert "2,000 streams in each of 2 settings of up to 900 rows" in text
    assert "at most 2.00% of a setting's streams, a true one ever called missed in at most 1.50%" in text


def test_cells_behind_mapie_are_named() -> None:
    row = {"scores of": "adult", "precision at least": 0.8, "rows": 5000, "draws": 9, "any procedure": "95%"}
    ahead = row | {"aimfor": "93%", "aimfor ahead by": "+13.0 ± 2.0"}
    noise = row | {"rows": 500, "aimfor": "40%", "aimfor ahead by": "-1.0 ± 2.0"}
    behind = row | {"rows": 2000, "aimfor": "40%", "aimfor ahead by": "-1.0 ± 0.2"}
    text = "\n".join(guarantee_board({"bench:guarantee": [ahead, noise, behind, {"scores of": "all", "draws": 18}]}))
    assert "in 1 of 3 cells; less in 2, in 1 by more than two standard errors (adult 0.8 with 500 rows, -1.0" in text
    assert "kept in 1 of 1 cells" in text


def test_a_ceiling_and_a_floor_are_broken_on_different_sides() -> None:
    answers = {way: [[0.5, 0.6], None] for way in out_of_fold.WAYS}
    cells = [{"model": "deep tree", "n": 400, "seed": 0, "bound": "fpr"}, {"model": "deep tree", "n": 400, "seed": 0}]
    lines = out_of_fold.board([{"cell": cell, "result": {"answers": answers}} for cell in cells])
    assert "| fpr <= 0.4 | deep tree | 400 | out of fold | 2 | 50% | 50.0% |" in lines[2]
    high = {way: [[0.9, 0.6]] for way in out_of_fold.WAYS}
    lines = out_of_fold.board([{"cell": cells[1], "result": {"answers": high}}])
    assert "| precision >= 0.8 | deep tree | 400 | out of fold | 1 | 100% | 0.0% |" in lines[2]
