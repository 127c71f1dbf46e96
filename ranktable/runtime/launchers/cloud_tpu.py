"""Google's TPU virtual machines and GKE; hosts count over all slices.

Source: jax-ml/jax, jax/_src/clusters/cloud_tpu_cluster.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ranktable.runtime.launchers.launcher import Launcher, Level, Tier
from ranktable.runtime.values import read_number

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_ID, _HOSTS = "TPU_WORKER_ID", "TPU_WORKER_HOSTNAMES"
_SLICE, _SLICES = "MEGASCALE_SLICE_ID", "MEGASCALE_NUM_SLICES"


def _more(env: Mapping[str, str]) -> Iterator[tuple[str, int | str, str]]:
    hosts = env[_HOSTS].split(",")
    place = read_number("node_rank", _ID, env[_ID])
    slices = read_number("num_nodes", _SLICES, env.get(_SLICES) or "1")
    index = read_number("node_rank", _SLICE, env.get(_SLICE) or "0")
    yield "node_rank", place + index * len(hosts), _ID
    yield "num_nodes", len(hosts) * slices, _HOSTS
    if slices == 1:
        yield "master_addr", hosts[0], _HOSTS


CLOUD_TPU = Launcher(
    name="cloud tpu",
    tier=Tier.PLATFORM,
    level=Level.NODE,
    markers=(_ID, _HOSTS),
    more=_more,
)
