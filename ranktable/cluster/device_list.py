"""Chips on a command line: ``[[0..7]]``, one inner list a node."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ranktable.cluster.argument import ArgumentError
from ranktable.cluster.nested_list import Item, ItemList, parse_nested_list
from ranktable.schema.address import is_address

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_DEVICES = 1 << 20
"""Devices of a table; a range beyond this is a slip of the finger."""

MAX_CHIP = 999_999
"""Largest chip; hosts have tens of them."""

_RANGE = re.compile(r"([0-9]+)\.\.([0-9]+)")


@dataclass(frozen=True, slots=True)
class Chip:
    """One chip as it was written.

    Attributes:
        device_id: Its index on its host.
        is_quoted: Whether it was written in quotation marks.
        position: Offset in the argument.
    """

    device_id: int
    is_quoted: bool
    position: int


def parse_device_list(text: str) -> list[list[Chip]]:
    """Return the chips of each node, in rank order.

    Args:
        text: Nested lists of ids and inclusive ranges: ``[[0..3],[3..0]]``,
            ``[['4','5']]``.

    Raises:
        ArgumentError: It is malformed, empty, or names a chip twice in a node; the
            error shows the place.
    """
    nodes = parse_nested_list(text)
    if not nodes.items:
        raise ArgumentError(
            "the list of nodes is empty",
            text=text,
            position=nodes.position,
            hint="write, for example, [[0..7]]",
        )
    found = []
    num_devices = 0
    for place, node in enumerate(nodes.items):
        found.append(_node(text, place, node))
        num_devices += len(found[-1])
        if num_devices > MAX_DEVICES:
            raise _too_many(text, node)
    return found


def _node(text: str, place: int, node: Item | ItemList) -> list[Chip]:
    if isinstance(node, Item):
        inner = text.strip()
        raise ArgumentError(
            "every node is a list of its own",
            text=text,
            position=node.position,
            hint=f"for one node write [{inner}]",
        )
    if not node.items:
        raise ArgumentError(
            f"node {place} has no chips", text=text, position=node.position
        )
    chips: list[Chip] = []
    first_use: dict[int, int] = {}
    for item in node.items:
        for chip in _chips(text, item):
            if chip.device_id in first_use:
                raise ArgumentError(
                    f"chip {chip.device_id} is listed twice in node {place}",
                    text=text,
                    position=chip.position,
                    hint="every process needs a chip of its own",
                )
            first_use[chip.device_id] = chip.position
            chips.append(chip)
    return chips


def _chips(text: str, item: Item | ItemList) -> Iterator[Chip]:
    if isinstance(item, ItemList):
        raise ArgumentError(
            "a node lists chips, not lists", text=text, position=item.position
        )
    match = _RANGE.fullmatch(item.text)
    if match is None:
        yield Chip(_number(text, item, item.text), item.is_quoted, item.position)
        return
    first, last = (_number(text, item, digits) for digits in match.groups())
    if abs(last - first) >= MAX_DEVICES:
        raise _too_many(text, item)
    step = 1 if first <= last else -1
    for device_id in range(first, last + step, step):
        yield Chip(device_id, item.is_quoted, item.position)


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
        hint = f"write the range as {'..'.join(re.findall('[0-9]+', digits))}"
    raise ArgumentError(reason, text=text, position=item.position, hint=hint)


def _too_many(text: str, item: Item | ItemList) -> ArgumentError:
    return ArgumentError(
        f"this is more than {MAX_DEVICES} chips", text=text, position=item.position
    )


def parse_address_list(text: str, sizes: list[int]) -> list[list[str]]:
    """Return an address for every chip of every node.

    Args:
        text: Lists of the same shape as the chips, ``[['10.0.0.5','10.0.0.5']]``, or
            one address a node, ``['10.0.0.5','10.0.0.6']``.
        sizes: Number of chips of each node.

    Raises:
        ArgumentError: The shape differs, or something is no IP address.
    """
    nodes = parse_nested_list(text)
    if len(nodes.items) != len(sizes):
        raise ArgumentError(
            f"addresses are given for {len(nodes.items)} nodes, chips for {len(sizes)}",
            text=text,
            position=nodes.position,
        )
    return [
        _addresses(text, place, node, size)
        for place, (node, size) in enumerate(zip(nodes.items, sizes, strict=True))
    ]


def _addresses(text: str, place: int, node: Item | ItemList, size: int) -> list[str]:
    if isinstance(node, Item):
        return [_address(text, node)] * size
    if len(node.items) != size:
        raise ArgumentError(
            f"node {place} has {size} chips and {len(node.items)} addresses",
            text=text,
            position=node.position,
            hint="give one address a chip, or one a node without inner brackets",
        )
    return [_address(text, item) for item in node.items]


def _address(text: str, item: Item | ItemList) -> str:
    if isinstance(item, ItemList) or not is_address(item.text):
        raise ArgumentError(
            "this is not an IP address", text=text, position=item.position
        )
    return item.text
