"""`make bench`: what is run, what is left out, what is said about it, and the page."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from programs import finished

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "paper" / "benchmarks"))
try:
    modules = ("run", "render", "peers", "glance", "quoted")
    run, render, peers, glance, quoted = (importlib.import_module(name) for name in modules)
finally:
    sys.path.pop(0)


def test_every_script_and_every_recorded_command_is_run_once() -> None:
    commands = run.commands()
    assert len(commands) == len(set(commands)) >= 15
    for script in run.HERE.glob("bench_*.py"):
        assert any(script.name in command for command in commands), script.name
    for command in commands:
        call = run.words(command, "/data")
        assert call is not None
        assert call[0] == sys.executable
        assert (ROOT / call[1]).exists(), command
        assert "DATA" not in call


def test_commands_that_want_data_are_left_out_without_them() -> None:
    assert run.words("python paper/benchmarks/bench_gap.py DATA", None) is None
    assert run.words("python paper/benchmarks/bench_sorted.py", None) is not None


def test_only_what_is_whole_and_new_enough_is_measured_already() -> None:
    done = {"date": "2026-11-18", "minutes": 1.0, "finished": True}
    assert run.is_done(["2026-11-18", "2026-11-19"], done, "2026-11-18")
    assert run.is_done(["2026-11-18"], {}, "2026-11-18")  # measured by hand
    assert not run.is_done(["2026-11-18", "2026-11-17"], done, "2026-11-18")
    assert not run.is_done(["2026-11-18"], {**done, "finished": False}, "2026-11-18")  # stopped in its table
    assert not run.is_done([], done, "2026-11-18")
    assert not run.is_done(["2026-11-18"], done, None)


def test_a_command_that_does_not_measure_its_tables_is_said_to_have_failed(
    benches: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It may keep the rows that it has, or write them under a command that is not there."""
    for name in ("old", "new"):
        (run.HERE / f"bench_{name}.py").write_text("print('nothing to do')")
    assert start(monkeypatch, "--only", "old", "new") == 1
    said = capsys.readouterr().out
    assert "bench_old.py: failed, ended well without measuring again: old" in said
    assert "bench_new.py: failed, no table stands under this command" in said


