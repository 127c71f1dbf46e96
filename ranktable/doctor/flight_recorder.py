"""Read the dumps of torch's flight recorder, and compare those of a job.

A dump has the last collectives that one rank called; its rank is in the name of the
file alone. It is a pickle of plain values, or the same as JSON. A pickle can run any
code when it is read, so its operations are looked at first, and then it is read by a
reader that knows no names.

Torch takes the first rank for right; here the most ranks are, and a tie names both. An
operation has ended if it is ``retired``, or not after the last completed one: its state
``completed`` is also that of one that was aborted. Source: PyTorch 2.13,
torch/distributed/flight_recorder, and dumps of real jobs of torch 2.11.
"""

from __future__ import annotations

import io
import json
import pickle
import pickletools
import re
from collections import defaultdict
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ranktable.doctor.lines import Log, LogEvent
from ranktable.doctor.patterns import Evidence, LogPattern
from ranktable.schema.text import folded

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

MAX_BYTES: Final = 64 << 20
_MAX_ENTRIES = 1 << 20
_MAX_RANKS = 1 << 20
_NS = 1e9
_LATE = 0.9
"""Part of the time-out by which a call is later than the others'."""

_PLAIN: Final = frozenset(
    {
        *("PROTO", "FRAME", "STOP", "MARK", "MEMOIZE", "PUT", "BINPUT", "LONG_BINPUT"),
        *("GET", "BINGET", "LONG_BINGET", "NONE", "NEWTRUE", "NEWFALSE"),
        *("INT", "BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT", "FLOAT"),
        *("BINUNICODE", "SHORT_BINUNICODE", "UNICODE", "BINBYTES", "SHORT_BINBYTES"),
        *("SHORT_BINSTRING", "BINSTRING", "STRING"),
        *("EMPTY_DICT", "EMPTY_LIST", "EMPTY_TUPLE", "DICT", "LIST", "TUPLE"),
        *("TUPLE1", "TUPLE2", "TUPLE3", "APPEND", "APPENDS", "SETITEM", "SETITEMS"),
    }
)
"""The operations of a pickle of plain values: none of them runs anything."""

_PUTS = ("PUT", "BINPUT", "LONG_BINPUT")
_RANK = re.compile(r"(\d{1,7})(?:\.(?:json|pkl|pickle|bin))?$")
_TRANSFER = re.compile(r"(?:send|recv) (\d{1,7})(->|<-)(\d{1,7})")


class _PlainUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"{module}.{name} in a dump")

    def persistent_load(self, pid: Any) -> Any:
        raise pickle.UnpicklingError(f"the object {pid} in a dump")


class Call(NamedTuple):
    """One operation of one rank.

    Attributes:
        op: Its name as torch's messages have it.
        numel: Elements that this rank gave.
        shape: Sizes and types, which have to be equal on all ranks.
        is_pending: Whether it is not known to have ended.
        is_open: Whether it has certainly not ended.
        created_s: When it was called.
        timeout_s: How long it waits.
    """

    op: str
    numel: int
    shape: str
    is_pending: bool
    is_open: bool
    created_s: float
    timeout_s: float

    @property
    def text(self) -> str:
        """What was called, for messages."""
        return f"{self.op} of {self.shape}"


@dataclass(slots=True)
class Dump:
    """The dump of a rank.

    Attributes:
        file: Its name.
        rank: Global rank, by the name of the file; None if it has no number.
        calls: The collectives of each group by their number.
        members: The global ranks of each group.
        peers: For each transfer that has not ended: its peer, and what it is.
    """

    file: str
    rank: int | None
    calls: dict[str, dict[int, Call]] = field(default_factory=dict)
    members: dict[str, tuple[int, ...]] = field(default_factory=dict)
    peers: list[tuple[int, str]] = field(default_factory=list)


def is_dump(start: bytes) -> bool:
    """Whether a file may be a dump, by its first bytes."""
    return start[:1] == b"\x80" and start[1:2] in b"\x02\x03\x04\x05"


