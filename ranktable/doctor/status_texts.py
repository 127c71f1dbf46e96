"""Read states as text: NCCL's RAS status (``ncclras``), and ``nvidia-smi -q``.

NCCL lists only the ranks that differ from the most; the most are told by their number.
Sources: NCCL 2.30, src/ras/client_support.cc; nvidia-smi of driver 580 on an H100.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from ranktable.doctor.lines import Log, LogEvent, numbers_in
from ranktable.doctor.patterns import Evidence, LogPattern

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

HEAD_BYTES: Final = 4096
"""In how many bytes of a file its kind shows."""

_SMI = b"==============NVSMI LOG=============="
_RAS = re.compile(
    rb"(?m)^Communicators\.\.\. \(|^Job summary\r?$|^#\d+-\d+ \([0-9a-f]+\) "
    rb"(?:INCOMPLETE|ERROR|MISMATCH)"
)
_ROW = re.compile(r"\s*(\d+)\s+\d+\s+\d+\s+[\d-]+\s+(\d+)\s+\d+\s+[A-Z]+")
_COMMUNICATOR = re.compile(r"#(\d+)-\d+ \(([0-9a-f]+)\) (\w+)")
_RANK = re.compile(
    r" +Rank (?P<group_rank>\d{1,7})(?: has (?P<state>[^-]+?))? -- "
    r"(?:GPUs? (?P<device>\d+)?.*? ?managed by process (?P<pid>\d+) on node "
    r"(?P<host>\S+)|\[)"
)
_PROCESS = re.compile(
    r" +Process (?P<pid>\d+) on node (?P<host>\S+) managing GPUs? (?P<device>\d+)?"
)
_MISSING = re.compile(r" +The missing ranks?: (?P<ranks>\d[\d, -]*)$")
_MANY = re.compile(r" +\d+ ranks have (.+)")
_LAUNCHED = re.compile(r"launched up to operation (\d{1,18})")
_HEAD = "Communicators..."
_SILENT = "does not answer NCCL"
_ENDED = {"FINALIZE": "has left its communicator", "INIT": "has not joined it yet",
          "NOCOMM": "has no such communicator"}  # fmt: skip


class _Said(NamedTuple):
    kind: Evidence
    what: str
    line: int
    fields: dict[str, str]


def is_status(head: bytes) -> bool:
    """Return whether a file that begins like this has such a state."""
    return _SMI in head or _RAS.search(head) is not None


def status_log(data: bytes, file: str) -> Log:
    """Return what a status says."""
    is_smi = _SMI in data[:HEAD_BYTES]
    lines = data.decode("utf-8", "replace").splitlines()
    log = Log(file=file, num_lines=len(lines), num_bytes=len(data))
    name, speaker = ("nvidia-smi", "nvidia") if is_smi else ("nccl-status", "nccl")
    for said in _chips(lines) if is_smi else _communicators(lines):
        pattern = LogPattern(name, speaker, said.kind, "", "", "", what=said.what)
        fields = {key: value for key, value in said.fields.items() if value}
        text = lines[said.line - 1].strip()
        fields["what"] = said.what
        log.events.append(LogEvent(pattern, fields, file, said.line, text))
    return log


# NCCL


def _communicators(lines: Sequence[str]) -> Iterator[_Said]:
    """Yield who every named rank is, and which are dead, silent or behind."""
    who, reader = _processes(lines), _Reader()
    for number, line in enumerate(lines, 1):
        reader.take(line)
        if line.startswith(_HEAD):
            yield _Said(Evidence.STATE, "", number, {"snapshot": "1"})
        if found := _PROCESS.match(line):
            what = "is dead for NCCL" if reader.section == "DEAD" else _SILENT
            fields = who.get((found["pid"], found["host"]), found.groupdict(""))
            yield _Said(Evidence.HEARTBEAT, what, number, fields)
        elif found := _MISSING.match(line):
            for rank in numbers_in(found["ranks"]):
                fields = {**reader.group, "group_rank": str(rank)}
                yield _Said(Evidence.HEARTBEAT, _SILENT, number, fields)
        elif found := _RANK.match(line):
            fields = {**reader.group, **found.groupdict("")}
            state = fields.pop("state") or reader.other
            what = reader.trouble_of(state)
            yield _Said(Evidence.IDENTITY, "", number, fields)
            if what:
                counts = reader.counts_of(state)
                kind = Evidence.STATE if counts else Evidence.HEARTBEAT
                yield _Said(kind, what, number, {**fields, **counts})


@dataclass
class _Reader:
    """What the lines above say of the ranks that follow.

    Attributes:
        section: What is wrong with them.
        group: Their communicator, and its size.
        usual: What most ranks of it have done.
        other: What the ranks that follow have done, if a line tells it of all.
        op: The operation that is counted.
    """

    section: str = ""
    group: dict[str, str] = field(default_factory=dict)
    usual: str = ""
    other: str = ""
    op: str = ""
    sizes: dict[str, str] = field(default_factory=dict)

    def take(self, line: str) -> None:
        if row := _ROW.match(line):
            self.sizes[row[1]] = row[2]
        elif found := _COMMUNICATOR.match(line):
            size = self.sizes.get(found[1], "")
            self.group = {"group": found[2], "group_size": size}
            self.section = found[3]
        elif line.rstrip() in ("DEAD", "INCOMPLETE"):
            self.section = line.rstrip()
        elif line.startswith("  Communicator ranks have different"):
            self.usual = self.other = ""
            self.op = line.partition(" different ")[2].partition(" ")[0]
        elif many := _MANY.match(line):
            self.other = many[1] if self.usual else ""
            self.usual = self.usual or many[1]

    def trouble_of(self, state: str) -> str:
        if self.section == "INCOMPLETE":
            return _SILENT
        return _differs(state, self.usual) if self.section == "MISMATCH" else ""

    def counts_of(self, state: str) -> dict[str, str]:
        """Return how many operations a rank has launched, and the most have."""
        most, mine = _LAUNCHED.match(self.usual), _LAUNCHED.match(state)
        if self.section != "MISMATCH" or most is None:
            return {}
        return {"counted": self.op, "launched": mine[1] if mine else "0", "of": most[1]}


def _processes(lines: Sequence[str]) -> dict[tuple[str, str], dict[str, str]]:
    """Return the rank of each process that is named with one.

    If one process is missing, and one rank of a communicator, they are the same.
    """
    found = (match for line in lines if (match := _RANK.match(line)) and match["pid"])
    named = {
        (match["pid"], match["host"]): {
            key: value for key, value in match.groupdict("").items() if key != "state"
        }
        for match in found
    }
    reader, missing = _Reader(), []
    for line in lines:
        reader.take(line)
        if match := _MISSING.match(line):
            missing += [{**reader.group, "group_rank": str(rank)}
                        for rank in numbers_in(match["ranks"])]  # fmt: skip
    silent = {(match["pid"], match["host"]): match.groupdict("") for line in lines
              if (match := _PROCESS.match(line))}  # fmt: skip
    if len(missing) == len(silent) == 1:
        ((process, fields),) = silent.items()
        named.setdefault(process, {**missing[0], **fields})
    return named


def _differs(state: str, usual: str) -> str:
    """Return how a rank differs from the most; one that is ahead waits for others."""
    most = _LAUNCHED.match(usual)
    mine = _LAUNCHED.match(state)
    if most and (mine or state == "not launched any operations"):
        count = int(mine[1]) if mine else 0
        if count != int(most[1]):
            differs = "fewer" if count < int(most[1]) else "more"
            return f"launched {differs} operations, {count} of {int(most[1])}"
    if usual == "status RUNNING" and state.startswith("status "):
        return _ENDED.get(state.removeprefix("status "), "")
    return ""


# nvidia-smi


def _chips(lines: Sequence[str]) -> Iterator[_Said]:
    """Yield the first of what each chip reports that only a reset or another one mends.

    Errors since the driver was loaded count, those of the chip's life do not: the chip
    has done its work since then.
    """
    bus, heads = "", [""] * 4
    told = set()
    for number, line in enumerate(lines, 1):
        if found := re.match(r"GPU ([0-9A-Fa-f]{8}:\S+)", line):
            bus = found[1]
        name, _, value = (part.strip() for part in line.partition(" : "))
        depth = min(3, (len(line) - len(line.lstrip())) // 4)
        heads[depth:] = [name] * (4 - depth)
        what = _trouble(heads[:depth], name, value)
        if what and bus and bus not in told:
            told.add(bus)
            yield _Said(Evidence.FAULT, what, number, {"bus": bus, "since": "load"})


def _trouble(heads: Sequence[str], name: str, value: str) -> str:
    counted = "Uncorrectable" in name and "Volatile" in heads
    if counted and value.isdecimal() and value.strip("0"):
        return f"{value[:12]} uncorrectable ECC errors ({name})"
    if name == "GPU Recovery Action" and value.lower() not in ("none", "n/a", ""):
        return f"the driver asks for the recovery action {value[:40]}"
    is_memory = "Remapped Rows" in heads or "Retired Pages" in heads
    if value == "Yes" and (is_memory or name == "Unrepairable Memory"):
        return f"uncorrectable ECC error: {name}"
    return ""
