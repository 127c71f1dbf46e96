"""RT207 to RT212: chips used once per node, counts, addresses and hosts."""

from __future__ import annotations

import json
import re
import struct
from typing import TYPE_CHECKING, NamedTuple

from ranktable.schema.columns import repeated
from ranktable.schema.declare import SPARES_KEY, TOPOLOGY_KEY, Kind
from ranktable.schema.document import SourceSpan
from ranktable.schema.finding import Rule, Severity
from ranktable.schema.text import counted, quoted
from ranktable.schema.topology import BUILT_IN
from ranktable.schema.values import (
    UNSET_ADDRESS,
    is_address,
    is_device_address,
    is_ipv6,
    plain_number,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
    from typing import Any

    from ranktable.schema.columns import Columns
    from ranktable.schema.declare import Key
    from ranktable.schema.document import Path
    from ranktable.schema.finding import Finding
    from ranktable.schema.options import Options
    from ranktable.schema.topology import Topology

    Chips = tuple[int | None, ...]

_PIECE = 2048
_LARGE_BYTES = 1 << 14
# Loopback and link-local addresses (RFC 1122, 3927, 4291).
_OF_ONE_HOST = re.compile(r"127\.|169\.254\.|::1$|(?i:fe[89ab])")
# What no name has; an IPv6 address has colons.
_NOT_IN_HOST = re.compile(r"[\s/@:,;\[\]]")
_NOT_ORDINARY = {0, 127, 169, *range(224, 256)}
_TO_COMMAS = bytes.maketrans(b". ", b",,")


def _duplicate_chips(columns: Columns, _: Options) -> Iterable[tuple[int, int]]:
    """Yield each device whose chip an earlier one of its node has, and that one."""
    for start, chips in _odd_nodes(columns, _are_distinct):
        yield from ((start + index, start + first) for index, first in repeated(chips))


def _duplicate_chip(columns: Columns, place: tuple[int, int]) -> Finding:
    index, first = place
    chip, node = columns.device_ids[index], columns.node_of(index)[0]
    return DUPLICATE_CHIP.finding(
        columns.device_id_span(index),
        f"chip {chip} of node {node} is assigned to {columns.name(first)} and to "
        f"{columns.name(index)}",
        hint="every process needs a chip of its own",
        related=(columns.device_id_span(first, label="first use"),),
    )


def _absent_chips(
    columns: Columns, options: Options
) -> Iterable[tuple[int | _SpareChip, int | None]]:
    """Yield each device without a chip, and how many chips its host has."""
    count, links = options.chips_per_node, topology_of(columns, options)
    if count is None:
        count = links.num_chips if links else columns.format.most_chips

    def is_absent(chip: int | None) -> bool:
        return chip is not None and (chip < 0 or (count is not None and chip >= count))

    def is_sound(chips: Chips) -> bool:
        return not any(map(is_absent, chips))

    for start, chips in _odd_nodes(columns, is_sound):
        for index, chip in enumerate(chips, start):
            if is_absent(chip):
                yield index, count
    yield from ((each, count) for each in _spare_chips(columns) if is_absent(each.chip))


def _are_distinct(chips: Chips) -> bool:
    return len(set(chips)) == len(chips) - max(0, chips.count(None) - 1)


def _odd_nodes(
    columns: Columns, is_sound: Callable[[Chips], bool]
) -> Iterable[tuple[int, Chips]]:
    """Yield the first device of each node with wrong chips, and the chips."""
    odd = {chips for chips in columns.once(sets_of_chips) if not is_sound(chips)}
    if odd:
        for _, start, end in columns.nodes():
            chips = tuple(columns.device_ids[start:end])
            if chips in odd:
                yield start, chips


def sets_of_chips(columns: Columns) -> dict[Chips, int]:
    """Return the chips of the nodes, by local rank, and the first node of each kind.

    Most nodes of a cluster use the same chips.
    """
    chips, starts = tuple(columns.device_ids), columns.starts
    size = starts[1] if columns.num_nodes else 0
    are_equal = size > 0 and starts == [*range(0, len(chips) + 1, size)]
    if are_equal and chips == chips[:size] * columns.num_nodes:
        return {chips[:size]: 0}
    first_nodes: dict[Chips, int] = {}
    for node, start, end in columns.nodes():
        first_nodes.setdefault(chips[start:end], node)
    return first_nodes


def topology_of(columns: Columns, options: Options) -> Topology | None:
    """Return the links of the chips, from the options or from the table's key."""
    if options.topology is not None:
        return options.topology
    # A table must not decide which files are read.
    named = columns.top.get(TOPOLOGY_KEY)
    return next((one for one in BUILT_IN if one.name == named), None)


def _absent_chip(
    columns: Columns, found: tuple[int | _SpareChip, int | None]
) -> Finding:
    place, chips_per_node = found
    if isinstance(place, int):
        message = f"chip {columns.device_ids[place]} of {columns.name(place)}"
        span = columns.device_id_span(place)
    else:
        message = f"chip {place.chip} of entry {place.spare} of {SPARES_KEY}"
        span = place.span(columns)
    hint = None
    if chips_per_node is None:
        message += " is negative"
    else:
        message += f" does not exist: the host has {counted(chips_per_node, 'chip')}"
        hint = f"chips are numbered 0 to {chips_per_node - 1}"
    return NO_SUCH_CHIP.finding(span, message, hint=hint)


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


class Addresses(NamedTuple):
    """What is known of the addresses of all devices.

    Attributes:
        num_without: Number of devices without an address.
        is_joined: Whether a device has several addresses in one text.
        each: The addresses; a text with several is split.
        numbers: The distinct addresses as numbers, None if one is not an IPv4 address.
    """

    num_without: int
    is_joined: bool
    each: list[str]
    numbers: set[int] | None

    @property
    def are_ipv4(self) -> bool:
        """Whether all of them are numeric IPv4 addresses."""
        return self.numbers is not None

    @property
    def are_ordinary(self) -> bool:
        """Whether no IPv4 address begins as those do that other hosts do not reach."""
        firsts = {number >> 24 for number in self.numbers or ()}
        return firsts.isdisjoint(_NOT_ORDINARY)

    @property
    def are_repeated(self) -> bool:
        """Whether an address is there twice."""
        # Numbers are compared several times faster than texts.
        numbers = set(self.each) if self.numbers is None else self.numbers
        return len(numbers) < len(self.each)

    @property
    def have_ipv6(self) -> bool:
        """Whether an address looks like IPv6."""
        return self.numbers is None and ":" in " ".join(self.each)


def addresses_of(columns: Columns) -> Addresses:
    """Return what is known of the addresses of all devices."""
    each: Any = columns.addresses
    there, numbers = len(each), ipv4_numbers(each)
    if numbers is None:
        each = [address for address in each if address is not None]
        there = len(each)
        if columns.format.joins_addresses:
            each = each_address(each)
        numbers = ipv4_numbers(each)
    return Addresses(columns.num_devices - there, len(each) > there, each, numbers)


def each_address(texts: Collection[str]) -> list[str]:
    """Return the addresses in texts; a text may have several, separated by commas.

    >>> each_address(["10.0.0.1,10.0.1.1", "10.0.0.2"])
    ['10.0.0.1', '10.0.1.1', '10.0.0.2']
    """
    return ",".join(texts).split(",") if texts else []


def ipv4_numbers(texts: list[str]) -> set[int] | None:
    """Return each numeric IPv4 address as a number, None if one is not IPv4."""
    numbers: set[int] = set()
    try:
        for start in range(0, len(texts), _PIECE):  # pieces that fit into the cache
            piece = texts[start : start + _PIECE]
            data = " ".join(piece).encode()
            if data.translate(None, b"0123456789") != (b"... " * len(piece))[:-1]:
                return None
            # JSON does not allow leading zeros either, and one call decodes all octets.
            octets = bytes(_integers(b"[%b]" % data.translate(_TO_COMMAS)))
            # The last octet is the lowest byte, so similar addresses are close in the
            # set.
            numbers.update(struct.unpack(f">{len(piece)}I", octets))
    except (TypeError, ValueError):
        return None  # not text, not digits, or an octet above 255
    return numbers


def _integers(data: bytes) -> list[int]:
    """Return a JSON list of integers, in the fastest way for its size.

    Raises:
        ValueError: It is not one.
    """
    if len(data) < _LARGE_BYTES:
        return json.loads(data)  # type: ignore[no-any-return]
    import msgspec  # its import takes longer than reading a small table

    try:
        return msgspec.json.decode(data, type=list[int])
    except msgspec.DecodeError as error:
        raise ValueError(str(error)) from None


def _bad_addresses(columns: Columns, _: Options) -> Iterable[_BadAddress]:
    known, format_ = columns.once(addresses_of), columns.format
    is_usable = is_address
    if format_.joins_addresses:
        is_usable = is_device_address if columns.num_nodes == 1 else _is_reached
    are_wrong = not known.are_ipv4 and not all(map(is_usable, set(known.each)))
    if are_wrong or (format_.joins_addresses and not known.are_ordinary):
        # If both keys are present, the address is the emulator's, which SCCL reads.
        keys = format_.address_keys[::-1]
        for index, address in enumerate(columns.addresses):
            parts = [] if address is None else [address]
            if address is not None and format_.joins_addresses:
                parts = address.split(",")
            if not all(map(is_usable, parts)):
                yield _BadAddress(index, keys, address)
    for field, of_node in format_.other_addresses:
        yield from _bad_other_addresses(columns, field, of_node=of_node)
    for index, key, address in columns.more_addresses:
        if not is_address(address):
            yield _BadAddress(index, (key,), address)


def _bad_other_addresses(
    columns: Columns, field: Key, *, of_node: bool
) -> Iterable[_BadAddress]:
    """Yield the wrong addresses under another key, such as ``host_ip``."""
    column: Any = columns.optional.get(field.key, ())
    is_joined = field.kind is Kind.ADDRESSES
    texts = [text for text in column if text is not None]
    if ipv4_numbers(each_address(texts) if is_joined else texts) is not None:
        return
    for index, address in enumerate(column):
        # HCCL refuses an empty host_ip; the address of a device may be empty.
        is_needed = bool(address) or of_node or not columns.format.is_hccl_1
        if not isinstance(address, str) or not is_needed:
            continue
        if not all(map(is_address, address.split(",") if is_joined else [address])):
            yield _BadAddress(index, (field.key,), address, of_node)


def _is_reached(text: str) -> bool:
    """Whether an address can be one that devices of other hosts reach."""
    return is_device_address(text) and not _OF_ONE_HOST.match(text)


def _weight_of_address(_: Columns, bad: _BadAddress) -> Severity:
    parts = (bad.address or "").split(",")
    is_device = all(map(is_device_address, parts))
    return Severity.WARNING if is_device else Severity.ERROR


class _BadAddress(NamedTuple):
    """The index of a device or a node, and the address that it has under a key."""

    place: int
    keys: tuple[str, ...]
    address: str | None
    of_node: bool = False


def _bad_address(columns: Columns, bad: _BadAddress) -> Finding:
    span = columns.span(bad.place, bad.keys)
    if bad.of_node:
        span = SourceSpan((*columns.node_path(bad.place), *bad.keys))
    address, key, hint = bad.address, span.path[-1], None
    message = f"{key} {quoted(address)} is not an IP address"
    if address == UNSET_ADDRESS:
        message = f"{key} {quoted(address)} is a placeholder, not an address"
    elif found := next(filter(_OF_ONE_HOST.match, (address or "").split(",")), None):
        message = f"{key} {quoted(found)} is an address that no other host reaches"
    elif address and is_address(address):
        message = f"{key} {quoted(address)} is an address that no device has"
    if address == "":
        hint = "leave the key out, or write the address of the host"
    elif address == UNSET_ADDRESS or (address and not any(map(str.isalnum, address))):
        # 0.0.0.0 or -.-.-.-
        hint = "whoever wrote this found no address: set one with hccn_tool -i N -ip -s"
    return BAD_ADDRESS.finding(span, message, hint=hint)


REACHABLE = "write the address that the other hosts reach it by"


def _duplicate_hosts(columns: Columns, _: Options) -> Iterable[tuple[int, int]]:
    """Yield each node whose host an earlier one has, and that one."""
    hosts: Sequence[str | None] = columns.hosts
    if not columns.format.is_hccl_1:  # a server_id is any text, a host is connected to
        hosts = [host and _plain_host(host) for host in hosts]
    return () if len(set(hosts)) == len(hosts) else repeated(hosts)


def _plain_host(host: str) -> str:
    """Return one spelling of a host: names have no case, IPv6 has several forms."""
    if is_ipv6(host):
        import ipaddress

        return str(ipaddress.IPv6Address(host))
    return host.lower()


def _duplicate_host(columns: Columns, place: tuple[int, int]) -> Finding:
    node, first = place
    key, host = columns.format.host_key, columns.hosts[node] or ""
    return DUPLICATE_HOST.finding(
        SourceSpan((*columns.node_path(node), key)),
        f"node {node} has the host {quoted(host)} of node {first}",
        hint=REACHABLE if host.startswith("127.") else None,
        related=(SourceSpan((*columns.node_path(first), key), label="first use"),),
    )


def _weight_of_host(columns: Columns, place: tuple[int, int]) -> Severity:
    """Return how grave it is: SCCL reads no host, and a spelling may be a label."""
    node, first = place
    is_same = columns.hosts[node] == columns.hosts[first]
    return Severity.ERROR if is_same else Severity.WARNING


def _bad_hosts(columns: Columns, _: Options) -> Iterable[int]:
    """Yield each node whose host no process can connect to."""
    if not _NOT_IN_HOST.search("".join(filter(None, columns.hosts))):
        return
    for node, host in enumerate(columns.hosts):
        if host and _NOT_IN_HOST.search(host) and not is_ipv6(host.partition("%")[0]):
            yield node


def _bad_host(columns: Columns, node: int) -> Finding:
    host = columns.hosts[node] or ""
    name = re.match(r"\s*(?:\w+@)?([\w.-]+)(?::[0-9]+)?\s*\Z", host)
    hint = f"write {quoted(name[1])}" if name and name[1] != host else None
    return BAD_HOST.finding(
        SourceSpan((*columns.node_path(node), columns.format.host_key)),
        f"the host of node {node} is {quoted(host)}, which is no name or address",
        hint=hint,
    )


DUPLICATE_CHIP = Rule(
    code="RT207",
    name="duplicate-chip",
    summary="one chip of a node is given to two ranks",
    fix="Give the second rank another chip.",
    find=_duplicate_chips,
    tell=_duplicate_chip,
)
NO_SUCH_CHIP = Rule(
    code="RT208",
    name="no-such-chip",
    summary="a device_id is negative, or beyond the chips of the host",
    fix="Use the number that tpu-smi shows; ids count chips, not cards.",
    find=_absent_chips,
    tell=_absent_chip,
)
WRONG_COUNT = Rule(
    code="RT210",
    name="wrong-count",
    summary="server_count is not the number of servers",
    fix="Write the number of entries of server_list, or add the missing server.",
    find=_wrong_count,
)
BAD_ADDRESS = Rule(
    code="RT211",
    name="bad-address",
    summary="a device address is not an IP address",
    fix="Write the address. In a table of SCCL the key may be left out; HCCL needs it "
    "where a job has several servers.",
    find=_bad_addresses,
    tell=_bad_address,
    severity_of=_weight_of_address,
)
DUPLICATE_HOST = Rule(
    code="RT212",
    name="duplicate-host",
    summary="two nodes have the same host",
    fix="Put the devices of the host into one node.",
    find=_duplicate_hosts,
    tell=_duplicate_host,
    severity_of=_weight_of_host,
)


def _spare_clashes(columns: Columns, _: Options) -> Iterator[_SpareClash]:
    """Yield each address of a spare that another host of the table has too."""
    spares = columns.top.get(SPARES_KEY)
    if not isinstance(spares, list) or not spares:
        return
    owners: dict[str, str | None] = {}
    for node, start, end in columns.nodes():
        for address in columns.addresses[start:end]:
            owners.setdefault(address or "", columns.hosts[node])
    for place, spare in enumerate(spares):
        host, chips = (
            spare.get(key) if isinstance(spare, dict) else None
            for key in (columns.format.host_key, columns.format.devices_key)
        )
        for at, chip in enumerate(chips if isinstance(chips, list) else ()):
            address = chip.get("device_ip") if isinstance(chip, dict) else None
            if not isinstance(address, str) or not address:
                continue
            here = host if isinstance(host, str) else f"entry {place} of {SPARES_KEY}"
            other = owners.setdefault(address, here)
            if other != here and not address.startswith("127."):
                yield _SpareClash(place, at, address, other)


class _SpareClash(NamedTuple):
    """The index of a spare and of its chip, the address, and who has it too."""

    spare: int
    chip: int
    address: str
    other: str | None


def _spare_clash(columns: Columns, clash: _SpareClash) -> Finding:
    steps = (SPARES_KEY, clash.spare, columns.format.devices_key, clash.chip)
    other = "a node" if clash.other is None else quoted(clash.other)
    return SPARE_ADDRESS.finding(
        SourceSpan((*steps, "device_ip")),
        f"{quoted(clash.address)} of this spare is an address of {other}, too",
    )


SPARE_ADDRESS = Rule(
    code="RT216",
    name="spare-address",
    summary="a spare has an address of another host",
    fix="Write the spare's own addresses, or remove the spare.",
    find=_spare_clashes,
    tell=_spare_clash,
)


class _SpareChip(NamedTuple):
    """The index of a spare and of its entry, its host, and the chip."""

    spare: int
    entry: int
    host: str | None
    chip: int

    def span(self, columns: Columns) -> SourceSpan:
        """Return its place in the file."""
        steps = (SPARES_KEY, self.spare, columns.format.devices_key, self.entry)
        return SourceSpan((*steps, "device_id"))


def _spare_chips(columns: Columns) -> Iterator[_SpareChip]:
    spares = columns.top.get(SPARES_KEY)
    for place, spare in enumerate(spares if isinstance(spares, list) else ()):
        host, chips = (
            spare.get(key) if isinstance(spare, dict) else None
            for key in (columns.format.host_key, columns.format.devices_key)
        )
        name = host if isinstance(host, str) else None
        for at, entry in enumerate(chips if isinstance(chips, list) else ()):
            number = entry.get("device_id") if isinstance(entry, dict) else None
            if (chip := plain_number(number)) is not None:
                yield _SpareChip(place, at, name, chip)


def _repeated_spare_chips(
    columns: Columns, _: Options
) -> Iterator[tuple[_SpareChip, str]]:
    """Yield each chip of a spare that a node or an earlier entry has too, and which."""
    if not columns.top.get(SPARES_KEY):
        return
    found: dict[tuple[object, int], str] = {}
    for node, start, end in columns.nodes():
        for chip in columns.device_ids[start:end]:
            if columns.hosts[node] is not None and chip is not None:
                found.setdefault((columns.hosts[node], chip), f"node {node}")
    for each in _spare_chips(columns):
        key = (each.spare if each.host is None else each.host, each.chip)
        if key in found:
            yield each, found[key]
        else:
            found[key] = f"entry {each.spare} of {SPARES_KEY}"


def _repeated_spare_chip(columns: Columns, found: tuple[_SpareChip, str]) -> Finding:
    chip, other = found
    host = "this spare" if chip.host is None else quoted(chip.host)
    return SPARE_CHIP.finding(
        chip.span(columns),
        f"this chip of {host} is in {other} already",
        hint="list every chip once: with a rank, or as a spare",
    )


SPARE_CHIP = Rule(
    code="RT217",
    name="spare-chip",
    summary="a chip of a spare is in the table already",
    fix="Remove the chip from the spare.",
    find=_repeated_spare_chips,
    tell=_repeated_spare_chip,
)

CHIP_RULES = (DUPLICATE_CHIP, NO_SUCH_CHIP)
BAD_HOST = Rule(
    code="RT218",
    name="bad-host",
    severity=Severity.WARNING,
    summary="a node has a host that is no name or address",
    fix="Write one host name or address, without a port, a user or a blank.",
    find=_bad_hosts,
    tell=_bad_host,
)
SPARE_RULES = (SPARE_ADDRESS, SPARE_CHIP)
RULES = (*CHIP_RULES, WRONG_COUNT, BAD_ADDRESS, DUPLICATE_HOST, BAD_HOST, *SPARE_RULES)
