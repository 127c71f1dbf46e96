"""Read logs in one pass: the lines with a known message, and who says them.

A log may have any size, lines of any length and any bytes. It is read in blocks; only
lines that contain one of a few short texts are looked at. What is kept is bounded: for
each message of a log, the first and the last few.
"""

from __future__ import annotations

import os
import re
import string
import zlib
from bisect import bisect_right
from collections import Counter, deque
from dataclasses import dataclass, field
from functools import cache, lru_cache
from itertools import islice
from typing import TYPE_CHECKING

from ranktable.doctor.patterns import (
    AROUND,
    FATAL,
    LIFE,
    LOST,
    OF_OTHERS,
    TRACEBACK,
    Evidence,
    LogPattern,
    patterns,
    triggers,
)
from ranktable.doctor.unwrap import MARK, Readable, unwrapped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import BinaryIO

    from ranktable.doctor.flight_recorder import Dump

    OnFile = Callable[[str], None]

BLOCK_BYTES = 1 << 20
MAX_LINE_BYTES = 16 << 10
"""Longer lines are read in pieces of this size."""

MAX_BELOW_BYTES = 64 << 10
MAX_LINES_BELOW = 500
"""How far below its first line a message of several lines may end."""

MAX_HEAD = 400
"""How much of a line is looked at for its speaker."""

LINES_ABOVE = 40
"""Lines above one among which those of the same launcher are sought."""

MAX_BELOW = 8
"""Lines below an exception that may say more of it."""

MAX_DIGITS = 18
"""Digits of the largest number that is taken for one."""

MAX_NUMBERS = 1 << 18
"""Numbers of one list that are kept: no job has more ranks."""

KEPT = 24
"""Events of one message and speaker that are kept: so many first and last ones.

More than show that a program went on: one of them may be its last line.
"""

LOOKED_AT = 200
"""Lines above and below the end of a process that are looked at for steps."""

MAX_SPOKEN = 512
"""Lines whose speaker is remembered: they are those above and below others."""

_PREFIXES = tuple(
    re.compile(text)
    for text in (
        MARK.pattern,
        "> ",  # quoted in a mail or a thread
        (
            r"(?:\[(?P<time>\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[.,\d]*)\] )?"
            r"\[(?:rank|RANK)[ =]?(?P<rank>\d{1,7})\]:? ?"
        ),
        (
            r"(?:\w{3} \w{3} [ \d]\d (?P<time>\d\d:\d\d:\d\d) \d{4})?"
            r"\[(?:\d+,|[\w.-]+@\d+,)?(?P<rank>\d{1,7})\]"
            r"(?:\[(?P<host>[\w.-]+):(?P<pid>\d+)\])?"
            r"(?:\[\w{3} \w{3} [ \d]\d \d\d:\d\d:\d\d \d{4}\])?"
            r"<std(?:out|err|diag)>: ?"
        ),
        r"\[[a-z_]+(?P<local_rank>\d{1,7})\]: ?",
        (
            r"MPICH ERROR \[Rank (?P<rank>\d{1,7})\] \[[^\]]{1,80}\] "
            r"\[\w{3} \w{3} [ \d]\d (?P<time>\d\d:\d\d:\d\d) \d{4}\] "
            r"\[(?P<host>[\w.-]+)\] - "
        ),
        r"\[pod/(?P<pod>[^/\]]+)/[^\]]+\] ",
        r"(?P<voice>[a-z][\w.-]*?[-_]\d+) +\| ?",  # Docker compose
        (
            r"(?:\[(?P<time>\d{4}-\d\d-\d\dT[\d:.]+)Z?\] )?"
            r"(?:\w{8} )?\[rank=(?P<rank>\d{1,7})\] \|\| "
        ),
        (
            r"(?P<time>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[.,\d]*)"
            r"(?:Z|[+-]\d\d:?\d\d)? (?P<host>[\w.-]+) [\w./-]+\[(?P<pid>\d+)\]: "
        ),
        (
            r"(?P<time>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[.,\d]*)"
            r"(?:Z|[+-]\d\d:?\d\d)?(?: std(?:out|err) [FP])? "
        ),
        (
            r"(?P<time>[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d) (?P<host>[\w.-]+) "
            r"[\w./-]+(?:\[(?P<pid>\d+)\])?: "
        ),
        r"\[ *\d+\.\d+\] ",
        (
            r"\((?:(?P<voice>[\w:.()-]+(?: [DTPE]P\d{1,6})*),? )?"
            # SkyPilot, with commas, counts nodes.
            r"(?:rank=(?P<rank>\d{1,7}) |rank=\d{1,7}, )?pid=(?P<pid>\d+)"
            r"(?:, ip=(?P<server>[\w.:]+))?\) ?"
        ),
        # Not the list of a stalled rank by Horovod: ``3: [grads.0, grads.1 ...]``
        (
            r"(?:P\d+ +)? *(?P<task>\d{1,7}): "
            r"(?!\[[\w./:-]+(?:, [\w./:-]+)*(?: \.{3})?\]$)"
        ),
        (  # what a scheduler or a store of logs puts before the tags of mpirun
            r"(?:(?P<time>\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[.,\d]*)Z? )?"
            r"[^\[\]<>\n]{1,120}(?=\[\d+,\d{1,7}\]<std(?:out|err|diag)>)"
        ),
        (  # xla_dist of torch_xla, with the number of the host
            r"(?P<time>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) "
            r"(?P<server>\d{1,3}(?:\.\d{1,3}){3}) \[\d{1,6}\] "
        ),
        r"pdsh@[\w.-]+: (?P<host>[\w.-]+): (?=ssh exited)",
        (  # pdsh; not a part of a model or of a run, such as ``stage-1: ``
            r"(?!(?:rank|step|stage|epoch|layer|shard|batch|iter|trial|cuda|gpu|npu|tpu"
            r"|chip|device|group|[dtpe]p)-|rank\d)"
            r"(?:(?P<host>[a-z][\w-]*-\d+|[a-z][a-z._-]*\d[\w.-]*(?=: \[20[\d-]+ "
            r"[\d:,]+\] \[[A-Z]+\] \[\w+\.py:\d))"  # of DeepSpeed's own lines
            r"|(?P<server>\d{1,3}(?:\.\d{1,3}){3})): "
        ),
    )
)
"""What launchers and loggers put before a line, repeatedly and in any order."""
_ANY_PREFIX = re.compile(
    "|".join(re.sub(r"\(\?P<\w+>", "(?:", one.pattern) for one in _PREFIXES)
)
"""All of these at once: most lines have none."""

