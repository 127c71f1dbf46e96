"""Options and arguments that several commands have, each declared once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ranktable.cli.output import (
    COLOR_HELP,
    DEFAULT_FILE,
    FORM_HELP,
    Color,
    FindingsFormat,
    OutputFormat,
)
from ranktable.cli.table_input import FILE_HELP
from ranktable.runtime.table import VARIABLE

if TYPE_CHECKING:
    from collections.abc import Callable


def valued(
    metavar: str,
    help: str,  # noqa: A002 - as typer names it
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


TableArgument = Annotated[
    str, typer.Argument(metavar="FILE", help="Rank table, or - for standard input.")
]
FileArgument = Annotated[str | None, typer.Argument(metavar="FILE", help=FILE_HELP)]
ColorOption = Annotated[Color, typer.Option(help=COLOR_HELP)]
OutputFormatOption = Annotated[OutputFormat, typer.Option(help="Form of the output.")]
FindingsFormatOption = Annotated[
    FindingsFormat | None,
    typer.Option(help=FORM_HELP, show_default="full on a terminal, concise in a pipe"),
]
NewTableOption = Annotated[
    str | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        help=f"By default ${VARIABLE}, else {DEFAULT_FILE}; hccl.json for a table of "
        "Ascend, rank_table.json for those of other vendors; - prints the table.",
    ),
]
OutputOption = Annotated[
    str | None,
    typer.Option("--output", "-o", metavar="FILE", help="By default standard output."),
]
ReplaceTableOption = Annotated[
    bool, typer.Option("--force", help="Replace a file that holds a different table.")
]
ReplaceFileOption = Annotated[
    bool, typer.Option("--force", help="Replace a file that holds something else.")
]
ReplaceFilesOption = Annotated[
    bool, typer.Option("--force", help="Replace files that hold something else.")
]
MaxSizeOption = Annotated[
    int, typer.Option(min=1, metavar="MIB", help="Largest file to read.")
]
DropOption = Annotated[
    list[str] | None,
    valued(
        "NODES",
        "Nodes that are lost: hosts such as n[03-05], or numbers of nodes that have "
        "none.",
    ),
]
DropRanksOption = Annotated[
    str | None, valued("LIST", "Single ranks that are lost: 1,4-5.")
]
KeepOption = Annotated[str, valued("LIST", "Sizes that stay as they are.")]
RanksOption = Annotated[
    int | None,
    typer.Option(
        min=1, metavar="N", help="Ranks that are wanted; by default as many as fit."
    ),
]
RootOption = Annotated[
    str,
    valued(
        "DIR",
        "Folder to use as /, such as the mounted root of the host in a container.",
    ),
]
RunProgramsOption = Annotated[
    bool,
    typer.Option(
        "--run-programs",
        help="Run the vendors' tools below --root, with the rights of this user.",
    ),
]
