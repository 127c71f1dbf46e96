"""``--record``: what every rank sent, when and to whom, as a trace for Perfetto.

Each rank records its operations in its own file, and the launcher makes one trace of
them. Senders and receivers are those of a ring over the members in their order, as in
SCCL. The bytes that cross from node to node are those of ``ranktable plan``.
"""

from __future__ import annotations

import json
import re
import time
from typing import TYPE_CHECKING

import msgspec

from ranktable.layout.traffic import NOTHING, Crossing, Flow, Pattern

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from ranktable.schema.model import RankTable

_NS_PER_US = 1000
_PATTERNS = {
    "all_reduce": Pattern.ALL_REDUCE,
    "all_gather": Pattern.SHARD,
    "all_gather_into_tensor": Pattern.SHARD,
    "reduce_scatter": Pattern.SHARD,
    "reduce_scatter_tensor": Pattern.SHARD,
    "all_to_all": Pattern.ALL_TO_ALL,
    "all_to_all_single": Pattern.ALL_TO_ALL,
    "broadcast": Pattern.CHAIN,
    "reduce": Pattern.CHAIN,
}
_OF_PARTS = ("all_gather", "reduce_scatter", "gather", "scatter")
_ROOT = re.compile(r"rank (\d+)$")


class SentOperation(msgspec.Struct, frozen=True, kw_only=True):
    """One operation of a rank.

    Attributes:
        name: Its name in ``torch.distributed``.
        rank: The rank.
        group: Distinguishes its group from others with the same ranks.
        ranks: The members of the group; for a transfer, sender and receiver.
        root: The rank that has or gets everything, None if there is none.
        size_bytes: Bytes of the whole tensor; for an all-to-all, those that one rank
            sends.
        begin_ns: Start time in nanoseconds of the machine's clock.
        end_ns: End time, likewise.
    """

    name: str
    rank: int
    group: str
    ranks: tuple[int, ...]
    root: int | None = None
    size_bytes: int
    begin_ns: int
    end_ns: int


class Recorder:
    """Records what a rank does in one group."""

    def __init__(
        self, folder: Path, rank: int, group: str, ranks: Sequence[int]
    ) -> None:
        """Open the file of the rank."""
        self._file = (folder / f"record-{rank}.jsonl").open("ab", buffering=0)
        self._rank, self._group, self._ranks = rank, group, tuple(ranks)

    def collective(
        self, name: str, detail: str, part_bytes: int, begin_ns: int
    ) -> None:
        """Record a collective that has ended.

        Args:
            name: Its name in ``torch.distributed``.
            detail: Its description, with the root at the end if it has one.
            part_bytes: Bytes that every rank gives or gets.
            begin_ns: Its start time.
        """
        root = _ROOT.search(detail)
        parts = len(self._ranks) if name.startswith(_OF_PARTS) else 1
        self._write(
            name,
            self._ranks,
            part_bytes * parts,
            begin_ns,
            None if root is None else int(root[1]),
        )

    def transfer(self, target: int, size_bytes: int, begin_ns: int) -> None:
        """Record a tensor that was sent to a rank."""
        self._write("send", (self._rank, target), size_bytes, begin_ns, None)

    def _write(
        self,
        name: str,
        ranks: tuple[int, ...],
        size_bytes: int,
        begin_ns: int,
        root: int | None,
    ) -> None:
        event = SentOperation(
            name=name,
            rank=self._rank,
            group=self._group,
            ranks=ranks,
            root=root,
            size_bytes=size_bytes,
            begin_ns=begin_ns,
            end_ns=time.monotonic_ns(),
        )
        self._file.write(msgspec.json.encode(event) + b"\n")