_CONTEXTS = tuple(
    (key, re.compile(text))
    for key, text in (
        ("[rank", r"\[rank(?P<rank>\d{1,7})\]"),
        (  # Accelerate and own loggers; within a sentence it is another rank
            "[RANK ",
            (
                r"(?:^|[-\]|)>]\s{1,4}|\b(?:DEBUG|INFO|WARNING|ERROR|CRITICAL)\s{1,4})"
                r"\[RANK (?P<rank>\d{1,7})\]"
            ),
        ),
        (
            "[PG ",
            (
                r"\[PG (?:ID )?(?P<group_id>\d+) (?:PG GUID (?P<group>[^ ()\]]+))? ?"
                r"(?:\((?P<group_name>[^)]*)\) )?Rank (?P<group_rank>\d+)\]"
            ),
        ),
        ("[Rank ", r"\[Rank (?P<group_rank>\d+)\]"),
        (  # HCCL and the rest of CANN, MindSpore
            "):2",
            r"^\[[A-Z]+\] [A-Z0-9_]+\((?P<pid>\d+)[,:][^)]*\):(?P<time>[\d.:-]+)",
        ),
        (
            " NCCL ",
            r"(?P<host>[\w.-]+):(?P<pid>\d+):\d+ \[(?P<visible_device>\d+)\] .*?NCCL",
        ),
        ("(PID:", r"\(PID:(?P<pid>\d+), Device:-?\d+, RankID:(?P<rank>\d+)\)"),
        (":", r"^\[?[IWEF]\d{3,4} (?P<time>\d\d:\d\d:\d\d\.\d+)"),
        (":", r"(?P<time>20\d\d-\d\d-\d\d[-T_ ]\d\d:\d\d:\d\d(?:[.,]\d+)?)"),
    )
)
"""What a line says about its speaker anywhere in it."""

_PLACE = ("pod", "host", "server", "pid")
_SLURM_DAEMON = re.compile(r"slurm(?:step|ctl)?d\[")
"""A daemon of Slurm in the journal of its host."""

_STEP = re.compile(
    rb"(?i)(?<!\*\*\* )\b(?:step|iter(?:ation)?|epoch|batch|global_step)s?\b"
    rb"[\s:=#\[('\"]*\d(?!\d*/\d+ : (?:FROM|RUN|COPY|ADD|ENV|ARG|WORKDIR|CMD)\b)"
    rb"|\d%\|.*\d/\d|\bloss\b\W{0,3}\d"
    rb"|\bimages/sec: \d"
    rb"|throughput(?: \(token/s\))?: (?!0\.0+\b)\d[\d.]* ?(?:tokens/s|,)"
    rb"|\"POST /\S{1,200} HTTP/[\d.]+\" [24]\d\d"
)
"""A line of training, or of a server of a model, that goes on."""

_SIZE = re.compile(
    r"(?i)(?<![\w-])(?<!local )(?<!node )(?<!group )(?<!\b[tdpec]p )"
    r"(?:rank[ :=#]{0,3}(?P<rank>\d{1,6}) ?(?:of|/) ?|world[_ ]size[ '\":=]{1,4})"
    r"(?P<size>\d{1,6})(?![\w.%/])"
)
"""What a program says of the size of its job, often as it starts."""

_NO_STEPS = (b"ERROR", b"WARN", b"Error:", b"Traceback", b"imed out", b"failed to",
             b"retry", b"aiting ", b"aiting.")  # fmt: skip
