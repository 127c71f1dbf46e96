"""PALS, the launcher of Cray systems; only ``PMI_SIZE`` has the size of the job.

Source: radical-cybertools/radical.pilot, docs/source/supported/polaris.rst; no page of
the vendor was found.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ranktable.runtime.launchers.launcher import Launcher
from ranktable.runtime.values import read_again

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ranktable.runtime.values import Value

# Values that it gives twice must be the same; another MPI inside would change one.
_AGAIN = (("rank", "PMI_RANK"), ("local_rank", "PMI_LOCAL_RANK"))


def _more(env: Mapping[str, str]) -> Iterator[tuple[str, Value, str]]:
    yield from read_again(env, _AGAIN)


PALS = Launcher(
    name="pals",
    markers=("PALS_RANKID",),
    fields={
        "rank": "PALS_RANKID",
        "world_size": "PMI_SIZE",
        "local_rank": "PALS_LOCAL_RANKID",
        "local_world_size": "PALS_LOCAL_SIZE",
        "node_rank": "PALS_NODEID",
    },
    more=_more,
)
LAUNCHERS = (PALS,)
