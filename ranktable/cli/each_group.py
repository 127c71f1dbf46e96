"""Commands that show every group of a table of groups (server-groups) in turn."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, TypeVar

from ranktable.cli import CommandError, OutputFormat, write
from ranktable.cli.input_output import TableFile, sound_table, with_ranks
from ranktable.cluster.argument import ArgumentError
from ranktable.cluster.server_groups import GROUPED, tables_of
from ranktable.layout.errors import LayoutError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

Result = TypeVar("Result")


def sound_tables(file: str | None, group: str | None) -> list[TableFile]:
    """Return a file with its table, or once for each group if none is named.

    Raises:
        CommandError: The table has errors, or is not that of a job.
    """
    read = sound_table(file, needs_ranks=False)
    if group is None and read.table.format == GROUPED:
        try:
            parts = tables_of(read.table)
        except ArgumentError as error:
            raise CommandError(f"{read.name}: {error}") from None
        if len(parts) > 1:
            return [
                read._replace(
                    name=f"{read.name}, {name.replace('-', ' ', 1)}",
                    table=part,
                    whole=read.table,
                    group=name,
                )
                for name, part in parts.items()
            ]
    return [with_ranks(read, group)]


def of_group(read: TableFile, made: Callable[[TableFile], Result]) -> Result:
    """Return what is made of a table.

    Raises:
        CommandError: It cannot be made; the message says of which group.
    """
    try:
        return made(read)
    except (CommandError, LayoutError) as error:
        if not read.group:
            raise
        raise CommandError(f"{read.group.replace('-', ' ', 1)}: {error}") from None


def show_each(shown: Mapping[str, Iterable[str]], form: OutputFormat) -> None:
    """Write what is shown of every group, by name; of one table as it stands.

    As JSON, several are members of ``server_groups``.
    """
    if len(shown) == 1:
        write(next(iter(shown.values())))
        return
    if form is OutputFormat.JSON:
        found = {name: json.loads("".join(pieces)) for name, pieces in shown.items()}
        write([json.dumps({"server_groups": found}, indent=2), "\n"])
        return
    write("\n".join("".join(pieces) for pieces in shown.values()))
