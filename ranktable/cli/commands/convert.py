"""``ranktable convert``: between rank tables and the files of launchers."""

from __future__ import annotations

import re
import sys
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Annotated

import typer

from ranktable.cli import completion
from ranktable.cli.app import with_options
from ranktable.cli.kinds import CONFIG_MAP, kinds_like
from ranktable.cli.output import (
    DEFECTS_FOUND,
    Color,
    CommandError,
    FindingsFormat,
    about,
    put_text,
    show_findings,
)
from ranktable.cli.parameters import OutputOption, ReplaceFileOption, number, valued
from ranktable.cli.sources import MIB, named_file, read_input, refuse_other_kind
from ranktable.cli.table_input import table_in
from ranktable.cluster.argument import ArgumentError
from ranktable.cluster.conversion import (
    WRITTEN,
    TableOptions,
    convert_table,
    losses_beside_hosts,
    unsound_in,
    with_servers,
)
from ranktable.cluster.generate import (
    parse_address_list,
    parse_device_list,
    parse_numbers,
)
from ranktable.cluster.hccn_files import addresses_from
from ranktable.cluster.host_lists import expand_hosts
from ranktable.cluster.hostfiles.hostfile import (
    WriterOptions,
    hostfile_from_table,
    table_from_hostfile,
    with_chips,
    with_hosts,
)
from ranktable.cluster.hostfiles.launcher_formats import (
    DEFAULT_TABLE,
    HOSTFILE,
    LAUNCHER_FORMATS,
    PODS,
    any_format_of,
    detect_formats,
    read_hostfile,
)
from ranktable.cluster.hostfiles.launcher_formats import convert as cluster_convert
from ranktable.report.terminal import table_size
from ranktable.runtime.table import VARIABLE
from ranktable.schema.check import TABLE, WRAPPED, check_bytes, is_manifest
from ranktable.schema.declare import Format
from ranktable.schema.file_kind import Source
from ranktable.schema.finding import RankTableError
from ranktable.schema.formats import DEFAULT
from ranktable.schema.report import Options
from ranktable.schema.text import counted, printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ranktable.cluster.hostfiles.hostfile import Hostfile, LauncherFormat
    from ranktable.cluster.hostfiles.launcher_formats import HostfileReading
    from ranktable.schema.model import RankTable

_JSON = ("{", "[")


@dataclass(frozen=True, slots=True, kw_only=True)
class HostOptions:
    """The hosts and the chips to write."""

    hosts: Annotated[
        str | None,
        valued(
            "LIST",
            "Hosts in their order: n[001-128],login; the server_id of HCCL.",
            "--hosts",
            "--server-id",
        ),
    ] = None
    device_id: Annotated[
        str | None,
        valued(
            "LISTS",
            "Chips of each host in rank order: '[[0..7],[4..7]]'.",
            "--device-id",
            "--device_id",
        ),
    ] = None
    chips_per_node: Annotated[
        int | None,
        number("N", "Every host has the chips 0 to N - 1.", min=1, max=1 << 20),
    ] = None

    @property
    def have_chips(self) -> bool:
        """Whether chips are given, so that only the hosts of a table are used."""
        return self.device_id is not None or self.chips_per_node is not None

    def hostfile_of(self, source: _ReadInput) -> Hostfile:
        """Return the hosts of a file with the names and chips of the options.

        Raises:
            CommandError: An option is malformed, or does not match the hosts.
        """
        hostfile = source.hosts()
        if self.device_id is not None and self.chips_per_node is not None:
            raise CommandError("--device-id and --chips-per-node do not go together")
        if self.hosts is not None:
            with about("--hosts"):
                hostfile = with_hosts(hostfile, expand_hosts(self.hosts))
        if self.chips_per_node is not None:
            with about("--chips-per-node"):
                one = range(self.chips_per_node)
                return with_chips(hostfile, [one] * len(hostfile.hosts))
        if self.device_id is not None:
            with about("--device-id"):
                nodes = parse_device_list(self.device_id)
                chips = [[chip.device_id for chip in node] for node in nodes]
                return with_chips(hostfile, chips)
        return hostfile


