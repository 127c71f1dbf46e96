"""Make a rank table from chips that are given on a command line or in lists.

``[[0..7],['4','5']]`` has one inner list for each node. The vendor's tools evaluate
such an argument as Python; this module parses the same texts, and shows the place of a
mistake. Ranks are counted over the nodes in the given order.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ranktable.cluster.argument import ArgumentError
from ranktable.schema.model import Device, Node, RankTable
from ranktable.schema.rules.placement import suggest
from ranktable.schema.text import counted
from ranktable.schema.topology import compare_orders
from ranktable.schema.values import is_address

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ranktable.schema.model import Layout
    from ranktable.schema.topology import ChipOrder, Topology

MAX_DEVICES = 1 << 20
"""Most devices of a table; a larger range is a typing mistake."""

MAX_CHIP = 999_999
"""Largest device_id; real hosts have less than a hundred chips."""

_TOO_MANY = f"this is more than {MAX_DEVICES} chips"
_EXAMPLE = "write, for example, [[0..7]]"
_RANGE = re.compile(r"([0-9]+)\.\.([0-9]+)")
_NUMBERS = re.compile(r"([0-9]{1,19})(?:(?:\.\.|-)([0-9]{1,19}))?")


@dataclass(frozen=True, slots=True)
class ListedChip:
    """One chip as it is written.

    Attributes:
        device_id: Its index on its host.
        is_quoted: Whether it was written in quotation marks.
        position: Offset in the argument.
    """

    device_id: int
    is_quoted: bool
    position: int


def parse_numbers(text: str, *, noun: str, example: str) -> list[int]:
    """Return the numbers in a list such as ``0-7,16``, in its order.

    Args:
        text: Numbers and inclusive ranges that count up, joined by commas.
        noun: What an item is, with an article.
        example: What to write instead of an item that is something else.

    Raises:
        ArgumentError: An item is something else, or there are too many numbers.
    """
    found: list[int] = []
    for item in text.split(","):
        match = _NUMBERS.fullmatch(item.strip())
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if not first <= last < first + MAX_DEVICES - len(found):
            raise ArgumentError(f"{item!r} is not {noun}; write {example}")
        found += range(first, last + 1)
    return found


def parse_device_list(text: str) -> list[list[ListedChip]]:
    """Return the chips of each node, in rank order.

    Args:
        text: Nested lists of ids and inclusive ranges: ``[[0..3],[3..0]]``,
            ``[['4','5']]``.

    Raises:
        ArgumentError: It has another form, is empty, or names a chip twice in a node;
            the error shows the place.
    """
    nodes = parse_nested_list(text)
    if not nodes.items:
        raise _at(text, nodes, "the list of nodes is empty", _EXAMPLE)
    found = []
    num_devices = 0
    for place, node in enumerate(nodes.items):
        found.append(_node(text, place, node))
        num_devices += len(found[-1])
        if num_devices > MAX_DEVICES:
            raise _at(text, node, _TOO_MANY)
    return found


def _at(
    text: str, place: Item | ItemList | ListedChip, reason: str, hint: str | None = None
) -> ArgumentError:
    """Return the error about a part of an argument."""
    return ArgumentError(reason, text=text, position=place.position, hint=hint)


def _node(text: str, place: int, node: Item | ItemList) -> list[ListedChip]:
    if isinstance(node, Item):
        hint = f"for one node write [{text.strip()}]"
        raise _at(text, node, "every node is a list of its own", hint)
    if not node.items:
        raise _at(text, node, f"node {place} has no chips")
    chips: dict[int, ListedChip] = {}
    for item in node.items:
        for chip in _chips(text, item):
            if chip.device_id in chips:
                reason = f"chip {chip.device_id} is listed twice in node {place}"
                raise _at(text, chip, reason, "every process needs a chip of its own")
            chips[chip.device_id] = chip
    return list(chips.values())


def _chips(text: str, item: Item | ItemList) -> Iterator[ListedChip]:
    if isinstance(item, ItemList):
        raise _at(text, item, "a node lists chips, not lists")
    match = _RANGE.fullmatch(item.text)
    if match is None:
        yield ListedChip(_number(text, item, item.text), item.is_quoted, item.position)
        return
    first, last = (_number(text, item, digits) for digits in match.groups())
    if abs(last - first) >= MAX_DEVICES:
        raise _at(text, item, _TOO_MANY)
    step = 1 if first <= last else -1
    for device_id in range(first, last + step, step):
        yield ListedChip(device_id, item.is_quoted, item.position)


def _number(text: str, item: Item, digits: str) -> int:
    reason = None
    if not digits:
        reason = "this id is empty"
    elif re.fullmatch(r"-[0-9]+", digits):
        reason = f"chip {digits} is negative"
    elif not re.fullmatch(r"[0-9]+", digits):
        reason = f"{digits!r} is not a chip number"
    elif digits != "0" and digits.startswith("0"):
        reason = f"{digits} has a leading zero"
    elif len(digits) > len(str(MAX_CHIP)):
        reason = f"chip {digits[:12]} is beyond {MAX_CHIP}"
    if reason is None:
        return int(digits)
    hint = "write ids from 0 up, or an inclusive range such as 0..7"
    if re.fullmatch(r"[0-9]+(-|:|\.\.\.)[0-9]+", digits):
        first, last = re.findall("[0-9]+", digits)
        hint = f"write the range as {first}..{last}"
        if ":" in digits:  # as a slice of Python, which ends before its last number
            most = max(int(last) - 1, 0)
            hint = f"for the chips {first} to {most} write {first}..{most}"
    raise _at(text, item, reason, hint)


def parse_address_list(text: str, sizes: list[int]) -> list[list[str]]:
    """Return an address for every chip of every node.

    Args:
        text: Lists of the same shape as the chips, ``[['10.0.0.5','10.0.0.5']]``, or
            one address for each node, ``['10.0.0.5','10.0.0.6']``.
        sizes: Number of chips of each node.

    Raises:
        ArgumentError: The shape differs, or an item is not an IP address.
    """
    nodes = parse_nested_list(text)
    if len(nodes.items) != len(sizes):
        count = len(nodes.items)
        reason = f"addresses are given for {count} nodes, chips for {len(sizes)}"
        raise _at(text, nodes, reason)
    return [
        _addresses(text, place, node, size)
        for place, (node, size) in enumerate(zip(nodes.items, sizes, strict=True))
    ]


def _addresses(text: str, place: int, node: Item | ItemList, size: int) -> list[str]:
    if isinstance(node, Item):
        return [_address(text, node)] * size
    if len(node.items) != size:
        reason = f"node {place} has {size} chips and {len(node.items)} addresses"
        hint = "give one address per chip, or one per node without inner brackets"
        raise _at(text, node, reason, hint)
    return [_address(text, item) for item in node.items]


def _address(text: str, item: Item | ItemList) -> str:
    if isinstance(item, ItemList) or not is_address(item.text):
        raise _at(text, item, "this is not an IP address")
    return item.text


_TOKEN = re.compile(
    r"""\s*(?:
      (?P<mark>[\[\],])
    | '(?P<single>[^'\\]*)'
    | "(?P<double>[^"\\]*)"
    | (?P<word>[^\[\],'"\s]+)
    )""",
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class Item:
    """One item of a nested list.

    Attributes:
        text: The item without its quotation marks.
        is_quoted: Whether it had quotation marks.
        position: Offset in the argument.
    """

    text: str
    is_quoted: bool
    position: int


@dataclass(frozen=True, slots=True)
class ItemList:
    """A list and the offset of its opening bracket."""

    items: tuple[Item | ItemList, ...]
    position: int


def parse_nested_list(text: str) -> ItemList:
    """Return the nested lists in an argument, of any depth.

    A comma after the last item is accepted, as in Python.

    Raises:
        ArgumentError: It is not a list; the error shows the place.
    """
    stack: list[tuple[int, list[Item | ItemList]]] = []
    after_item = False
    at = 0
    while match := _TOKEN.match(text, at):
        position, at = match.start(match.lastgroup or 0), match.end()
        mark = match["mark"]
        if mark == "]" and stack:
            position, items = stack.pop()
            done = ItemList(tuple(items), position)
            if not stack:
                return _only(text, at, done)
            stack[-1][1].append(done)
        elif mark == "," and after_item:
            after_item = False
            continue
        elif after_item or mark in ("]", ","):
            expected = "a comma" if after_item else "a number or a list"
            raise _wrong(text, position, f"{expected} is expected here")
        elif mark == "[":
            stack.append((position, []))
            continue
        elif not stack:
            raise _wrong(text, position, "a list begins with a bracket")
        else:
            stack[-1][1].append(_item(match))
        after_item = True
    raise _unfinished(text, at, len(stack))


def _item(match: re.Match[str]) -> Item:
    kind = match.lastgroup or ""
    # The group begins after the quotation mark; the item includes the mark.
    is_quoted = kind != "word"
    return Item(match[kind], is_quoted, match.start(kind) - is_quoted)


def _unfinished(text: str, at: int, depth: int) -> ArgumentError:
    """Return the error for a text that ends, or has a wrong word, inside a list."""
    rest = text[at:]
    if rest.strip():
        position = at + len(rest) - len(rest.lstrip())
        return _wrong(text, position, "this quotation mark is not closed")
    if depth == 0:
        return ArgumentError("the list is empty", hint=_EXAMPLE)
    return _wrong(text, len(text), f"{depth * ']'} is missing at the end")


def _only(text: str, at: int, done: ItemList) -> ItemList:
    rest = text[at:]
    if rest.strip():
        position = at + len(rest) - len(rest.lstrip())
        raise _wrong(text, position, "there is more text after the list")
    return done


def _wrong(text: str, position: int, reason: str) -> ArgumentError:
    hint = None
    if not text.lstrip().startswith("["):
        hint = f"one node is written in two pairs of brackets: [[{text.strip()}]]"
    return ArgumentError(reason, text=text, position=position, hint=hint)


def make_table(
    chips: Sequence[Sequence[int]],
    *,
    addresses: Sequence[Sequence[str | None]] | None = None,
    hosts: Sequence[str] | None = None,
    is_emulated: bool = False,
    layouts: Sequence[Sequence[Layout]] | None = None,
) -> RankTable:
    """Return the table with these chips, whose ranks count up in this order.

    Args:
        chips: ``device_id`` of every chip, one sequence for each node, in rank order.
        addresses: An address or None for every chip, in the same shape.
        hosts: The host of each node.
        is_emulated: Whether the addresses are those of emulated devices.
        layouts: The form of every device, in the same shape.
    """
    nodes = []
    rank = 0
    for node_rank, device_ids in enumerate(chips):
        devices = []
        for local_rank, device_id in enumerate(device_ids):
            devices.append(
                Device(
                    rank=rank,
                    device_id=device_id,
                    address=addresses[node_rank][local_rank] if addresses else None,
                    is_emulated=is_emulated,
                    layout=layouts[node_rank][local_rank] if layouts else None,
                )
            )
            rank += 1
        host = hosts[node_rank] if hosts else None
        nodes.append(Node(devices=tuple(devices), host=host))
    return RankTable(nodes=tuple(nodes))


def ring_order(device_ids: Sequence[int], topology: Topology) -> list[int]:
    """Return a node's chips in ring order; unchanged if they already are.

    The ring begins with the first given chip, and goes first to the smaller of its two
    neighbours.

    Raises:
        ArgumentError: These chips do not form a ring; the hint names chips that do.
    """
    if not topology.broken_links(device_ids):
        return list(device_ids)
    rings = topology.rings(device_ids, limit=1)
    if not rings:
        listed = ",".join(map(str, device_ids))
        raise ArgumentError(
            f"the chips {listed} do not form a ring of {topology.name}",
            hint=suggest(device_ids, topology),
        )
    return list(rings[0])


def grouped_ring_order(
    device_ids: Sequence[int], topology: Topology, tp: int
) -> ChipOrder:
    """Return the chips of a node in a ring order that closes its groups too.

    If no order closes them, it is one with the fewest hops around the groups. If no
    order is better, the chips keep their order.

    Args:
        device_ids: The chips.
        topology: The links of the host.
        tp: Size of the groups of consecutive ranks.

    Raises:
        ArgumentError: The chips do not form a ring, or groups do not fill the node.
    """
    ordered = tuple(ring_order(device_ids, topology))
    size = len(ordered)
    if size % tp:
        fitting = ", ".join(str(d) for d in range(1, size + 1) if size % d == 0)
        raise ArgumentError(
            f"groups of {tp} do not fill a node of {counted(size, 'chip')}",
            hint=f"groups that do have {fitting} ranks",
        )
    here, best = compare_orders(topology, ordered, tp)
    if here is None or best is None:  # in a ring, all chips are connected
        raise AssertionError(ordered)
    return best if best.hops < here.hops else here._replace(is_proven=best.is_proven)
