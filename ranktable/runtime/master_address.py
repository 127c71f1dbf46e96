"""The address and port of the rendezvous."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ranktable.runtime.errors import MissingVariableError
from ranktable.runtime.values import MAX_PORT, read_address

if TYPE_CHECKING:
    from ranktable.runtime.environment import Environment
    from ranktable.schema.model import RankTable

DEFAULT_PORT = 29500
"""torchrun's default, for launchers that set no port."""


def with_master(
    environment: Environment,
    table: RankTable | None,
    *,
    master_addr: str | None = None,
    master_port: int | None = None,
) -> Environment:
    """Return the environment with the address of the rendezvous.

    An argument is stronger than the launcher's variables, and these are stronger than
    the rank table, whose host of rank 0 is used. Only the port has a default.

    Raises:
        InvalidVariableError: The argument is neither a host name nor an address.
        MissingVariableError: No source has the address.
        ValueError: An argument is not a host name or a port. Ranks would try to connect
            with it until the time-out.
    """
    _refuse_wrong(master_addr, master_port)
    sources = dict(environment.sources)
    found = environment
    if master_addr is not None:
        address = read_address("it", "the argument master_addr", master_addr)
        found = replace(found, master_addr=address)
        sources["master_addr"] = "argument"
    elif found.master_addr is None and table is not None:
        host = table.hosts[table.node_rank_of(0)]
        found = replace(found, master_addr=host)
        sources["master_addr"] = "rank table"
    if found.master_addr is None:
        raise MissingVariableError(
            "RT301",
            "the address of the rendezvous is not known: MASTER_ADDR is not set"
            + (f", {found.launcher} gives no address" if found.launcher else "")
            + " and the rank table names no hosts; export MASTER_ADDR with the name "
            "of rank 0's host (in Python, master_addr= does the same)",
            {"MASTER_ADDR": None},
        )
    if master_port is not None or found.master_port is None:
        found = replace(found, master_port=master_port or DEFAULT_PORT)
        sources["master_port"] = "argument" if master_port else "default"
    return replace(found, sources=sources)


def _refuse_wrong(master_addr: object, master_port: object) -> None:
    if master_addr is not None and not (isinstance(master_addr, str) and master_addr):
        raise ValueError(f"master_addr is {master_addr!r}, not a host name")
    is_port = isinstance(master_port, int) and 0 < master_port <= MAX_PORT
    if master_port is not None and not is_port:
        raise ValueError(
            f"master_port is {master_port!r}, not a port from 1 to {MAX_PORT}"
        )
