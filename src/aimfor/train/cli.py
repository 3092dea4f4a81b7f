"""The command line: ``aimfor train | compare | predict | report | export | demo``.

Nothing heavy is imported before a command runs, so that ``--help`` answers at once. Whatever is wrong with the
input ends with exit code 2 and one line.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    name="aimfor",
    help="Train neural networks on the metric you are judged by.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

Data = Annotated[str, typer.Argument(help="CSV, Parquet or npz file, folder of images, or a built-in set (digits, …).")]
Target = Annotated[str | None, typer.Option(help="Column (or array) to predict; image folders need none.")]
MetricName = Annotated[str, typer.Option(help="auroc, f1, fbeta=2, ap, recall@precision=0.9, …: see `aimfor support`.")]
Positive = Annotated[str | None, typer.Option(help="Which value of the target is the positive class.")]
Group = Annotated[str | None, typer.Option(help="Column for the group table of the report.")]
Model = Annotated[str, typer.Option(help="auto, linear, mlp, resnet, or your own as module:factory.")]
Out = Annotated[Path | None, typer.Option(help="Output folder; by default a new one under runs/.")]
Epochs = Annotated[int | None, typer.Option(help="Epoch budget; by default from the number of rows.")]
BatchSize = Annotated[int | None, typer.Option(help="Rows per batch; by default from the number of rows.")]
Rate = Annotated[float | None, typer.Option(help="Learning rate.")]
Hidden = Annotated[int | None, typer.Option(help="Width of the MLP's hidden layers.")]
Encoding = Annotated[str | None, typer.Option(help="Text encoding of the CSV, e.g. latin-1.")]
Rows = Annotated[int | None, typer.Option(help="Read only the first rows of a table.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")]


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Expected failures become one line on stderr and an exit code: 2 bad input, 130 stopped by the user."""
    from ..errors import AimforError

    try:
        yield
    except AimforError as error:
        if type(error).__name__ == "Interrupted":
            raise typer.Exit(130) from None
        _complain(str(error))
        raise typer.Exit(2) from None
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
    except MemoryError:
        _complain("memory: got more than there is, expected less. Read fewer rows with --rows.")
        raise typer.Exit(2) from None
    except OSError as error:
        _complain(f"{error.filename or 'file'}: {error.strerror or error}")
        raise typer.Exit(2) from None


def _complain(text: str) -> None:
    print("aimfor: " + " ".join(text.split()), file=sys.stderr)


@app.command()
def train(
    data: Annotated[str | None, typer.Argument(help="As for the other commands; not needed with --resume.")] = None,
    target: Target = None,
    metric: Annotated[str | None, typer.Option(help="The metric to train for.")] = None,
    positive: Positive = None,
    group: Group = None,
    model: Model = "auto",
    recipe: Annotated[str, typer.Option(help="A built-in recipe, FILE.toml, or FILE.toml:NAME.")] = "auto",
    all_data: Annotated[
        bool | None,
        typer.Option("--all-data/--no-all-data", help="Train on in the end, on validation rows too."),
    ] = None,
    out: Out = None,
    resume: Annotated[Path | None, typer.Option(help="Continue the run in this folder.")] = None,
    epochs: Epochs = None,
    batch_size: BatchSize = None,
    learning_rate: Rate = None,
    hidden: Hidden = None,
    seed: Annotated[int, typer.Option(help="Decides the split, the weights and the order.")] = 0,
    threads: Annotated[int, typer.Option(help="CPU threads; part of the result's last bits.")] = 1,
    image_size: Annotated[int | None, typer.Option(help="Pixels per side to bring images to.")] = None,
    encoding: Encoding = None,
    rows: Rows = None,
    checkpoint_seconds: Annotated[float | None, typer.Option(help="Time between saves of the state.")] = None,
    quiet: Quiet = False,
) -> None:
    """Train a model on a table or an image folder, for a metric."""
    with one_line_errors():
        from . import progress, training
        from .config import find_recipe, settings

        if resume is not None:
            folder = resume
            ready, plan = training.reopen(folder)
        else:
            if data is None or metric is None:
                raise _missing("DATA" if data is None else "--metric")
            plan = find_recipe(recipe)
            if all_data is not None:
                plan = plan.model_copy(update={"all_data": all_data})
            given = settings(
                data=data,
                target=target,
                metric=metric,
                positive=positive,
                group=group,
                model=model,
                epochs=epochs,
                batch_size=batch_size,
                learning_rate=learning_rate,
                hidden=hidden,
                seed=seed,
                threads=threads,
                image_size=image_size,
                encoding=encoding,
                rows=rows,
                checkpoint_seconds=checkpoint_seconds,
            )
            folder, ready = training.start(given, plan, out)
        progress.training(folder, ready, plan, quiet)


