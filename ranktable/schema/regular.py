"""The fast path: a table that is spelt regularly, judged while it is decoded.

Every process of a job reads the table, so the usual table must cost little: every
device has the same keys, ranks count up in the order of the file. Such a table is
decoded straight into typed values, a piece of some kilobytes at a time so that the
values stay in the cache of the processor, and whole lists are compared.

Everything else, sound or not, is left to the full pipeline: the answer here is "sound,
and this is its chip_map" or "I do not know". The two never disagree; a property test
holds that.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from ranktable.schema.address import is_address

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

PIECE_BYTES = 64 * 1024
"""Size of a piece: its values fit into a second-level cache, and it is below 128 KiB,
from where on the C library's allocator maps fresh pages for every request."""

_FIRST_DEVICE = re.compile(rb'"device_list"\s*:\s*\[\s*(\{[^{}\[\]]*\})')
_NODE_LIST = re.compile(rb'"node_list"\s*:\s*\[')
# Written out, because an attribute that is named in the code is read twice as fast as
# one that getattr looks up.
_COLUMN: dict[str, Callable[[list[Any]], list[object]]] = {
    "device_id": lambda devices: [device.device_id for device in devices],
    "rank": lambda devices: [device.rank for device in devices],
    "world_rank": lambda devices: [device.world_rank for device in devices],
    "local_rank": lambda devices: [device.local_rank for device in devices],
    "device_ip": lambda devices: [device.device_ip for device in devices],
    "device_ip_emulator": lambda devices: [
        device.device_ip_emulator for device in devices
    ],
}
_COLON = b":"


class _Head(Struct, forbid_unknown_fields=True):
    """The document without its nodes."""

    version: str
    node_list: list[int]


def read_regular(data: bytes) -> list[int] | None:
    """Return the chip_map of a sound, regularly spelt table, None for any other.

    Args:
        data: Bytes of a file.
    """
    # Escapes could hide a repeated key from the count of colons below.
    if b"\\" in data or not data.isascii():
        return None
    first = _FIRST_DEVICE.search(data)
    if first is None:
        return None
    try:
        example = msgspec.json.decode(first[1])
        decoder = _decoder(example)
        return None if decoder is None else _Reading(data, example).read(decoder)
    except (msgspec.DecodeError, RecursionError):
        return None


def _decoder(
    example: dict[str, object],
) -> msgspec.json.Decoder[list[_NodeLike]] | None:
    """Return a decoder of nodes whose devices are all spelt like this one."""
    if not example.keys() <= _COLUMN.keys() or "device_id" not in example:
        return None
    fields = [(key, type(value)) for key, value in example.items()]
    if any(type_ not in (str, int) for _, type_ in fields):
        return None
    device = msgspec.defstruct("device", fields, gc=False, forbid_unknown_fields=True)
    node = msgspec.defstruct(
        "node",
        [("device_list", list[device])],  # type: ignore[valid-type]
        gc=False,
        forbid_unknown_fields=True,
    )
    return msgspec.json.Decoder(list[node])  # type: ignore[valid-type]


if TYPE_CHECKING:

    class _NodeLike(Struct):
        device_list: list[object]


