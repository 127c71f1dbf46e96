"""Everybody meets before communication starts, and who is missing is named.

A collective with a missing rank waits for half an hour and names nobody. Here every
process announces itself in the store that torch uses anyway: one counter, one key a
process, so a job of any size costs each process a few requests.
"""

from __future__ import annotations

import hashlib
import os
import time
from datetime import timedelta
from typing import TYPE_CHECKING

from ranktable.runtime.errors import BootstrapError
from ranktable.schema.wording import folded

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torch._C._distributed_c10d import Store

    from ranktable.runtime.environment import Environment

DEFAULT_TIMEOUT_S = 300.0
"""Time for all processes to come: slow file systems need minutes to import torch."""

_GRACE_S = 5.0
"""Time after the end for a report to be read before the store's host leaves."""


def open_store(
    environment: Environment, env: Mapping[str, str], timeout_s: float
) -> Store:
    """Return the store of the job, reached at the master's address.

    Raises:
        BootstrapError: Nothing answers there within the time.
    """
    # torch.distributed has these names too, but does not declare them to type checkers.
    from torch._C._distributed_c10d import PrefixStore, TCPStore  # noqa: PLC0415

    host, port = environment.master_addr, environment.master_port
    assert host is not None  # noqa: S101 - filled in by now
    assert port is not None  # noqa: S101
    # torchrun's agent serves the store unless it says otherwise; then rank 0 does.
    is_served = env.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    try:
        store = TCPStore(
            host,
            port,
            world_size=None,
            is_master=environment.rank == 0 and not is_served,
            timeout=timedelta(seconds=timeout_s),
            wait_for_workers=False,
            multi_tenant=True,
        )
    except RuntimeError as error:  # torch's errors of the network are RuntimeErrors
        reason = str(error).splitlines()[0]
        raise BootstrapError(
            "RT404",
            f"rank {environment.rank} cannot reach the master at {host}:{port} within "
            f"{timeout_s:g} s: {reason}",
            (0,),
        ) from error
    # Every restart of the job by its agent meets under keys of its own.
    attempt = env.get("TORCHELASTIC_RESTART_COUNT", "0")
    return PrefixStore(f"ranktable/{attempt}", store)


def meet(
    store: Store,
    rank: int,
    world_size: int,
    chip_map: Sequence[int] | None,
    time_s: float,
) -> None:
    """Wait until every rank of the job is here and holds the same chip_map.

    Raises:
        BootstrapError: A rank did not come (RT404), or holds another map (RT405).
    """
    try:
        _meet(store, rank, world_size, chip_map, time_s)
    except BootstrapError:
        raise
    except RuntimeError as error:  # torch's errors of the network are RuntimeErrors
        raise BootstrapError(
            "RT404",
            f"rank {rank} lost the store of the job, so its host has gone: "
            f"{str(error).splitlines()[0]}",
        ) from error


def _meet(
    store: Store,
    rank: int,
    world_size: int,
    chip_map: Sequence[int] | None,
    time_s: float,
) -> None:
    end = time.monotonic() + time_s
    digest = hashlib.sha256(repr(chip_map).encode()).hexdigest()
    store.set(f"here/{rank}", digest)
    if store.add("arrived", 1) == world_size:
        store.set("complete", "yes")
    if not _wait(store, "complete", end):
        raise _missing(store, rank, world_size, time_s)
    if store.get("here/0").decode() != digest:
        # Everybody learns of it, so that no one is left waiting in a collective.
        store.set("disagree", str(rank))
    if store.add("compared", 1) == world_size:
        store.set("left", "yes")
    if not _wait(store, "left", end):
        raise _missing(store, rank, world_size, time_s)
    if store.check(["disagree"]):
        other = int(store.get("disagree"))
        raise BootstrapError(
            "RT405",
            f"rank {other} holds another chip_map than rank 0; compare the tables with "
            "ranktable digest",
            (other,),
        )


def _wait(store: Store, key: str, end: float) -> bool:
    left_s = max(end - time.monotonic(), 0.001)
    try:
        store.wait([key], timedelta(seconds=left_s))
    except RuntimeError:
        return False
    return True


def _missing(store: Store, rank: int, world_size: int, time_s: float) -> BootstrapError:
    try:
        absent = [
            other for other in range(world_size) if not store.check([f"here/{other}"])
        ]
    except RuntimeError:
        absent = [0]  # the store went away with the process that serves it
    if rank == 0 and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True":
        time.sleep(min(_GRACE_S, time_s))  # the others ask this process's store too
    return BootstrapError(
        "RT404",
        f"after {time_s:g} s {len(absent)} of {world_size} ranks have not come: "
        f"{folded(absent)} (seen by rank {rank})",
        tuple(absent),
    )