_Text = str | None


@dataclass(frozen=True, kw_only=True)
class WriterArguments:
    """Options for a launcher's file; each is a field of ``WriterOptions``."""

    script: Annotated[
        _Text, valued("SCRIPT", "Script to start on every node; by default train.py.")
    ] = None
    port: Annotated[
        int | None,
        number("PORT", "Port of the rendezvous.", min=1, max=65535),
    ] = None
    name: Annotated[
        _Text, valued("NAME", "Name of a job and its pods; by default train.")
    ] = None
    image: Annotated[_Text, valued("IMAGE", "Image of the containers of a job.")] = None
    resource: Annotated[
        _Text, valued("NAME", "Resource that a chip is: vendor.com/chip.")
    ] = None


@dataclass(frozen=True, kw_only=True)
class TableArguments:
    """Options for a rank table."""

    device_ip: Annotated[
        _Text,
        valued(
            "LISTS",
            "Addresses of the devices of each server: [['10.0.0.5','10.0.1.5']].",
        ),
    ] = None
    hccn_conf: Annotated[
        list[str] | None,
        valued(
            "FILE",
            "The hccn.conf of each server in their order, or HOST=FILE: its "
            "address_N is the device_ip of device N. Repeat it for every server.",
        ),
    ] = None
    super_device_id: Annotated[
        _Text,
        valued(
            "LIST",
            "Of every device in the order of servers and ranks: 0-15,65536-65551.",
        ),
    ] = None
    pods: Annotated[
        _Text, valued("LIST", "Super pod of each server, 0,0,1,1, or one for all.")
    ] = None

    def options(self, table: RankTable) -> TableOptions:
        """Return the options for a table.

        Raises:
            ArgumentError: One is malformed or does not match the table.
        """
        if self.device_ip is not None and self.hccn_conf:
            raise ArgumentError("--device-ip and --hccn-conf do not go together")
        addresses = None
        if self.device_ip is not None:
            sizes = [len(node.devices) for node in table.nodes]
            addresses = parse_address_list(self.device_ip, sizes)
        elif self.hccn_conf:
            addresses = addresses_from(self.hccn_conf, table, _text)
        supers, pods = self.super_device_id, self.pods
        return TableOptions(
            device_ips=addresses,
            super_device_ids=None if supers is None else _numbers(supers),
            pods=None if pods is None else _names(pods),
        )


@with_options(chosen=HostOptions, writer=WriterArguments, arguments=TableArguments)
def convert(
    *,
    to: Annotated[
        str,
        valued(
            "NAME",
            f"{', '.join(WRITTEN)}, or the file of a launcher, such as torchrun or "
            "slurm-nodelist.",
            completes=completion.written_formats,
        ),
    ],
    file: Annotated[
        str | None,
        typer.Argument(
            metavar="FILE",
            help=f"File to convert, or - for standard input; by default ${VARIABLE}.",
        ),
    ] = None,
    from_: Annotated[
        str | None,
        valued(
            "NAME",
            "Format of FILE; by default it is detected.",
            "--from",
            completes=completion.formats,
        ),
    ] = None,
    output: OutputOption = None,
    force: ReplaceFileOption = False,
    chosen: HostOptions,
    writer: WriterArguments,
    format: Annotated[
        FindingsFormat,
        typer.Option(help="Form of the findings, on standard error."),
    ] = "full",
    arguments: TableArguments,
) -> None:
    """Convert between rank tables and files of launchers.

    Standard error lists what the new file cannot hold. Exit status: 0 written, 1
    defects found in FILE, 2 the format cannot express it, or an option is missing.

    Example: ranktable convert sccl_rank_table.json --hosts n1 --to openmpi-rankfile
    """
    target = None if to == WRAPPED else _format_of("--to", to)
    name = to if target is None else target.name
    _refuse_unused(writer, name, getattr(target, "options", ()))
    source = _read(file, from_, format)
    if target is None or isinstance(target, Format):
        data, size = _as_table(source, chosen, name, arguments)
    else:
        _refuse_unused(arguments, target.name)
        hostfile = chosen.hostfile_of(source)
        options = WriterOptions(**asdict(writer))
        data = cluster_convert(hostfile, target, options).encode()
        size = _size(hostfile)
        _tell_losses(target.name, _lost_beside_hosts(source, hostfile, target))
        if selection := target.selection(hostfile):
            _note(f"start with {selection}; without it the chips are others, or more")
        if target.names_hosts and any(host.name for host in hostfile.hosts):
            _note("the pods have names of their own, not those of the hosts")
    if source.left_out:
        _note(f"left out of what the file says: {', '.join(source.left_out)}")
    put_text(output, data, size, force=force, read={source.name: source.data})


