"""``barrier``: nobody goes on before all have come."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import TYPE_CHECKING

from ranktable.dist.action import Action
from ranktable.dist.collectives.calls import begin
from ranktable.dist.communicator import communicator
from ranktable.dist.verdicts import post
from ranktable.dist.waiting import await_verdict, name_missing

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

    from ranktable.dist.communicator import Communicator


def barrier(
    group: ProcessGroup | None = None, *, timeout_s: float | None = None
) -> None:
    """Wait until all ranks of a group have come.

    Args:
        group: A group; None for all ranks.
        timeout_s: Time after which the ranks that did not come are named, on every
            backend and every rank; by default the backend waits as long as it does.

    A single process goes on at once.

    Raises:
        ValueError: The time-out is no positive number of seconds.
        DistError: Ranks did not come in time.
        MismatchError: A rank does something else.
        NotMemberError: This rank is not in the group.
    """
    problem = None
    if timeout_s is not None and not _is_time(timeout_s):
        said = f"timeout_s is {timeout_s!r}, not a positive number of seconds"
        problem = ValueError(said)
    members = communicator(group)
    if members is None:
        if problem is not None:
            raise problem
        return
    if timeout_s is None or problem is not None:
        begin(members, _describe, problem).barrier().wait()
    else:
        _meet(members, timedelta(seconds=timeout_s))


def _is_time(timeout_s: object) -> bool:
    return isinstance(timeout_s, (int, float)) and 0 < timeout_s < math.inf


def _describe() -> Action:
    return Action(operation="barrier")


def _meet(members: Communicator, timeout: timedelta) -> None:
    action = Action(operation="barrier", details=["with a time-out"])
    members.sequence += 1
    number = members.sequence
    post(members, number, action)
    verdict = await_verdict(members, number, action, timeout)
    if verdict is None:
        verdict = name_missing(members, number, action, timeout)
    verdict.refuse()
