"""What a writer of host files needs, and the reason when it cannot be had."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from ranktable.cluster.argument import ArgumentError
from ranktable.cluster.hostfiles.hostfile import called, ranks_of, sizes_of
from ranktable.cluster.source_text import is_host
from ranktable.schema.messages import printable

if TYPE_CHECKING:
    from ranktable.cluster.hostfiles.hostfile import Hostfile

DEFAULT_PORT = 29500
"""Where torchrun and accelerate let the nodes meet."""

DEFAULT_SCRIPT = "train.py"


def names_of(hostfile: Hostfile, title: str) -> list[str]:
    """Return the name of every host.

    Raises:
        ArgumentError: A host has none, or one that no file can hold, or it stands
            twice: its chips would be assigned twice.
    """
    names: list[str] = []
    first: dict[str, int] = {}
    for node_rank, host in enumerate(hostfile.hosts):
        if host.name is None:
            raise ArgumentError(
                f"node {node_rank} has no host, and {title} needs one",
                hint="name the hosts in their order: --hosts n[001-128]",
            )
        if not is_host(host.name):
            raise ArgumentError(
                f"{title} cannot name the host {printable(host.name)}",
                hint="name the hosts in their order: --hosts n[001-128]",
            )
        if first.setdefault(host.name, node_rank) != node_rank:
            raise ArgumentError(
                f"node {first[host.name]} and node {node_rank} are both the host "
                f"{host.name}, so that two processes would share a chip",
                hint="name the hosts in their order: --hosts n[001-128]",
            )
        names.append(host.name)
    return names


def refuse_interleaved(hostfile: Hostfile, title: str) -> None:
    """Raise ArgumentError if ranks do not count over the hosts one after the other."""
    first = 0
    for node_rank, ranks in enumerate(ranks_of(hostfile)):
        if ranks != tuple(range(first, first + len(ranks))):
            host = called(node_rank, hostfile.hosts[node_rank])
            raise ArgumentError(
                f"{title} numbers ranks host by host, and the ranks of {host} are "
                f"{_shown(ranks)}",
                hint="openmpi-rankfile and srun-hostfile place every rank",
            )
        first += len(ranks)


def even_size(hostfile: Hostfile, title: str) -> int:
    """Return the number of processes that every host has.

    Raises:
        ArgumentError: They differ.
    """
    sizes = sizes_of(hostfile)
    for node_rank, size in enumerate(sizes):
        if size != sizes[0]:
            host = called(node_rank, hostfile.hosts[node_rank])
            raise ArgumentError(
                f"{title} starts the same number of processes on every node, and "
                f"{called(0, hostfile.hosts[0])} has {sizes[0]}, {host} has {size}"
            )
    return sizes[0]


def script_words(script: str | None) -> list[str]:
    """Return a script and its arguments.

    Raises:
        ArgumentError: A quotation mark is open.
    """
    try:
        words = shlex.split(DEFAULT_SCRIPT if script is None else script)
    except ValueError as error:
        raise ArgumentError(f"--script: {str(error).lower()}") from None
    if not words:
        raise ArgumentError("--script names no script")
    return words


def _shown(numbers: tuple[int, ...]) -> str:
    first = ",".join(map(str, numbers[:4]))
    return first + (",..." if len(numbers) > 4 else "")  # noqa: PLR2004 - shown above
