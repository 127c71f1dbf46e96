"""RT213 to RT215: what Ascend's HCCL asks of a rank table besides."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ranktable.schema.diagnostic import Rule, Severity
from ranktable.schema.document import SourceSpan
from ranktable.schema.messages import quoted
from ranktable.schema.rules.ranks import is_permutation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ranktable.schema.columns import Columns
    from ranktable.schema.diagnostic import Finding, Options

COMPLETED = "completed"


def _server(name: str, *devices: tuple[int, int, str]) -> str:
    listed = ",\n   ".join(
        f'{{"device_id":"{chip}","device_ip":"{address}","rank_id":"{rank}"}}'
        for chip, rank, address in devices
    )
    return f'{{"server_id":"{name}","device":[\n   {listed}]}}'


def _table(*servers: str, status: str = COMPLETED) -> bytes:
    listed = ",\n  ".join(servers)
    return (
        f'{{"status":"{status}","version":"1.0","server_count":"{len(servers)}",\n'
        f'"server_list":[\n  {listed}]}}\n'
    ).encode()


def _not_completed(columns: Columns, _: Options) -> Iterator[Finding]:
    status = columns.top.get("status")
    if isinstance(status, str) and status != COMPLETED:
        yield NOT_COMPLETED.finding(
            SourceSpan(("status",)),
            f'status is {quoted(status)}; HCCL waits until it is "completed"',
            hint="wait for the operator that writes the table, or correct the word",
        )


def _duplicate_addresses(columns: Columns, _: Options) -> Iterator[Finding]:
    written = [address for address in columns.addresses if address is not None]
    if len(set(written)) == len(written):
        return
    first_use: dict[str, int] = {}
    for index, address in enumerate(columns.addresses):
        if address is None or first_use.setdefault(address, index) == index:
            continue
        if columns.quota.is_spent(DUPLICATE_ADDRESS):
            continue
        first, keys = first_use[address], columns.format.address_keys
        yield DUPLICATE_ADDRESS.finding(
            columns.span(index, keys),
            f"{quoted(address)} is the address of {columns.name(first)} and of "
            f"{columns.name(index)}",
            hint="hccn_tool -i N -ip -g prints the address of device N",
            related=(columns.span(first, keys, label="first use"),),
        )


def _interleaved(columns: Columns, _: Options) -> Iterator[Finding]:
    if not is_permutation(columns.ranks):
        return  # missing and repeated ranks are reported as such
    for node, start, end in columns.nodes():
        ranks = sorted(rank for rank in columns.ranks[start:end] if rank is not None)
        if not ranks or ranks[-1] - ranks[0] == len(ranks) - 1:
            continue
        if not columns.quota.is_spent(INTERLEAVED):
            yield INTERLEAVED.finding(
                columns.devices_span(node),
                f"the ranks of node {node} are not consecutive",
                hint="number the devices server by server",
            )


NOT_COMPLETED = Rule(
    code="RT213",
    name="not-completed",
    summary="the status of the table is not completed",
    why=(
        "An operator writes the table with another status first. HCCL reads the file "
        "again until the status is completed, for half an hour by default."
    ),
    fix="Wait for the operator (ranktable wait), or write completed.",
    readers={"HCCL": "waits 30 minutes without a message"},
    bad=_table(_server("n1", (0, 0, "10.0.0.1")), status="initializing"),
    good=_table(_server("n1", (0, 0, "10.0.0.1"))),
    check=_not_completed,
    is_fast=True,
)
DUPLICATE_ADDRESS = Rule(
    code="RT214",
    name="duplicate-address",
    summary="two devices have the same address",
    why="HCCL connects devices by their addresses, which are unique in a job.",
    fix="Write the address of each device, as /etc/hccn.conf has it.",
    readers={"HCCL": "EI0014"},
    seen_as=("EI0014",),
    bad=_table(_server("n1", (0, 0, "10.0.0.1"), (1, 1, "10.0.0.1"))),
    good=_table(_server("n1", (0, 0, "10.0.0.1"), (1, 1, "10.0.0.2"))),
    check=_duplicate_addresses,
    is_fast=True,
)
INTERLEAVED = Rule(
    code="RT215",
    name="interleaved-servers",
    severity=Severity.WARNING,
    summary="the ranks of a server are not consecutive",
    why=(
        "The manual asks for the ranks of a server, and of a super pod, one after the "
        "other. HCCL does not check it; its algorithms assume it."
    ),
    fix="Number the devices server by server.",
    readers={"HCCL": "accepted"},
    bad=_table(
        _server("n1", (0, 0, "10.0.0.1"), (1, 2, "10.0.0.2")),
        _server("n2", (0, 1, "10.0.0.3"), (1, 3, "10.0.0.4")),
    ),
    good=_table(
        _server("n1", (0, 0, "10.0.0.1"), (1, 1, "10.0.0.2")),
        _server("n2", (0, 2, "10.0.0.3"), (1, 3, "10.0.0.4")),
    ),
    check=_interleaved,
)

RULES = (NOT_COMPLETED, DUPLICATE_ADDRESS, INTERLEAVED)
