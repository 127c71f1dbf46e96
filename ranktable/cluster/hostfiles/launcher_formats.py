"""Every format of a launcher or scheduler, in the order in which they are listed."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING

from ranktable.cluster.argument import ArgumentError
from ranktable.cluster.hostfiles.accelerate import ACCELERATE
from ranktable.cluster.hostfiles.deepspeed_hostfile import DEEPSPEED_HOSTFILE
from ranktable.cluster.hostfiles.jobset import JOBSET
from ranktable.cluster.hostfiles.kubernetes_job import KUBERNETES_JOB
from ranktable.cluster.hostfiles.mpich_machinefile import MPICH_MACHINEFILE
from ranktable.cluster.hostfiles.openmpi_hostfile import OPENMPI_HOSTFILE
from ranktable.cluster.hostfiles.openmpi_rankfile import OPENMPI_RANKFILE
from ranktable.cluster.hostfiles.paddle import PADDLE
from ranktable.cluster.hostfiles.paddle_endpoints import PADDLE_ENDPOINTS
from ranktable.cluster.hostfiles.pytorchjob import PYTORCHJOB
from ranktable.cluster.hostfiles.slurm_nodelist import SLURM_NODELIST
from ranktable.cluster.hostfiles.srun_hostfile import SRUN_HOSTFILE
from ranktable.cluster.hostfiles.torchrun import TORCHRUN
from ranktable.cluster.hostfiles.trainjob import TRAINJOB
from ranktable.cluster.source_text import SourceText, read_source
from ranktable.schema.messages import quoted

if TYPE_CHECKING:
    from collections.abc import Callable

    from ranktable.cluster.hostfiles.hostfile import Hostfile, LauncherFormat
    from ranktable.schema.check import Report

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


def format_of(name: str) -> LauncherFormat:
    """Return the kind of a name, or of the beginning of a name that no other has.

    Raises:
        ArgumentError: There is no such kind, or there are several.
    """
    names = [format_.name for format_ in LAUNCHER_FORMATS]
    if name in names:
        return LAUNCHER_FORMATS[names.index(name)]
    begun = [
        format_
        for format_ in LAUNCHER_FORMATS
        if name and format_.name.startswith(name)
    ]
    if len(begun) == 1:
        return begun[0]
    if begun:
        both = " and ".join(format_.name for format_ in begun)
        raise ArgumentError(f"{quoted(name)} may be {both}")
    close = get_close_matches(name, names, 1)
    raise ArgumentError(
        f"there is no description {quoted(name)}",
        hint=f"did you mean {close[0]}?" if close else f"there are {', '.join(names)}",
    )


def formats_like(text: str) -> list[LauncherFormat]:
    """Return the kinds that a text looks like."""
    return [format_ for format_ in LAUNCHER_FORMATS if format_.matches(text)]


MAX_SIZE_BYTES = 64 * 1024 * 1024
"""A rank file of a million ranks is 32 MB."""

DEFAULT_LIMIT = 20
"""Findings of each code that are placed and shown."""


@dataclass(frozen=True, slots=True)
class HostfileReading:
    """What came of reading.

    Attributes:
        report: What was found.
        hostfile: The hostfile, None if there is an error.
        left_out: What the text says of hosts and the hostfile does not.
    """

    report: Report
    hostfile: Hostfile | None
    left_out: tuple[str, ...] = ()


def read_hostfile(
    data: bytes | str,
    format_: LauncherFormat,
    *,
    file: str = "<string>",
    limit: int | None = DEFAULT_LIMIT,
) -> HostfileReading:
    """Read a file of a format."""
    return read_text(data, format_.read, file=file, name=format_.name, limit=limit)


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
