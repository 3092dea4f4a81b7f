"""The command line: train, compare, predict, embed, decide, check, report, export, demo.

Nothing heavy is imported before a command runs, so that ``--help`` answers at once. Whatever is wrong with the
input ends with exit code 2 and one line.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import typer

from ..runs.signals import this_is_the_program
from . import commands, compare, train
from .deciding import check, decide, plan
from .options import examples

app = typer.Typer(
    name="aimfor",
    help="Train neural networks on the metric you are judged by.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
EXAMPLES: dict[Callable[..., None], tuple[str, ...]] = {
    train.train: (
        "aimfor train customers.csv --target churned --metric ap",
        "aimfor train pictures/ --metric ap --model efficientnet-lite0",
        "aimfor train pictures/ --metric map@r --model efficientnet-lite0",
        "aimfor train scenes/ --masks masks/ --metric iou --model efficientnet-lite0",
        "aimfor train --resume runs/customers-ap",
    ),
    compare.compare: (
        "aimfor compare customers.csv --target churned --metric f1 --metric auroc",
        "aimfor compare customers.csv --target churned --metric recall@precision=0.9 --seeds 10",
    ),
    commands.predict: ("aimfor predict runs/customers-ap new_customers.csv --out decisions.csv",),
    commands.embed: ("aimfor embed runs/pictures-map@r new_pictures/ --out vectors.parquet",),
    commands.report: ("aimfor report runs/customers-ap",),
    commands.export: ("aimfor export runs/customers-ap --onnx",),
    commands.demo: ("aimfor demo --out runs/demo",),
}
for command, lines in EXAMPLES.items():
    app.command(epilog=examples(*lines))(command)


def _base(command: Callable[[Sequence[str]], int]) -> None:
    """A command of the base install, which reads its own words."""

    def run(context: typer.Context) -> None:
        raise typer.Exit(command(context.args))

    words = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}
    app.command(command.__name__, context_settings=words)(run)


for base_command in (decide, plan, check):
    _base(base_command)


def main() -> None:
    this_is_the_program()
    app()


if __name__ == "__main__":
    main()
