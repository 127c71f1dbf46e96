"""SageMaker, which lists the hosts of a job in JSON, sorted as text.

Its mpirun exports ``SM_CURRENT_HOST`` of the first host to the processes on all hosts,
so with it the host that Open MPI names is used.

Source: aws/sagemaker-training-toolkit, ENVIRONMENT_VARIABLES.md and issue 158.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from ranktable.runtime.errors import ConflictingVariablesError, InvalidVariableError
from ranktable.runtime.launchers.launcher import Launcher, Scope
from ranktable.runtime.values import quoted, read_address, said

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ranktable.runtime.values import Value

_HOSTS, _HOST, _HOST_OF_MPI = "SM_HOSTS", "SM_CURRENT_HOST", "PMIX_HOSTNAME"
_RANKS_OF_MPI = ("OMPI_COMM_WORLD_RANK", "MV2_COMM_WORLD_RANK", "PMI_RANK")


def _more(env: Mapping[str, str]) -> Iterator[tuple[str, Value, str]]:
    hosts = _read_hosts(env[_HOSTS])
    yield "num_nodes", len(hosts), _HOSTS
    yield "master_addr", read_address("master_addr", _HOSTS, hosts[0]), _HOSTS
    is_exported = len(hosts) > 1 and any(env.get(name) for name in _RANKS_OF_MPI)
    variable = _HOST_OF_MPI if is_exported else _HOST
    host = env.get(variable, "")
    if host in hosts:
        yield "host", host, variable
        yield "node_rank", hosts.index(host), variable
    elif not is_exported:
        raise ConflictingVariablesError(
            "RT303",
            f"{said(_HOST, host)} is not among {said(_HOSTS, env[_HOSTS])}",
            {_HOST: host, _HOSTS: env[_HOSTS]},
        )


def _read_hosts(text: str) -> list[str]:
    try:
        hosts = json.loads(text)
    except (ValueError, RecursionError):
        hosts = None
    if hosts and isinstance(hosts, list) and all(isinstance(h, str) for h in hosts):
        return hosts
    raise InvalidVariableError(
        "RT302",
        f"{_HOSTS} is {quoted(text)}, not a JSON list of hosts",
        {_HOSTS: text},
    )


SAGEMAKER = Launcher(
    name="sagemaker",
    level=Scope.NODE,
    markers=(_HOSTS, _HOST),
    more=_more,
    advice="start the script with torchrun or mpirun",
)
LAUNCHERS = (SAGEMAKER,)
