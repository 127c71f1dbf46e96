"""Google's TPU virtual machines and GKE; hosts are numbered over all slices.

Source: jax-ml/jax, jax/_src/clusters/cloud_tpu_cluster.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ranktable.runtime.errors import ConflictingVariablesError, MissingVariableError
from ranktable.runtime.launchers.launcher import Launcher, Scope
from ranktable.runtime.values import read_host, read_list, read_number, said

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ranktable.runtime.values import Value

_ID = "TPU_WORKER_ID"
_NAMES, _ADDRESSES = "TPU_WORKER_HOSTNAMES", "TPU_PROCESS_ADDRESSES"
_SLICE, _SLICES = "MEGASCALE_SLICE_ID", "MEGASCALE_NUM_SLICES"
_MASTER = "MEGASCALE_COORDINATOR_ADDRESS"


def _more(env: Mapping[str, str]) -> Iterator[tuple[str, Value, str]]:
    variable = _NAMES if env.get(_NAMES) else _ADDRESSES
    text = env.get(variable, "")
    if not text:
        return
    hosts = read_list(read_host, "it", variable, text)
    slices = read_number("num_nodes", _SLICES, env.get(_SLICES) or "1")
    worker = _index(env, _ID, len(hosts), variable)
    has_slice = slices > 1 or env.get(_SLICE)
    slice_ = _index(env, _SLICE, slices, _SLICES) if has_slice else 0
    yield "node_rank", worker + slice_ * len(hosts), _ID
    yield "num_nodes", len(hosts) * slices, variable
    if slices == 1:
        yield "master_addr", hosts[0], variable
    elif env.get(_MASTER):
        yield "master_addr", read_host("master_addr", _MASTER, env[_MASTER]), _MASTER


def _index(env: Mapping[str, str], variable: str, size: int, sizes: str) -> int:
    text, counted = env.get(variable, ""), said(sizes, env.get(sizes, ""))
    if not text:
        raise MissingVariableError(
            "RT301",
            f"{counted} is set, but {variable} is not; set or unset both",
            {variable: None, sizes: env.get(sizes)},
        )
    index = read_number("node_rank", variable, text)
    if index >= size:
        raise ConflictingVariablesError(
            "RT303",
            f"{said(variable, text)} is not below {size}, the number that {counted} "
            "gives; it counts from 0: correct it, or unset the one that is left over",
            {variable: text, sizes: env.get(sizes)},
        )
    return index


CLOUD_TPU = Launcher(
    name="cloud tpu",
    level=Scope.NODE,
    markers=(_ID,),
    more=_more,
    advice="start torchrun, or ranktable run, on every host",
)
LAUNCHERS = (CLOUD_TPU,)
