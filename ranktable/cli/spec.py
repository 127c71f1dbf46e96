"""The cluster spec of ``ranktable gen --spec``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from ranktable.cli.failure import COULD_NOT_JUDGE, DEFECTS_FOUND, CommandError
from ranktable.cli.files import STANDARD_INPUT, STANDARD_INPUT_NAME
from ranktable.cli.output import style
from ranktable.cluster.host_lists import fold_hosts
from ranktable.cluster.specs.read_spec import MAX_SIZE_BYTES, read_spec
from ranktable.cluster.specs.spec import spare_hosts, table_from_spec
from ranktable.report.terminal import Style, render_full
from ranktable.schema.files import UnreadableError, read_file, read_stream
from ranktable.schema.messages import printable

if TYPE_CHECKING:
    from ranktable.cluster.specs.spec import Spec
    from ranktable.schema.check_report import Report
    from ranktable.schema.model import RankTable


def table_of_file(file: str, *, is_emulated: bool) -> tuple[RankTable, str | None]:
    """Return the table of a spec and the topology of its rings; name its spares.

    Raises:
        CommandError: The spec cannot be read, or has defects, which are shown.
    """
    spec = _read(file)
    if is_emulated and spec.addresses is None:
        raise CommandError("--emulator needs the addresses: add them to the spec")
    spares = spare_hosts(spec)
    if spares:
        sys.stderr.write(f"left out as spares: {printable(fold_hosts(spares))}\n")
    return table_from_spec(spec, is_emulated=is_emulated), spec.ring


def _read(file: str) -> Spec:
    name, data = _bytes(file)
    reading = read_spec(data, file=name)
    if reading.spec is None:
        _show(reading.report)
        raise CommandError(f"{name} is no sound cluster spec", DEFECTS_FOUND)
    if reading.report.totals:
        _show(reading.report)
    return reading.spec


def _bytes(file: str) -> tuple[str, bytes]:
    is_stream = file == STANDARD_INPUT
    name = STANDARD_INPUT_NAME if is_stream else file
    try:
        if is_stream:
            return name, read_stream(sys.stdin.buffer, MAX_SIZE_BYTES)
        return name, read_file(file, MAX_SIZE_BYTES)
    except UnreadableError as error:
        message = f"{name}: {error.code} {error.message}"
        raise CommandError(message, COULD_NOT_JUDGE) from None


def _show(report: Report) -> None:
    """Show what was found beside the table, which may go to standard output."""
    is_coloured = style().is_coloured and sys.stderr.isatty()
    text = "".join(render_full([report], Style(is_coloured, style().width)))
    if report.ok:  # without the line that calls the file sound
        text = text.rpartition(printable(report.file))[0]
    sys.stderr.write(text)
