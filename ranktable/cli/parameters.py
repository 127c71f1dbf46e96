"""Options and arguments that several commands have, each declared once."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated

import typer

from ranktable.cli import completion
from ranktable.cli.output import (
    DEFAULT_FILE,
    Color,
    CommandError,
    FindingsFormat,
    OutputFormat,
)
from ranktable.runtime.table import VARIABLE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

DEFAULT_MAX_ERRORS = 20
FILE_HELP = "Rank table, or - for standard input; by default $RANK_TABLE_FILE."


def valued(
    metavar: str,
    help: str,
    *names: str,
    completes: Callable[[str], list[str]] | None = None,
) -> object:
    """Return an option with a value.

    Args:
        metavar: What help calls the value.
        help: Its text in --help.
        names: Its names, where they are not that of the parameter.
        completes: Returns the values that begin with some letters, for a shell.
    """
    return typer.Option(*names, metavar=metavar, help=help, autocompletion=completes)


def flag(help: str, *names: str) -> object:
    """Return an option without a value, which has only the given names."""
    return typer.Option(*names, help=help)


def number(
    metavar: str,
    help: str,
    *,
    min: int,
    max: int | None = None,
) -> object:
    """Return an option with an integer within limits."""
    return typer.Option(min=min, max=max, metavar=metavar, help=help)


def codes_in(lists: Sequence[str] | None) -> tuple[str, ...]:
    """Return the codes, or beginnings of codes, in lists such as ``RT2,RT503``.

    Raises:
        CommandError: A text is neither a code nor the beginning of one.
    """
    codes = tuple(" ".join(lists or ()).replace(",", " ").split())
    for code in codes:
        if not _CODE.fullmatch(code):
            raise CommandError(f"{code!r} is not a code, such as RT202 or RT2")
        from ranktable.report.catalogue import RULES

        if not any(rule.code.startswith(code) for rule in RULES):
            raise CommandError(f"there is no code that begins with {code}")
    return codes


_CODE = re.compile(r"RT[0-9]{1,3}")

TableArgument = Annotated[
    str, typer.Argument(metavar="FILE", help="Rank table, or - for standard input.")
]
FileArgument = Annotated[str | None, typer.Argument(metavar="FILE", help=FILE_HELP)]
FileOrHereArgument = Annotated[
    str | None,
    typer.Argument(metavar="FILE", help=f"{FILE_HELP[:-1]}, else {DEFAULT_FILE}."),
]
ColorOption = Annotated[
    Color,
    typer.Option(help="When to use colour; NO_COLOR and FORCE_COLOR are honoured too."),
]
OutputFormatOption = Annotated[OutputFormat, typer.Option(help="Form of the output.")]
FindingsFormatOption = Annotated[
    FindingsFormat | None,
    typer.Option(
        help="Form of the findings.",
        show_default="full on a terminal, concise in a pipe",
    ),
]
SelectOption = Annotated[
    list[str] | None,
    valued(
        "CODES",
        "Report only these codes: RT2,RT503.",
        completes=completion.listed_codes,
    ),
]
NewTableOption = Annotated[
    str | None,
    valued(
        "FILE",
        f"By default ${VARIABLE}, else {DEFAULT_FILE}, or hccl.json for a table of "
        "Ascend; - prints the table.",
        "--output",
        "-o",
    ),
]
OutputOption = Annotated[
    str | None, valued("FILE", "By default standard output.", "--output", "-o")
]
ReplaceTableOption = Annotated[
    bool, flag("Replace a file that holds a different table.", "--force")
]
ReplaceFileOption = Annotated[
    bool, flag("Replace a file that holds something else.", "--force")
]
MaxSizeOption = Annotated[int, number("MIB", "Largest file to read.", min=1)]
RootOption = Annotated[
    str,
    valued(
        "DIR",
        "Folder to use as /, such as the mounted root of the host in a container.",
    ),
]
RunProgramsOption = Annotated[
    bool,
    flag(
        "Run the vendors' tools below --root, with the rights of this user.",
        "--run-programs",
    ),
]
