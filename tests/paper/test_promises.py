"""The experiment on promises: its cells, one of each kind, and its lines."""

from __future__ import annotations

from paper.experiment import Options
from paper.experiments.ours import promises


def test_a_draw_of_every_kind_runs_and_is_a_line() -> None:
    cells = promises.cells(Options())
    assert sum("setting" in cell for cell in cells) * promises.CHUNK == promises.DRAWS * len(promises.SETTINGS)
    rows = [
        {"cell": {"setting": name, "seed": 0}, "result": {"draws": 10, "given": 8, "wrong": 1, "kept": 0.25}}
        for name in promises.SETTINGS
    ]
    lines = promises.validity_lines(rows)
    assert len(lines) == 2 + len(promises.SETTINGS)
    assert lines[2].endswith("| 10 | 80.0% | 0.250 | 10.00% | 0.51% |")
    power = {"draws": 4, "planned": [0.1] * len(promises.ROUNDS), "random": [0.0] * len(promises.RANDOM)}
    (line,) = promises.power_lines([{"cell": {"prevalence": 0.05, "floor": 0.9, "seed": 0}, "result": power}])[2:]
    assert line.startswith("| 5%, 0.9 (0.358), 4 | 0.100 |")
