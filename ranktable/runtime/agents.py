"""The torchrun agents of a job, one for each node of the rank table."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ranktable.cluster.hostfiles.hostfile import hostfile_from_table, refuse_interleaved
from ranktable.cluster.hostfiles.torchrun import agent_arguments
from ranktable.runtime.agreement import is_same_host
from ranktable.schema.values import is_address

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ranktable.runtime.environment import Environment
    from ranktable.schema.model import RankTable


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """One torchrun process.

    Attributes:
        node_rank: Index of its node, in the order of the ranks.
        num_nodes: Number of nodes of the job.
        num_processes: Number of processes that it starts.
        host: Host of the node, None if the table names no hosts.
    """

    node_rank: int
    num_nodes: int
    num_processes: int
    host: str | None

    def arguments(
        self, script: Sequence[str], master_addr: str | None, master_port: int
    ) -> list[str]:
        """Return torchrun's arguments, with the script and the script's arguments.

        Args:
            script: The script and its arguments.
            master_addr: Address of the rendezvous; not needed on a single node.
            master_port: Port of the rendezvous.
        """
        return agent_arguments(
            node_rank=self.node_rank,
            num_nodes=self.num_nodes,
            num_processes=self.num_processes,
            master_addr=master_addr,
            master_port=master_port,
            script=script,
        )


def agents_of(table: RankTable) -> list[Agent]:
    """Return the agents of a table, the one with rank 0 first.

    torchrun numbers processes over the nodes in the order of their node_rank. So the
    nodes are in the order of their ranks, not in that of the file.

    Raises:
        ArgumentError: The table has free placement, which torchrun does not support.
    """
    refuse_interleaved(hostfile_from_table(table), "torchrun")
    nodes = sorted(table.nodes, key=lambda node: node.devices[0].rank)
    return [
        Agent(
            node_rank=node_rank,
            num_nodes=len(nodes),
            num_processes=len(node.devices),
            host=node.host,
        )
        for node_rank, node in enumerate(nodes)
    ]


def find_agent(
    agents: Sequence[Agent], environment: Environment, host_name: str
) -> Agent | None:
    """Return the agent of this node, None if it is not known.

    The host name is compared first, because the table names the host itself; then the
    launcher's name of the host, then the addresses of this machine. The launcher's
    index of the node is used only if the table names no host: it may be the number of
    a node that finds itself by its name.

    Args:
        agents: The agents of the job.
        environment: The facts from the launcher of this process.
        host_name: Name of this host, with or without a domain.
    """
    if len(agents) == 1:
        return agents[0]
    for name in filter(None, (host_name, environment.host)):
        if (agent := _agent_of(agents, name)) is not None:
            return agent
    local = [agent for agent in agents if _is_address_of_this_machine(agent.host)]
    if len(local) == 1:
        return local[0]
    if any(agent.host is not None and not is_address(agent.host) for agent in agents):
        return None
    node_rank = environment.node_rank
    if node_rank is None and environment.world_size == len(agents):
        # mpirun does not number nodes; with one process on each node, the rank does.
        node_rank = environment.rank if environment.local_world_size == 1 else None
    if node_rank is not None and node_rank < len(agents):
        return agents[node_rank]
    return None


def _agent_of(agents: Sequence[Agent], host_name: str) -> Agent | None:
    """Return the only agent of a host; names with domain are compared first."""
    for is_it in (str.__eq__, is_same_host):
        here = [
            agent
            for agent in agents
            if agent.host is not None and is_it(agent.host, host_name)
        ]
        if len(here) == 1:
            return here[0]
    return None


def _is_address_of_this_machine(host: str | None) -> bool:
    if host is None or not is_address(host):
        return False
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.socket(family) as one:
            one.bind((host, 0))  # possible with addresses of this machine only
    except OSError:
        return False
    return True


def compare_hosts(
    agents: Sequence[Agent], hosts: Sequence[str]
) -> tuple[list[str], list[str]]:
    """Return the nodes of a table that are not started, and the hosts not in it.

    Both are empty if the launcher names the hosts in a way of its own.
    """
    listed = [agent.host for agent in agents if agent.host is not None]
    known, started = set(map(short_name, listed)), set(map(short_name, hosts))
    if not known & started:
        return [], []
    missing = [host for host in listed if short_name(host) not in started]
    return missing, [host for host in hosts if short_name(host) not in known]


def short_name(host: str) -> str:
    """Return the name of a host without its domain, or its address."""
    return host if is_address(host) else host.partition(".")[0]
