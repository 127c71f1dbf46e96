"""The commands of ``ranktable``, in the order of ``--help``, and their options."""

from __future__ import annotations

import inspect
import os
import re
from contextlib import suppress
from dataclasses import fields
from enum import Enum
from functools import cache, wraps
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, Final, get_args, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup
from typer.utils import get_params_from_function

from ranktable import __version__
from ranktable.cli.completion import VARIABLE, completed_command

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    CommandFunction = Callable[..., None]

COMMANDS: Final = {
    "gen": "Generate a rank table.",
    "validate": "Check rank tables and show every defect with its line and column.",
    "show": "Show which chip each rank has.",
    "mesh": (
        "Show the parallel groups of a job: their ranks, coordinates, nodes and chips."
    ),
    "plan": "Compare the traffic between nodes and racks with a lower bound.",
    "convert": "Convert between rank tables and the files of launchers and schedulers.",
    "explain": (
        "Explain a diagnostic: why it matters, what vendors' libraries do, how to "
        "fix it."
    ),
    "schema": "Print the JSON Schema (draft 2020-12) of a format.",
    "digest": "Print the SHA-256 of the content of a table, whatever its formatting.",
    "env": "Show rank, size, node and master address, and which variable gave each.",
    "init": (
        "List the templates, or copy one: cluster specs, jobs, checks, editor settings."
    ),
    "probe": "Print the chips of this node, and what could not be detected.",
    "merge": (
        "Merge the rank tables of several nodes, or the output of ranktable probe "
        "on them."
    ),
    "split": (
        "Split a rank table into one file per node, named after its host or its number."
    ),
    "subset": "Write the table of some ranks, renumbered from 0, for a communicator.",
    "wait": (
        "Wait until a rank table exists, is sound, and is the same in two readings."
    ),
    "diff": (
        "Show the differences between two tables: nodes, ranks, roles, groups and "
        "bytes."
    ),
    "replace-node": "Replace one node by another; no other rank moves.",
    "shrink": "Remove nodes from a table, and keep the layout of the model.",
    "grow": "Add nodes to a table, and extend the layout of the model to them.",
    "spares": "Show, add or remove the spare nodes of a table, which have no rank.",
    "renumber": (
        "Number the ranks of a table without gaps, after nodes or chips were lost."
    ),
    "run": "Start the processes of this node with torchrun, as the rank table says.",
    "simulate": (
        "Run a script on simulated chips: SOPHGO's TPUs, on the CPUs of this machine."
    ),
}
"""What each command does; a command is a function and a module of its name."""

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
    """
    name = arguments[0] if arguments else None
    if VARIABLE in os.environ:
        name = completed_command(os.environ)
    if name in COMMANDS:
        return make_app((str(name),))
    # "--" may come before a name.
    if not COMMANDS.keys().isdisjoint(arguments):
        return make_app(tuple(COMMANDS))
    return make_app(())


def _tidy(parameters: list[Any], declared: Mapping[str, Any]) -> list[Any]:
    """Show flags as flags, arguments without a type, and defaults if there are any.

    Otherwise --help would show these differently with each version of typer.
    """
    for each in parameters:
        if getattr(each, "is_flag", False):
            each.metavar = ""
        _convert_seldom(each, declared.get(each.name))
        if each.default is None and not isinstance(_shown_default(each), str):
            each.show_default = False
        if each.param_type_name == "argument":
            each.display_type_rich = lambda ctx: None
    return parameters


def _convert_seldom(parameter: Any, declared: Any) -> None:
    """Convert a value of a command line only if it does not have its type already.

    typer 0.29 converts every value by pydantic, whose import takes longer than a small
    table. ``process_value`` is click's method for it, and typer's.
    """
    convert: Any = getattr(parameter, "process_value", None)
    annotation = getattr(declared, "annotation", None)
    kinds = get_args(annotation) or (annotation,)  # str | None has two
    limits = getattr(declared, "default", None)

    def process_value(ctx: object, value: Any) -> Any:
        found = _as_declared(value, kinds)
        if found is _ODD and kinds[0] is int:
            found = _number_within(value, limits)
        if found is _ODD or (parameter.required and not found):
            return convert(ctx, value)
        called = parameter.callback
        return found if called is None else called(ctx, parameter, found)

    if convert is not None and _HAS_PYDANTIC:
        parameter.process_value = process_value


_HAS_PYDANTIC = tuple(map(int, typer.__version__.split(".")[:2])) >= (0, 29)
_ODD: Final = object()
_DIGITS: Final = re.compile(r"[0-9]{1,18}")


def _as_declared(value: Any, kinds: Sequence[Any]) -> Any:
    """Return a value as its parameter declares it, ``_ODD`` for what to convert."""
    if value is None or isinstance(value, (list, tuple)):
        if list[str] not in kinds:
            return None if value is None else _ODD
        return list(value or ())
    if any(isinstance(kind, type) and isinstance(value, kind) for kind in kinds):
        return value
    if isinstance(kinds[0], type) and issubclass(kinds[0], Enum):
        with suppress(ValueError):
            return kinds[0](value)
    return _ODD


def _number_within(value: object, limits: Any) -> object:
    """Return a plain number within the limits of its option, else ``_ODD``."""
    if not isinstance(value, str) or not _DIGITS.fullmatch(value):
        return _ODD
    number = int(value)
    is_low = limits.min is not None and number < limits.min
    is_high = limits.max is not None and number > limits.max
    return _ODD if is_low or is_high else number


def _shown_default(parameter: Any) -> object:
    return getattr(parameter, "show_default", None)


class _TidyCommand(TyperCommand):
    """A command whose help is the same with every version of typer."""

    def get_params(self, ctx: Any) -> list[Any]:
        declared = get_params_from_function(self.callback) if self.callback else {}
        found = _tidy(super().get_params(ctx), declared)
        for each in found:
            if each.name in declared and getattr(each, "help", "") is None:
                # click 8.5 empties what typer before 0.26 has set.
                each.help = getattr(declared[each.name].default, "help", None)
        return found


class _TidyGroup(TyperGroup):
    """A list of commands whose help is the same with every version of typer."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _tidy(super().get_params(ctx), {})


@cache
def make_app(names: tuple[str, ...]) -> typer.Typer:
    """Return an application with some commands.

    Args:
        names: The names of its commands; if empty, all of ``COMMANDS`` by name only.
    """
    app = typer.Typer(
        cls=_TidyGroup,
        help="Make, check and use rank tables: which process of a job runs on which "
        "chip.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode="markdown",  # paragraphs are wrapped as paragraphs
        context_settings={"help_option_names": ["-h", "--help"]},
        epilog="Example: ranktable gen --device-id '[[0..7]]' --ring sophgo-8 && "
        "ranktable validate sccl_rank_table.json",
    )
    app.callback()(_options)
    for name in names:
        place = name.replace("-", "_")
        function = getattr(import_module(f"ranktable.cli.commands.{place}"), place)
        settings = SETTINGS.get(name)
        app.command(name, cls=_TidyCommand, context_settings=settings)(function)
    if not names:
        for name, does in COMMANDS.items():
            app.command(name, help=does)(_only_a_name)
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
    """Make, check and use rank tables: which process of a job runs on which chip."""


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