def read_dump(data: bytes, file: str) -> Log | None:
    """Return what a dump says, None if it is none or cannot be read safely."""
    try:
        found = _plain(data) if is_dump(data) else json.loads(data)
        dump = _dump(found, file)
    except Exception:  # noqa: BLE001 - a damaged pickle raises almost anything
        return None
    if dump is None:
        return None
    log = Log(file=file, num_lines=1, num_bytes=len(data), dump=dump)
    if dump.rank is not None:
        log.ranks.add(dump.rank)
    log.events.extend(_events(dump))
    return log


def _plain(data: bytes) -> object:
    """Return the value of a pickle.

    Raises:
        UnpicklingError: It has other values than plain ones.
    """
    num_puts = 0
    for operation, argument, _ in pickletools.genops(data):
        if operation.name not in _PLAIN:
            raise pickle.UnpicklingError(f"{operation.name} in a dump")
        if operation.name in _PUTS:
            num_puts += 1
            if int(argument or 0) > num_puts:  # the reader makes room for so many
                raise pickle.UnpicklingError("a place in the memory beyond its end")
    return _PlainUnpickler(io.BytesIO(data)).load()


def _dump(data: object, file: str) -> Dump | None:
    if not isinstance(data, dict) or not isinstance(data.get("entries"), list):
        return None
    if not isinstance(data.get("pg_config"), dict):
        return None
    found = _RANK.search(file)
    dump = Dump(file=file, rank=int(found[1]) if found else None)
    for name, config in data["pg_config"].items():
        ranks = config.get("ranks") if isinstance(config, dict) else None
        listed = re.findall(r"\d{1,7}", str(ranks)) if ranks is not None else []
        dump.members[str(name)] = tuple(map(int, listed[:_MAX_RANKS]))
    completed = _completed(data.get("pg_status"))
    for entry in data["entries"][:_MAX_ENTRIES]:
        if isinstance(entry, dict):
            _add(dump, entry, completed)
    return dump


def _completed(status: object) -> int | None:
    """Return the last completed number, if there is one group: its key is no name."""
    values = list(status.values()) if isinstance(status, dict) else []
    if len(values) != 1 or not isinstance(values[0], dict):
        return None
    return _number(values[0].get("last_completed_collective"))


def _number(value: object) -> int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    text = str(value)
    return int(text) if re.fullmatch(r"-?\d{1,18}", text) else None


def _add(dump: Dump, entry: Mapping[str, Any], completed: int | None) -> None:
    """Add an entry to a dump."""
    group = entry.get("process_group")
    name = str(group[0]) if isinstance(group, (list, tuple)) and group else ""
    title = str(entry.get("profiling_name", "")).partition(":")[2]
    seq = _number(entry.get("collective_seq_id"))
    has_ended = entry.get("retired") is True or (
        completed is not None and seq is not None and seq <= completed
    )
    if entry.get("is_p2p") is True:
        if not has_ended and (found := _TRANSFER.match(title)):
            members = dump.members.get(name, ())
            peer = int(found[3])
            if peer < len(members):
                dump.peers.append((members[peer], title))
        return
    if seq is None or not title:
        return
    sizes = entry.get("input_sizes")
    shapes = sizes if isinstance(sizes, (list, tuple)) else []
    numbers = [s for s in shapes if isinstance(s, (list, tuple))]
    counts = [prod(n for n in s if isinstance(n, int)) for s in numbers]
    kind = entry.get("input_dtypes")
    kinds = ",".join(map(str, kind)) if isinstance(kind, (list, tuple)) else ""
    shape = " ".join(filter(None, [",".join(str(list(s)) for s in numbers), kinds]))
    dump.calls.setdefault(name, {})[seq] = Call(
        op=_operation(title),
        numel=sum(counts),
        shape=shape,
        is_pending=not has_ended,
        is_open=not has_ended and entry.get("state") != "completed",
        created_s=(_number(entry.get("time_created_ns")) or 0) / _NS,
        timeout_s=(_number(entry.get("timeout_ms")) or 0) / 1000,
    )


def _operation(title: str) -> str:
    """Return the name of an operation as torch's messages have it: ALLREDUCE."""
    if title.endswith("barrier"):
        return "BARRIER"
    return title.strip("_").replace("_", "").upper()[:40]


