"""The one rank of a collective that is not like the others."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ranktable.dist.communicator import Communicator


def root_of(
    members: Communicator, rank: int | None, group_rank: int | None, role: str
) -> tuple[int, Exception | None]:
    """Return which member a root is, and why it cannot be; 0 where nothing is given.

    Args:
        members: The group.
        rank: Its global rank, or None.
        group_rank: Its rank in the group, or None.
        role: What the caller calls it: ``src``, ``dst``.
    """
    if rank is None and group_rank is None:
        rank = 0
    try:
        return members.member_of(rank, group_rank, role), None
    except (TypeError, ValueError) as error:
        return 0, error
