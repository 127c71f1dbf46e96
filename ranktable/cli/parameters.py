"""Options and arguments that several commands have, each declared once."""

from __future__ import annotations

from typing import Annotated

import typer

from ranktable.cli import COLOR_HELP, FORM_HELP, Color, FindingsFormat, OutputFormat
from ranktable.cli.input_output import DEFAULT_FILE, FILE_HELP
from ranktable.runtime.table import VARIABLE

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
        help=f"By default ${VARIABLE}, else {DEFAULT_FILE}; - prints the table.",
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
