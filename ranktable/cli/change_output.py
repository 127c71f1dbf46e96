"""The output of a command that changes a table, and its summary."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from ranktable.cli.output import (
    STANDARD_OUTPUT,
    CommandError,
    OutputFormat,
    is_standard_output,
    put_table,
    style,
    tell_written,
    write,
)
from ranktable.cli.parameters import OutputOption, ReplaceTableOption, flag
from ranktable.cli.sources import STANDARD_INPUT_NAME
from ranktable.layout.change.comparison import difference
from ranktable.layout.change.nodes import named_table, refuse_same_ids, unnamed_table
from ranktable.layout.change.operations import factor_names
from ranktable.layout.parallel import remembering
from ranktable.report.diff_renderers import render_changes, render_diff_json
from ranktable.report.terminal import table_size
from ranktable.schema.text import counted
from ranktable.schema.writing import dumps_judged, replace_file

if TYPE_CHECKING:
    from ranktable.cli.table_input import TableFile
    from ranktable.layout.change.comparison import Difference
    from ranktable.layout.change.facts import CostFacts
    from ranktable.layout.parallel import ParallelLayout
    from ranktable.schema.model import RankTable

Again = Annotated[bool, flag("Skip nodes that are already done.", "--again")]


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
        is_printed = not self.in_place and (
            self.output is None or is_standard_output(self.output)
        )
        if is_printed and self.form == "json":
            raise CommandError(
                "--format json needs --in-place or --output FILE: standard output is "
                "the table's"
            )

    def put(
        self,
        read: TableFile,
        after: RankTable,
        layouts: tuple[ParallelLayout | None, ParallelLayout] | None = None,
        *,
        facts: CostFacts | None = None,
        may_have_gaps: bool = False,
    ) -> None:
        """Write the table if it is sound, and print what has changed.

        Args:
            read: The file that was read.
            after: The changed table, made from the ``named_table`` of the first.
            layouts: The layout of each table; the new table stores the second. The
                first is None if it is not known, and then no roles are compared.
            facts: Traffic, racks and links of the chips.
            may_have_gaps: Whether ranks may be missing, as in the file that was read.

        Raises:
            ChangeError: Chips of a new host have SDIDs that are already used.
            CommandError: A file has another table, or standard input would have to be
                replaced.
            RankTableError: The table is not sound; nothing is written.
            FileChangedError: The file to be replaced has changed since it was read.
        """
        both = None
        if layouts is not None:
            was, layout = layouts
            after = remembering(after, layout)
            both = None if was is None else (was, layout)
        before = named_table(read.table)
        refuse_same_ids(before, after)
        found = difference(before, after, both, facts=facts)
        after = unnamed_table(after, read.table)
        gaps = after.rank_end - after.world_size if may_have_gaps else 0
        data = dumps_judged(after, may_have_gaps=gaps > 0)[0]
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
        self._tell(read.name, found)
        if gaps:
            sys.stderr.write(
                f"note: {counted(gaps, 'rank')} {'is' if gaps == 1 else 'are'} still "
                "missing; ranktable renumber fills the gaps\n"
            )

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
            sys.stderr.writelines(render_changes(found, style(stream=sys.stderr)))


def tell_sizes(before: ParallelLayout, after: ParallelLayout) -> None:
    """Print on standard error which sizes have changed."""
    sizes = [
        f"{axis} {getattr(before, axis)} -> {getattr(after, axis)}"
        for axis in factor_names(before)
        if getattr(before, axis) != getattr(after, axis)
    ]
    if sizes:
        sys.stderr.write(f"layout: {', '.join(sizes)}\n")
