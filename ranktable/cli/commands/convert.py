"""``ranktable convert``: between rank tables and the files of launchers."""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from ranktable.cli import completion
from ranktable.cli.app import with_options
from ranktable.cli.output import (
    DEFECTS_FOUND,
    Color,
    CommandError,
    FindingsFormat,
    OutputFile,
    about,
    is_standard_output,
    put_files,
    put_text,
    show_findings,
    table_size,
)
from ranktable.cli.parameters import OutputOption, ReplaceFileOption, number, valued
from ranktable.cli.table_arguments import TableArguments, WriterArguments
from ranktable.cli.table_input import named_file, read_input, table_in
from ranktable.cluster.conversion import (
    MINDIE,
    WRITTEN,
    convert_table,
    unsound_in,
    with_servers,
)
from ranktable.cluster.generate import parse_device_list
from ranktable.cluster.host_lists import expand_hosts
from ranktable.cluster.hostfiles import deepspeed_hostfile
from ranktable.cluster.hostfiles.hostfile import (
    WriterOptions,
    hostfile_from_table,
    table_from_hostfile,
    with_chips,
    with_hosts,
)
from ranktable.cluster.hostfiles.launcher_formats import (
    DEFAULT_TABLE,
    LAUNCHER_FORMATS,
    any_format_of,
    detect_formats,
    read_hostfile,
    read_text,
)
from ranktable.cluster.hostfiles.launcher_formats import convert as cluster_convert
from ranktable.cluster.losses import losses_beside_hosts
from ranktable.cluster.tables_of_groups import written_tables_of
from ranktable.runtime.table import VARIABLE
from ranktable.schema.check import WRAPPED, check_bytes
from ranktable.schema.diagnostic import Options, RankTableError, counted, printable
from ranktable.schema.format import Format
from ranktable.schema.formats import DEFAULT, by_name
from ranktable.schema.rules.records import no_global_ranks

if TYPE_CHECKING:
    from ranktable.cluster.conversion import Conversion
    from ranktable.cluster.hostfiles.hostfile import Hostfile, LauncherFormat
    from ranktable.cluster.hostfiles.launcher_formats import HostfileReading
    from ranktable.schema.model import RankTable

_JSON = ("{", "[")
_GLOBAL_KEY = "global_ranktable.json"
"""The key of the table in MindIE's ConfigMaps."""

_LAUNCHERS = tuple(format_.name for format_ in LAUNCHER_FORMATS)


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
    include: Annotated[
        str | None, valued("FILTER", "DeepSpeed's: worker-0@worker-1:0,2.")
    ] = None
    exclude: Annotated[str | None, valued("FILTER", "DeepSpeed's: worker-1:7.")] = None

    @property
    def are_of_hostfile(self) -> bool:
        """Whether an option is given that needs the hosts of a launcher's file."""
        chips = (self.device_id, self.chips_per_node, self.include, self.exclude)
        return any(option is not None for option in chips)

    def hostfile_of(self, source: _ReadInput, form: FindingsFormat) -> Hostfile:
        """Return the hosts of a file with the names and chips of the options.

        Raises:
            CommandError: An option is malformed, or does not match the hosts.
        """
        hostfile = self._filtered(source, form)
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

    def _filtered(self, source: _ReadInput, form: FindingsFormat) -> Hostfile:
        """Return the hosts that DeepSpeed's filters select.

        Raises:
            CommandError: A filter is wrong, or the file is not a hostfile of DeepSpeed.
        """
        hostfile = source.hostfile
        if source.table is not None and source.table.has_global_ranks:
            hostfile = hostfile_from_table(source.table)
        if hostfile is None:
            name = source.table.format if source.table else source.format.name
            finding = no_global_ranks(name)
            raise CommandError(
                f"{source.name}: {finding.message}\nhelp: {finding.hint}"
            )
        if self.include is None and self.exclude is None:
            return hostfile
        if source.format.name != "deepspeed-hostfile":
            raise CommandError("--include and --exclude are for deepspeed-hostfile")
        if self.include is not None and self.exclude is not None:
            raise CommandError("give either --include or --exclude, not both")
        option, choose = "--include", deepspeed_hostfile.include
        if self.exclude is not None:
            option, choose = "--exclude", deepspeed_hostfile.exclude
        reading = read_text(
            self.include or self.exclude or "",
            lambda text: choose(text, hostfile),
            file=option,
            name="filter",
        )
        return _sound(reading, form)


