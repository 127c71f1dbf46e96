"""RT210 to RT212: counts, addresses and hosts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ranktable.schema.address import are_addresses, is_address
from ranktable.schema.diagnostic import Refusal, Rule
from ranktable.schema.document import SourceSpan
from ranktable.schema.messages import counted, quoted
from ranktable.schema.numbers import plain_number
from ranktable.schema.rules.examples import one_node

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ranktable.schema.columns import Columns
    from ranktable.schema.diagnostic import Finding, Options
    from ranktable.schema.document import Path


def _of_2024(count: int) -> bytes:
    return (
        f'{{"status":"completed","version":"1.0","server_count":{count},'
        '"server_list":[\n'
        '  {"server_ip":"10.20.0.5","device":[{"device_id":"0","device_ip":"",'
        '"rank_id":"0"}],\n'
        '   "host_nic_ip":"reserve"}]}\n'
    ).encode()


def _hosts(second: str) -> bytes:
    return (
        '{"version":"1.0","node_list":[\n'
        '  {"host":"n1","device_list":[{"device_id":"0","rank":"0"}]},\n'
        f'  {{"host":"{second}","device_list":[{{"device_id":"0","rank":"1"}}]}}]}}\n'
    ).encode()


def _wrong_count(columns: Columns, _: Options) -> Iterator[Finding]:
    key = columns.format.count_key
    value = columns.top.get(key) if key is not None else None
    written = value if isinstance(value, int) else plain_number(value)
    counts_ranks = columns.format.counts_ranks
    count = columns.num_devices if counts_ranks else columns.num_nodes
    if written is not None and written != count and columns.num_nodes:
        yield wrong_count((str(key),), written, columns.format.nodes_key, count)


def wrong_count(path: Path, written: int, listed: str, count: int) -> Finding:
    """Return RT210 for a count that stands at a path and does not fit its list."""
    return WRONG_COUNT.finding(
        SourceSpan(path),
        f"{path[-1]} is {written}, but {listed} has "
        f"{counted(count, 'entry', 'entries')}",
        hint=f"write {count}, or add what is missing",
    )


def _bad_addresses(columns: Columns, _: Options) -> Iterator[Finding]:
    written = {address for address in columns.addresses if address is not None}
    if written and not are_addresses(written):
        # With both keys the emulator's, which SCCL reads, is the device's address.
        keys = columns.format.address_keys[::-1]
        bad = {address for address in written if not _is_address(columns, address)}
        for index, address in enumerate(columns.addresses):
            if address in bad and not columns.quota.is_spent(BAD_ADDRESS):
                yield _bad_address(columns.span(index, keys), address)
    yield from _bad_other_addresses(columns, _)
    for index, key, address in columns.more_addresses:
        if not is_address(address) and not columns.quota.is_spent(BAD_ADDRESS):
            yield _bad_address(columns.span(index, (key,)), address)


def _bad_other_addresses(columns: Columns, _: Options) -> Iterator[Finding]:
    """Yield RT211 for addresses that are not the ones of devices: ``host_ip``."""
    has_blank = columns.format.has_blank_addresses
    for field, of_node in columns.format.other_addresses:
        for index, address in enumerate(columns.optional.get(field.key, ())):
            is_there = isinstance(address, str) and bool(address or not has_blank)
            if not is_there or is_address(str(address)):
                continue
            if not columns.quota.is_spent(BAD_ADDRESS):
                path = columns.node_path if of_node else columns.device_path
                span = SourceSpan((*path(index), field.key))
                yield _bad_address(span, str(address))


def _is_address(columns: Columns, text: str) -> bool:
    parts = text.split(",") if columns.format.joins_addresses else [text]
    return all(map(is_address, parts))


def _bad_address(span: SourceSpan, address: str | None) -> Finding:
    hint = None
    if address is not None and not any(map(str.isalnum, address)):  # -.-.-.-
        hint = "whoever wrote this found no address: set one with hccn_tool -i N -ip -s"
    return BAD_ADDRESS.finding(
        span, f"{span.path[-1]} {quoted(address)} is not an IP address", hint=hint
    )


def _duplicate_hosts(columns: Columns, _: Options) -> Iterator[Finding]:
    first_use: dict[str, int] = {}
    key = columns.format.host_key
    for node, host in enumerate(columns.hosts):
        if host is None or first_use.setdefault(host, node) == node:
            continue
        if columns.quota.is_spent(DUPLICATE_HOST):
            continue
        first = first_use[host]
        yield DUPLICATE_HOST.finding(
            SourceSpan((*columns.node_path(node), key)),
            f"node {node} has the host {quoted(host)} of node {first}",
            related=(SourceSpan((*columns.node_path(first), key), label="first use"),),
        )


WRONG_COUNT = Rule(
    code="RT210",
    name="wrong-count",
    summary="server_count is not the number of servers",
    why="The reader of 2024 compares the two and stops with a bare assertion.",
    fix="Write the number of entries of server_list, or add the missing server.",
    readers={
        "torch_tpu": "2024: AssertionError without a text; later: not read",
        "SCCL": "not read",
        "HCCL": Refusal("EI0014 server_count"),
        "MindIE": Refusal("refuses the table"),
    },
    bad=_of_2024(2),
    good=_of_2024(1),
    check=_wrong_count,
)
BAD_ADDRESS = Rule(
    code="RT211",
    name="bad-address",
    summary="a device address is not an IP address",
    why="device_ip and device_ip_emulator are numeric IPv4 or IPv6 addresses.",
    fix="Write the address, or leave the key out: SCCL needs it for emulation only.",
    readers={
        "torch_tpu": "does not look at it",
        "SCCL": "hands device_ip_emulator on; the connection fails later",
        "HCCL": Refusal('EI0014 "IP"'),
        "MindIE": Refusal("device_ip is invalid in ranktable file"),
    },
    seen_as=("device_ip is invalid in ranktable file",),
    bad=one_node('{"device_id":"0","device_ip":"10.20.0.555","rank":"0"}'),
    good=one_node('{"device_id":"0","device_ip":"10.20.0.55","rank":"0"}'),
    check=_bad_addresses,
)
DUPLICATE_HOST = Rule(
    code="RT212",
    name="duplicate-host",
    summary="two nodes have the same host",
    why=(
        "A host is one node: listed twice, its chips are shared out twice and its "
        "local ranks begin twice at 0."
    ),
    fix="Put the devices of the host into one node.",
    readers={
        "torch_tpu": "does not look at it",
        "SCCL": "does not look at it",
        "HCCL": Refusal('EI0014, which says that an "IP" is repeated'),
    },
    seen_as=("is repeated",),
    bad=_hosts("n1"),
    good=_hosts("n2"),
    check=_duplicate_hosts,
)

RULES = (WRONG_COUNT, BAD_ADDRESS, DUPLICATE_HOST)
