"""What a writer asks of a description, and the reason when it cannot be had."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from ranktable.cluster.argument import ArgumentError
from ranktable.cluster.descriptions.source import is_host
from ranktable.schema.messages import printable

if TYPE_CHECKING:
    from ranktable.cluster.descriptions.description import Description, Host

DEFAULT_PORT = 29500
"""Where torchrun and accelerate let the nodes meet."""

DEFAULT_SCRIPT = "train.py"


def names_of(description: Description, title: str) -> list[str]:
    """Return the name of every host.

    Raises:
        ArgumentError: A host has none, or one that no file can hold.
    """
    names = []
    for node_rank, host in enumerate(description.hosts):
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
        names.append(host.name)
    return names


def sizes_of(description: Description) -> list[int]:
    """Return the number of processes of every host.

    Raises:
        ArgumentError: The number is not known for one of them.
    """
    return [_size(node_rank, host) for node_rank, host in enumerate(description.hosts)]


def _size(node_rank: int, host: Host) -> int:
    if host.slots is None:
        raise ArgumentError(
            f"nothing says how many processes {called(node_rank, host)} has",
            hint="give --chips-per-node N, or the chips of every node: --device-id",
        )
    return host.slots


def called(node_rank: int, host: Host) -> str:
    """Return how a message calls a host."""
    if host.name is None:
        return f"node {node_rank}"
    return f"node {node_rank} ({printable(host.name)})"


def chips_of(description: Description) -> list[tuple[int, ...]]:
    """Return the chips of every host, 0 to slots - 1 where none are named."""
    sizes = sizes_of(description)
    return [
        tuple(range(size)) if host.device_ids is None else host.device_ids
        for host, size in zip(description.hosts, sizes, strict=True)
    ]


def ranks_of(description: Description) -> list[tuple[int, ...]]:
    """Return the ranks of every host."""
    ranks = []
    first = 0
    for host, size in zip(description.hosts, sizes_of(description), strict=True):
        own = tuple(range(first, first + size)) if host.ranks is None else host.ranks
        ranks.append(own)
        first += size
    return ranks


def hosts_of_ranks(description: Description) -> list[int]:
    """Return the node of every rank."""
    pairs = [
        (rank, node_rank)
        for node_rank, ranks in enumerate(ranks_of(description))
        for rank in ranks
    ]
    return [node_rank for _, node_rank in sorted(pairs)]


def refuse_interleaved(description: Description, title: str) -> None:
    """Raise ArgumentError if ranks do not count over the hosts one after the other."""
    first = 0
    for node_rank, ranks in enumerate(ranks_of(description)):
        if ranks != tuple(range(first, first + len(ranks))):
            host = called(node_rank, description.hosts[node_rank])
            raise ArgumentError(
                f"{title} numbers ranks host by host, and the ranks of {host} are "
                f"{_shown(ranks)}",
                hint="openmpi-rankfile and srun-hostfile place every rank",
            )
        first += len(ranks)


def even_size(description: Description, title: str) -> int:
    """Return the number of processes that every host has.

    Raises:
        ArgumentError: They differ.
    """
    sizes = sizes_of(description)
    for node_rank, size in enumerate(sizes):
        if size != sizes[0]:
            host = called(node_rank, description.hosts[node_rank])
            raise ArgumentError(
                f"{title} starts the same number of processes on every node, and "
                f"{called(0, description.hosts[0])} has {sizes[0]}, {host} has {size}"
            )
    return sizes[0]


def script_words(script: str | None) -> list[str]:
    """Return a script and its arguments.

    Raises:
        ArgumentError: A quotation mark is open.
    """
    try:
        words = shlex.split(script or DEFAULT_SCRIPT)
    except ValueError as error:
        raise ArgumentError(f"--script: {str(error).lower()}") from None
    if not words:
        raise ArgumentError("--script names no script")
    return words


def _shown(numbers: tuple[int, ...]) -> str:
    first = ",".join(map(str, numbers[:4]))
    return first + (",..." if len(numbers) > 4 else "")  # noqa: PLR2004 - shown above
