"""The table of all groups of MindIE: coordinator, controller, and instances of a model.

No job starts with it: each group is a job, whose ranks count from 0. So it is judged
for its own reader alone, and has no ranks of one world.

Source: Ascend/MindIE-Motor, RankTableLoader.cpp and gen_global_ranktable.py; ClusterD,
epranktable/ranktable_util.go.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

from ranktable.schema.declare import (
    Key,
    Kind,
    Record,
    address,
    filled_list,
    list_of,
    numeral,
    text,
    version,
)
from ranktable.schema.formats.hccl_1_0 import FORMAT
from ranktable.schema.reader import Reader
from ranktable.schema.rules.hccl import DUPLICATE_ADDRESS
from ranktable.schema.rules.hccl_cloud import DUPLICATE_GROUP, GROUP_COUNTS
from ranktable.schema.rules.nodes import BAD_ADDRESS, DUPLICATE_CHIP
from ranktable.schema.rules.ranks import DUPLICATE_RANK, RANK_GAP
from ranktable.schema.text import counted, folded, quoted
from ranktable.schema.values import is_device_address, plain_number

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ranktable.schema.document import Document, Path
    from ranktable.schema.finding import Findings, Rule

    Entry = tuple[Path, dict[str, Any]]

GROUPS = "server_group_list"


def _number(key: str, what: str, **more: Any) -> Key:
    return numeral(key, what, "0", **{"minimum": 0, "maximum": 2048, **more})


def _port(key: str) -> Key:
    return numeral(key, "Port of the pod.", "1025", minimum=1024, maximum=65_535)


_DEVICE = Record(
    name="device",
    description="One chip of an instance.",
    keys=(
        _number("device_id", "Chip.", is_required=True),
        _number("rank_id", "Rank in its group.", is_required=True),
        address("device_ip", "Address of the chip."),
        _number("device_logical_id", "Chip in the pod."),
        _number("super_device_id", "Chip in its super pod.", maximum=1 << 30),
    ),
)


_SERVER = Record(
    name="server",
    description="One pod; those of coordinator and controller have no devices.",
    keys=(
        text("server_id", "Address of the host.", "10.2.0.1"),
        address("server_ip", "Address of the pod."),
        filled_list("device", _DEVICE, "Its chips.", is_required=False, maximum=128),
        text("hardware_type", "Kind of hardware.", "800I A2(64G)"),
        *map(_port, ("predict_port", "mgmt_port", "metric_port", "inter_comm_port")),
    ),
)
_GROUP = Record(
    name="group",
    description="One group: 0 is the coordinator, 1 the controller.",
    keys=(
        _number("group_id", "Number of the group.", is_required=True, maximum=None),
        _number("server_count", "Number of servers.", is_required=True, maximum=None),
        text("deploy_server", "How it is deployed.", "0", kind=Kind.ANY),
        text("super_pod_list", "Its super pods.", [], kind=Kind.LIST),
        list_of("server_list", _SERVER, "Its servers.", is_required=True),
    ),
)
_TABLE = Record(
    name="table",
    description="All groups.",
    keys=(
        version("1.0", "1.2"),
        text("status", "State of the table.", "completed", is_required=True),
        list_of(GROUPS, _GROUP, "The groups.", is_required=True),
    ),
)


def judge_groups(document: Document, found: Findings) -> None:
    """Add what is wrong with a table of all groups."""
    reader = Reader(FORMAT, document, found)
    reader.explain((), document.data, _TABLE)
    groups = [*_entries((), document.data, GROUPS)]
    _refuse_repeated(
        reader, [(path, one, "group_id") for path, one in groups], DUPLICATE_GROUP
    )
    chips: dict[str, tuple[str, Path]] = {}
    for path, group in groups:
        servers = [*_entries(path, group, "server_list")]
        _judge_count(reader, path, group, len(servers))
        devices = [[*_entries(at, one, "device")] for at, one in servers]
        for (at, server), own in zip(servers, devices, strict=True):
            _judge_addresses(reader, at, server, own, chips)
            named = [(place, one, "device_id") for place, one in own]
            _refuse_repeated(reader, named, DUPLICATE_CHIP)
        _judge_ranks(reader, devices)


def _entries(path: Path, holder: object, key: str) -> Iterator[Entry]:
    """Yield the objects of a list, with their places."""
    listed = holder.get(key) if isinstance(holder, dict) else None
    for at, one in enumerate(listed if isinstance(listed, list) else ()):
        if isinstance(one, dict):
            yield (*path, key, at), one


def _judge_count(
    reader: Reader, path: Path, group: dict[str, Any], number: int
) -> None:
    written = plain_number(group.get("server_count"))
    if written not in (None, number) and isinstance(group.get("server_list"), list):
        message = f"server_count is {written}, and the number of servers is {number}"
        hint = f'write "{number}"'
        reader.report(GROUP_COUNTS, (*path, "server_count"), message, hint=hint)


def _refuse_repeated(
    reader: Reader, entries: list[tuple[Path, dict[str, Any], str]], rule: Rule
) -> None:
    """Report each number that an earlier entry has under the same key."""
    first: dict[int, Path] = {}
    for path, entry, key in entries:
        number = plain_number(entry.get(key))
        if number is None:
            continue
        here = (*path, key)
        if first.setdefault(number, here) != here:
            message = f"{key} {number} is given twice"
            reader.report(rule, here, message, related=(first[number],))


def _judge_addresses(
    reader: Reader,
    path: Path,
    server: dict[str, Any],
    devices: list[Entry],
    chips: dict[str, tuple[str, Path]],
) -> None:
    """Report texts that are no addresses, and one address of two chips."""
    named = [(path, server, "server_ip")]
    named += [(at, device, "device_ip") for at, device in devices]
    for at, entry, key in named:
        value, here = entry.get(key), (*at, key)
        if not isinstance(value, str):
            continue
        if not is_device_address(value):
            message = f"{key} {quoted(value)} is not an IP address"
            reader.report(BAD_ADDRESS, here, message)
        elif key == "device_ip":
            # Two instances may be on one host, and even on one chip.
            chip = f"{server.get('server_id')} {entry.get('device_id')}"
            first, place = chips.setdefault(value, (chip, here))
            if first != chip:
                message = f"two devices have the address {value}"
                reader.report(DUPLICATE_ADDRESS, here, message, related=(place,))


def _judge_ranks(reader: Reader, servers: list[list[Entry]]) -> None:
    """Report ranks that count neither through the group nor in each of its servers."""
    numbers = [[plain_number(d.get("rank_id")) for _, d in own] for own in servers]
    if any(None in own for own in numbers):
        return  # reported already
    ranks = [*chain.from_iterable(numbers)]
    is_each = all(sorted(own) == [*range(len(own))] for own in numbers)  # type: ignore[type-var]
    if is_each or sorted(ranks) == [*range(len(ranks))]:  # type: ignore[type-var]
        return
    entries = [*chain.from_iterable(servers)]
    if len({*ranks}) < len(ranks):
        named = [(path, one, "rank_id") for path, one in entries]
        _refuse_repeated(reader, named, DUPLICATE_RANK)
        return
    highest = max(range(len(ranks)), key=lambda at: ranks[at] or 0)
    there = {*ranks}
    missing = [rank for rank in range(len(ranks)) if rank not in there]
    message = (
        f"the ranks of this group are not 0 to {len(ranks) - 1}, one for each of its "
        f"{counted(len(ranks), 'device')}: {folded(missing)} is missing"
    )
    reader.report(RANK_GAP, (*entries[highest][0], "rank_id"), message)