"""What a line of a step does not say, although it may tell an error as a number."""

_JOINED = re.compile(
    rb"(?<=\S) {3,}(?=(?:WARNING|ERROR|CRITICAL):[a-z]\w*(?:\.\w+)+:"
    rb"|\[rank\d{1,7}\]:\[[EWIF]\d{3,4} |Traceback \(most recent call last\):)"
    rb"|(?<=[\w\]])(?=Traceback \(most recent call last\):)"
)
"""Where a record begins whose end of line a terminal has turned into spaces, or that
stands behind a progress bar."""

_GLUED = re.compile(rb"[\w\]]Traceback \(most")
_BEHIND_BAR = re.compile(rb"(?<=\])(?=\[rank\d{1,7}\]:\[[EWIF]\d{3,4} )")

_COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_NO_LETTERS = bytes(set(range(256)) - set(b"\n" + string.ascii_letters.encode()))

_EXCEPTION = re.compile(
    r" ?(?P<what>(?:[A-Za-z_]\w*\.)*"
    r"(?:[A-Z_]\w*|\w*(?:[eE]rror|Exception|timeout|exit))(?::\s.*|:)?)$"
)
_ERROR_TYPE = re.compile(r"[\w.]*(?:Error|Exception|Interrupt|Exit)\b")
"""The type of an exception, where nothing else shows that a line is one."""

_FRAME = re.compile(
    r'File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<function>\S+)'
    r"|^[│|] (?P<path>\S+):(?P<number>\d+) in (?P<name>\S+)"
)
"""A frame of a traceback, as Python writes it and as rich does."""

_POD_OF_FILE = re.compile(
    r"(?:^|[/\\])pods[/\\][^/\\_]+_(?P<pod>[^/\\_]+)_[^/\\]+[/\\][^/\\]+[/\\]\d+\.log"
)
"""The log of a container on its node."""

_ENDED_NOTHING = re.compile(r"Exception ignored |in atexit\._|--- Logging error ---")
"""Python's words above a traceback that ended nothing."""

_IN_BACKGROUND = re.compile(
    r"Exception in thread |Process \S+:\n(?:Connection\w*|BrokenPipe|EOF)Error\b"
)
"""Above the exception of a thread, or of a child that lost what it worked for."""

_BESIDE = (" ", "\t", 'File "', "│", "╭", "╰", "|", "+-")
"""How the lines of a traceback begin, also those of loguru and rich."""


def numbers_in(text: str) -> list[int]:
    """Return the numbers of a list with ranges: ``0-3, 7 and 9``."""
    found: list[int] = []
    form = r"(?<!\d)0*(\d{1,9})(?:-0*(\d{1,9}))?(?!\d)"
    for first, last in re.findall(form, text):
        left = max(0, MAX_NUMBERS - len(found))
        found.extend(range(int(first), int(last or first) + 1)[:left])
    return found


@dataclass(slots=True)
class LogEvent:
    """A line, or a few, with a known message.

    Attributes:
        pattern: The message.
        fields: What it says, by the names of ``patterns.toml``.
        file: Name of the log.
        line: Number of its first line, from 1.
        text: The line, without what stood before it.
        count: How many such lines stand for it, if not all are kept.
    """

    pattern: LogPattern
    fields: dict[str, str]
    file: str
    line: int
    text: str
    count: int = 1

    @property
    def kind(self) -> Evidence:
        """What it is evidence of."""
        return self.pattern.kind

    def number(self, name: str) -> int | None:
        """Return a field as a number, None if it is missing or is not one."""
        text = self.fields.get(name, "")
        return int(text) if text.isdecimal() and len(text) <= MAX_DIGITS else None

    def numbers(self, name: str) -> tuple[int, ...]:
        """Return a list of numbers and ranges: ``0-3,7``."""
        return tuple(numbers_in(self.fields.get(name, "")))


@dataclass(slots=True)
class Log:
    """A log that was read.

    Attributes:
        file: Its name.
        events: What was recognised, in the order of the file.
        num_lines: Lines read.
        num_bytes: Bytes read.
        ranks: Ranks that the beginning and the end of the file name as speakers.
        sizes: What the beginning and the end say of the size of the job.
        named: Ranks of which they say it: ``rank 3 of 8``.
        is_of_mindspore: Whether lines of MindSpore are there.
        last_time: The last time of the file, as it is written there.
        problem: Why it could not be read to its end, None if it was.
        dump: What it holds if it is a dump of the flight recorder.
    """

    file: str
    events: list[LogEvent] = field(default_factory=list)
    num_lines: int = 0
    num_bytes: int = 0
    ranks: set[int] = field(default_factory=set)
    sizes: set[int] = field(default_factory=set)
    named: set[int] = field(default_factory=set)
    is_of_mindspore: bool = False
    last_time: str | None = None
    problem: str | None = None
    dump: Dump | None = None


def speaker_of(text: str) -> tuple[dict[str, str], str]:
    """Return what a line says about its speaker, and the line without prefixes."""
    fields, rest = _spoken(text)
    return fields.copy(), rest


