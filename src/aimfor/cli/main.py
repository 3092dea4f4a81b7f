"""The command line: train, compare, predict, embed, decide, plan, check, report, export, demo.

Nothing heavy is imported before a command runs, so that ``--help`` answers at once. Whatever is wrong with the
input ends with exit code 2 and one line.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import InputError
from ..runs.process import this_is_the_program
from . import options
from .deciding import check, decide, plan
from .options import Data, Encoding, Jobs, Out, Quiet, Rows, SkipCorrupt
from .terminal import from_stdin, one_line_errors

app = typer.Typer(
    name="aimfor",
    help="Train neural networks on the metric you are judged by.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
#: Options of `train` that say what is printed, not what is done.
_PRINTED = ("json", "quiet")
#: Every line that the help shows.
EXAMPLES: dict[str, tuple[str, ...]] = {}


def command(*examples: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A command whose help ends with these lines; a line stays a line."""

    def register(function: Callable[..., None]) -> Callable[..., None]:
        EXAMPLES[function.__name__] = examples
        return app.command(epilog="\b\nExamples:\n" + "\n".join(f"  {line}" for line in examples))(function)

    return register


@command(
    "aimfor train customers.csv --target churned --metric ap",
    "aimfor train pictures/ --metric ap --model efficientnet-lite0",
    "aimfor train pictures/ --metric map@r --model efficientnet-lite0",
    "aimfor train scenes/ --masks masks/ --metric iou --model efficientnet-lite0",
    "aimfor train --resume runs/customers-ap",
)
@options.declared(options.TRAIN)
def train(**given: Any) -> None:
    """Train for a metric: an ensemble on a table or pictures, an embedding for neighbours, or a network for masks."""
    with one_line_errors():
        typed = [name for name, (_, default) in options.TRAIN.items() if given[name] != default]
        typed = [name for name in typed if name not in _PRINTED]
        if given["resume"] is not None:
            _go_on(given["resume"], typed, given["quiet"], given["json"])
            return
        if given["data"] is None or given["metric"] is None:
            raise _missing("DATA" if given["data"] is None else "--metric")
        from . import progress

        progress.finish(*begin(given, typed), given["quiet"], given["json"])


def begin(given: dict[str, Any], typed: list[str]) -> tuple[Path, Any]:
    """Finds out what kind of run it is and refuses what would have no effect on it; then its folder and its task."""
    from ..data.backbones import is_backbone
    from ..data.settings import settings
    from ..runs import driver
    from ..runs.kinds import check_options
    from . import progress

    options.check_model(given["model"])
    options.refuse_mixed(given)
    members = options.kinds_of(given["members"], features=is_backbone(given["model"]))
    own = {"memory": options.bytes_of(given["memory"]), "members": members, "budget_minutes": given["budget"]}
    plain = {name: value for name, value in given.items() if name not in ("out", "resume", "budget", *_PRINTED)}
    checked, out = settings(**{**plain, **own}), given["out"]
    with progress.features(Path("runs") if out is None else out.resolve().parent, given["quiet"]) as work:
        return driver.start(checked, out, work, lambda kinds: check_options(typed, kinds, given["data"]))


def _go_on(folder: Path, typed: list[str], quiet: bool, as_json: bool) -> None:
    """Finishes a run that was stopped, whatever kind of run it is."""
    from ..runs import driver
    from ..runs.kinds import flag
    from . import progress

    other = next((name for name in typed if name != "resume"), None)
    if other is not None:
        name = "DATA" if other == "data" else flag(other)
        raise InputError(name, "the option beside --resume", "none: a run goes on as it was begun", "Leave it out.")
    with progress.features(folder.resolve().parent, quiet) as work:
        task = driver.reopen(folder, work)
    progress.finish(folder, task, quiet, as_json)


def _missing(what: str) -> InputError:
    """For what a command cannot do without."""
    expected = "the name of a metric, such as auroc or f1"
    if what == "DATA":
        expected = "a file, a folder of images or a built-in set"
    return InputError(what, "nothing", expected, "For instance: aimfor train table.csv --target label --metric auroc.")


@command(
    "aimfor compare customers.csv --target churned --metric f1 --metric auroc",
    "aimfor compare customers.csv --target churned --metric recall@precision=0.9 --seeds 10",
)
@options.declared(options.COMPARE)
def compare(**given: Any) -> None:
    """Does what `train` makes beat what people use on this data? With the same --out, finished cells are reused."""
    with one_line_errors():
        from . import compare as comparing

        if not given["metric"]:
            raise _missing("--metric")
        executor = options.executor_of(given["jobs"], given["executor"])
        results = comparing.run(comparing.settings_of(given), given["seeds"], executor, given["out"], given["quiet"])
        (comparing.show_json if given["json"] else comparing.show)(*results)