def trace_of(folder: Path, table: RankTable) -> bytes:
    """Return the trace of a run, in a format for Chrome and Perfetto."""
    lines = [
        line
        for path in sorted(folder.glob("record-*.jsonl"))
        for line in path.read_bytes().splitlines()
    ]
    events = [msgspec.json.decode(line, type=SentOperation) for line in lines]
    start_ns = min((event.begin_ns for event in events), default=0)
    crossed = _crossed(events, table)
    document = {
        "traceEvents": [
            *_names(table),
            *(_shown(event, table, start_ns) for event in events),
        ],
        "otherData": {
            "boundaries": [
                {
                    "boundary": "node",
                    "bytes": round(crossed.least),
                    "flat_ring_bytes": round(crossed.flat),
                }
            ]
        },
    }
    return json.dumps(document, indent=1).encode() + b"\n"


def _names(table: RankTable) -> Iterator[dict[str, object]]:
    for node_rank in range(len(table.nodes)):
        name = {"name": f"node {node_rank}"}
        yield {"ph": "M", "name": "process_name", "pid": node_rank, "args": name}
    for rank, chip in enumerate(table.chip_map):
        yield {
            "ph": "M",
            "name": "thread_name",
            "pid": table.node_rank_of(rank),
            "tid": rank,
            "args": {"name": f"rank {rank}, chip {chip}"},
        }


def _shown(event: SentOperation, table: RankTable, start_ns: int) -> dict[str, object]:
    return {
        "ph": "X",
        "name": event.name,
        "cat": "send" if event.name == "send" else "collective",
        "pid": table.node_rank_of(event.rank),
        "tid": event.rank,
        "ts": (event.begin_ns - start_ns) / _NS_PER_US,
        "dur": (event.end_ns - event.begin_ns) / _NS_PER_US,
        "args": {
            "group": list(event.ranks),
            "bytes": event.size_bytes,
            "sends": {f"rank {to}": sent for to, sent in _sent(event).items()},
        },
    }


def _sent(event: SentOperation) -> dict[int, int]:
    """Return the bytes that a rank sends, by receiver."""
    ranks, size, count = event.ranks, event.size_bytes, len(event.ranks)
    others = [rank for rank in ranks if rank != event.rank]
    following = ranks[(ranks.index(event.rank) + 1) % count]
    pattern = _PATTERNS.get(event.name)
    if not others or not size:
        return {}
    if pattern is Pattern.ALL_TO_ALL:
        return dict.fromkeys(others, size // count)
    if pattern is Pattern.ALL_REDUCE:
        return {following: 2 * size * (count - 1) // count}
    if pattern is Pattern.SHARD:
        return {following: size * (count - 1) // count}
    return _sent_by_root(event, others, following)


def _sent_by_root(
    event: SentOperation, others: list[int], following: int
) -> dict[int, int]:
    """Return the bytes that a rank sends in an operation with a root, by receiver."""
    size = event.size_bytes
    part = size // len(event.ranks)
    if event.name == "scatter":
        return dict.fromkeys(others, part) if event.rank == event.root else {}
    if event.name == "gather":
        return {event.root or 0: part} if event.rank != event.root else {}
    is_last = event.rank if event.name == "reduce" else following
    return {} if is_last == event.root else {following: size}


def _crossed(events: Sequence[SentOperation], table: RankTable) -> Crossing:
    """Return the bytes that were sent between nodes."""
    least = flat = 0.0
    for event in events:
        # Every member records a collective; only that of the first one is counted.
        if event.rank == event.ranks[0]:
            found = _crossing(event, [table.node_rank_of(rank) for rank in event.ranks])
            least, flat = least + found.least, flat + found.flat
    return Crossing(least, flat)


def _crossing(event: SentOperation, domains: list[int]) -> Crossing:
    pattern = _PATTERNS.get(event.name)
    if len(set(domains)) == 1:
        return NOTHING
    if event.name == "send":
        return Crossing(event.size_bytes, event.size_bytes)
    if pattern is None:  # gather and scatter
        home = domains[event.ranks.index(event.root)] if event.root is not None else 0
        away = sum(domain != home for domain in domains)
        sent = event.size_bytes / len(domains) * away
        return Crossing(sent, sent)
    found = Flow(axes="", pattern=pattern, size_bytes=event.size_bytes).crossing(
        domains
    )
    if pattern is Pattern.CHAIN:
        return Crossing((len(set(domains)) - 1) * event.size_bytes, found.flat)
    return found