@lru_cache(MAX_SPOKEN)
def _spoken(text: str) -> tuple[dict[str, str], str]:
    fields: dict[str, str] = {}
    at = 0
    for found in _prefixes_of(text):
        # Whoever keeps the output of pdsh is elsewhere.
        fields = _of_another(fields, {}) if found.re is _PREFIXES[-1] else fields
        _add(fields, found)
        at += found.end()
    rest = text[at:]
    for key, context in _CONTEXTS:
        if key in rest and (found_in := context.search(rest)):
            _add(fields, found_in)
    return fields, rest


def _prefixes_of(text: str) -> Iterator[re.Match[str]]:
    """Yield the known prefixes of a line, each matched where the last one ends."""
    at = 0
    while _ANY_PREFIX.match(text, at, at + MAX_HEAD):
        rest = text[at : at + MAX_HEAD]
        found = next(filter(None, (one.match(rest) for one in _PREFIXES)))
        yield found
        at += found.end()


def _num_known(text: str) -> int:
    """Return how long the known prefixes of a line are."""
    return sum(found.end() for found in _prefixes_of(text))


def _add(fields: dict[str, str], found: re.Match[str]) -> None:
    """Add what is not said yet, or a longer name: ``Worker_TP5`` behind ``Worker``."""
    for name, value in found.groupdict().items():
        if value is not None and fields.setdefault(name, value) != value:
            is_longer = name == "voice" and value.startswith(f"{fields[name]}_")
            fields[name] = value if is_longer else fields[name]


Keyed = tuple[tuple[str, int], ...]
"""Keys with the numbers of their messages, in the order of these."""


@cache
def _keyed() -> Keyed:
    """Return every key with the number of its message."""
    return tuple(
        (key, number)
        for number, pattern in enumerate(patterns())
        for key in pattern.keys
    )


@cache
def _keyed_with(parts: tuple[bytes, ...]) -> Keyed:
    """Return the keys that lines with these letters of keys may have."""
    bare = (key.encode().translate(None, _NO_LETTERS) for key, _ in _keyed())
    return tuple(
        pair
        for letters, pair in zip(bare, _keyed(), strict=True)
        if any(part in letters for part in parts)
    )


def recognise(
    text: str,
    above: Sequence[str | bytes] = (),
    below: Sequence[str | bytes] = (),
    keyed: Keyed | None = None,
) -> tuple[LogPattern, dict[str, str]] | None:
    """Return the message of a line, with its fields and those of its speaker.

    Args:
        text: The line.
        above: Lines before it, the nearest last.
        below: Lines after it.
        keyed: The messages that it may be, if this is known.
    """
    # Most messages are compared by their keys only, in one loop: there are a hundred.
    likely = [n for key, n in (_keyed() if keyed is None else keyed) if key in text]
    if not likely:
        return None
    speaker, rest = speaker_of(text)
    for number in dict.fromkeys(likely):
        pattern = patterns()[number]
        whole = rest
        is_long = pattern.before or pattern.after
        if is_long and any(key in rest for key in pattern.keys):
            before = _said_above(speaker, above, pattern.before)
            after = (one if isinstance(one, str) else _decoded(one)
                     for one in below[: pattern.after])  # fmt: skip
            whole = _joined(speaker_of(one)[1] for one in (*before, text, *after))
        fields = pattern.fields(whole)
        if fields is None:
            continue
        if pattern.speaker == "torchrun":
            fields = {**fields, "launcher": launcher_of(speaker)}
        if pattern.speaker == "kernel":
            speaker.pop("voice", None)  # the kernel tells of others
        is_of_slurm = pattern.speaker == "slurm" and not _SLURM_DAEMON.search(text)
        is_of_other = pattern.kind in OF_OTHERS and (
            pattern.speaker == "mpi" or bool(fields.keys() & {"host", "server"})
        )
        if is_of_slurm or is_of_other or pattern.is_of_another:
            return pattern, _of_another(speaker, fields)
        return pattern, {**speaker, **fields}
    return None


_STAMP = re.compile(r"\[?\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?\]? ")
"""What a collector of logs writes before every line."""


def _joined(lines: Iterable[str]) -> str:
    """Return the lines of one message, without a time that all of them begin with."""
    said = [line.strip() for line in lines]
    if all(map(_STAMP.match, said)):
        said = [_STAMP.sub("", line, count=1).strip() for line in said]
    return "\n".join(said)


def launcher_of(fields: dict[str, str]) -> str:
    """Return what stands before the lines of one launcher, empty if nothing does."""
    names = ("pod", "voice", "task", "host")
    said = next((fields[name] for name in names if fields.get(name)), "")
    return fields.get("launcher", said)


def _said_above(
    speaker: dict[str, str], above: Sequence[str | bytes], number: int
) -> list[str]:
    """Return the last lines above one that are of its launcher: others write too."""
    found: list[str] = []
    for line in reversed(above) if number else ():
        text = line if isinstance(line, str) else _decoded(line)
        if launcher_of(speaker_of(text[:MAX_HEAD])[0]) == launcher_of(speaker):
            found.append(text)
        if len(found) == number:
            break
    return found[::-1]


