"""``aimfor train``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .errors import missing, one_line_errors
from .options import (
    Augment,
    BatchSize,
    Budget,
    Columns,
    DataOrResume,
    Encoding,
    Epochs,
    Fast,
    FineTune,
    Group,
    Hidden,
    Members,
    Memory,
    MetricName,
    Model,
    Out,
    Positive,
    Query,
    Quiet,
    Rate,
    Rows,
    SkipCorrupt,
    Target,
    Trust,
    Workers,
    bytes_of,
    kinds_of,
    network_options,
    refuse_for_streams,
    refuse_mixed,
    refuse_with_query,
)


def train(
    data: DataOrResume = None,
    target: Target = None,
    metric: MetricName = None,
    positive: Positive = None,
    column: Columns = None,
    group: Group = None,
    query: Query = None,
    model: Model = "auto",
    members: Members = None,
    fast: Fast = False,
    budget: Budget = None,
    workers: Workers = None,
    recipe: Annotated[
        str | None, typer.Option(help="One network by a built-in recipe, FILE.toml, or FILE.toml:NAME.")
    ] = None,
    out: Out = None,
    resume: Annotated[Path | None, typer.Option(help="Continue the run in this folder.")] = None,
    epochs: Epochs = None,
    batch_size: BatchSize = None,
    learning_rate: Rate = None,
    hidden: Hidden = None,
    seed: Annotated[int, typer.Option(help="Sets the split, the initial weights and the order of rows.")] = 0,
    threads: Annotated[
        int, typer.Option(help="CPU threads; a different number changes the last bits of the result.")
    ] = 1,
    image_size: Annotated[int | None, typer.Option(help="Side in pixels to which images are scaled.")] = None,
    augment: Augment = None,
    fine_tune: FineTune = False,
    skip_corrupt: SkipCorrupt = False,
    masks: Annotated[
        str | None, typer.Option(help="Folder of PNG masks, or a COCO file: a class for every pixel (--metric iou).")
    ] = None,
    classes: Annotated[str | None, typer.Option(help="Masks: file of class names, one per line, or JSON.")] = None,
    ignore: Annotated[int | None, typer.Option(help="Masks: value of the pixels to ignore.")] = None,
    encoding: Encoding = None,
    rows: Rows = None,
    memory: Memory = None,
    split_by: Annotated[
        str | None, typer.Option(help="Streams: rows with the same value of this column stay in the same part.")
    ] = None,
    checkpoint_seconds: Annotated[float | None, typer.Option(help="Seconds between two saved checkpoints.")] = None,
    trust: Trust = None,
    quiet: Quiet = False,
) -> None:
    """Train for a metric: a committee on a table or on pictures, a network by a recipe, or a network for masks."""
    with one_line_errors():
        from ...errors import InputError
        from ...fitting.backbones import LITE0, is_backbone
        from ...fitting.config import find_recipe, settings
        from ...fitting.default import default_recipe
        from ..many import command as many_command
        from ..many import run as many
        from ..masks import command as mask_command
        from ..retrieval import command as retrieval_command
        from ..run import training
        from ..run.folder import read_source
        from ..run.trust import find_typed_code
        from ..stream import run as stream
        from . import progress

        if resume is not None:
            _go_on(resume, trust, quiet)
            return
        if data is None or metric is None:
            raise missing("DATA" if data is None else "--metric")
        if masks is None and retrieval_command.is_wanted(data, metric, model, query):
            own = settings(
                data=data,
                target=target,
                metric=metric,
                model=model,
                epochs=epochs,
                seed=seed,
                image_size=image_size,
                skip_corrupt=skip_corrupt,
                encoding=encoding,
                rows=rows,
            )
            meaningless: dict[str, object] = {
                "--recipe": recipe,
                "--members": members,
                "--fast": fast,
                "--budget": budget,
                "--positive": positive,
                "--group": group,
                "--column": column,
                "--hidden": hidden,
                "--batch-size": batch_size,
                "--learning-rate": learning_rate,
                "--fine-tune": fine_tune,
                "--augment": augment is not None,
            }
            retrieval_command.train(own, out, quiet, meaningless)
            return
        find_typed_code(model)
        shaped = network_options("auto", epochs, batch_size, learning_rate, hidden)
        named = network_options(model, epochs, batch_size, learning_rate, hidden)
        one_network = shaped if Path(data).is_dir() else named
        plan = find_recipe(recipe) if recipe else default_recipe(one_network=bool(one_network))
        if is_backbone(model) and plan is not None and masks is None:
            raise InputError(
                "--recipe" if recipe else str(one_network), f"the option together with {model}", "the committee alone"
            )
        if query is not None:
            refuse_with_query("--recipe" if recipe else model if is_backbone(model) else one_network)
        streamed = masks is None and not is_backbone(model) and stream.is_wanted(data, bytes_of(memory))
        if query is not None and streamed:
            refuse_with_query("a table read as a stream")
        refuse_mixed(plan is not None, members, fast, budget, "--recipe" if recipe else str(one_network))
        if streamed:
            refuse_for_streams(rows, image_size, workers, "--recipe" if recipe else one_network)
        given = settings(
            data=data,
            target=target,
            metric=metric,
            positive=positive,
            column=column,
            group=group,
            query=query,
            model=model,
            epochs=epochs,
            batch_size=batch_size,
            learning_rate=learning_rate,
            hidden=hidden,
            seed=seed,
            threads=threads,
            image_size=image_size,
            augment=augment,
            fine_tune=fine_tune,
            skip_corrupt=skip_corrupt,
            masks=masks,
            classes=classes,
            ignore=ignore,
            encoding=encoding,
            rows=rows,
            memory=bytes_of(memory),
            split_by=split_by,
            checkpoint_seconds=checkpoint_seconds,
            members=kinds_of(members, features=is_backbone(model)),
            fast=fast,
            budget_minutes=budget,
            workers=workers,
        )
        if masks is not None:
            mask_command.train(given, out, quiet)
            return
        if streamed:
            progress.streaming(*stream.start(given, out), quiet)
            return
        runs = Path("runs") if out is None else out.resolve().parent
        with progress.features(runs, quiet) as work:
            source = read_source(given, work)
            if source.images is not None:
                if members is not None:
                    raise InputError(
                        "--members", members, "none: on pixels the only member is a network", f"Or use --model {LITE0}."
                    )
                plan = plan if recipe or shaped else None
            if fine_tune and (source.pictures is None or source.label_names or fast):
                raise InputError(
                    "--fine-tune",
                    "the option for another kind of run",
                    "a committee on one class per picture",
                    f"Use it with --model {LITE0}.",
                )
            if augment is not None and not fine_tune and (source.images is None or plan is not None):
                raise InputError(
                    "--augment",
                    "the option for another kind of run",
                    "a committee of networks on pixels",
                    "Leave it out.",
                )
            if source.label_names:
                folder, several = many.start(given, source, out, work)
            else:
                folder, ready = training.start(given, plan, out, source, work)
        if source.label_names:
            many_command.finish(folder, several, quiet)
            return
        progress.training(folder, ready, plan, quiet)


def _go_on(folder: Path, trust: str | None, quiet: bool) -> None:
    """Finishes a run that was stopped, whatever kind of run it is."""
    from ..many import command as many
    from ..masks import command as masks
    from ..retrieval import command as retrieval
    from ..run import training
    from ..run.folder import kind_of
    from ..stream import run as stream
    from . import progress

    kind = kind_of(folder)
    if kind == "masks":
        masks.resume(folder, quiet)
    elif kind == "retrieval":
        retrieval.resume(folder, quiet)
    elif kind == "stream":
        progress.streaming(folder, stream.reopen(folder), quiet)
    elif kind == "many":
        with progress.features(folder.resolve().parent, quiet) as work:
            several = many.reopen(folder, work)
        many.finish(folder, several, quiet)
    else:
        with progress.features(folder.parent, quiet) as work:
            ready, plan = training.reopen(folder, trust, work)
        progress.training(folder, ready, plan, quiet)
