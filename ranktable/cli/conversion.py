"""What ``ranktable convert`` reads, and what its options make of it."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import typer

from ranktable.cli.failure import COULD_NOT_JUDGE, DEFECTS_FOUND, CommandError
from ranktable.cli.files import STANDARD_INPUT, STANDARD_INPUT_NAME, named_file
from ranktable.cli.findings import FindingsFormat
from ranktable.cli.output import style
from ranktable.cluster.argument import ArgumentError
from ranktable.cluster.device_list import parse_device_list
from ranktable.cluster.host_lists import expand_hosts
from ranktable.cluster.hostfiles import deepspeed_hostfile
from ranktable.cluster.hostfiles.hostfile import (
    hostfile_from_table,
    with_chips,
    with_hosts,
)
from ranktable.cluster.hostfiles.launcher_formats import (
    LAUNCHER_FORMATS,
    detect_formats,
    format_of,
    read_hostfile,
    read_text,
)
from ranktable.report.findings_data import RENDERERS
from ranktable.report.terminal import Style
from ranktable.schema.check import check_bytes
from ranktable.schema.diagnostic import Options, RankTableError
from ranktable.schema.files import (
    DEFAULT_MAX_SIZE_BYTES,
    UnreadableError,
    read_file,
    read_stream,
)
from ranktable.schema.format import Format
from ranktable.schema.formats import FORMATS
from ranktable.schema.messages import printable

if TYPE_CHECKING:
    from collections.abc import Callable

    from ranktable.cluster.hostfiles.hostfile import Hostfile
    from ranktable.cluster.hostfiles.hostfile import LauncherFormat as Kind
    from ranktable.cluster.hostfiles.launcher_formats import HostfileReading
    from ranktable.cluster.source_text import SourceText
    from ranktable.schema.check_report import Report
    from ranktable.schema.model import RankTable

TABLE = "sccl"
"""Stands for the format of rank tables that is written by default."""

_JSON = ("{", "[")


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """What was read.

    Attributes:
        kind: What the file is.
        name: Its name.
        data: Its bytes.
        description: The hosts that it describes.
        table: The rank table, None if the file is none.
        left_out: What the file says of hosts and the description does not.
    """

    kind: Kind | Format
    name: str
    data: bytes
    description: Hostfile
    table: RankTable | None = None
    left_out: tuple[str, ...] = ()


def kind_of(option: str, name: str) -> Kind | Format:
    """Return what a name on the command line stands for.

    Raises:
        CommandError: There is nothing of this name.
    """
    for format_ in FORMATS:
        if name in (format_.name, TABLE):
            return format_
    try:
        return format_of(name)
    except ArgumentError as error:
        raise CommandError(f"{option}: {error}") from None


def read(file: str | None, from_name: str | None, form: FindingsFormat) -> Read:
    """Return what a file describes; findings are shown in a form.

    Raises:
        CommandError: It cannot be read, has defects, or may be several things.
    """
    kind = None if from_name is None else kind_of("--from", from_name)
    name, data = _bytes(named_file(file))
    if kind is None:
        kind = _recognised(name, data)
    if isinstance(kind, Format):
        is_known = from_name not in (None, TABLE)
        options = Options(limit=5, format=kind if is_known else None)
        table = _table(check_bytes(data, options, file=name))
        description = hostfile_from_table(table)
        return Read(
            kind=kind, name=name, data=data, description=description, table=table
        )
    reading = read_hostfile(data, kind, file=name)
    description = _sound(reading, form)
    return Read(
        kind=kind,
        name=name,
        data=data,
        description=description,
        left_out=reading.left_out,
    )


def _bytes(file: str) -> tuple[str, bytes]:
    is_stream = file == STANDARD_INPUT
    try:
        if is_stream:
            stream = sys.stdin.buffer
            return STANDARD_INPUT_NAME, read_stream(stream, DEFAULT_MAX_SIZE_BYTES)
        return file, read_file(file, DEFAULT_MAX_SIZE_BYTES)
    except UnreadableError as error:
        name = STANDARD_INPUT_NAME if is_stream else file
        message = f"{name}: {error.code} {error.message}"
        raise CommandError(message, COULD_NOT_JUDGE) from None


def _table(report: Report) -> RankTable:
    try:
        return report.sound_table()
    except RankTableError as error:
        message = f"the table is not sound\n{error}"
        raise CommandError(message, DEFECTS_FOUND) from None


def _recognised(name: str, data: bytes) -> Kind | Format:
    """Return what a file is; of several that read it alike, the first."""
    forms = detect_formats(data)
    shown = printable(name)
    if not forms:
        text = data.decode("utf-8", "replace").removeprefix("\ufeff")
        if text.lstrip()[:1] in _JSON:
            return FORMATS[0]
        names = ", ".join(form.name for form in LAUNCHER_FORMATS)
        raise CommandError(
            f"nothing tells what {shown} is; say it with --from NAME: {names}"
        )
    if len(forms) > 1:
        names = " or ".join(form.name for form in forms)
        raise CommandError(f"{shown} may be {names}; say it with --from")
    return forms[0]


def _sound(reading: HostfileReading, form: FindingsFormat) -> Hostfile:
    """Show what was found, and return the description if there is no error.

    The output may be the description itself, so that findings go to standard error.
    """
    report = reading.report
    if report.totals:
        look = style()
        look = Style(look.is_coloured and sys.stderr.isatty(), look.width)
        sys.stderr.writelines(dict(RENDERERS)[form.value]([report], look))
    if reading.hostfile is None:
        if form not in (
            FindingsFormat.FULL,
            FindingsFormat.CONCISE,
        ):  # for programs, with nothing after it
            raise typer.Exit(DEFECTS_FOUND)
        raise CommandError(f"{report.file} cannot be converted", DEFECTS_FOUND)
    return reading.hostfile


def filtered(
    source: Read, include: str | None, exclude: str | None, form: FindingsFormat
) -> Hostfile:
    """Return the hosts that DeepSpeed's filters choose.

    Raises:
        CommandError: A filter is wrong, or the file is no host file of DeepSpeed.
    """
    if not (include or exclude):
        return source.description
    if source.kind.name != "deepspeed-hostfile":
        raise CommandError("--include and --exclude are for deepspeed-hostfile")
    if include and exclude:
        raise CommandError("--include and --exclude exclude each other")

    choose: Callable[[SourceText, Hostfile], Hostfile | None] = (
        deepspeed_hostfile.include if include else deepspeed_hostfile.exclude
    )
    reading = read_text(
        include or exclude or "",
        lambda text: choose(text, source.description),
        file="--include" if include else "--exclude",
        name="filter",
    )
    return _sound(reading, form)


def with_options(
    description: Hostfile,
    hosts: str | None,
    device_id: str | None,
    chips_per_node: int | None,
) -> Hostfile:
    """Return the description with the hosts and chips that options give.

    Raises:
        CommandError: An option is malformed, or does not fit the description.
    """
    if device_id is not None and chips_per_node is not None:
        raise CommandError("--device-id and --chips-per-node do not go together")
    option = "--hosts"
    try:
        if hosts is not None:
            description = with_hosts(description, expand_hosts(hosts))
        option = "--chips-per-node"
        if chips_per_node is not None:
            one = range(chips_per_node)
            return with_chips(description, [one] * len(description.hosts))
        option = "--device-id"
        if device_id is not None:
            nodes = parse_device_list(device_id)
            chips = [[chip.device_id for chip in node] for node in nodes]
            return with_chips(description, chips)
    except ArgumentError as error:
        raise CommandError(f"{option}: {error}") from None
    return description