@command("aimfor predict runs/customers-ap new_customers.csv --out decisions.csv")
def predict(
    run: Annotated[Path, typer.Argument(help="Folder of a finished run.")],
    data: Data,
    out: Annotated[
        Path | None, typer.Option(help="CSV file to write; by default standard output. Masks: folder of PNG files.")
    ] = None,
    encoding: Encoding = None,
    rows: Rows = None,
    skip_corrupt: SkipCorrupt = False,
    id_column: Annotated[str | None, typer.Option("--id", help="Column that names the rows of the output.")] = None,
    evaluate: Annotated[
        bool, typer.Option("--evaluate", help="Compare with the labels in the data; the result goes to stderr.")
    ] = False,
    raw: Annotated[
        bool, typer.Option("--raw", help="Texts as they are, without the apostrophe before what begins as a formula.")
    ] = False,
    json: Annotated[
        bool,
        typer.Option("--json", help="What --evaluate finds as JSON on standard output; the rows go to --out alone."),
    ] = False,
) -> None:
    """Scores, probabilities and decisions at the stored threshold, as CSV; DATA may be -, CSV from standard input."""
    with one_line_errors(), from_stdin(data) as data:
        from ..runs.folder import kind_of
        from ..runs.predict import predict as write_predictions
        from .written import write_masks

        kind = kind_of(run)
        if kind == "embedding":
            raise InputError("run", f"{run}, which finds neighbours", "a run that decides", "Use aimfor embed.")
        if kind == "masks":
            given = {"--skip-corrupt": skip_corrupt, "--rows": rows is not None, "--encoding": encoding is not None}
            given |= {"--id": id_column is not None, "--evaluate": evaluate, "--raw": raw, "--json": json}
            _refuse("masks", given)
            write_masks(run, data, out)
            return
        if kind == "labels":
            _refuse("several labels", {"--id": id_column is not None, "--evaluate": evaluate, "--json": json})
        how: dict[str, Any] = {"id_column": id_column, "evaluate": evaluate or json, "raw": raw, "as_json": json}
        write_predictions(run, data, out, encoding or "utf8", rows, skip_corrupt=skip_corrupt, **how)


def _refuse(what: str, given: dict[str, bool]) -> None:
    """Raises `InputError` for an option that has no meaning for such a run."""
    for name, typed in given.items():
        if typed:
            raise InputError(name, f"given for a run of {what}", "a run on tables", "Leave it out.")


@command("aimfor report runs/customers-ap")
def report(
    run: Annotated[Path, typer.Argument(help="Folder of a finished run or comparison.")],
) -> None:
    """Write report.html of a run or comparison again, and print its path."""
    with one_line_errors():
        from ..report.write import write_report

        print(write_report(run))


@command("aimfor embed runs/pictures-map@r new_pictures/ --out vectors.parquet")
def embed(
    run: Annotated[Path, typer.Argument(help="Folder of a finished run with --metric map@r or recall@k.")],
    data: Annotated[str, typer.Argument(help="Folder of pictures, or one picture.")],
    out: Annotated[
        Path, typer.Option("--out", "-o", help="File to write: vectors.npy (names in vectors.json) or .parquet.")
    ],
    quiet: Quiet = False,
) -> None:
    """Write one vector per picture; pictures of one class, seen in training or not, are near each other by cosine."""
    with one_line_errors():
        from .written import write_embedding

        for path in write_embedding(run, data, out, quiet):
            print(path)


@command("aimfor export runs/customers-ap --onnx")
def export(
    run: Annotated[Path, typer.Argument(help="Folder of a finished run.")],
    out: Annotated[Path | None, typer.Option(help="File to write; by default model.onnx in the run.")] = None,
    onnx: Annotated[bool, typer.Option("--onnx", help="As ONNX (pip install onnx onnxscript onnxruntime).")] = False,
) -> None:
    """Export for deployment: the ensemble of a table, from raw columns to decisions, as one ONNX file."""
    with one_line_errors():
        from ..onnx.export import export as write

        print(write(run, out, onnx))


@command("aimfor demo --out runs/demo")
def demo(
    out: Out = None,
    seeds: Annotated[int, typer.Option(help="Paired seeds and splits.")] = 3,
    jobs: Jobs = None,
    quiet: Quiet = False,
) -> None:
    """`compare` on 1,797 handwritten digits (is it 5 or more?): the ensemble against trees and networks."""
    with one_line_errors():
        from ..data.settings import settings
        from . import compare as comparing

        given = settings(data="digits_high", metric=comparing.DEMO, positive="5 to 9")
        comparing.show(*comparing.run([given], seeds, options.executor_of(jobs, None), out, quiet))


def _base(function: Callable[[Sequence[str]], int]) -> None:
    """A command of the base install, which reads its own words."""

    def run(context: typer.Context) -> None:
        raise typer.Exit(function(context.args))

    words = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}
    app.command(function.__name__, context_settings=words)(run)


for base_command in (decide, plan, check):
    _base(base_command)


def main() -> None:
    this_is_the_program()
    app()


if __name__ == "__main__":
    main()