def _as_table(
    source: _ReadInput, chosen: HostOptions, to: str, arguments: TableArguments
) -> tuple[bytes, str]:
    """Return the bytes of a rank table or its ConfigMap, and its size in words.

    Raises:
        CommandError: The format cannot express it; the message names the missing
            option.
    """
    table = source.table
    if table is not None and source.hostfile is not None and to == DEFAULT.name:
        # Pods: the names of HCCL are those of hosts, or UIDs.
        table = with_servers(table, [host.name or "" for host in source.hostfile.hosts])
    if table is None or chosen.have_chips:
        hostfile = chosen.hostfile_of(source)
        table = table_from_hostfile(hostfile)
        _tell_losses(to, _lost_beside_hosts(source, hostfile, None))
        if any(host.device_ids is None for host in hostfile.hosts):
            _note("every host has the chips from 0 on; --device-id names others")
    elif chosen.hosts is not None:
        table = with_servers(table, expand_hosts(chosen.hosts), "--hosts")
    try:
        made = convert_table(table, to, arguments.options(table))
    except RankTableError as error:
        raise CommandError(unsound_in(to, error)) from None
    _tell_losses(to, made.losses)
    return made.data, table_size(table)


def _lost_beside_hosts(
    source: _ReadInput, hostfile: Hostfile, target: LauncherFormat | None
) -> list[str]:
    """Return what is lost if hosts, ranks and maybe chips are written."""
    lost = losses_beside_hosts(source.table) if source.table else []
    if target and not target.holds_chips and not target.selection(hostfile):
        moved = sum(
            chip != local
            for host in hostfile.hosts
            for local, chip in enumerate(host.device_ids or ())
        )
        lost += [f"the chip of {counted(moved, 'device')}"] if moved else []
    return lost


def _tell_losses(to: str, lost: Sequence[str]) -> None:
    if lost:
        sys.stderr.write(f"warning: {to} cannot hold: {', '.join(lost)}\n")


@dataclass(frozen=True, slots=True, kw_only=True)
class _ReadInput:
    """The content of the input file.

    Attributes:
        format: Its format.
        name: Its name.
        data: Its bytes.
        hostfile: The hosts of a file of a launcher, None for a rank table.
        table: The rank table, None for a file of a launcher that does not have it all.
        left_out: What the file says about hosts that ``hostfile`` cannot express.
    """

    format: LauncherFormat | Format
    name: str
    data: bytes
    hostfile: Hostfile | None = None
    table: RankTable | None = None
    left_out: tuple[str, ...] = ()

    def hosts(self) -> Hostfile:
        """Return the hosts of the file."""
        if self.hostfile is not None:
            return self.hostfile
        assert self.table is not None
        return hostfile_from_table(self.table)


def _format_of(option: str, name: str) -> LauncherFormat | Format:
    with about(option):
        return any_format_of(name)