@with_options(chosen=HostOptions, writer=WriterArguments, arguments=TableArguments)
def convert(
    *,
    to: Annotated[
        str,
        valued(
            "NAME",
            f"A rank table: {', '.join(WRITTEN)}; or what launchers read: "
            f"{', '.join(_LAUNCHERS)}.",
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
    ] = FindingsFormat.FULL,
    arguments: TableArguments,
) -> None:
    """Convert between rank tables and the files of launchers and schedulers.

    Standard error lists what the new file cannot hold. Exit status: 0 written, 1
    defects found in FILE, 2 the format cannot express it, or an option is missing.

    Example: ranktable convert sccl_rank_table.json --hosts n1 --to openmpi-rankfile
    """
    target = _format_of("--to", to)
    _refuse_unused(writer, target, getattr(target, "options", ()))
    source = _read(file, from_, format)
    if isinstance(target, Format):
        table, hosts = source.table, chosen.hosts
        if table is None or chosen.are_of_hostfile:
            hostfile = chosen.hostfile_of(source, format)
            table, hosts = table_from_hostfile(hostfile), None
            _note_losses(source, hostfile, target)
        made = _converted(table, _table_name(to, target), hosts, arguments)
        _put_tables(made, source, output, to, force=force)
        return
    _refuse_unused(arguments, target)
    hostfile = chosen.hostfile_of(source, format)
    text = cluster_convert(hostfile, target, WriterOptions(**asdict(writer)))
    _note_losses(source, hostfile, target)
    _note_left_out(source)
    put_text(
        output,
        text.encode(),
        _summary(hostfile),
        force=force,
        read={source.name: source.data},
    )


def _table_name(to: str, target: Format) -> str:
    return MINDIE if to == MINDIE else target.name


def _converted(
    table: RankTable, to: str, hosts: str | None, arguments: TableArguments
) -> dict[str, Made]:
    """Return the tables that are made from one, by name.

    Raises:
        CommandError: The format cannot express it; the message names the missing
            option.
    """
    is_same = to in (table.format, WRAPPED) and hosts is None
    parts = {"": table} if is_same else written_tables_of(table)
    made = {}
    try:
        for name, part in parts.items():
            named = part
            if hosts is not None:
                named = with_servers(part, expand_hosts(hosts))
            done = convert_table(named, to, arguments.options(named))
            made[name] = Made(named, done)
    except RankTableError as error:
        raise CommandError(unsound_in(to, error)) from None
    return made


class Made(NamedTuple):
    """A table and its conversion."""

    table: RankTable
    done: Conversion


def _put_tables(
    made: dict[str, Made],
    source: _ReadInput,
    output: str | None,
    to: str,
    *,
    force: bool,
) -> None:
    """Print a table or write it; several are written to a folder, one file each."""
    if not made:
        raise CommandError(f"{source.name} has no group with devices")
    if len(made) == 1:
        ((_, one),) = made.items()
        _tell_losses(source, made, to)
        put_text(
            output,
            one.done.data,
            table_size(one.table),
            force=force,
            read={source.name: source.data},
        )
        return
    if output == "":
        raise CommandError("--output is empty; name a folder for the tables")
    if output is None or is_standard_output(output):
        names = ", ".join(made)
        raise CommandError(
            f"{source.name} becomes {len(made)} tables ({names}); name a folder for "
            "them: --output DIR"
        )
    _tell_losses(source, made, to)
    put_files(
        [
            OutputFile(
                path=f"{output}/{name}.json",
                data=one.done.data,
                size=table_size(one.table),
            )
            for name, one in made.items()
        ],
        force=force,
    )


def _tell_losses(source: _ReadInput, made: dict[str, Made], to: str) -> None:
    """Print what the new files lack, and what the user has to fill in."""
    _note_left_out(source)
    for name, one in made.items():
        start = f"warning: {name}: " if name else "warning: "
        if one.done.losses:
            lost = ", ".join(one.done.losses)
            sys.stderr.write(f"{start}{to} cannot hold: {lost}\n")
        if one.done.num_gaps:
            devices = counted(one.done.num_gaps, "device")
            _note(f"the EIDs and ports of {devices} are gaps to fill in")
    table = source.table
    if table is not None and not table.has_global_ranks and "" not in made:
        empty = [str(node.group) for node in table.nodes if not node.devices]
        if empty:
            groups = ", ".join(map(printable, dict.fromkeys(empty)))
            _note(f"servers without devices are left out, of the groups {groups}")


def _note_left_out(source: _ReadInput) -> None:
    if source.left_out:
        _note(f"left out of what the file says: {', '.join(source.left_out)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class _ReadInput:
    """The content of the input file.

    Attributes:
        format: Its format.
        name: Its name.
        data: Its bytes.
        hostfile: The hosts of a file of a launcher, None for a rank table.
        table: The rank table, None for a file of a launcher.
        left_out: What the file says about hosts that ``hostfile`` cannot express.
    """

    format: LauncherFormat | Format
    name: str
    data: bytes
    hostfile: Hostfile | None = None
    table: RankTable | None = None
    left_out: tuple[str, ...] = ()


def _format_of(option: str, name: str) -> LauncherFormat | Format:
    if name == MINDIE and option == "--to":
        return by_name("hccl-1.0")
    with about(option):
        return any_format_of(name)


def _read(file: str | None, from_name: str | None, form: FindingsFormat) -> _ReadInput:
    """Return the content of a file; findings are printed in a form.

    Raises:
        CommandError: It cannot be read, has defects, or its format is ambiguous.
    """
    source = None if from_name is None else _format_of("--from", from_name)
    name, data = read_input(named_file(file))
    if source is None:
        source = _detected(name, data)
    if isinstance(source, Format):
        is_known = from_name not in (None, DEFAULT_TABLE)
        options = Options(limit=5, format=source if is_known else None)
        table = table_in(check_bytes(data, options, file=name))
        return _ReadInput(format=source, name=name, data=data, table=table)
    reading = read_hostfile(data, source, file=name)
    return _ReadInput(
        format=source,
        name=name,
        data=data,
        hostfile=_sound(reading, form),
        left_out=reading.left_out,
    )


def _detected(name: str, data: bytes) -> LauncherFormat | Format:
    """Return the format of a file; if several formats read it alike, the first."""
    formats = detect_formats(data)
    shown = printable(name)
    if not formats:
        text = data.decode("utf-8", "replace").removeprefix("\ufeff")
        is_config_map = "ConfigMap" in text and "hccl.json" in text
        is_text = text.strip() and "\ufffd" not in text
        # An empty file, or one that is not UTF-8, is refused with the code of a table.
        if (
            not is_text
            or text.lstrip()[:1] in _JSON
            or is_config_map
            or _GLOBAL_KEY in text
        ):
            return DEFAULT
        names = ", ".join(format_.name for format_ in LAUNCHER_FORMATS)
        raise CommandError(
            f"the format of {shown} cannot be detected; name it with --from: {names}"
        )
    if len(formats) > 1:
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
        if form not in (FindingsFormat.FULL, FindingsFormat.CONCISE):
            raise typer.Exit(DEFECTS_FOUND)  # programs need nothing after the findings
        raise CommandError(f"{report.file} cannot be converted", DEFECTS_FOUND)
    return reading.hostfile


def _refuse_unused(
    given: WriterArguments | TableArguments,
    target: LauncherFormat | Format,
    used: tuple[str, ...] = (),
) -> None:
    """Raise CommandError for an option that the format to write does not use."""
    for field in fields(given):
        value = getattr(given, field.name)
        is_given = value is not None and value is not False and value != []  # 0 is
        if is_given and field.name not in used:
            option = field.name.replace("_", "-")
            raise CommandError(f"{target.name} does not use --{option}")


def _note_losses(
    source: _ReadInput, hostfile: Hostfile, target: LauncherFormat | Format
) -> None:
    """Print what the output lacks, and what was assumed."""
    hosts = hostfile.hosts
    if isinstance(target, Format):
        if any(host.device_ids is None for host in hosts):
            _note("every host has the chips from 0 on; --device-id names others")
    elif target.names_hosts and any(host.name for host in hosts):
        _note("the pods have names of their own; convert the manifest to a table")
    lost = losses_beside_hosts(source.table) if source.table else []
    if lost:
        sys.stderr.write(f"warning: {target.name} cannot hold: {', '.join(lost)}\n")


def _note(text: str) -> None:
    sys.stderr.write(f"note: {text}\n")


def _summary(hostfile: Hostfile) -> str:
    """Return the size of what was written."""
    hosts = len(hostfile.hosts)
    processes = sum(host.slots or 0 for host in hostfile.hosts)
    return f"{counted(hosts, 'host')}, {counted(processes, 'process', 'processes')}"
