"""Google's TPU virtual machines and GKE; hosts count over all slices.

Source: jax-ml/jax, jax/_src/clusters/cloud_tpu_cluster.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ranktable.runtime.errors import ConflictingVariablesError
from ranktable.runtime.launchers.launcher import Launcher, Level, Tier
from ranktable.runtime.values import read_address, read_number

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ranktable.runtime.values import Value

_ID = "TPU_WORKER_ID"
_NAMES, _ADDRESSES = "TPU_WORKER_HOSTNAMES", "TPU_PROCESS_ADDRESSES"
_SLICE, _SLICES = "MEGASCALE_SLICE_ID", "MEGASCALE_NUM_SLICES"
_COORDINATOR = "MEGASCALE_COORDINATOR_ADDRESS"


def _more(env: Mapping[str, str]) -> Iterator[tuple[str, Value, str]]:
    variable = _NAMES if env.get(_NAMES) else _ADDRESSES
    hosts = [_without_port(item) for item in env.get(variable, "").split(",")]
    if not env.get(variable):
        return
    slices = read_number("num_nodes", _SLICES, env.get(_SLICES) or "1")
    worker = _index(env, _ID, len(hosts), variable)
    slice_ = _index(env, _SLICE, slices, _SLICES) if env.get(_SLICE) else 0
    yield "node_rank", worker + slice_ * len(hosts), _ID
    yield "num_nodes", len(hosts) * slices, variable
    if slices == 1:
        yield "master_addr", read_address("master_addr", variable, hosts[0]), variable
    elif env.get(_COORDINATOR):
        host = _without_port(env[_COORDINATOR])
        yield (
            "master_addr",
            read_address("master_addr", _COORDINATOR, host),
            (_COORDINATOR),
        )


def _without_port(address: str) -> str:
    """Return the host of ``host:port``; an address of several colons is IPv6."""
    host, _, port = address.strip().rpartition(":")
    if not host or (":" in host and not host.endswith("]")) or not port.isdigit():
        host = address.strip()
    return host.strip("[]")


def _index(env: Mapping[str, str], variable: str, size: int, sizes: str) -> int:
    index = read_number("node_rank", variable, env[variable])
    if index >= size:
        said = f"{sizes}={env.get(sizes, '')}"
        raise ConflictingVariablesError(
            "RT303",
            f"{variable}={env[variable]} is not below {size}, the number that {said} "
            "gives; unset the one that is left over",
            {variable: env[variable], sizes: env.get(sizes)},
        )
    return index


CLOUD_TPU = Launcher(
    name="cloud tpu",
    tier=Tier.PLATFORM,
    level=Level.NODE,
    markers=(_ID,),
    more=_more,
)
