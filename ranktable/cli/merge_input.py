"""What ``ranktable merge`` is given: files of tables, or of lines of probes."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from ranktable.cli.failure import CommandError
from ranktable.cli.files import STANDARD_INPUT, STANDARD_INPUT_NAME
from ranktable.cli.progress import CountingStream, Progress
from ranktable.cluster.merging.merge_nodes import Merged, Order
from ranktable.cluster.merging.merge_probes import merge_probes
from ranktable.cluster.merging.merge_tables import is_part, merge_tables
from ranktable.cluster.probes.read_probes import is_probe_text
from ranktable.schema.check import check_bytes, report_unreadable
from ranktable.schema.diagnostic import Options
from ranktable.schema.files import UnreadableError, read_file, read_stream

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ranktable.cluster.merging.merge_nodes import MergeOptions
    from ranktable.schema.check_report import Report


class MergeInput:
    """The files of a command, read once."""

    def __init__(
        self, names: Sequence[str], max_size_bytes: int, line: Progress
    ) -> None:
        """Read every file; what could not be read is kept as a report."""
        self.names = names
        self.max_size_bytes = max_size_bytes
        self.line = line
        self.unread: list[Report] = []
        self.data = [self._read(place, name) for place, name in enumerate(names)]

    @property
    def contents(self) -> dict[str, bytes]:
        """What every file holds, by its path."""
        return dict(zip(self.names, self.data, strict=True))

    def _read(self, place: int, name: str) -> bytes:
        try:
            if name == STANDARD_INPUT:
                stream = CountingStream(sys.stdin.buffer, self.line, name)
                return read_stream(stream, self.max_size_bytes)
            self.line.show(f"reading file {place + 1} of {len(self.names)}")
            return read_file(name, self.max_size_bytes)
        except UnreadableError as error:
            self.unread.append(report_unreadable(error, file=_shown(name)))
            return b""

    def merged(self, wishes: MergeOptions, *, are_probes: bool) -> Merged:
        """Return what comes of the files.

        Raises:
            CommandError: Some are rank tables and some lines of probes.
            ArgumentError: The wishes cannot be met.
        """
        if self.unread:
            return Merged(reports=tuple(self.unread))
        kinds = [are_probes or is_probe_text(data) for data in self.data]
        if all(kinds):
            return self._probes(wishes)
        if any(kinds):
            table, probe = (self.names[kinds.index(kind)] for kind in (False, True))
            raise CommandError(
                f"{_shown(probe)} holds lines of ranktable probe and {_shown(table)} "
                "does not; merge the probes first, then the tables"
            )
        return self._tables(wishes)

    def _probes(self, wishes: MergeOptions) -> Merged:
        if wishes.order is Order.BY_RANK:
            raise CommandError("--order by-rank: probes have no ranks; use by-host")
        return merge_probes(
            [_shown(name) for name in self.names],
            self.data,
            [_path(name) for name in self.names],
            wishes,
        )

    def _tables(self, wishes: MergeOptions) -> Merged:
        if wishes.topology is not None:
            raise CommandError(
                "--ring orders the chips of probes; those of a table have an order"
            )
        options = Options(limit=wishes.limit, max_size_bytes=self.max_size_bytes)
        counting = replace(options, limit=0)
        reports = []
        for place, (name, data) in enumerate(zip(self.names, self.data, strict=True)):
            self.line.show(f"checking file {place + 1} of {len(self.names)}")
            # What is noted of a part is not shown: counting it takes half the time.
            report = check_bytes(data, counting, file=_shown(name))
            if not is_part(report):
                report = check_bytes(data, options, file=_shown(name))
            reports.append(report)
        return merge_tables(reports, [_path(name) for name in self.names], wishes)


def _shown(name: str) -> str:
    return STANDARD_INPUT_NAME if name == STANDARD_INPUT else name


def _path(name: str) -> str | None:
    return None if name == STANDARD_INPUT else os.path.realpath(name)