class _Reading:
    """One reading of one document."""

    def __init__(self, data: bytes, example: dict[str, object]) -> None:
        self.data = data
        self.keys = tuple(example)
        self.addresses: set[str] = set()
        self.chip_map: list[int] = []
        self.rank_keys = [key for key in ("rank", "world_rank") if key in example]
        self.is_text = {key: isinstance(example[key], str) for key in example}

    def read(self, decoder: msgspec.json.Decoder[list[_NodeLike]]) -> list[int] | None:
        if not self.rank_keys:
            return None
        opening = _NODE_LIST.search(self.data)
        closing = self.data.rfind(b"]")
        if opening is None:
            return None
        # The document with an empty list of nodes must be sound by itself; then the
        # nodes are judged piece by piece. A list of JSON values is the concatenation
        # of lists of them, so nothing can hide between the pieces.
        head = self.data[: opening.end()] + self.data[closing:]
        if msgspec.json.decode(head, type=_Head).version != "1.0":
            return None
        if head.count(_COLON) != len(_Head.__struct_fields__):
            return None
        view = memoryview(self.data)
        for start, end in self.pieces(opening.end(), closing):
            nodes = decoder.decode(b"".join((b"[", view[start:end], b"]")))
            if not self.is_sound(nodes, self.data.count(_COLON, start, end)):
                return None
        return self.chip_map or None

    def pieces(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Yield offsets that cut the text of the nodes between two of them."""
        data = self.data
        while end - start > PIECE_BYTES:
            cut = data.rfind(b'"device_list"', start, start + PIECE_BYTES)
            comma = data.rfind(b",", start, max(data.rfind(b"{", start, cut), start))
            if cut < 0 or comma <= start:
                break  # one node is larger than a piece
            yield start, comma
            start = comma + 1
        yield start, end

    def is_sound(self, nodes: list[_NodeLike], colons: int) -> bool:
        """Judge the nodes of one piece and add their chips to the map."""
        lists = [node.device_list for node in nodes]
        sizes = list(map(len, lists))
        devices = [device for devices in lists for device in devices]
        # Each key of a device and of a node brings one colon. More of them mean a
        # repeated key (or an address with colons); the full pipeline looks closer.
        expected = len(devices) * len(self.keys) + len(nodes)
        if colons != expected or not sizes or 0 in sizes:
            return False
        columns = {key: _COLUMN[key](devices) for key in self.keys}
        return (
            self.ranks_count_up(columns)
            and self.local_ranks_count_up(columns, sizes)
            and self.are_addresses(columns)
            and self.add_chips(columns["device_id"], sizes)
        )

    def ranks_count_up(self, columns: dict[str, list[object]]) -> bool:
        first = len(self.chip_map)
        return all(
            _counts_up(columns[key], first, as_text=self.is_text[key])
            for key in self.rank_keys
        )

    def local_ranks_count_up(
        self, columns: dict[str, list[object]], sizes: list[int]
    ) -> bool:
        found = columns.get("local_rank")
        if found is None:
            return True
        spell = str if self.is_text["local_rank"] else int
        places = [spell(place) for place in range(max(sizes))]
        if sizes.count(sizes[0]) == len(sizes):
            return found == places * len(sizes)
        return found == [place for size in sizes for place in places[:size]]

    def are_addresses(self, columns: dict[str, list[object]]) -> bool:
        for key in ("device_ip", "device_ip_emulator"):
            found = columns.get(key)
            if found is None:
                continue
            if not self.is_text[key]:
                return False
            for address in set(found).difference(self.addresses):
                if not is_address(str(address)):
                    return False
                self.addresses.add(str(address))
        return True

    def add_chips(self, found: list[object], sizes: list[int]) -> bool:
        size = sizes[0]
        if sizes.count(size) == len(sizes) and found == found[:size] * len(sizes):
            chips = _chips(found[:size])  # every node uses the same chips
            self.chip_map += chips * len(sizes)
            return bool(chips)
        start = 0
        for size in sizes:
            chips = _chips(found[start : start + size])
            if not chips:
                return False
            self.chip_map += chips
            start += size
        return True


def _counts_up(found: list[object], first: int, *, as_text: bool) -> bool:
    numbers = list(range(first, first + len(found)))
    if not as_text:
        return found == numbers
    # Joined texts are compared, which is faster than len(found) conversions. No text
    # with a comma in it can pass: the number of texts is the number of numbers.
    texts = ",".join(found)  # type: ignore[arg-type]
    return texts.encode() == msgspec.json.encode(numbers)[1:-1]


def _chips(found: list[object]) -> list[int]:
    """Return a node's chips, an empty list unless they are plain and distinct."""
    if len(set(found)) != len(found):
        return []
    chips = [_PLAIN_CHIPS.get(chip, -1) for chip in found]
    return [] if -1 in chips else chips


_PLAIN_CHIPS: dict[object, int] = {
    spelling: chip for chip in range(1024) for spelling in (chip, str(chip))
}
"""Chips by both spellings; a node with a higher one goes through the full pipeline."""