def _of_another(speaker: dict[str, str], fields: dict[str, str]) -> dict[str, str]:
    """Return the fields of a sentence about a process that does not say it itself.

    Whose output holds it, such as a pod of a launcher or the journal of a login node,
    is not that process, and not on its host.
    """
    left = (*_PLACE, "voice") if "pid" in fields else _PLACE
    kept = {name: value for name, value in speaker.items() if name not in left}
    return {**kept, **fields}


def read_log(stream: BinaryIO, file: str) -> Log:
    """Read a log; what is wrong with the stream is in ``Log.problem``."""
    reader = _Reader(file)
    extra: list[int] = []
    try:
        whole = unwrapped(stream, _num_known)
        extra = whole.extra
        reader.read(whole.stream)
    except (OSError, EOFError, zlib.error) as error:
        reader.log.problem = str(error)
    log = reader.finished()
    pod = _POD_OF_FILE.search(file)
    for event in log.events:
        event.line -= bisect_right(extra, event.line)
        if pod:
            event.fields.setdefault("pod", pod["pod"])
    log.num_lines -= len(extra)
    return log


class _Reader:
    """Reads one log, block by block."""

    def __init__(self, file: str) -> None:
        self.log = Log(file=file)
        self._counts: Counter[tuple[str, ...]] = Counter()
        self._last: dict[tuple[str, ...], deque[LogEvent]] = {}
        self._lists: dict[tuple[str, ...], list[str]] = {}
        self._listed: dict[tuple[str, ...], LogEvent] = {}
        self._above: list[bytes] = []
        self._looked_to = 0
        self._taken: set[int] = set()

    def read(self, stream: Readable) -> None:
        """Read the whole stream."""
        data = tail = b""
        while block := stream.read(BLOCK_BYTES):
            if not self.log.num_bytes:
                self._look_for_cut_traceback(block[:MAX_BELOW_BYTES])
                self._look_at_speakers(block[:MAX_BELOW_BYTES])
                self._look_for_life(block[:MAX_BELOW_BYTES], 1)
            self.log.num_bytes += len(block)
            data += block
            end = data.rfind(b"\n", 0, max(0, len(data) - MAX_BELOW_BYTES)) + 1
            if not end and len(data) > BLOCK_BYTES:
                end = len(data)
            self._read_lines(data, end)
            data = data[end:]
            tail = block if len(block) >= MAX_BELOW_BYTES else tail + block
        self._read_lines(data, len(data))
        tail = tail[-MAX_BELOW_BYTES:]
        self._look_at_speakers(tail)
        if self.log.num_bytes > MAX_BELOW_BYTES:
            self._look_for_life(tail, self.log.num_lines - tail.count(b"\n") + 1)

    def finished(self) -> Log:
        """Return the log, with its events in order."""
        for key, lists in self._lists.items():
            self._listed[key].fields["joined_ranks"] = ",".join(lists)
        for key, events in self._last.items():
            events[0].count += self._counts[key] - 2 * KEPT
            self.log.events.extend(events)
        # A line with a message is no step, such as the end of step 7.0 of Slurm.
        taken = {e.line for e in self.log.events if e.kind is not Evidence.LIFE}
        noted = taken | {e.line for e in self.log.events if e.pattern is LIFE}
        self.log.events = [
            event
            for event in sorted(self.log.events, key=lambda event: event.line)
            if event.kind is not Evidence.LIFE
            or event.line not in (noted if event.pattern is AROUND else taken)
        ]
        return self.log

    def _look_at_speakers(self, data: bytes) -> None:
        self.log.is_of_mindspore |= b"[mindspore/" in data
        for line in _decoded(data).splitlines():
            fields, _ = speaker_of(line[:400])
            if "rank" in fields:
                self.log.ranks.add(int(fields["rank"]))
            self.log.last_time = fields.get("time", self.log.last_time)
            for one in _SIZE.finditer(line):
                self.log.sizes.add(int(one["size"]))
                self.log.named.update([int(one["rank"])] if one["rank"] else [])

    def _look_for_cut_traceback(self, data: bytes) -> None:
        """Keep the exception of a traceback whose first line is above the log."""
        lines = data.split(b"\n")[:MAX_LINES_BELOW]
        if b'File "' not in data:
            return
        for at, line in enumerate(lines):
            if b"(most recent call" in line:
                return
            if b'File "' in line and _FRAME.search(_decoded(line[:MAX_LINE_BYTES])):
                head = _decoded(line[:MAX_LINE_BYTES])
                above = [_decoded(one[:MAX_HEAD]) for one in lines[:at]]
                event = _traceback(
                    head, lines[at + 1 :], self.log.file, at + 1, above, self._taken
                )
                if _ERROR_TYPE.match(event.fields.get("what", "")):
                    event.fields["is_cut"] = "1"
                    self._keep(event)
                return

    def _look_for_life(self, data: bytes, number: int) -> None:
        """Note the steps at the beginning and the end of a log: who went on."""
        self.log.events.extend(self._steps(data.split(b"\n"), number))

    def _look_around(
        self, event: LogEvent, lines: Sequence[bytes], at: int, number: int
    ) -> None:
        """Note the last step of each above the end of a process, and the next below."""
        is_end = event.kind is Evidence.EXIT or event.kind in FATAL | LOST
        if not is_end or number <= self._looked_to:
            return
        start = max(0, at - LOOKED_AT)
        above = [*self._steps(lines[start:at], number - (at - start), AROUND)]
        below = [*self._steps(lines[at + 1 : at + LOOKED_AT], number + 1, AROUND)]
        last = {voice_of(step): step for step in above}
        following = {voice_of(step): step for step in reversed(below)}
        for step in (*last.values(), *following.values()):
            self._keep(step)
        self._looked_to = number + LOOKED_AT // 2

    def _steps(
        self, lines: Sequence[bytes], number: int, pattern: LogPattern = LIFE
    ) -> Iterator[LogEvent]:
        for at, line in enumerate(lines, number):
            if _STEP.search(line) and not any(word in line for word in _NO_STEPS):
                text = _decoded(line[:400])
                yield LogEvent(pattern, speaker_of(text)[0], self.log.file, at, text)

    def _read_lines(self, data: bytes, end: int) -> None:
        """Read the lines up to a place; those below it only belong to messages."""
        letters = data[:end].translate(None, _NO_LETTERS).split(b"\n")
        found = _candidates(letters)
        lines = [*self._above, *data.split(b"\n")] if found else []
        shift = len(self._above)
        for index, parts in found.items():
            keyed = _keyed_with(parts)
            for text in _pieces(lines[index + shift], keyed):
                at, number = index + shift, self.log.num_lines + index + 1
                self._read_line(text, keyed, lines, at, number)
        self.log.num_lines += data.count(b"\n", 0, end)
        above = data[max(0, end - MAX_LINE_BYTES) : end].split(b"\n")
        self._above = above[-LINES_ABOVE - 1 : -1]

    def _read_line(
        self, text: str, keyed: Keyed, lines: Sequence[bytes], at: int, number: int
    ) -> None:
        if TRACEBACK.key in text and not _STEP.search(text.encode()):
            below = lines[at + 1 : at + MAX_LINES_BELOW]
            above = lines[max(0, at - LINES_ABOVE) : at]
            before = _said_above(speaker_of(text)[0], above, 6)
            self._taken = {one for one in self._taken if one > number}
            event = _traceback(text, below, self.log.file, number, before, self._taken)
            is_told_only = event.fields.get("outermost") == "_run_finalizers"
            if is_told_only or (before and _ENDED_NOTHING.search(before[-1])):
                return  # multiprocessing tells what a finalizer raises, and goes on
            what = event.fields.get("what", "")
            if before and _IN_BACKGROUND.search(f"{before[-1]}\n{what}"):
                event.fields["in_background"] = "1"
            for line in reversed(before):  # what logs it says when, at the earliest
                when = speaker_of(line)[0].get("time")
                if when and "time" not in event.fields:
                    event.fields.update(time=when, is_earliest="1")
            self._keep(event)
            self._look_around(event, lines, at, number)
            return
        above, after = lines[max(0, at - LINES_ABOVE) : at], lines[at + 1 : at + 13]
        found = recognise(text, above, after, keyed)
        if found is not None and number in self._taken and found[0].is_form:
            return  # of a traceback that tells more
        if found is not None:
            said = MARK.sub("", text)[:400]
            event = LogEvent(*found, self.log.file, number, said)
            if found[0].is_of_another and (told := event.fields.get("payload")):
                self._taken |= {
                    number + index
                    for index, line in enumerate(after[: found[0].after], 1)
                    if told in _decoded(line)
                }
            self._keep(event)
            self._look_around(event, lines, at, number)

    def _keep(self, event: LogEvent) -> None:
        group_rank = event.fields.get("group_rank", "")
        key = (event.pattern.name, *voice_of(event), group_rank)
        self._counts[key] += 1
        joined = event.fields.get("joined_ranks")
        if joined is not None and key in self._lists:  # one list over many lines
            self._lists[key].append(joined)
            self._counts[key] -= 1
        elif self._counts[key] <= KEPT:
            if joined is not None:
                self._lists[key] = [joined]
                self._listed[key] = event
            self.log.events.append(event)
        else:
            self._last.setdefault(key, deque(maxlen=KEPT)).append(event)


