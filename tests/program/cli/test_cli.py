"""Help that helps, errors in plain English, and bars that say how long it will take."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
import typer
from rich.console import Console
from typer.testing import CliRunner

from aimfor.__main__ import BASE, USAGE, main
from aimfor.cli import progress
from aimfor.cli.main import EXAMPLES, app
from aimfor.cli.progress import bar
from aimfor.cli.terminal import readable
from aimfor.metrics import METRICS

NASTY = "<script>document.title='owned'</script>"
COMMANDS = sorted(EXAMPLES)


def shown(*words: str) -> str:
    result = CliRunner().invoke(app, list(words), env={"COLUMNS": "400", "TERMINAL_WIDTH": "400"})
    assert result.exit_code == 0, result.output + result.stderr
    return result.output


def test_support_has_help_and_takes_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    for word in ("--help", "-h"):
        assert main(["support", word]) == 0
        assert "usage: aimfor support" in capsys.readouterr().out
    assert main(["support", "auroc"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.splitlines() == ["aimfor: support takes no arguments, but got auroc"]


@pytest.mark.parametrize("command", ["train", "compare"])
def test_help_of_the_metric_option_lists_every_name(command: str) -> None:
    text = " ".join(shown(command, "--help").split())
    listed = text[text.index("--metric") : text.index("--positive")]
    assert [entry.example for entry in METRICS if entry.example not in listed] == []


@pytest.mark.parametrize("command", COMMANDS)
def test_help_ends_with_examples_whose_options_exist(command: str) -> None:
    text = shown(command, "--help")
    lines = [line.strip() for line in text[text.index("Examples:") :].splitlines()[1:] if line.strip()]
    assert lines
    known = {name for one in _click(command).params for name in one.opts}
    for line in lines:
        words = line.split()
        assert words[:2] == ["aimfor", command]
        assert {word for word in words if word.startswith("--")} <= known


def _click(command: str) -> Any:
    group: Any = typer.main.get_command(app)
    return group.commands[command]


def test_every_command_of_the_program_has_examples() -> None:
    group: Any = typer.main.get_command(app)
    own = set(group.commands) - set(BASE)
    assert {name for name in own if "Examples:" not in (group.commands[name].epilog or "")} == set()


@pytest.mark.parametrize("command", BASE)
def test_every_command_of_the_base_install_has_examples_and_answers_in_one_line(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main([command, "--help"])
    assert ended.value.code == 0
    assert f"Examples:\n  aimfor {command} " in capsys.readouterr().out
    for words in ([], ["--no-such-option"], ["nowhere.csv", "--confidence", "high"]):
        assert main([command, *words]) == 2
        said = capsys.readouterr().err
        assert (said.startswith("aimfor: "), len(said.splitlines())) == (True, 1)


def test_what_is_missing_is_said_by_its_name() -> None:
    for words, what in (
        (["train"], "DATA: got nothing, expected a file"),
        (["train", "iris"], "--metric: got nothing"),
    ):
        result = CliRunner().invoke(app, words)
        assert result.exit_code == 2
        assert result.stderr.startswith(f"aimfor: {what}")
        assert "For instance: aimfor train" in result.stderr


def test_too_little_memory_is_said_in_english(monkeypatch: pytest.MonkeyPatch) -> None:
    from aimfor.runs import prepared

    def full(*_: Any, **__: Any) -> None:
        raise MemoryError

    monkeypatch.setattr(prepared, "load", full)
    result = CliRunner().invoke(app, ["train", "iris", "--metric", "accuracy"])
    assert result.exit_code == 2
    assert result.stderr.startswith("aimfor: not enough memory for this data.")
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize("word", ["True", "true", "TRUE"])
def test_positive_true_is_found_among_booleans(kind: str, word: str, tmp_path: Path) -> None:
    from aimfor.data.settings import settings
    from aimfor.runs.prepared import prepare

    x = np.random.default_rng(0).normal(size=60)
    table = pa.table({"x": x, "y": pa.array(x > 0.5)})
    path = tmp_path / f"table.{kind}"
    pyarrow.csv.write_csv(table, path) if kind == "csv" else pyarrow.parquet.write_table(table, path)
    ready = prepare(settings(data=str(path), target="y", metric="auroc", positive=word))
    assert ready.ids.tolist() == [int(value > 0.5) for value in x]


# ---------------------------------------------------------------- bars


def drawn(left: float | None = None) -> str:
    """A bar after 3 of 10 steps in 30 seconds, as text."""
    now = 100.0
    live = bar(Console(file=io.StringIO(), force_terminal=True, width=120), quiet=False)
    live.get_time = lambda: now
    line = live.add_task("work", total=10, value="", left=left)
    for done in (1, 2, 3):
        now += 10.0
        live.update(line, completed=done)
    text = io.StringIO()
    Console(file=text, width=120).print(live.make_tasks_table(live.tasks))
    return text.getvalue()


def test_bar_says_how_long_the_rest_will_take() -> None:
    assert "about 1 min 10 s left" in drawn()
    assert "about 5 s left" in drawn(left=5.2)


def test_training_shows_a_bar_with_a_step_for_every_cell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[str, float | None, float]] = []
    real = bar

    def watched(screen: Console, quiet: bool) -> Any:
        live = real(screen, quiet)
        update = live.update

        def tell(line: Any, **facts: Any) -> None:
            update(line, **facts)
            task = live.tasks[0]
            seen.append((task.description, task.total, task.completed))

        live.update = tell  # type: ignore[method-assign]
        return live

    monkeypatch.setattr(progress, "bar", watched)
    words = ["train", "iris", "--metric", "f1_macro", "--members", "linear", "--jobs", "1"]
    result = CliRunner().invoke(app, [*words, "--out", str(tmp_path / "run")])
    assert result.exit_code == 0, result.output + result.stderr
    cells = [(title, total, done) for title, total, done in seen if title.startswith("linear")]
    assert cells == [(f"linear, fold {done} of 3", 3, done) for done in (1, 2, 3)]
    assert seen[-1][0] == "which columns matter"


def test_every_command_of_the_program_is_named_in_its_usage() -> None:
    named = {line.split()[0] for line in USAGE.splitlines() if line.startswith("  ")}
    assert named == {*EXAMPLES} | {"support", *BASE}


@pytest.mark.parametrize("said", [None, "ACTIVE"])
def test_idle_threads_of_openmp_wait_without_spinning(said: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_WAIT_POLICY", said or "")
    if said is None:
        monkeypatch.delenv("OMP_WAIT_POLICY")
    with pytest.raises(SystemExit):
        main(["train", "--help"])
    assert os.environ["OMP_WAIT_POLICY"] == (said or "PASSIVE")


def test_sentences_break_between_words_on_a_terminal_and_nowhere_in_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("COLUMNS", "40")
    text = "best rival: balanced-batch cross-entropy, no difference\n  met   recall"
    assert readable(text, io.StringIO()) == text
    assert readable(text, Terminal()) == "best rival: balanced-batch\ncross-entropy, no difference\n  met   recall"


def test_json_alone_goes_to_standard_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["train", "iris", "--metric", "accuracy", "--members", "linear", "--json", "--out", str(tmp_path / "run")]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout) == json.loads((tmp_path / "run" / "metrics.json").read_text())
    part = {"metric": "f1", "table": [], "verdicts": ["No difference."], "curves": {}, "example": {}}
    monkeypatch.setattr("aimfor.cli.compare.run", lambda *given: (tmp_path, [part]))
    result = CliRunner().invoke(app, ["compare", "iris", "--metric", "f1", "--json"])
    part = {"metric": "f1", "table": [], "verdicts": ["No difference."]}
    assert json.loads(result.stdout) == {"folder": str(tmp_path), "parts": [part]}


def test_rows_to_predict_may_come_on_standard_input(run: Path, tmp_path: Path) -> None:
    rows = "x,group\n0.5,a\n-1.0,b\n".replace("group", f'"group{NASTY}"')
    (tmp_path / "new.csv").write_text(rows)
    there, piped = (
        CliRunner().invoke(app, ["predict", str(run), data], input=rows) for data in (str(tmp_path / "new.csv"), "-")
    )
    assert piped.exit_code == 0, piped.output
    assert piped.stdout == there.stdout
    assert len(piped.stdout.splitlines()) == 3