def _event(dump: Dump, kind: Evidence, text: str, **fields: object) -> LogEvent:
    pattern = LogPattern(f"flight-recorder-{kind.name}", "torch", kind, "", "", "")
    said = {name: str(value) for name, value in fields.items() if value is not None}
    if dump.rank is not None:
        said.setdefault("rank", str(dump.rank))
    return LogEvent(pattern, said, dump.file, 1, f"flight recorder: {text}")


def _events(dump: Dump) -> Iterator[LogEvent]:
    """Yield how far a rank came, and in which operations and transfers it is."""
    for group, calls in dump.calls.items():
        last = max(calls)
        pending = [seq for seq, call in sorted(calls.items()) if call.is_pending]
        pending = [seq for seq in pending if calls[seq].is_open] or pending
        done = max((seq for seq in calls if seq < min(pending, default=last + 1)),
                   default=0)  # fmt: skip
        text = f"last called {last}, ended {done}"
        yield _event(dump, Evidence.STATE, text, group=group, enqueued=last, done=done)
        if pending:
            seq = pending[0]
            yield _event(
                dump,
                Evidence.TIMEOUT,
                f"{calls[seq].text} with the number {seq} has not ended",
                group=group,
                seq=seq,
                op=calls[seq].op,
                numel=calls[seq].numel,
            )
    for peer, what in dump.peers:
        yield _event(dump, Evidence.EDGE, f"{what} has not ended", peers=peer)


class _Block(NamedTuple):
    """The operation of a group that some wait in and that does not end.

    Attributes:
        group: Name of the group.
        seq: Number of the operation.
        op: What is waited in.
        waiters: Who called it.
        absent: Who did not.
        late: Who called it when the others had given up.
        calls: What was called, if it differs.
    """

    group: str
    seq: int
    op: Call
    waiters: frozenset[int]
    absent: frozenset[int]
    late: frozenset[int]
    calls: str


def compare(logs: Iterable[Log]) -> Iterator[LogEvent]:
    """Yield in which operation of a group the dumps of its members differ.

    A rank that is not in an operation of one group may wait in one of another: it is
    no cause then, and whom it waits for may be. Who is named waits for nobody. Of ranks
    without a dump one is named alone, and only if all others wait.
    """
    dumps = [log.dump for log in logs if log.dump is not None]
    ranked = {dump.rank: dump for dump in dumps if dump.rank is not None}
    members_of = {name: members for dump in reversed(dumps)
                  for name, members in dump.members.items() if members}  # fmt: skip
    groups: dict[tuple[str, tuple[int, ...]], dict[int, Dump]] = defaultdict(dict)
    for rank, dump in ranked.items():
        for name in dump.calls:
            members = dump.members.get(name) or members_of.get(name, ())
            if rank in members:
                groups[name, members][rank] = dump
    blocks: list[_Block] = []
    for (name, members), own in groups.items():
        # A member without an operation in this group has a dump, if it has one at all.
        for rank in set(members) & ranked.keys():
            own.setdefault(rank, ranked[rank])
        lost = frozenset(members) - ranked.keys() if len(groups) > 1 else frozenset()
        block = _first_difference(name, own, lost)
        blocks += [block] if block is not None else []
    known = {rank for members in members_of.values() for rank in members}
    yield from _at_the_end(blocks, ranked, known - ranked.keys())


def _at_the_end(
    blocks: Sequence[_Block], dumps: Mapping[int, Dump], lost: set[int]
) -> Iterator[LogEvent]:
    """Yield whom all wait for who themselves wait for nobody.

    Args:
        blocks: Where each group stands.
        dumps: Those of the ranks.
        lost: Ranks without a dump.
    """
    waiters = {rank for rank, dump in dumps.items() if _is_waiting(dump)}
    ends = {rank for block in blocks for rank in block.absent} - waiters
    if not ends & dumps.keys():  # one without a dump may have waited for who is late
        ends = {rank for block in blocks for rank in block.late} or ends
    differ = [block for block in blocks if block.calls]
    is_told = lost == ends and len(lost) == 1 and waiters == dumps.keys()
    if is_told and not differ and not _are_apart(dumps.values()):
        block = next(block for block in blocks if block.absent & lost)
        text = f"{block.op.text} with the number {block.seq} has not ended"
        where = dumps[min(block.waiters)]
        yield _event(where, Evidence.EDGE, text, peers=min(lost), group=block.group)
        return
    for block in blocks:
        where = dumps[min(block.waiters)]
        said = {"group": block.group, "seq": block.seq}
        absent = sorted((block.absent | block.late) & (ends - lost))
        if block.calls:
            text = f"in collective {block.seq}: {block.calls}"
            yield _event(where, Evidence.MISMATCH, text, **said, calls=block.calls)
        elif absent:
            text = f"ranks {folded(absent)} did not call {block.seq}, {block.op.text}"
            peers = ",".join(map(str, absent))
            yield _event(
                where, Evidence.ABSENT, text, **said, peers=peers, op=block.op.op
            )