def _candidates(letters: Sequence[bytes]) -> dict[int, tuple[bytes, ...]]:
    """Return the numbers of the lines that may have a message, with why, in order.

    Most lines of a log differ in numbers only. Their letters are compared once.
    """
    different = b"\n".join(set(letters))
    known: dict[bytes, tuple[bytes, ...]] = {}
    for trigger in triggers():
        at = different.find(trigger)
        while at >= 0:
            end = different.find(b"\n", at)
            end = end if end >= 0 else len(different)
            line = different[different.rfind(b"\n", 0, at) + 1 : end]
            known[line] = (*known.get(line, ()), trigger)
            at = different.find(trigger, end)
    if not known:
        return {}
    return {at: known[line] for at, line in enumerate(letters) if line in known}


def _pieces(line: bytes, keyed: Keyed) -> Iterator[str]:
    """Yield the parts of a line with a message: progress bars end with a return."""
    parts = line.split(b"\r")
    if b"   " in line or _GLUED.search(line):
        parts = [part for joined in parts for part in _JOINED.split(joined)]
    if b"%|" in line:
        parts = [part for joined in parts for part in _BEHIND_BAR.split(joined)]
    for part in parts:
        for start in range(0, len(part), MAX_LINE_BYTES):
            text = _decoded(part[start : start + MAX_LINE_BYTES])
            if TRACEBACK.key in text or any(key in text for key, _ in keyed):
                yield text


