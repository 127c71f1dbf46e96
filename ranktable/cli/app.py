"""The commands of ``ranktable``, in the order of ``--help``, and their options."""

from __future__ import annotations

import inspect
import os
import sys
from dataclasses import fields
from functools import cache, wraps
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, Final, get_type_hints

import typer

from ranktable import __version__
from ranktable._error import Error
from ranktable.cli.completion import VARIABLE, completed_command
from ranktable.cli.help import COMPLETION_OPTIONS, GroupedCommand, GroupedCommands

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    CommandFunction = Callable[..., None]

PANELS: Final = {
    "Make": {
        "gen": "Generate a rank table.",
        "init": "List the templates, or copy one.",
        "probe": "Print the chips of this node, and what could not be detected.",
    },
    "Check": {
        "validate": "Check rank tables; show every defect with its line and column.",
        "check": (
            "Compare what a table declares with this host, or with all processes of a "
            "job."
        ),
        "doctor": "Find from logs which rank, host and chip made a job fail.",
        "explain": "Explain a diagnostic: why it matters, and how to fix it.",
        "show": "Show which chip each rank has.",
        "report": "Draw a table as one page: racks, chips, changes and findings.",
        "mesh": "Show the parallel groups of a job: ranks, nodes and chips.",
        "plan": "Compare traffic between nodes and racks with a lower bound.",
        "diff": "Show the differences between two tables.",
        "schema": "Print the JSON Schema (draft 2020-12) of a format.",
    },
    "Use in a job": {
        "env": "Show rank, size, master address and chip, and what gave each.",
        "wait": "Wait until a rank table exists, is sound and stays the same.",
        "run": (
            "Start the processes of this node with torchrun, as the rank table says."
        ),
        "simulate": "Run a script on simulated chips, on the CPUs of this machine.",
    },
    "Convert and combine": {
        "convert": "Convert between rank tables and files of launchers.",
        "merge": "Merge rank tables of several nodes, or the output of probe.",
        "split": "Split a rank table into one file per node, or take some ranks.",
    },
    "Change": {
        "fit": "Fit a table to the hosts that are there.",
    },
}
"""The commands in the groups of ``--help``; each has a function and a module.

Both have its name, in ``ranktable.cli.commands``.
"""

COMMANDS: Final = {
    name: does for commands in PANELS.values() for name, does in commands.items()
}
"""What each command does."""

REPLACED: Final = {
    "digest": "show FILE --digest",
    "grow": "fit FILE --with NODES --grow",
    "renumber": "fit FILE",
    "replace-node": "fit FILE --lost OLD --with NEW",
    "shrink": "fit FILE --lost NODES, or with all that are there: --hosts HOSTS",
    "spares": "fit FILE --spare NODES; ranktable show FILE lists the spares",
    "subset": "split FILE --ranks LIST",
}
"""Commands of earlier versions, and what replaces them."""


class ReplacedCommandError(Error):
    """A command of an earlier version is used; the text says what replaces it."""


SETTINGS: Final[dict[str, dict[str, Any]]] = {
    # Arguments after the script belong to the script.
    "run": {"allow_interspersed_args": False, "ignore_unknown_options": True},
    "simulate": {"allow_interspersed_args": False},
}


def app_for(arguments: Sequence[str]) -> typer.Typer:
    """Return an application with the commands that are needed.

    Importing and building all commands takes longer than most of them run. So the
    application has only the named command; or the names of all, for the help and for
    unknown commands.

    Args:
        arguments: The arguments of the command line.

    Raises:
        ReplacedCommandError: The command is one of an earlier version.
    """
    name = arguments[0] if arguments else None
    if VARIABLE in os.environ:
        name = completed_command(os.environ)
    if name in COMPLETION_OPTIONS and len(arguments) > 1:
        # typer 0.26 takes the name of a shell only where it detects none.
        os.environ["_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION"] = "1"
    if name in REPLACED:
        raise ReplacedCommandError(f"{name} is now: ranktable {REPLACED[name]}")
    if name in COMMANDS:
        return make_app((str(name),))
    # "--" may come before a name.
    if not COMMANDS.keys().isdisjoint(arguments):
        return make_app(tuple(COMMANDS))
    return make_app(())


_HELP = """Make, check and use rank tables: which process of a job runs on which chip.

Example: ranktable gen --device-id '[[0..7]]' --ring sophgo-8
ranktable validate sccl_rank_table.json
"""


@cache
def make_app(names: tuple[str, ...]) -> typer.Typer:
    """Return an application with some commands.

    Args:
        names: The names of its commands; if empty, all of ``COMMANDS`` by name only.
    """
    app = typer.Typer(
        cls=GroupedCommands,
        help=_HELP,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={
            "help_option_names": ["-h", "--help"],
            "max_content_width": sys.maxsize,  # as wide as the terminal
        },
    )
    app.callback()(_options)
    for name in names:
        place = name.replace("-", "_")
        function = getattr(import_module(f"ranktable.cli.commands.{place}"), place)
        settings = SETTINGS.get(name)
        app.command(name, cls=GroupedCommand, context_settings=settings)(function)
    if not names:
        for panel, commands in PANELS.items():
            for name, does in commands.items():
                app.command(name, help=does, rich_help_panel=panel)(_only_a_name)
    return app


def _only_a_name() -> None:
    """Do nothing: the command is only listed in the help."""


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
    """Have the options of no command."""


def with_options(**sets: type[Any]) -> Callable[[CommandFunction], CommandFunction]:
    """Return a decorator that replaces parameters of a command by options.

    Args:
        sets: A dataclass for each of these parameters. Each of its fields is an option,
            with a default and typer's annotation.
    """

    def spread(function: CommandFunction) -> CommandFunction:
        @wraps(function)
        def command(**values: Any) -> None:
            for name, kind in sets.items():
                given = {each.name: values.pop(each.name) for each in fields(kind)}
                values[name] = kind(**given)
            function(**values)

        parameters = list(_parameters(function, sets))
        command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        command.__annotations__ = {each.name: each.annotation for each in parameters}
        return command

    return spread


def _parameters(
    function: CommandFunction, sets: dict[str, type[Any]]
) -> Iterator[inspect.Parameter]:
    """Yield the parameters that typer turns into options and arguments."""
    for each in inspect.signature(function, eval_str=True).parameters.values():
        if each.name not in sets:
            yield each.replace(kind=inspect.Parameter.KEYWORD_ONLY)
            continue
        types = get_type_hints(sets[each.name], include_extras=True)
        for field in fields(sets[each.name]):
            yield inspect.Parameter(
                field.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=field.default,
                annotation=types[field.name],
            )
