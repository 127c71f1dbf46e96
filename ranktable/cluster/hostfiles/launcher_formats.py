"""All formats of launchers and schedulers, in the order of a listing."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING

from ranktable.cluster.argument import ArgumentError
from ranktable.cluster.hostfiles.hostfile import WriterOptions, table_from_hostfile
from ranktable.cluster.hostfiles.job_manifests import JOB_MANIFESTS
from ranktable.cluster.hostfiles.line_formats import LINE_LAUNCHERS
from ranktable.cluster.hostfiles.slurm import SLURM_NODELIST
from ranktable.cluster.hostfiles.torchrun import TORCHRUN
from ranktable.cluster.pod_job import KUBERNETES_PODS, is_pod_list
from ranktable.cluster.source_text import parse_source
from ranktable.schema.check import check_bytes
from ranktable.schema.declare import Format
from ranktable.schema.file_kind import DESCRIPTIONS, LOOKED_AT_BYTES, FileKind
from ranktable.schema.files import refuse_other_types
from ranktable.schema.formats import DEFAULT, by_name, names
from ranktable.schema.report import make_report
from ranktable.schema.rules.shape import NOT_A_RANK_TABLE
from ranktable.schema.text import quoted
from ranktable.schema.writing import dumps

if TYPE_CHECKING:
    from ranktable.cluster.hostfiles.hostfile import Hostfile, LauncherFormat
    from ranktable.schema.file_kind import Judge, Source
    from ranktable.schema.report import Options, Report

LAUNCHER_FORMATS: tuple[LauncherFormat, ...] = (
    *LINE_LAUNCHERS,
    SLURM_NODELIST,
    TORCHRUN,
    *JOB_MANIFESTS,
    KUBERNETES_PODS,
)
DEFAULT_TABLE = "sccl"
"""The name for the default format of rank tables."""

_BY_NAME = {format_.name: format_ for format_ in LAUNCHER_FORMATS}


def format_of(name: str) -> LauncherFormat:
    """Return the format with this name, or with the only name that begins with it.

    Raises:
        ArgumentError: There is no such format, or several names begin like this.
    """
    if name in _BY_NAME:
        return _BY_NAME[name]
    begun = [one for one in LAUNCHER_FORMATS if name and one.name.startswith(name)]
    if len(begun) == 1:
        return begun[0]
    if begun:
        both = " and ".join(format_.name for format_ in begun)
        raise ArgumentError(f"{quoted(name)} may be {both}")
    close = get_close_matches(name, _BY_NAME, 1)
    known = ", ".join(_BY_NAME)
    raise ArgumentError(
        f"there is no format {quoted(name)}",
        hint=f"did you mean {close[0]}?" if close else f"there are {known}",
    )


def any_format_of(name: str) -> LauncherFormat | Format:
    """Return a format of launchers or of rank tables by name; see ``format_of``.

    Raises:
        ArgumentError: There is no such format, or several names begin like this.
    """
    if name == DEFAULT_TABLE:
        return DEFAULT
    if name in _BY_NAME:
        return _BY_NAME[name]
    if name in names():
        return by_name(name)
    try:
        return format_of(name)
    except ArgumentError as error:
        known = (*names(), *_BY_NAME)
        close = get_close_matches(name, known, 1)
        hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(known)}"
        raise ArgumentError(error.reason, hint=hint) from None


DETECTED_CHARACTERS = 1 << 20
"""Characters of a text that are examined to detect its format."""


def formats_like(text: str) -> list[LauncherFormat]:
    """Return the formats that the beginning of a text looks like."""
    start = text[:DETECTED_CHARACTERS]
    return [one for one in LAUNCHER_FORMATS if one.read and one.matches(start)]


def detect_formats(data: bytes | str) -> list[LauncherFormat]:
    """Return the format of a file; several if it is ambiguous, or none."""
    text = data if isinstance(data, str) else data.decode("utf-8", "replace")
    formats = formats_like(text.removeprefix("\ufeff"))
    if len(formats) < 2:
        return formats
    found = [read_hostfile(data, format_).hostfile for format_ in formats]
    read = [
        h and [(host.name, host.slots, host.ranks) for host in h.hosts] for h in found
    ]
    is_alike = None not in read and all(other == read[0] for other in read)
    return formats[:1] if is_alike else formats


def judge_by_format(name: str) -> Judge:
    """Return what judges files of one format; see ``any_format_of``.

    Raises:
        ArgumentError: There is no such format.
    """
    format_ = any_format_of(name)

    def judge(source: Source, options: Options) -> list[Report]:
        file, data = source
        if isinstance(format_, Format):
            return [check_bytes(data, options._replace(format=format_), file=file)]
        return [read_hostfile(data, format_, file=file, limit=options.limit).report]

    return judge


def _judge(source: Source, options: Options) -> list[Report]:
    """Judge a file of a launcher or a scheduler, whatever it holds."""
    formats = detect_formats(source.data) or _called(source.name)
    if not formats:
        named = ", ".join(one.name for one in LAUNCHER_FORMATS if one.read)
        message = "nothing here says which format of host files it is"
        hint = f"name it with --from: {named}"
        found = [NOT_A_RANK_TABLE.finding(None, message, hint=hint)]
        return [make_report(found, file=source.name, text="")]
    name, data = source
    return [read_hostfile(data, formats[0], file=name, limit=options.limit).report]


_NAMES = {
    "hostfile": "openmpi-hostfile",
    "rankfile": "openmpi-rankfile",
    "machinefile": "mpich-machinefile",
}
_WORDS = re.compile(r"(?:[ \t]*(?:#[^\n]*)?\r?\n)*[ \t]*[A-Za-z0-9][\w.-]*[ \t]+[^\s:]")
"""A first line of at least two words; neither JSON nor YAML begins so."""


def _called(name: str) -> list[LauncherFormat]:
    """Return the format that the name of a file tells, to say what is wrong in it."""
    lower = os.path.basename(name).lower()
    return [_BY_NAME[form] for part, form in _NAMES.items() if part in lower]


def _looks_like_hostfile(start: bytes, name: str) -> bool:
    text = start.decode("utf-8", "replace").removeprefix("\ufeff")
    if _WORDS.match(text) and _called(name):
        return True
    if len(start) >= LOOKED_AT_BYTES:  # the last line may be cut
        text = text.rpartition("\n")[0]
    formats = [one.name for one in formats_like(text)]
    # Words without any sign are a value of JSON or YAML in a file that is called so.
    return bool(formats) and not (
        formats == ["host-list"] and name.lower().endswith(DESCRIPTIONS)
    )


_MAKES = "ranktable convert {file} --to sccl-1.0 -o TABLE makes its table"
HOSTFILE = FileKind(
    name="host-file",
    title="the file of a launcher",
    detect=_looks_like_hostfile,
    judge=_judge,
    names=("*hostfile*", "*rankfile*", "*machinefile*"),
    advice=_MAKES,
)
PODS = FileKind(
    name=KUBERNETES_PODS.name,
    title="a list of pods",
    detect=lambda start, _: is_pod_list(start.decode("utf-8", "replace")),
    judge=judge_by_format(KUBERNETES_PODS.name),
    is_part=True,
    advice=_MAKES,
)


def convert(
    hostfile: Hostfile,
    to: LauncherFormat | Format | str,
    options: WriterOptions | None = None,
) -> str:
    """Return the hosts of one file as a file of another format.

    Args:
        hostfile: The hosts.
        to: A format of launchers or of rank tables, or its name.
        options: Values that the format needs and the hosts lack.

    Raises:
        ArgumentError: There is no such format, or it cannot express the hosts.
    """
    target = any_format_of(to) if isinstance(to, str) else to
    if isinstance(target, Format):
        return dumps(table_from_hostfile(hostfile), format=target.name).decode()
    if target.write is None:
        raise ArgumentError(f"{target.name} is read only, not written")
    return target.write(hostfile, options or WriterOptions())


MAX_SIZE_BYTES = 64 * 1024 * 1024
"""A rank file of a million ranks is 32 MB."""

DEFAULT_LIMIT = 20
"""Most findings of each code that are located and shown."""


@dataclass(frozen=True, slots=True)
class HostfileReading:
    """The result of reading.

    Attributes:
        report: The findings.
        hostfile: The hosts, None if there is an error.
        left_out: What the text says about hosts that ``hostfile`` cannot express.
    """

    report: Report
    hostfile: Hostfile | None
    left_out: tuple[str, ...] = ()


def read_hostfile(
    data: bytes | str,
    format: LauncherFormat | str | None = None,
    *,
    file: str = "<string>",
    limit: int | None = DEFAULT_LIMIT,
) -> HostfileReading:
    """Read a file of a launcher or a scheduler.

    Args:
        data: The file.
        format: Its format or its name; by default it is detected.
        file: Name to report.
        limit: Most findings of each code to locate; the report counts all.

    Raises:
        ArgumentError: There is no such format, or none or several are detected.
        TypeError: The data is neither bytes nor text.
    """
    refuse_other_types(data)
    if format is None:
        formats = detect_formats(data)
        if len(formats) != 1:
            names = " or ".join(one.name for one in formats)
            problem = f"may be {names}" if formats else "is not in a known format"
            raise ArgumentError(f"{file} {problem}; name its format")
        source = formats[0]
    else:
        source = format_of(format) if isinstance(format, str) else format
    if source.read is None:
        readable = ", ".join(one.name for one in LAUNCHER_FORMATS if one.read)
        raise ArgumentError(
            f"{source.name} is written only, not read", hint=f"read are {readable}"
        )
    return HostfileReading(
        *parse_source(
            data,
            source.read,
            file=file,
            name=source.name,
            limit=limit,
            max_size_bytes=MAX_SIZE_BYTES,
        )
    )