def _decoded(data: bytes) -> str:
    text = data.decode("utf-8", "replace").rstrip("\r\n")
    return _COLOUR.sub("", text) if "\x1b" in text else text


_SPEAKER = ("rank", "pid", "pod", "task", "local_rank", "voice")
"""What tells the lines of one process from those of others in the same log."""


OF_PROCESS = (*_SPEAKER, "host", "server")
"""What all lines of a traceback have alike: some prefixes name the host alone."""


def voice_of(event: LogEvent) -> tuple[str, ...]:
    """Return what a line says of its process, as far as it tells it from others."""
    return tuple(event.fields.get(name, "") for name in _SPEAKER)


_CHAINED = re.compile(
    r"The above exception was the direct cause|During handling of the above exception"
)
_OF_RANK = re.compile(r"most recent call last\): \(RANK (\d{1,7})\)")
_COPIED = re.compile(r"(?P<type>[\w.]+): Caught [\w.]+ (?P<where>in .{1,120}?)\.?")
"""What torch raises again of another process or thread, above its own traceback."""
_BLOCK = re.compile(r"\s+traceback *: ")
_OF_BLOCK = re.compile(
    r"(?m)^\s*(?:time +: (?P<time>\S+)|host +: (?P<host>\S+)"
    r"|rank +: (?P<rank>\d{1,7}) \(local_rank: (?P<local_rank>\d+)\)"
    r"|exitcode +: -?\d+ \(pid: (?P<pid>\d+)\))"
)
"""The lines above a traceback in the block of torchrun: whose it is."""

_OF_RECORD = re.compile(
    r"\[\d{4}-[\d-]+ [\d:.,]+ (?P<voice>[DTPE]P\d{1,6}(?: [DTPE]P\d{1,6})*)\]"
    r"|Lost task [\d.]+ in stage [\d.]+ \(TID \d+\) \((?P<host>[\w.-]+),? executor \d"
)
"""Whose a record of SGLang or Spark is, whose other lines have no prefix."""
_OF_SPAWNED = re.compile(
    r"-- Process (?P<local_rank>\d{1,7}) terminated with the following error:"
    r"|Exception in device=(?P<voice>[A-Z]{2,8}:\d{1,7})\b"
    r"|(?:- Rank\[|DeadLock detected from rank: |\[Rank (?=\d{1,7} Error Snippet))"
    r"(?P<rank>\d{1,7})"
    r"|ray::\S{1,200} \(pid=(?P<pid>\d+), ip=(?P<server>[\w.:]+)"
)
"""The line above what torch, torch_xla, LMDeploy, Lightning and Ray tell of one."""
_TOLD = re.compile(r"\w+: Traceback \(most")
"""A traceback that is the text of an exception, which was raised for another."""


def _traceback(
    head: str,
    lines: Iterable[bytes],
    file: str,
    number: int,
    above: Sequence[str],
    taken: set[int],
) -> LogEvent:
    """Return the event of a traceback: its exception, and where the program was.

    Args:
        head: Its first line.
        lines: Those below it; only those of the traceback are read.
        file: Name of the log.
        number: Number of the first line.
        above: Lines before it.
        taken: The numbers of the lines below the first that belong to it are added.
    """
    speaker, first = speaker_of(head)
    fields = _of_whom(speaker, first, above)
    prefix = _prefix_of_all(first)
    said = (
        (index, line, prefix.sub("", rest, 1))
        for index, data in enumerate(lines, 1)
        for line in (_decoded(data[:MAX_LINE_BYTES]),)
        for other, rest in (speaker_of(line),)
        # Another rank may write into the same log.
        if all(other.get(name) == speaker.get(name) for name in OF_PROCESS)
    )
    _add_whose(fields, head, above)
    end, last, cell = 0, head, ""
    _add_frame(fields, first)  # of a traceback whose first line is missing
    for at, line, rest in said:
        taken.add(number + at)
        if rest.strip():
            end, last = at, line
        if raised := _EXCEPTION.match(rest):
            fields["what"] = raised["what"]
            if raised["what"].endswith(" raised:"):
                continue  # torch's compiler tells what its backend raised below it
            _add_below(fields, (text for _, _, text in said))
            _add_root_error(fields)
            if original := _original(raised["what"], said):
                end, last, fields["what"] = original
                taken.update(range(number + at, number + end + 1))
            break
        if rest.startswith(_BESIDE):
            if rest[0] in "│|":  # rich cuts long names of files
                cell = (cell if re.match(r"/\S+$", cell) else "") + rest.strip("│| ")
                rest = f"│ {cell}"  # noqa: PLW2901 - what it says
            _add_frame(fields, rest)
        elif rest.strip():
            break
    text = MARK.sub("", last)[:400]
    return LogEvent(TRACEBACK, fields, file, number + end, text)


