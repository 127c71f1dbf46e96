"""SageMaker, which lists the hosts of a job in JSON, sorted as text.

Source: aws/sagemaker-training-toolkit, ENVIRONMENT_VARIABLES.md.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from ranktable.runtime.errors import ConflictingVariablesError, InvalidVariableError
from ranktable.runtime.launchers.launcher import Launcher, Level, Tier
from ranktable.runtime.values import quoted, read_address, said

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ranktable.runtime.values import Value

_HOSTS, _HOST = "SM_HOSTS", "SM_CURRENT_HOST"


def _more(env: Mapping[str, str]) -> Iterator[tuple[str, Value, str]]:
    text, host = env[_HOSTS], env[_HOST]
    try:
        hosts = json.loads(text)
    except (ValueError, RecursionError):
        hosts = None
    if (
        not isinstance(hosts, list)
        or not hosts
        or not all(isinstance(item, str) for item in hosts)
    ):
        raise InvalidVariableError(
            "RT302",
            f"{_HOSTS} is {quoted(text)}, not a JSON list of hosts",
            {_HOSTS: text},
        )
    yield "host", host, _HOST
    if host not in hosts:
        raise ConflictingVariablesError(
            "RT303",
            f"{said(_HOST, host)} is not among {said(_HOSTS, text)}",
            {_HOST: host, _HOSTS: text},
        )
    yield "node_rank", hosts.index(host), _HOST
    yield "num_nodes", len(hosts), _HOSTS
    yield "master_addr", read_address("master_addr", _HOSTS, hosts[0]), _HOSTS


SAGEMAKER = Launcher(
    name="sagemaker",
    tier=Tier.PLATFORM,
    level=Level.NODE,
    markers=(_HOSTS, _HOST),
    more=_more,
)
