"""``sync_random_seed``: a seed that all ranks have."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

import torch

from ranktable.dist.action import Action
from ranktable.dist.collectives.calls import begin
from ranktable.dist.communicator import communicator

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

_BITS = 31
"""What every generator takes: NumPy's want 32 bits at most, others less."""


def sync_random_seed(group: ProcessGroup | None = None) -> int:
    """Return a random number, the same on all ranks of a group.

    It is drawn by the first rank of the group, from the system: no generator of the
    script moves on.

    Args:
        group: A group; None for all ranks.

    Returns:
        A number from 0 to 2 ** 31 - 1; for a single process one of its own.

    Raises:
        NotMemberError: This rank is not in the group.
    """
    members = communicator(group)
    seed = secrets.randbits(_BITS)
    if members is None:
        return seed
    native = begin(members, lambda: Action(operation="sync_random_seed"), None)
    told = torch.tensor([seed], device=members.device)
    native.broadcast(told, 0).wait()
    return int(told)
