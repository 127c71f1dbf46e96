"""The fastest path: a table whose nodes are alike, judged by predicting its text.

In most clusters every node is spelt like the first one and has the same chips; only the
ranks count on. The first node is judged as a table of its own. Then the text of all the
others follows from it, and text is compared with text: nothing else is decoded.

The answer is "sound, and this is its chip_map" or "I do not know".
"""

from __future__ import annotations

import re

import msgspec

from ranktable.schema.fast_decode import read_sound

BLOCK_RANKS = 1024
"""Ranks that are compared at once: some 100 kB of text, which stays in the cache."""

_NODE_LIST = re.compile(rb'"node_list"\s*:\s*\[\s*')
_DEVICE_LIST = b'"device_list"'
_RANK = re.compile(rb'"(?:world_)?rank"\s*:\s*"?([0-9]{1,9})')
_BLANKS = b" \t\r\n"


def read_repetitive(data: bytes) -> list[int] | None:
    """Return the chip_map of a sound table of equal nodes, None for any other.

    Args:
        data: Bytes of a file.
    """
    opening = _NODE_LIST.search(data)
    if opening is None:
        return None
    start, closing = opening.end(), data.rfind(b"]")
    first_key = data.find(_DEVICE_LIST, start)
    second = data.rfind(b"{", start, data.find(_DEVICE_LIST, first_key + 1) + 1)
    last_rank = _RANK.match(
        data, max(data.rfind(b'"rank"'), data.rfind(b'"world_rank"'), 0)
    )
    if second <= first_key or last_rank is None:
        return None
    period = data[start:second]  # the first node, a comma and blanks
    node = period.rstrip(b"," + _BLANKS)
    # The document with its first node only must be sound: then every other node that
    # has the same text with the next ranks is sound too.
    first = read_sound(data[:start] + node + data[closing:])
    if first is None:
        return None
    chips = first.chip_map()
    num_nodes, rest = divmod(int(last_rank[1]) + 1, len(chips))
    spans = [match.span(1) for match in _RANK.finditer(node)]
    if rest or len(spans) % len(chips) or period[len(node) :].count(b",") != 1:
        return None
    end = _Prediction(period, len(node), spans, len(chips)).follow(
        data, start, num_nodes
    )
    # A file that was cut off has its last bracket inside the last node.
    if not 0 <= end <= closing or data[end:closing].strip(_BLANKS):
        return None
    return chips * num_nodes


class _Prediction:
    """The text of all nodes, from that of the first."""

    def __init__(
        self, period: bytes, node_end: int, spans: list[tuple[int, int]], size: int
    ) -> None:
        ends = [0, *(end for _, end in spans)]
        starts = [*(start for start, _ in spans), len(period)]
        texts = [period[a:b] for a, b in zip(ends, starts, strict=True)]
        self.head = texts[0]
        self.cycle = [*texts[1:-1], texts[-1] + texts[0]]
        self.tail = period[ends[-1] : node_end]
        self.size = size
        self.keys = len(spans) // size

    def follow(self, data: bytes, start: int, num_nodes: int) -> int:
        """Return where the nodes end, -1 if the text is another."""
        if not data.startswith(self.head, start):
            return -1
        start += len(self.head)
        step = max(1, BLOCK_RANKS // self.size)
        for node in range(0, num_nodes, step):
            end = min(node + step, num_nodes)
            text = self.block(node, end, is_last=end == num_nodes)
            if not data.startswith(text, start):
                return -1
            start += len(text)
        return start

    def block(self, first: int, end: int, *, is_last: bool) -> bytes:
        ranks = list(range(first * self.size, end * self.size))
        spelt = msgspec.json.encode(ranks)[1:-1].split(b",")
        parts = [b""] * (2 * self.keys * len(ranks))
        for key in range(self.keys):
            parts[2 * key :: 2 * self.keys] = spelt
        parts[1::2] = self.cycle * (end - first)
        if is_last:
            parts[-1] = self.tail
        return b"".join(parts)