def _missing(what: str) -> Exception:
    from ..errors import InputError

    return InputError(what, "nothing", "a value", "For instance: aimfor train table.csv --target label --metric auroc.")


@app.command()
def predict(
    run: Annotated[Path, typer.Argument(help="Folder of a finished run.")],
    data: Data,
    out: Annotated[Path | None, typer.Option(help="CSV file to write; by default standard output.")] = None,
    encoding: Encoding = None,
    rows: Rows = None,
) -> None:
    """Scores, probabilities and decisions at the stored threshold, as CSV. Exit code 0 means every row was scored."""
    with one_line_errors():
        from .predicting import predict as write

        write(run, data, out, encoding or "utf8", rows)


@app.command()
def compare(
    data: Data,
    target: Target = None,
    metric: Annotated[
        list[str] | None, typer.Option(help="The metric to judge by; may be given several times.")
    ] = None,
    positive: Positive = None,
    model: Model = "auto",
    seeds: Annotated[int, typer.Option(help="Paired seeds and splits.")] = 5,
    seed: Annotated[int, typer.Option(help="The first seed.")] = 0,
    recipe: Annotated[list[str] | None, typer.Option(help="Recipes to run; by default all built-in ones.")] = None,
    all_data: Annotated[
        bool, typer.Option("--all-data", help="Every recipe also with a last phase on validation rows too.")
    ] = False,
    jobs: Annotated[int | None, typer.Option(help="Processes; by default one per core.")] = None,
    out: Out = None,
    epochs: Epochs = None,
    batch_size: BatchSize = None,
    learning_rate: Rate = None,
    hidden: Hidden = None,
    image_size: Annotated[int | None, typer.Option(help="Pixels per side to bring images to.")] = None,
    encoding: Encoding = None,
    rows: Rows = None,
    quiet: Quiet = False,
) -> None:
    """Does it beat cross-entropy with a tuned threshold on this data? Finished cells are kept and used again."""
    with one_line_errors():
        from . import comparing
        from .config import settings

        if not metric:
            raise _missing("--metric")
        given = [
            settings(
                data=data,
                target=target,
                metric=one,
                positive=positive,
                model=model,
                epochs=epochs,
                batch_size=batch_size,
                learning_rate=learning_rate,
                hidden=hidden,
                seed=seed,
                image_size=image_size,
                encoding=encoding,
                rows=rows,
            )
            for one in metric
        ]
        comparing.compare(given, seeds, recipe, jobs, out, quiet, all_data)


@app.command()
def demo(
    out: Out = None,
    seeds: Annotated[int, typer.Option(help="Paired seeds and splits.")] = 5,
    jobs: Annotated[int | None, typer.Option(help="Processes; by default one per core.")] = None,
    quiet: Quiet = False,
) -> None:
    """`compare` on built-in data (handwritten eights among other digits) for four metrics."""
    with one_line_errors():
        from . import comparing
        from .config import settings

        given = [settings(data="digits_imbalanced", metric=one, epochs=15, batch_size=64) for one in comparing.DEMO]
        comparing.compare(given, seeds, None, jobs, out, quiet)


@app.command()
def report(
    run: Annotated[Path, typer.Argument(help="Folder of a finished run or comparison.")],
) -> None:
    """Write report.html of a run or comparison anew and print its path."""
    with one_line_errors():
        from .report.page import write_report

        print(write_report(run))


@app.command()
def export(
    run: Annotated[Path, typer.Argument(help="Folder of a finished run.")],
    out: Annotated[
        Path | None, typer.Option(help="File to write; by default model.pt2 or model.onnx in the run.")
    ] = None,
    onnx: Annotated[
        bool, typer.Option("--onnx", help="ONNX instead of torch.export (needs onnx and onnxscript).")
    ] = False,
) -> None:
    """The network of a run for deployment: it takes encoded rows (see config.json) and gives scores."""
    with one_line_errors():
        from .exporting import export as write

        print(write(run, out, onnx))


def main() -> None:
    app()


if __name__ == "__main__":
    main()
