"""Every format of a launcher or scheduler, in the order in which they are listed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING

from ranktable.cluster.argument import ArgumentError
from ranktable.cluster.hostfiles.accelerate import ACCELERATE
from ranktable.cluster.hostfiles.deepspeed_hostfile import DEEPSPEED_HOSTFILE
from ranktable.cluster.hostfiles.hostfile import WriterOptions, table_from_hostfile
from ranktable.cluster.hostfiles.kubeflow import PYTORCHJOB, TRAINJOB
from ranktable.cluster.hostfiles.kubernetes_jobs import JOBSET, KUBERNETES_JOB
from ranktable.cluster.hostfiles.mpich_machinefile import MPICH_MACHINEFILE
from ranktable.cluster.hostfiles.openmpi import OPENMPI_HOSTFILE, OPENMPI_RANKFILE
from ranktable.cluster.hostfiles.paddle import PADDLE, PADDLE_ENDPOINTS
from ranktable.cluster.hostfiles.slurm import SLURM_NODELIST, SRUN_HOSTFILE
from ranktable.cluster.hostfiles.torchrun import TORCHRUN
from ranktable.cluster.source_text import SourceText, read_source
from ranktable.schema.diagnostic import quoted
from ranktable.schema.format import Format
from ranktable.schema.formats import DEFAULT, by_name, names
from ranktable.schema.writing import dumps

if TYPE_CHECKING:
    from collections.abc import Callable

    from ranktable.cluster.hostfiles.hostfile import Hostfile, LauncherFormat
    from ranktable.schema.diagnostic import Report

_TABLE_KEY = re.compile(r"""\b(hccl|jobstart_hccl|global_ranktable)\.json["']?\s*:""")
"""As in ``config_map.KEYS``."""

LAUNCHER_FORMATS: tuple[LauncherFormat, ...] = (
    OPENMPI_HOSTFILE,
    OPENMPI_RANKFILE,
    MPICH_MACHINEFILE,
    DEEPSPEED_HOSTFILE,
    SLURM_NODELIST,
    SRUN_HOSTFILE,
    TORCHRUN,
    ACCELERATE,
    PADDLE,
    PADDLE_ENDPOINTS,
    KUBERNETES_JOB,
    JOBSET,
    PYTORCHJOB,
    TRAINJOB,
)
_BY_NAME = {format_.name: format_ for format_ in LAUNCHER_FORMATS}


def format_of(name: str) -> LauncherFormat:
    """Return the format of a name, or of the beginning of a name that no other has.

    Raises:
        ArgumentError: There is no such format, or there are several.
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
    """Return the format of a name, be it a launcher's or one of rank tables.

    Raises:
        ArgumentError: There is no such format, or there are several.
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
"""How much of a text is looked at to tell its format."""


def formats_like(text: str) -> list[LauncherFormat]:
    """Return the formats that the beginning of a text looks like."""
    start = text[:DETECTED_CHARACTERS]
    if "ConfigMap" in start and _TABLE_KEY.search(start):
        return []  # Ascend's operators want the table beside the job, in one file
    return [format_ for format_ in LAUNCHER_FORMATS if format_.matches(start)]


def detect_formats(data: bytes | str) -> list[LauncherFormat]:
    """Return the format of a file, several where they read it differently, or none."""
    text = data.decode("utf-8", "replace") if isinstance(data, bytes) else data
    formats = formats_like(text.removeprefix("\ufeff"))
    if len(formats) < 2:  # noqa: PLR2004 - no choice
        return formats
    found = [read_hostfile(data, format_).hostfile for format_ in formats]
    read = [
        h and [(host.name, host.slots, host.ranks) for host in h.hosts] for h in found
    ]
    is_alike = None not in read and all(other == read[0] for other in read)
    return formats[:1] if is_alike else formats


def convert(
    hostfile: Hostfile,
    to: LauncherFormat | Format | str,
    options: WriterOptions | None = None,
) -> str:
    """Return the file of a format with the hosts of another one.

    Args:
        hostfile: The hosts.
        to: A launcher's format, one of rank tables, or the name of one.
        options: Values that the format needs and the hosts lack.

    Raises:
        ArgumentError: There is no such format, or it cannot express the hosts.
    """
    target = any_format_of(to) if isinstance(to, str) else to
    if isinstance(target, Format):
        return dumps(table_from_hostfile(hostfile), format=target.name).decode()
    return target.write(hostfile, options or WriterOptions())


DEFAULT_TABLE = "sccl"
"""Stands for the format of rank tables that is written by default."""

MAX_SIZE_BYTES = 64 * 1024 * 1024
"""A rank file of a million ranks is 32 MB."""

DEFAULT_LIMIT = 20
"""Findings of each code that are placed and shown."""


@dataclass(frozen=True, slots=True)
class HostfileReading:
    """The result of reading.

    Attributes:
        report: What was found.
        hostfile: The hostfile, None if there is an error.
        left_out: What the text has about hosts and the hostfile cannot hold.
    """

    report: Report
    hostfile: Hostfile | None
    left_out: tuple[str, ...] = ()


def read_hostfile(
    data: bytes | str,
    format: LauncherFormat | str | None = None,  # noqa: A002 - what callers write
    *,
    file: str = "<string>",
    limit: int | None = DEFAULT_LIMIT,
) -> HostfileReading:
    """Read a file of a launcher or a scheduler.

    Args:
        data: The file.
        format: Its format or the name of one; by default it is detected.
        file: Name to report.
        limit: Findings of each code to place; the report counts all.

    Raises:
        ArgumentError: There is no such format, or several, or none detected.
    """
    if format is None:
        formats = detect_formats(data)
        if len(formats) != 1:
            names = " or ".join(one.name for one in formats)
            problem = f"may be {names}" if formats else "is not in a known format"
            raise ArgumentError(f"{file} {problem}; name its format")
        source = formats[0]
    else:
        source = format_of(format) if isinstance(format, str) else format
    return read_text(data, source.read, file=file, name=source.name, limit=limit)


def read_text(
    data: bytes | str,
    read: Callable[[SourceText], Hostfile | None],
    *,
    file: str,
    name: str,
    limit: int | None = DEFAULT_LIMIT,
) -> HostfileReading:
    """Read a file, or an option, with a reader.

    Args:
        data: The file.
        read: The reader; it returns None after reporting what is wrong.
        file: Name to report.
        name: Name of the format.
        limit: Findings of each code to place; the report counts all.
    """
    return HostfileReading(
        *read_source(
            data,
            read,
            file=file,
            name=name,
            limit=limit,
            max_size_bytes=MAX_SIZE_BYTES,
        )
    )
