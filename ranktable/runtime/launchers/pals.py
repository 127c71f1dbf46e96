"""PALS, the launcher of Cray systems; the size of the job is in ``PMI_SIZE`` alone.

Source: radical-cybertools/radical.pilot, docs/source/supported/polaris.rst; the
vendor's own page was not found.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ranktable.runtime.launchers.launcher import Launcher
from ranktable.runtime.values import read_again

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ranktable.runtime.values import Value

# What it says twice has to be the same; another MPI within it would say otherwise.
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
