"""The commands of ``ranktable``, in the order in which ``--help`` lists them."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from ranktable import __version__

if TYPE_CHECKING:
    from collections.abc import Sequence

COMMANDS: Final = (
    *("gen", "validate", "show", "mesh", "plan", "convert", "explain", "schema"),
    *("digest", "env", "init", "probe", "merge", "split", "wait"),
    *("diff", "replace-node", "shrink", "grow", "spares", "renumber"),
    *("run", "simulate"),
)
"""Each is a function of its name, in a module of its name."""

SETTINGS: Final[dict[str, dict[str, Any]]] = {
    # What follows the script is the script's own.
    "run": {"allow_interspersed_args": False, "ignore_unknown_options": True},
    "simulate": {"allow_interspersed_args": False},
}


def app_for(arguments: Sequence[str]) -> typer.Typer:
    """Return an application that knows what arguments name: one command, or all.

    To import and build all of them takes longer than most of them run.

    Args:
        arguments: Those of the command line.
    """
    named = arguments[0] if arguments else ""
    return make_app((named,) if named in COMMANDS else COMMANDS)


@cache
def make_app(names: tuple[str, ...]) -> typer.Typer:
    """Return an application with some commands.

    Args:
        names: Those of ``COMMANDS`` that it has.
    """
    app = typer.Typer(
        help="Make, check and use rank tables: which process of a job runs on which "
        "chip.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode="markdown",  # paragraphs are wrapped as paragraphs
        context_settings={"help_option_names": ["-h", "--help"]},
        epilog="Example: ranktable gen --device-id '[[0..7]]' && ranktable validate "
        "sccl_rank_table.json",
    )
    app.callback()(_options)
    for name in names:
        place = name.replace("-", "_")
        function = getattr(import_module(f"ranktable.cli.{place}"), place)
        app.command(name, context_settings=SETTINGS.get(name))(function)
    return app


def _print_version(*, wanted: bool) -> None:
    if wanted:
        typer.echo(f"ranktable {__version__}")
        raise typer.Exit


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