def _is_waiting(dump: Dump) -> bool:
    return bool(dump.peers or _pending(dump))


def _pending(dump: Dump) -> list[Call]:
    calls = (call for own in dump.calls.values() for call in own.values())
    return [call for call in calls if call.is_pending]


def _are_apart(dumps: Iterable[Dump]) -> bool:
    """Whether a rank began to wait when another had given up, in whichever group."""
    waits = [(min(call.created_s for call in calls), calls[0].timeout_s)
             for dump in dumps if (calls := _pending(dump))]  # fmt: skip
    first, timeout_s = min(waits, default=(0, 0))
    return any(0 < _LATE * timeout_s < start - first for start, _ in waits)


def _first_difference(
    group: str, dumps: Mapping[int, Dump], lost: frozenset[int]
) -> _Block | None:
    """Return the first operation that some of a group wait in for others.

    Args:
        group: Name of the group.
        dumps: Those of its members.
        lost: Members without a dump that may be waited for.
    """
    calls = {rank: dump.calls.get(group, {}) for rank, dump in dumps.items()}
    firsts = [min(own) for own in calls.values() if own]
    lasts = {rank: max(own, default=0) for rank, own in calls.items()}
    busy: set[int] = set()  # in an operation before this one
    for seq in range(max(firsts, default=0), max(lasts.values(), default=-1) + 1):
        now = {rank: own[seq] for rank, own in calls.items() if seq in own}
        waiting = {rank for rank, call in now.items() if call.is_pending}
        if not waiting:
            continue
        different = _different(now) or ""
        absent = {r for r, last in lasts.items() if last < seq and r not in busy}
        late = set() if different else set(_late(now))
        busy |= waiting
        if different or absent or late or lost:
            waiters = frozenset(waiting - late or waiting)
            call, missed = now[min(waiters)], frozenset(absent | lost)
            return _Block(group, seq, call, waiters, missed, frozenset(late), different)
    return None


def _different(calls: Mapping[int, Call]) -> str | None:
    """Return what ranks call, "rank 1 calls X, rank 2 calls Y", if it differs."""
    by_text: dict[str, list[int]] = defaultdict(list)
    has_one_shape = len({call.op for call in calls.values()}) > 1 or any(
        call.op in _OF_ONE_SHAPE for call in calls.values()
    )
    for rank in sorted(calls):
        call = calls[rank]
        by_text[call.text if has_one_shape else call.op].append(rank)
    if len(by_text) < 2:
        return None
    return ", ".join(
        f"rank{'s' * (len(ranks) > 1)} {folded(ranks)} call"
        f"{'s' * (len(ranks) == 1)} {text.replace(', rank', ' rank')}"
        for text, ranks in by_text.items()
    )


_OF_ONE_SHAPE: Final = frozenset(
    {"ALLREDUCE", "BROADCAST", "REDUCE", "ALLGATHERBASE", "REDUCESCATTERBASE"}
)
"""Operations whose ranks give tensors of one shape; others may differ."""


def _late(calls: Mapping[int, Call]) -> list[int]:
    """Return who called an operation after the others had given up."""
    if len(calls) < 2:
        return []
    first = min(call.created_s for call in calls.values())
    late = [
        rank
        for rank, call in calls.items()
        if call.timeout_s and call.created_s - first > _LATE * call.timeout_s
    ]
    return sorted(late) if 2 * len(late) < len(calls) + 1 else []
