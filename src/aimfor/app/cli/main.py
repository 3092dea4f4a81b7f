"""The command line: ``aimfor train | compare | predict | report | export | demo``, one file a command.

Nothing heavy is imported before a command runs, so that ``--help`` answers at once. Whatever is wrong with the
input ends with exit code 2 and one line.
"""

from __future__ import annotations

import typer

from . import compare, demo, export, predict, report, train

app = typer.Typer(
    name="aimfor",
    help="Train neural networks on the metric you are judged by.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
for command in (train.train, compare.compare, predict.predict, report.report, export.export, demo.demo):
    app.command()(command)


def main() -> None:
    app()


if __name__ == "__main__":
    main()