def _of_whom(
    speaker: dict[str, str], first: str, above: Sequence[str]
) -> dict[str, str]:
    """Return the fields of whose a traceback is, which another process may tell."""
    own = dict[str, str]()
    if _BLOCK.match(first):
        for found in _OF_BLOCK.finditer("\n".join(speaker_of(e)[1] for e in above)):
            _add(own, found)
        return {**_of_another(speaker, own), "launcher": launcher_of(speaker)}
    if _TOLD.match(first):
        told = (_OF_SPAWNED.search(one, 0, MAX_HEAD) for one in reversed(above))
        for whose in islice(filter(None, told), 1):
            _add(own, whose)
    return _of_another(speaker, own) if own else dict(speaker)


def _add_whose(fields: dict[str, str], head: str, above: Sequence[str]) -> None:
    """Note whose a traceback is that another process tells, or a whole record."""
    if told := _OF_RANK.search(head):  # a checkpoint tells those of others
        fields["rank"] = told[1]
    above_it = next((line for line in reversed(above) if line.strip()), "")
    for text, form in ((head, _OF_RECORD), (above_it, _OF_SPAWNED)):
        if whose := form.search(text, 0, MAX_HEAD):
            _add(fields, whose)


def _prefix_of_all(first: str) -> re.Pattern[str]:
    """Return what stands before all lines of a traceback, by its first line.

    It is an indent, what a logger writes with other numbers, or a bar for each group of
    exceptions. Lines without it are taken as they are.
    """
    head, key, _ = first.partition(TRACEBACK.key)
    if not key or _BLOCK.match(first):
        return re.compile("^  " if key else "^")
    if head.endswith("Exception Group "):
        return re.compile(r"^ *\| ")
    return re.compile("^" + re.sub(r"\d+", r"\\d+", re.escape(head)))


def _add_below(fields: dict[str, str], lines: Iterable[str]) -> None:
    """Note what stands below an exception, and whether another follows from it."""
    below: list[str] = []
    for line in islice(lines, MAX_BELOW):
        if line.startswith(("Traceback", "  File")):
            break
        below += [line.strip()] if line.strip() else []
    fields["below"] = "\n".join(below)
    if any(map(_CHAINED.match, below)):
        fields["is_chained"] = "1"


def _add_root_error(fields: dict[str, str]) -> None:
    """Let an exception of TensorFlow say the first of the errors that it lists."""
    below = fields["below"].splitlines()
    said = (fields["what"], *below[:1])
    root = next((line for line in below if line.startswith("(0) ")), "")
    if root and any("root error(s) found" in line for line in said):
        fields["what"] = f"{fields['what'].partition(':')[0]}: {root[4:]}"


def _original(
    what: str, lines: Iterable[tuple[int, str, str]]
) -> tuple[int, str, str] | None:
    """Return the last line of the traceback that torch copies below an exception.

    Returns:
        Its number below the first, the line, and what was raised where; None if the
        exception is no copy.
    """
    copied = _COPIED.fullmatch(what)
    if copied is None:
        return None
    for at, line, rest in lines:
        if re.match(rf"(?:[\w.]+\.)?{re.escape(copied['type'])}\b", rest):
            return at, line, f"{rest.strip()} ({copied['where']})"
        if rest.startswith("Traceback"):
            break  # of another process
    return None


def _add_frame(fields: dict[str, str], text: str) -> None:
    """Note the innermost frame of the program, and the call of torch below it."""
    frame = _FRAME.search(text)
    if frame is None:
        return
    name = frame["file"] or frame["path"]
    fields.setdefault("outermost", frame["function"] or frame["name"])
    if "frame" not in fields and "<module>" in (frame["function"], frame["name"]):
        fields["from_module"] = "1"  # nothing above it handles the exception
    fields["frame"] = name
    if "torch/utils/data/" in name:
        fields["of_loader"] = "1"
    if name.endswith("distributed_c10d.py"):
        fields["op"] = frame["function"] or frame["name"]
        if fields["op"] in ("init_process_group", "_new_process_group_helper"):
            del fields["op"]  # before any operation
    elif "-packages" not in name and not name.startswith("<"):
        line = frame["line"] or frame["number"]
        fields["site"] = f"{os.path.basename(name)}:{line}"
        fields.pop("op", None)
