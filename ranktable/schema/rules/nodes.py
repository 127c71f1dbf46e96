"""RT207 to RT212: chips used once per node, counts, addresses and hosts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ranktable.schema.addresses import UNSET_ADDRESS, is_address, is_device_address
from ranktable.schema.document import SourceSpan
from ranktable.schema.finding import Refusal, Rule
from ranktable.schema.format import Kind, plain_number
from ranktable.schema.rules.examples import PAIR, device, one_node
from ranktable.schema.text import counted, quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ranktable.schema.columns import Columns
    from ranktable.schema.document import Path
    from ranktable.schema.finding import Finding
    from ranktable.schema.report import Options

    Chips = tuple[int | None, ...]


def _duplicate_chips(columns: Columns, _: Options) -> Iterator[Finding]:
    for node, start, chips_of_node in _odd_nodes(columns, _are_distinct):
        first_use: dict[int, int] = {}
        for index, chip in enumerate(chips_of_node, start):
            if chip is None or first_use.setdefault(chip, index) == index:
                continue
            first = first_use[chip]
            yield DUPLICATE_CHIP.finding(
                columns.device_id_span(index),
                f"chip {chip} of node {node} is assigned to {columns.name(first)} "
                f"and to {columns.name(index)}",
                hint="every process needs a chip of its own",
                related=(columns.device_id_span(first, label="first use"),),
            )


def _absent_chips(columns: Columns, options: Options) -> Iterator[Finding]:
    count = options.chips_per_node
    if count is None and options.topology is not None:
        count = options.topology.num_chips
    if count is None:
        count = columns.format.most_chips

    def exists(chip: int | None) -> bool:
        return chip is None or (chip >= 0 and (count is None or chip < count))

    for _, start, found in _odd_nodes(columns, lambda found: all(map(exists, found))):
        for index, chip in enumerate(found, start):
            if chip is not None and not exists(chip):
                yield _no_such_chip(columns, index, chip, count)


def _are_distinct(found: Chips) -> bool:
    return len(set(found)) == len(found) - max(0, found.count(None) - 1)


def _odd_nodes(
    columns: Columns, is_sound: Callable[[Chips], bool]
) -> Iterator[tuple[int, int, Chips]]:
    """Yield each node with wrong chips, its first device and its chips."""
    sound: set[Chips] = set()
    for node, start, end in columns.nodes():
        found = tuple(columns.device_ids[start:end])
        if found in sound:
            continue  # most nodes of a cluster use the same chips
        if is_sound(found):
            sound.add(found)
        else:
            yield node, start, found


def _no_such_chip(
    columns: Columns, index: int, chip: int, chips_per_node: int | None
) -> Finding:
    if chips_per_node is None:
        message = f"chip {chip} of {columns.name(index)} is negative"
        hint = None
    else:
        message = (
            f"chip {chip} of {columns.name(index)} does not exist: the host has "
            f"{counted(chips_per_node, 'chip')}"
        )
        hint = f"chips are numbered 0 to {chips_per_node - 1}"
    return NO_SUCH_CHIP.finding(columns.device_id_span(index), message, hint=hint)


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
    """Return RT210 for a count that differs from the length of its list."""
    return WRONG_COUNT.finding(
        SourceSpan(path),
        f"{path[-1]} is {written}, but {listed} has "
        f"{counted(count, 'entry', 'entries')}",
        hint=f"write {count}, or add what is missing",
    )


def _bad_addresses(columns: Columns, _: Options) -> Iterator[Finding]:
    if not columns.are_addresses_sound():
        # If both keys are present, the address is the emulator's, which SCCL reads.
        keys = columns.format.address_keys[::-1]
        written = {address for address in columns.addresses if address is not None}
        bad = {address for address in written if not _is_address(columns, address)}
        for index, address in enumerate(columns.addresses):
            if address in bad:
                yield _bad_address(columns.span(index, keys), address)
    yield from _bad_other_addresses(columns, _)
    for index, key, address in columns.more_addresses:
        if not is_address(address):
            yield _bad_address(columns.span(index, (key,)), address)


def _bad_other_addresses(columns: Columns, _: Options) -> Iterator[Finding]:
    """Yield RT211 for wrong addresses under other keys, such as ``host_ip``."""
    has_blank = columns.format.has_blank_addresses
    for field, of_node in columns.format.other_addresses:
        for index, address in enumerate(columns.optional.get(field.key, ())):
            # HCCL refuses an empty host_ip; the address of a device may be empty.
            is_needed = bool(address) or of_node or not has_blank
            if not isinstance(address, str) or not is_needed:
                continue
            parts = address.split(",") if field.kind is Kind.ADDRESSES else [address]
            if all(map(is_address, parts)):
                continue
            path = columns.node_path if of_node else columns.device_path
            span = SourceSpan((*path(index), field.key))
            yield _bad_address(span, address)


def _is_address(columns: Columns, text: str) -> bool:
    if columns.format.joins_addresses:
        return all(map(is_device_address, text.split(",")))
    return is_address(text)


def _bad_address(span: SourceSpan, address: str | None) -> Finding:
    key, hint = span.path[-1], None
    message = f"{key} {quoted(address)} is not an IP address"
    if address == UNSET_ADDRESS:
        message = f"{key} {quoted(address)} is a placeholder, not an address"
    if address == "":
        hint = "leave the key out, or write the address of the host"
    elif address == UNSET_ADDRESS or (address and not any(map(str.isalnum, address))):
        # 0.0.0.0 or -.-.-.-
        hint = "whoever wrote this found no address: set one with hccn_tool -i N -ip -s"
    return BAD_ADDRESS.finding(span, message, hint=hint)


REACHABLE = "write the address that the other hosts reach it by"


def _duplicate_hosts(columns: Columns, _: Options) -> Iterator[Finding]:
    first_use: dict[str, int] = {}
    key = columns.format.host_key
    for node, host in enumerate(columns.hosts):
        if host is None or first_use.setdefault(host, node) == node:
            continue
        first = first_use[host]
        yield DUPLICATE_HOST.finding(
            SourceSpan((*columns.node_path(node), key)),
            f"node {node} has the host {quoted(host)} of node {first}",
            hint=REACHABLE if host.startswith("127.") else None,
            related=(SourceSpan((*columns.node_path(first), key), label="first use"),),
        )


DUPLICATE_CHIP = Rule(
    code="RT207",
    name="duplicate-chip",
    summary="one chip of a node is given to two ranks",
    why=(
        "A chip is used by one process. On another node the same number is another "
        "chip, so only a repetition within a node is a defect."
    ),
    fix="Give the second rank another chip.",
    readers={
        "torch_tpu": "accepts it; both processes open the chip",
        "SCCL": "no check for duplicates; fails or hangs at the first collective",
        "HCCL": Refusal("EI0014 device_id"),
    },
    seen_as=("sccl comm init rank failed",),
    bad=one_node(device(0, 0), device(0, 1)),
    good=PAIR,
    find=_duplicate_chips,
)
NO_SUCH_CHIP = Rule(
    code="RT208",
    name="no-such-chip",
    summary="a device_id is negative, or beyond the chips of the host",
    why=(
        "device_id is the index of the chip on its host, from 0. --chip or --topology "
        "says how many chips a host has. Without them, an id above 31 in a table of "
        "HCCL 1.0 or 1.2 is refused, because no host of these versions has more than "
        "32 chips."
    ),
    fix="Use the number that tpu-smi shows; ids count chips, not cards.",
    readers={
        "torch_tpu": "accepts it; set_device fails",
        "SCCL": "sgSetDevice failed! Error Code",
        "HCCL": Refusal("a line in the device log only"),
    },
    seen_as=("sgSetDevice failed! Error Code", "Invalid tpu id"),
    bad=one_node(device(0, 0), device(-1, 1)),
    good=PAIR,
    find=_absent_chips,
)
WRONG_COUNT = Rule(
    code="RT210",
    name="wrong-count",
    summary="server_count is not the number of servers",
    why="The reader of 2024 compares both numbers and stops with an assertion without "
    "a message.",
    fix="Write the number of entries of server_list, or add the missing server.",
    readers={
        "torch_tpu": "2024: AssertionError without a text; later: not read",
        "SCCL": "not read",
        "HCCL": Refusal("EI0014 server_count"),
        "MindIE": Refusal("refuses the table"),
    },
    bad=_of_2024(2),
    good=_of_2024(1),
    find=_wrong_count,
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
    find=_bad_addresses,
)
DUPLICATE_HOST = Rule(
    code="RT212",
    name="duplicate-host",
    summary="two nodes have the same host",
    why=(
        "A host is one node. If it is listed twice, its chips are assigned twice, and "
        "its local ranks begin at 0 twice."
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
    find=_duplicate_hosts,
)

CHIP_RULES = (DUPLICATE_CHIP, NO_SUCH_CHIP)
RULES = (*CHIP_RULES, WRONG_COUNT, BAD_ADDRESS, DUPLICATE_HOST)
