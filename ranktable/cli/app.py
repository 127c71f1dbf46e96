"""The commands of ``ranktable``, in the order in which ``--help`` lists them."""

from __future__ import annotations

from typing import Annotated

import typer

from ranktable import __version__
from ranktable.cli.convert import convert
from ranktable.cli.diff import diff
from ranktable.cli.digest import digest
from ranktable.cli.env import env
from ranktable.cli.explain import explain
from ranktable.cli.gen import gen
from ranktable.cli.grow import grow
from ranktable.cli.init import init
from ranktable.cli.merge import merge
from ranktable.cli.mesh import mesh
from ranktable.cli.plan import plan
from ranktable.cli.probe import probe
from ranktable.cli.renumber import renumber
from ranktable.cli.replace_node import replace_node
from ranktable.cli.run import run
from ranktable.cli.schema import schema
from ranktable.cli.show import show
from ranktable.cli.shrink import shrink
from ranktable.cli.simulate import simulate
from ranktable.cli.spares import spares
from ranktable.cli.split import split
from ranktable.cli.validate import validate
from ranktable.cli.wait import wait

COMMANDS = (
    *(gen, validate, show, mesh, plan, convert, explain, schema, digest, env),
    *(init, probe, merge, split, wait),
    *(diff, replace_node, shrink, grow, spares, renumber),
)

app = typer.Typer(
    help="Make, check and use rank tables: which process of a job runs on which chip.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",  # paragraphs are wrapped as paragraphs
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Example: ranktable gen --device-id '[[0..7]]' && ranktable validate "
    "sccl_rank_table.json",
)
for command in COMMANDS:
    app.command()(command)
# What follows the script is the script's own.
app.command(
    context_settings={"allow_interspersed_args": False, "ignore_unknown_options": True}
)(run)
app.command(context_settings={"allow_interspersed_args": False})(simulate)


def _print_version(*, wanted: bool) -> None:
    if wanted:
        typer.echo(f"ranktable {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    _version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=lambda value: _print_version(wanted=value),
            is_eager=True,
            help="Print the version.",
        ),
    ] = False,
) -> None:
    """Make, check and use rank tables: which process of a job runs on which chip."""
