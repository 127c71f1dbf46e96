"""What a description of a cluster says: hosts in order, and how many processes each."""

from __future__ import annotations

from dataclasses import dataclass

MAX_HOSTS = 1 << 20
"""Hosts of a description, as of a host list."""

MAX_SLOTS = 1 << 20
"""Processes of a description; a rank table has no more chips."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """One host.

    Attributes:
        name: Name or address, None if the description leaves it to the launcher.
        slots: Number of processes, None if it is known on the host only.
        device_ids: Chip of each process, None if the description names none.
        ranks: Rank of each process in increasing order, None if ranks count over the
            hosts in their order.
    """

    name: str | None
    slots: int | None = None
    device_ids: tuple[int, ...] | None = None
    ranks: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """The hosts of a job, in the order of their lowest ranks."""

    hosts: tuple[Host, ...]