def _read(file: str | None, from_name: str | None, form: FindingsFormat) -> _ReadInput:
    """Return the content of a file; findings are printed in a form.

    Raises:
        CommandError: It cannot be read, has defects, or its format is ambiguous.
    """
    is_detected = from_name in (None, WRAPPED)  # what is in a ConfigMap is detected
    source = None if is_detected else _format_of("--from", str(from_name))
    name, data = read_input(named_file(file))
    if source is None:
        source = _detected(name, data)
    if isinstance(source, Format):
        is_known = from_name not in (None, WRAPPED, DEFAULT_TABLE)
        options = Options(limit=5, format=source if is_known else None)
        table = table_in(check_bytes(data, options, file=name))
        return _ReadInput(format=source, name=name, data=data, table=table)
    reading = read_hostfile(data, source, file=name)
    hostfile = _sound(reading, form)
    return _ReadInput(
        format=source,
        name=name,
        data=data,
        hostfile=hostfile,
        table=hostfile.table,
        left_out=reading.left_out,
    )


def _detected(name: str, data: bytes) -> LauncherFormat | Format:
    """Return the format of a file; if several formats read it alike, the first.

    Raises:
        CommandError: It is of a kind that is not converted, or of several formats.
    """
    shown = printable(name)
    like = [*kinds_like(Source(name, data))]  # a manifest may hold several
    if CONFIG_MAP in like or TABLE in like[:1]:
        return DEFAULT
    if like and not {HOSTFILE, PODS}.intersection(like):
        refuse_other_kind(Source(name, data))
    formats = detect_formats(data)
    if not formats:
        text = data.decode("utf-8", "replace").removeprefix("\ufeff")
        is_text = text.strip() and "\ufffd" not in text
        # An empty file, or one that is not UTF-8, is refused with the code of a table.
        if not is_text or text.lstrip()[:1] in _JSON or is_manifest(data):
            return DEFAULT
        names = ", ".join(each.name for each in LAUNCHER_FORMATS if each.read)
        raise CommandError(
            f"the format of {shown} cannot be detected; name it with --from: {names}"
        )
    readings = [read_hostfile(data, format_).hostfile for format_ in formats]
    if len(formats) > 1 and any(readings):  # else its errors tell more than a question
        names = " or ".join(format_.name for format_ in formats)
        raise CommandError(f"{shown} may be {names}; name its format with --from")
    return formats[0]


def _sound(reading: HostfileReading, form: FindingsFormat) -> Hostfile:
    """Print the findings, and return the hosts if there is no error.

    The output may have the new file, so the findings are printed on standard error.
    """
    report = reading.report
    if report.totals:
        show_findings([report], form, Color.AUTO, aside=True)
    if reading.hostfile is None:
        if form not in ("full", "concise"):
            raise typer.Exit(DEFECTS_FOUND)  # programs need nothing after the findings
        raise CommandError(f"{report.file} cannot be converted", DEFECTS_FOUND)
    return reading.hostfile


def _refuse_unused(
    given: WriterArguments | TableArguments,
    to: str,
    used: tuple[str, ...] = (),
) -> None:
    """Raise CommandError for an option that the format to write does not use."""
    for field in fields(given):
        value = getattr(given, field.name)
        is_given = value is not None and value is not False and value != []  # 0 is
        if is_given and field.name not in used:
            option = field.name.replace("_", "-")
            raise CommandError(f"{to} does not use --{option}")


def _note(text: str) -> None:
    sys.stderr.write(f"note: {text}\n")


def _size(hostfile: Hostfile) -> str:
    """Return the size of what was written."""
    hosts = len(hostfile.hosts)
    processes = sum(host.slots or 0 for host in hostfile.hosts)
    return f"{counted(hosts, 'host')}, {counted(processes, 'process', 'processes')}"


def _names(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",")]
    if "" in names:
        raise ArgumentError("--pods names a super pod for each server: 0,0,1,1")
    return names


def _numbers(text: str) -> list[str]:
    """Return the numbers in ``0-3,65536-65539``; brackets and quotes are ignored."""
    plain = re.sub(r"[\[\]'\"\s]", "", text)
    with about("--super-device-id"):
        numbers = parse_numbers(plain, noun="a number or a range", example="0-15")
    return list(map(str, numbers))


def _text(file: str) -> str:
    return read_input(file, MIB)[1].decode("utf-8", "replace")
