"""Before ranks make groups together, they see whether all of them want the same.

Ranks that make other groups than their peers wait for them until the time-out, and hear
nothing of the reason. The store of the job tells it at once: everybody says in it what
it wants, and the last one to come says to all whether that is the same.
"""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING

from ranktable.runtime.errors import BootstrapError
from ranktable.schema.messages import folded

if TYPE_CHECKING:
    from torch._C._distributed_c10d import Store

    from ranktable.runtime.job import Job

WAIT_S = 300.0
"""Time for all ranks to come, where none is given."""


def refuse_different(job: Job, what: str, wish: str, time_s: float = WAIT_S) -> None:
    """Raise unless every rank wants the same; wait until all have said it.

    Args:
        job: The job.
        what: What it is about, such as ``layout``.
        wish: What this rank wants, in words.
        time_s: How long to wait for the others.

    Raises:
        BootstrapError: A rank wants something else (RT405), or does not come (RT404).
    """
    if job.world_size == 1:
        return
    from torch._C._distributed_c10d import PrefixStore  # noqa: PLC0415 - an extra
    from torch.distributed.distributed_c10d import (  # noqa: PLC0415
        _get_default_store,
    )

    job.wishes += 1
    prefix = f"ranktable.wish/{job.wishes}"
    store = PrefixStore(prefix, _get_default_store())
    store.set(f"said/{job.rank}", wish)
    if store.add("count", 1) == job.world_size:
        store.set("verdict", json.dumps(_verdict(store, job.world_size, what)))
    try:
        store.wait(["verdict"], timedelta(seconds=time_s))
    except RuntimeError:  # torch has no narrower one for a time-out of its store
        raise _missing(store, job, what, time_s) from None
    ranks, finding = json.loads(store.get("verdict"))
    if finding:
        raise BootstrapError("RT405", finding, tuple(ranks))


def _verdict(store: Store, world_size: int, what: str) -> tuple[list[int], str]:
    """Return the ranks that want something else than rank 0, and a sentence."""
    said = [store.get(f"said/{rank}").decode() for rank in range(world_size)]
    others = [rank for rank, wish in enumerate(said) if wish != said[0]]
    if not others:
        return [], ""
    return others, (
        f"rank {others[0]} asks for {said[others[0]]}, rank 0 for {said[0]}; give "
        f"every rank the same {what}"
        + (f" ({len(others)} ranks differ from rank 0)" if len(others) > 1 else "")
    )


def _missing(store: Store, job: Job, what: str, time_s: float) -> BootstrapError:
    absent = tuple(
        rank for rank in range(job.world_size) if not store.check([f"said/{rank}"])
    )
    return BootstrapError(
        "RT404",
        f"after {time_s:g} s ranks {folded(absent)} have not asked for their {what}; "
        "let every rank make the same calls in the same order",
        absent,
    )
