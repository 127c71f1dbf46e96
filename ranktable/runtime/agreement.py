"""Compare the environment with the rank table, before anything is started."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from ranktable.runtime import chip_map
from ranktable.runtime.errors import ConflictingVariablesError

if TYPE_CHECKING:
    from ranktable.runtime.environment import Environment
    from ranktable.schema.model import RankTable

_IPV4 = re.compile(r"[0-9.]+")
# Other launchers, such as Slurm, number nodes in their own order.
_BY_RANKS = ("GROUP_RANK", "CROSS_RANK", "NODE_RANK", "PET_NODE_RANK")


def is_same_host(one: str, other: str) -> bool:
    """Whether two names are the same host; one of them may lack the domain.

    Names of hosts have no case: RFC 4343.
    """
    one, other = one.lower(), other.lower()
    if one == other or _IPV4.fullmatch(one) or _IPV4.fullmatch(other):
        return one == other
    short, long = sorted((one, other), key=len)
    return "." not in short and long.partition(".")[0] == short


def with_world_size(
    environment: Environment, table: RankTable | None, file: str | None = None
) -> Environment:
    """Return the environment with the size of the job, if necessary from the table.

    Ascend's scripts set the rank and the table of a process, but often not the size.

    Raises:
        ConflictingVariablesError: The table has no such rank.
    """
    rank = environment.rank
    if table is None or rank is None or environment.world_size is not None:
        return environment
    if rank >= table.world_size:
        raise _contradiction(
            environment, ("rank",), f"the rank table has {table.world_size} ranks", file
        )
    sources = {**environment.sources, "world_size": "rank table"}
    return replace(environment, world_size=table.world_size, sources=sources)


def refuse_other_table(
    environment: Environment,
    table: RankTable,
    file: str | None = None,
    *,
    own_chip: str = "",
) -> None:
    """Raise if the environment contradicts the table.

    A process without a rank is an agent, a pod or a shell. For it, the variables about
    the node must match one of the table's nodes.

    Args:
        environment: The variables of the launcher.
        table: The rank table of the job.
        file: The file it was read from, for messages.
        own_chip: The variable that leaves this process a single chip, else empty; then
            LOCAL_RANK=0 may be the index of that chip, and 1 the number of processes
            that see it.

    Raises:
        ConflictingVariablesError: They differ in the number of ranks or nodes, in the
            place of this rank, or in the chips of this node.
    """
    for name, size in (
        ("world_size", table.world_size),
        ("num_nodes", table.num_nodes),
    ):
        if getattr(environment, name) not in (None, size):
            what = "ranks" if name == "world_size" else "nodes"
            finding = f"the rank table has {size} {what}"
            raise _contradiction(environment, (name,), finding, file)
    if (environment.node_rank or 0) >= table.num_nodes:
        finding = f"the rank table has {table.num_nodes} nodes"
        raise _contradiction(environment, ("node_rank",), finding, file)
    node_ranks = _candidates(environment, table, file)
    local_chip_maps = [table.local_chip_map(node_rank) for node_rank in node_ranks]
    is_alone = bool(own_chip) and environment.local_world_size == 1
    about_node = (
        replace(environment, local_world_size=None) if is_alone else environment
    )
    _refuse_node(about_node, local_chip_maps, node_ranks, file)
    if environment.rank is not None:
        _refuse_process(environment, table, environment.rank, file, own_chip)
    chip_map.refuse_contradiction(environment.local_chip_map, *local_chip_maps)


def _candidates(
    environment: Environment, table: RankTable, file: str | None
) -> list[int]:
    """Return the indices of the nodes in the table that this node can be."""
    by_ranks = environment.sources.get("node_rank") in _BY_RANKS
    if environment.rank is None and not by_ranks:
        return list(range(table.num_nodes))
    node_rank = environment.node_rank
    if environment.rank is None:
        assert node_rank is not None
        ordered = sorted(table.first_ranks)
        return [table.first_ranks.index(ordered[node_rank])]
    found = table.node_rank_of(environment.rank)
    first = table.first_ranks[found]
    place = sum(rank < first for rank in table.first_ranks) if by_ranks else 0
    if by_ranks and place != node_rank:
        finding = f"the rank table has that rank on node {place}"
        raise _contradiction(environment, ("rank", "node_rank"), finding, file)
    return [found]


def _refuse_node(
    environment: Environment,
    local_chip_maps: list[list[int]],
    node_ranks: list[int],
    file: str | None,
) -> None:
    sizes = {len(chips) for chips in local_chip_maps}
    every_chip = {chip for chips in local_chip_maps for chip in chips}
    if len(node_ranks) == 1:
        gives = f"the rank table gives node {node_ranks[0]}"
        listed = ",".join(map(str, local_chip_maps[0]))
        ranks, chips = f"{min(sizes)} ranks", f"the chips {listed}"
    else:
        gives = "the rank table gives no node"
        ranks, chips = "that number of ranks", "that chip"
    if environment.local_world_size not in {None, *sizes}:
        finding = f"{gives} {ranks}"
        raise _contradiction(environment, ("local_world_size",), finding, file)
    if environment.device_id not in {None, *every_chip}:
        raise _contradiction(environment, ("device_id",), f"{gives} {chips}", file)


def _refuse_process(
    environment: Environment,
    table: RankTable,
    rank: int,
    file: str | None,
    own_chip: str,
) -> None:
    _refuse_host(environment, table, rank, file)
    local_rank, device_id = table.local_rank_of(rank), table.chip_map[rank]
    is_wrong = environment.local_rank not in (None, local_rank)
    may_be_index = own_chip or environment.launcher == "torchrun"
    if is_wrong and not (may_be_index and _may_be_index(environment, table, rank)):
        finding = (
            f"the rank table gives rank {rank} local rank {local_rank} on node "
            f"{table.node_rank_of(rank)}"
        )
        raise _contradiction(environment, ("rank", "local_rank"), finding, file)
    if environment.device_id not in (None, device_id):
        finding = f"the rank table gives rank {rank} chip {device_id}"
        raise _contradiction(environment, ("rank", "device_id"), finding, file)


def _may_be_index(environment: Environment, table: RankTable, rank: int) -> bool:
    """Whether LOCAL_RANK may be 0 in all processes, as --virtual-local-rank sets it.

    Then it is the index of the only chip that the process sees.

    Source: pytorch/pytorch, elastic/agent/server/local_elastic_agent.py: each worker
    sees one chip, and WORLD_SIZE, RANK and LOCAL_WORLD_SIZE are what they were.
    """
    node = table.node_rank_of(rank)
    return (
        environment.sources.get("local_rank") == "LOCAL_RANK"
        and environment.local_rank == 0
        and environment.local_world_size in (None, 1, len(table.local_chip_map(node)))
    )


def _refuse_host(
    environment: Environment, table: RankTable, rank: int, file: str | None
) -> None:
    host, here = table.hosts[table.node_rank_of(rank)], environment.host
    if host is not None and here is not None and not is_same_host(host, here):
        # A launcher may use its own name for a host; then the hosts cannot be compared.
        hosts = [host for host in table.hosts if host is not None]
        if any(is_same_host(other, here) for other in hosts):
            finding = f"the rank table has rank {rank} on {host}"
            raise _contradiction(environment, ("rank", "host"), finding, file)


def _contradiction(
    environment: Environment,
    fields: tuple[str, ...],
    finding: str,
    file: str | None,
) -> ConflictingVariablesError:
    variables = {
        environment.sources.get(name, name): str(getattr(environment, name))
        for name in fields
    }
    listed = " and ".join(f"{name}={value}" for name, value in variables.items())
    return ConflictingVariablesError(
        "RT304",
        f"the launcher set {listed}, but {finding}"
        + (f" ({file})" if file else "")
        + "; start one process for each rank of the table, node by node",
        variables,
    )