@pytest.fixture
def benches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of three scripts: one has recorded a table, one fails, one is new."""
    folder, results = tmp_path / "paper" / "benchmarks", tmp_path / "paper" / "benchmarks" / "results"
    results.mkdir(parents=True)
    (tmp_path / "docs").mkdir()
    write = (
        "import json, pathlib; p = pathlib.Path('paper/benchmarks/results/{0}.json'); "
        "p.write_text(json.dumps({{'title': '{0}', 'command': 'python paper/benchmarks/bench_{0}.py', "
        "'date': '2999-01-01', 'setting': 'here', 'rows': [{{'n': 1}}]}}))"
    )
    for name in ("old", "new"):
        (folder / f"bench_{name}.py").write_text(write.format(name))
    (folder / "bench_bad.py").write_text("raise SystemExit(3)")
    document = {"title": "old", "command": "python paper/benchmarks/bench_old.py", "date": "2026-11-01"}
    (results / "old.json").write_text(json.dumps({**document, "setting": "there", "rows": [{"n": 2}]}))
    for module, name, value in (
        (run, "HERE", folder), (run, "ROOT", tmp_path), (render, "ROOT", tmp_path), (render, "RESULTS", results),
        (render, "LOG", results / "run" / "log.json"), (peers, "PEERS", ()),
    ):  # fmt: skip
        monkeypatch.setattr(module, name, value)
    monkeypatch.setattr(peers, "versions", lambda: {"torch": "2", "surely_not_installed": None})
    return results


def start(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr(sys, "argv", ["run.py", *words])
    return int(run.main())


def test_a_run_goes_on_where_it_stopped_and_names_what_failed(
    benches: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert start(monkeypatch) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[-2] == "python paper/benchmarks/bench_bad.py: failed with code 3, the page keeps its last rows"
    assert lines[-1] == "not installed, and so not measured: surely_not_installed"
    log: dict[str, Any] = json.loads((benches / "run" / "log.json").read_text())
    assert [entry["finished"] for entry in log["commands"].values()] == [True, False, True]
    page = (benches.parents[2] / "docs" / "benchmarks.md").read_text()
    assert "## new" in page
    assert "torch 2. Not installed: surely_not_installed." in page

    assert start(monkeypatch, "--since", "2026-11-18") == 1  # all but the one that failed are measured
    said = capsys.readouterr().out
    assert "bench_old.py: measured already" in said
    assert "bench_new.py: measured already" in said
    assert "bench_bad.py: failed" in said

    log["commands"]["python paper/benchmarks/bench_old.py"]["finished"] = False
    render.write_log(log)
    assert start(monkeypatch, "--since", "2026-11-18", "--list") == 0
    assert [line.split()[1] for line in capsys.readouterr().out.splitlines()] == [
        "paper/benchmarks/bench_old.py",
        "paper/benchmarks/bench_bad.py",
    ]


def test_a_peer_is_there_if_it_can_be_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "half_installed.py").write_text("import surely_not_installed")
    (tmp_path / "crashes.py").write_text("import os; os.abort()")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    there, absent = {"pytest": pytest.__version__}, {"half_installed": None, "surely_not_installed": None}
    assert peers.versions(("half_installed", "pytest", "surely_not_installed")) == there | absent
    assert peers.versions(("crashes", *absent, "pytest")) == there | absent | {"crashes": None}


def test_what_a_command_cannot_do_without_is_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "importable", lambda modules: set())
    assert peers.missing_for("python paper/benchmarks/bench_smooth.py faiss") == "faiss"
    assert peers.missing_for("python paper/benchmarks/bench_smooth.py") is None
    for words in peers.NEEDS:
        assert any(words in command for command in run.commands()), words


def test_every_peer_is_one_that_a_script_measures() -> None:
    scripts = [path.read_text(encoding="utf8") for path in run.HERE.glob("bench_*.py")]
    for name in peers.PEERS:
        assert any(name in script or name.upper() in script for script in scripts), name


def test_strangers_name_who_decides() -> None:
    pytest.importorskip("typer")
    sys.path.insert(0, str(run.HERE))
    try:
        strangers = importlib.import_module("strangers")
    finally:
        sys.path.pop(0)
    members = [{"title": "trees", "weight": 0.25}, {"title": "a linear model", "weight": 0.75}]
    assert strangers.loudest({"committee": {"members": members}}) == "a linear model 0.75"
    assert strangers.loudest({"chosen": {"loss": "ce", "balanced": True}}) == "ce, balanced"


def test_curves_have_only_what_was_measured() -> None:
    rows = [
        {"loss": "a", "n": 10, "ms": 1.0, "extra MB": ""},
        {"loss": "a", "n": 100, "ms": 2.0, "extra MB": 0.0},
        {"loss": "b: peer", "n": 10, "ms": 3.0, "extra MB": 4.0},
    ]
    assert render.curves(rows, "ms") == {"a": [(10.0, 1.0), (100.0, 2.0)], "b: peer": [(10.0, 3.0)]}
    assert render.curves(rows, "extra MB") == {"b: peer": [(10.0, 4.0)]}


def test_no_two_lines_of_a_picture_look_alike() -> None:
    names = ["cross-entropy (torch)", *(f"ours {k}" for k in range(7)), *(f"AP: peer {k}" for k in range(5))]
    looks = render.line_looks(names)
    assert list(looks) == names
    assert len({tuple(look.items()) for look in looks.values()}) == len(names)
    with pytest.raises(ValueError, match="11 lines for the 10 colours"):
        render.line_looks([f"ours {k}" for k in range(11)])


def test_every_table_has_its_chapter() -> None:
    page = render.chapters()
    assert list(page) == list(render.CHAPTERS)
    assert sum(map(len, page.values())) == len(list(render.RESULTS.glob("*.json")))


def test_the_first_table_has_every_peer_where_it_was_measured_with_a_right_answer() -> None:
    size, other = "(200, 50), 32", "(50, 20), 32"
    programs = [
        ("aimfor, interior point", other, "1.0", "0.0"),
        ("aimfor, interior point", size, "10.0", "1e-14"),
        ("layers, quick", size, "1.0", "1.1"),  # and wrong
        ("layers, slow", size, "50.0", "1e-8"),
        ("wrong, only", size, "2.0", "0.5"),
    ]
    columns = ("method", "(m, v), batch", "forward + backward, ms", "worst")
    curves = [("AUROC, sorted", 128, 1.0), ("AUROC, sorted", 1024, 2.0), ("AUROC: LibAUC AUCM", 128, 5.0)]
    tables = {
        "curves": [dict(zip(("loss", "n", "ms"), row, strict=True)) for row in curves],
        "lp_peers": [dict(zip(columns, row, strict=True)) for row in programs],
        "exact": [{"metric": "ndcg", "n": "1,000", "ours, ms": 20, "torchmetrics, ms": 10, "scikit-learn, ms": 30}],
    }
    assert [tuple(row.values()) for row in glance.glance(tables)] == [
        ("LibAUC AUCM", "AUROC loss of 128 scores, both passes", "1 ms", "5 ms", "5"),
        ("layers", "32 linear programs of 200 rows and 50 variables, both passes", "10 ms", "50 ms", "5"),
        ("torchmetrics", "exact NDCG of 1,000 scores", "20 ms", "10 ms", "0.5"),
        ("scikit-learn", "exact NDCG of 1,000 scores", "20 ms", "30 ms", "1.5"),
    ]
    assert glance.glance({}) == []
    assert {"LibAUC", "AP-Perf", "cvxpylayers", "qpth", "torchmetrics", "faiss"} <= {
        row["peer"].removesuffix(" AUCM") for row in glance.glance(recorded())
    }


def recorded() -> dict[str, list[dict[str, Any]]]:
    return {name: one["rows"] for part in render.chapters().values() for name, one in part.items()}


def test_pages_quote_the_tables_of_today() -> None:
    tables, names = recorded(), set()
    for path in (ROOT / "docs").rglob("*.md"):
        page = path.read_text(encoding="utf8")
        assert quoted.quote(page, tables) == page, path.name
        names |= {name for name in quoted.QUOTES if f"<!-- bench: {name} -->" in page}
    assert names == set(quoted.QUOTES)


def test_a_quote_is_written_where_its_place_is_and_nowhere_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quoted, "QUOTES", {"n": lambda tables: f"now {tables['t'][0]['n']}\nand on"})
    page = "- a\n  <!-- bench: n -->\n  was 1\n  <!-- end -->\n  b\n<!-- other -->\n"
    after = quoted.quote(page, {"t": [{"n": 2}]})
    assert after == "- a\n  <!-- bench: n -->\n  now 2\n  and on\n  <!-- end -->\n  b\n<!-- other -->\n"
    assert quoted.quote(after, {"t": [{"n": 2}]}) == after


def test_leads_that_chance_could_explain_are_counted_as_neither() -> None:
    rows = [{"aimfor ahead by": text} for text in ("+2.0 ± 1.0", "+0.5 ± 1.0", "-0.5 ± 1.0", "-0.3 ± 0.1", "")]
    said = " ".join(glance.kept(rows).split())
    assert "in 4 settings" in said
    assert said.endswith("methods in 1, surely less in 1, and neither in 2.")
    assert glance.kept([]) == ""


def test_a_command_is_charged_for_workers_that_nobody_waits_for(tmp_path: Path) -> None:
    """A pool's processes are children of a server that its command leaves behind."""
    work = tmp_path / "work.py"
    work.write_text(
        "import multiprocessing, time\n"
        "def burn():\n"
        "    while time.process_time() < 1.0: pass\n"
        "if __name__ == '__main__':\n"
        "    one = multiprocessing.get_context('forkserver').Process(target=burn)\n"
        "    one.start(); one.join()\n"
    )
    code = """
        import sys
        sys.path.insert(0, sys.argv[1])
        from cost import cost_of
        print(cost_of([sys.executable, sys.argv[2]])["seconds"])
    """
    assert float(finished(run.HERE, work, code=code).stdout) >= 1.0
