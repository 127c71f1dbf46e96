"""The output of a command that changes a table, and its summary."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from ranktable.cli.output import (
    DEFECTS_FOUND,
    STANDARD_OUTPUT,
    CommandError,
    OutputFormat,
    is_standard_output,
    put_table,
    style_of,
    tell_written,
    write,
)
from ranktable.cli.parameters import OutputOption, ReplaceTableOption, flag
from ranktable.cli.sources import STANDARD_INPUT_NAME
from ranktable.report.diff_renderers import render_changes, render_diff_json
from ranktable.report.terminal import table_size
from ranktable.schema.text import printable
from ranktable.schema.writing import dumps_judged, replace_file

if TYPE_CHECKING:
    from ranktable.cli.table_input import TableFile
    from ranktable.layout.change.comparison import Difference
    from ranktable.layout.change.fitting import Change
    from ranktable.schema.model import RankTable


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeOutput:
    """Where to write a changed table, and the form of the summary.

    Attributes:
        output: Its file, None for standard output.
        in_place: Whether it replaces the file that was read.
        force: Whether another file may be replaced.
        form: Form of the summary.
    """

    output: OutputOption = None
    in_place: Annotated[bool, flag("Replace FILE, atomically.", "--in-place", "-i")] = (
        False
    )
    diff: Annotated[
        bool, flag("Print what would change, on standard output only.", "--diff")
    ] = False
    force: ReplaceTableOption = False
    form: Annotated[
        OutputFormat,
        typer.Option(
            "--format",
            help="Form of the summary: json on standard output, text on standard "
            "error.",
        ),
    ] = "text"

    def refuse_clash(self) -> None:
        """Raise CommandError for options that exclude each other."""
        if self.in_place and self.output is not None:
            raise CommandError("--in-place and --output do not go together")
        if self.diff and (self.in_place or self.output is not None):
            raise CommandError("--diff writes no table; leave out --in-place and -o")
        is_printed = (
            not self.diff
            and not self.in_place
            and (self.output is None or is_standard_output(self.output))
        )
        if is_printed and self.form == "json":
            raise CommandError(
                "--format json needs --in-place or --output FILE: standard output is "
                "the table's"
            )

    def put(self, read: TableFile, done: Change) -> int:
        """Write the table if it is sound, and print what has changed.

        Returns:
            The exit status.

        Raises:
            CommandError: A file has another table, or standard input would have to be
                replaced.
            RankTableError: The table is not sound; nothing is written.
            FileChangedError: The file to be replaced has changed since it was read.
        """
        after = done.table
        data = dumps_judged(after)[0]
        if self.diff:
            self._show(read.name, done.diff)
            return 0 if done.diff.is_same else DEFECTS_FOUND
        if self.in_place:
            self._replace(read, after, data)
        else:
            put_table(
                STANDARD_OUTPUT if self.output is None else self.output,
                after,
                data,
                force=self.force,
                read={read.name: read.data},
            )
        self._tell(read.name, done.diff)
        return 0

    def _show(self, name: str, found: Difference) -> None:
        if self.form == "json":
            write(render_diff_json((name, None), found))
        elif found.is_same:
            write([f"unchanged {printable(name)}: {table_size(found.after)}\n"])
        else:
            write(render_changes(found, style_of()))

    def _replace(self, read: TableFile, after: RankTable, data: bytes) -> None:
        if read.name == STANDARD_INPUT_NAME:
            raise CommandError("standard input cannot be replaced; use --output")
        if read.key:
            raise CommandError(
                f"{read.name} is in a ConfigMap, which is not changed; use --output, "
                "and ranktable convert --to kubernetes"
            )
        done = "unchanged"
        if read.table.digest() != after.digest():
            replace_file(read.name, data, expected=read.data)
            done = "wrote"
        tell_written(done, read.name, table_size(after))

    def _tell(self, name: str, found: Difference) -> None:
        if self.form == "json":
            new = name if self.in_place else self.output
            write(render_diff_json((name, new), found))
            return

        if not found.is_same:
            sys.stderr.writelines(render_changes(found, style_of(stream=sys.stderr)))
