"""The events of a failed job: who waited for whom, and what is said of it."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from datetime import date
from functools import cached_property
from typing import TYPE_CHECKING

from ranktable.doctor import causes
from ranktable.doctor.lines import launcher_of, voice_of
from ranktable.doctor.patterns import CONSEQUENCES, Evidence
from ranktable.doctor.payload import judged_again
from ranktable.schema.text import counted, folded

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from ranktable.doctor.identity import Ranks
    from ranktable.doctor.lines import LogEvent
    from ranktable.schema.finding import Rule

    Lines = dict[str, dict[int | None, list[int]]]
    """Numbers of lines of logs, by the ranks that say them."""

MAX_EVIDENCE = 6
DAY_S = 24 * 3600
CLEARLY_S = 5
"""Events of processes are in order if their clocks are so far apart."""

MAX_ROW = 1 << 16
"""Ranks of one log, from the first to the last, among which some are sought."""
PROGRESS = 20
"""Ordinary lines of an unnamed speaker that show that a program went on."""
SERVED = 3
"""Lines of a server that answers, below an error, that show that it still does."""
_SERVED = re.compile(
    r" HTTP/[\d.]+\" [24]\d\d|tokens/s, Running|gen throughput \(token/s\): "
)

_PROGRAMS = re.compile(r"(?i)python|torch|train|pt_|ray|worker|mpi|deepspeed|java")
"""Names of programs that may be processes of a job."""
_PID = re.compile(r"\bpid(?:\(s\))?\W{1,2}(\d{1,9})")
"""A process that an exception is about."""

NO_ERRORS = {
    Evidence.IDENTITY, Evidence.STATE, Evidence.ATTEMPT, Evidence.LIFE, Evidence.END,
    Evidence.HOST,
}  # fmt: skip
"""What is no error by itself."""

FATAL = {
    Evidence.EXCEPTION, Evidence.FAULT, Evidence.MEMORY, Evidence.SETTING,
}  # fmt: skip
"""What ends a process that does not handle it."""

LOST = {Evidence.TIMEOUT, Evidence.CLOSED}
"""What is said by those that waited in vain, or lost another."""

OF_OTHERS = {Evidence.EXIT, Evidence.OOM, Evidence.NODE, Evidence.SCHEDULER}
"""What launchers and kernels say of a process, in whatever file it stands."""

NOT_OF_ITSELF = {
    Evidence.HEARTBEAT, Evidence.ABSENT, Evidence.EDGE, Evidence.LINK, Evidence.STATE,
    Evidence.TIMEOUT, Evidence.MISMATCH,
}  # fmt: skip
"""What a process says of another, or of how far it came."""

_PLURAL = {"was": "were", "is": "are", "has": "have", "calls": "call"}
"""The verbs with which a sentence about one rank begins, as those about several."""

STALLS = (
    "horovod-stalled", "store-barrier", "ranktable-node", "ranktable-unanswered",
    "ray-unreached", "tensorflow-waits", "neuron-waits",
)  # fmt: skip
"""Messages of waits in which all ranks of a job stand, or have not begun."""

NOT_YET = ("pod-unscheduled", "pod-not-begun")
"""Messages of pods that wait, until anybody goes on or their containers start."""

OF_NEXT = ("slurm-refused", "jax-coordinator")
"""What says nothing below the end of a job: the next did not start, or a rank has ended
that the others tell of theirs."""

_OF_OTHERS = ("hccl", "slurm", "kernel", "kubernetes", "torchrun")
"""Those whose lines are not ended by what a program does afterwards."""


@dataclass(frozen=True, kw_only=True)
class Cause:
    """What the logs say why a job failed.

    Attributes:
        rule: The finding.
        ranks: The ranks that it accuses; empty if it is a host, or unknown.
        host: The host, None if it is not known, or they are several.
        headline: What happened, in one line.
        waiting: Who waits for them, and where; None if nobody was seen to.
        evidence: The lines it follows from, the most telling first.
        advice: What to do; None if that of the rule is meant.
    """

    rule: Rule
    ranks: tuple[int, ...] = ()
    host: str | None = None
    headline: str
    waiting: str | None = None
    evidence: tuple[LogEvent, ...] = ()
    advice: str | None = None

    @property
    def fix(self) -> str:
        """What to do."""
        return self.advice or self.rule.fix


@dataclass(frozen=True)
class Wait:
    """A rank that waited in vain.

    Attributes:
        rank: The rank.
        group: Name of the communicator, empty if the line does not say it.
        seq: Number of the operation in it, None if it is not known.
        op: Name and size of the operation, or what the program called.
        site: Where the program called it.
        event: The line.
    """

    rank: int
    group: str
    seq: int | None
    op: str
    site: str
    event: LogEvent


class Case:
    """The events of a job, each with its speaker.

    Attributes:
        ranks: Who is who.
        events: What counts: not what a process has overcome.
        overcome: Errors below which their process went on.
        waits: Who waited in vain, the first report of each rank first.
        waiters: The ranks that report that they wait or have lost somebody.
        apart: The ranks that lost a connection that may be none of the job.
        edges: Who waits for whom, by rank.
        seen: Ranks of which a line was read.
        listed: Ranks that a launcher started, whose own log was given.
        claimed: Ranks of which a launcher says how they ended.
        aborted: Those of them that called abort.
        pids: Process ids that anybody but the kernel names.
        children: Ranks that tell of other processes, by the ids of these.
        kills: Lines of the kernel about programs that may be of the job.
        speakers_of_file: Ranks that say lines of a file, or of the files of one host.
    """

    def __init__(self, events: Sequence[LogEvent], ranks: Ranks) -> None:
        """Resolve the speakers."""
        self.ranks = ranks
        told = judged_again(events)
        self._last_step: dict[tuple[str, tuple[str, ...]], int] = {}
        self._steps = self._lines_of(Evidence.LIFE, told)
        self._ends = self._lines_of(Evidence.END, told)
        self._served = self._lines_of(Evidence.LIFE, filter(_is_of_server, told))
        self._succeeded = {
            event.file: event.line
            for event in told
            if event.kind is Evidence.END and event.pattern.speaker == "torchrun"
        }
        self._started = {event.file: event.line for event in told
                         if event.pattern.name == "event-started"}  # fmt: skip
        self._finished = {} if any(map(_has_failed, told)) else {
            event.file: event.line for event in told if event.kind is Evidence.END
        }  # fmt: skip
        overcome = [event for event in told if self._went_on(event)]
        again = self._fatal_after_all(told, overcome)
        self.overcome = [event for event in overcome if event not in again]
        left = {id(event) for event in self.overcome}
        self.seen = set(ranks.seen)
        self.children = {
            pid: ranks.speaker(event)
            for event in told
            for pid in _PID.findall(event.fields.get("what", ""))
        }
        self.pids = {
            event.fields.get("pid")
            for event in told
            if event.pattern.speaker != "kernel"
        } - {None} | self.children.keys()
        self._is_sound = not any(
            event.kind in FATAL | CONSEQUENCES and event.pattern.speaker != "kernel"
            for event in told
        )
        self._goes_on = any(event.kind is Evidence.LIFE for event in told)
        self._jobs = {_name_of_job(event) for event in told
                      if event.pattern.speaker != "kubernetes"} - {""}  # fmt: skip
        self.events = [
            event for event in told if id(event) not in left and self._is_of_job(event)
        ]
        self.kills = [
            event for event in told
            if event.kind is Evidence.OOM and event.pattern.speaker == "kernel"
            and _PROGRAMS.search(event.fields.get("what", ""))
        ]  # fmt: skip
        self.by_kind: dict[Evidence, list[LogEvent]] = defaultdict(list)
        for event in self.events:
            self.by_kind[event.kind].append(event)
        self.listed = {
            rank
            for event in self.by_kind[Evidence.ATTEMPT]
            for rank in event.numbers("peers")
        }
        self.speakers_of_file: dict[str, set[int]] = defaultdict(set)
        for event in told:
            rank = ranks.speaker(event)
            is_own = {"rank", "group_rank", "task"} & event.fields.keys()
            if rank is not None and is_own and event.kind not in OF_OTHERS:
                self.speakers_of_file[_log_of(event.file)].add(rank)
        self.claimed = set(self.speakers(Evidence.EXIT))
        self.aborted = {ranks.speaker(event) for event in self.by_kind[Evidence.EXIT]
                        if signal_of(event) == ABORT}  # fmt: skip
        self.waits = list(self._find_waits())
        waited = {wait.rank for wait in self.waits}
        files = {wait.event.file for wait in self.waits}
        self.by_kind[Evidence.CLOSED] = [  # a watchdog says so of what timed out, too
            event for event in self.by_kind[Evidence.CLOSED]
            if event.pattern.name != "torch-operations-failed"
            or ((rank := ranks.speaker(event)) not in waited
            and (rank is not None or event.file not in files))
        ]  # fmt: skip
        self.waiters = {wait.rank for wait in self.waits}
        self.waiters.update(self.speakers(Evidence.CLOSED, Evidence.ABSENT))
        self.apart = {
            rank
            for event in self.by_kind[Evidence.CLOSED]
            if "apart" in event.fields and (rank := ranks.speaker(event)) is not None
        } - {wait.rank for wait in self.waits}
        self.waiters -= self.apart
        for rank, file in self._raised():
            self.waiters.add(rank)
            self.speakers_of_file[_log_of(file)].add(rank)
        self.edges = list(self._find_edges())
        self.waiters.update(waiter for waiter, _, _ in self.edges)

    # Who went on

    def _lines_of(self, kind: Evidence, events: Iterable[LogEvent]) -> Lines:
        """Return the lines of a kind, by file and speaker."""
        lines: Lines = {}
        for event in events:
            if event.kind is kind:
                of_file = lines.setdefault(event.file, defaultdict(list))
                of_file[self.ranks.speaker(event)].append(event.line)
                self._last_step[event.file, voice_of(event)] = event.line
        return lines

    def _has_step_of_process(self, event: LogEvent) -> bool:
        """Whether a process without a rank, as launchers call it, tells a step below.

        The id of a process may be that of another, of which the line tells.
        """
        voice = voice_of(event)
        without_id = voice_of(replace(event, fields={**event.fields, "pid": ""}))
        return any(
            any(one) and self._last_step.get((event.file, one), 0) > event.line
            for one in (voice, without_id)
        )

    def _went_on(self, event: LogEvent) -> bool:
        """Whether its process went on below an error.

        If it is not known which process that was, all of the file have to go on. If
        only others tell their steps, many of them show it: nobody gets far alone.
        """
        is_over = event.line > self._finished.get(event.file, event.line)
        is_beside = "in_background" in event.fields or _is_of_helper(event)
        is_left = is_left_loader(event) or (is_over and is_beside)
        is_left |= is_over and event.pattern.name in OF_NEXT
        if event.pattern.name in NOT_YET:
            is_left |= event.line < self._started.get(event.file, 0)
            is_left |= bool(self._steps or self._ends)
        if is_left or event.line < self._succeeded.get(event.file, 0):
            return event.kind not in NO_ERRORS
        is_fatal = event.kind is Evidence.TIMEOUT and event.pattern.speaker == "torch"
        is_of_others = event.pattern.speaker in _OF_OTHERS
        if event.kind in NO_ERRORS or is_of_others or is_fatal:
            return False  # a watchdog of torch ends its process
        rank = self.ranks.speaker(event)
        below = _number_below(event, self._steps)
        # Where a process ended, a script or another rank may say that it is done.
        is_end = event.pattern.speaker == "shell" or "from_module" in event.fields
        if not is_end:
            for one, number in _number_below(event, self._ends).items():
                below[one] = below.get(one, 0) + number * PROGRESS
        is_serving = sum(_number_below(event, self._served).values()) >= SERVED
        is_warning = event.pattern.speaker == "store" and "[W" in event.text
        if is_warning or event.pattern.name.startswith(STALLS):
            return any(below.values())  # nobody goes on during a stall
        finished = 0 if is_end else self._finished.get(event.file, 0)
        is_done = rank is None and event.line < finished
        is_soon = "is_cut" in event.fields or (event.pattern.is_form and rank is None)
        progress = 1 if is_soon else PROGRESS
        is_port = event.pattern.name == "nccl-port-event"  # a link may come back
        is_back = is_port and min(below.values(), default=0) > 1
        if is_back or (
            rank is None and (is_serving or self._has_step_of_process(event))
        ):
            return True
        if rank in below and not is_done:
            return below[rank] >= (progress if rank is None else 1)
        least = min if rank is None else max
        return is_done or least(below.values(), default=0) >= progress

    def has_steps_below(self, event: LogEvent) -> bool:
        """Whether anybody in the log of an error of unknown rank tells a step below."""
        numbers = (_number_below(event, lines) for lines in (self._steps, self._ends))
        return self.ranks.speaker(event) is None and any(
            any(of_file.values()) for of_file in numbers
        )

    def _fatal_after_all(
        self, told: Sequence[LogEvent], overcome: Sequence[LogEvent]
    ) -> list[LogEvent]:
        """Return the last error of each rank that ended with status 1, or aborted.

        What a program prints may be written to a log only when it ends: its steps then
        stand below the traceback that ended it. So do those of others if their logs
        were joined.
        """
        left = {id(event) for event in overcome}
        found: list[LogEvent] = []
        for ended in told:
            ranks = ended.numbers("tasks") or (self.ranks.speaker(ended),)
            is_bad = ended.fields.get("exit") == "1" or signal_of(ended) == ABORT
            if not is_bad or len(ranks) != 1 or ranks[0] is None:
                continue
            own = [event for event in told if self.ranks.speaker(event) == ranks[0]
                   and event.kind in {*FATAL, *LOST} and not is_left_loader(event)
                   ]  # fmt: skip
            is_last = not any(
                _number_below(ended, lines).get(ranks[0])
                for lines in (self._steps, self._ends)
            )
            if own and is_last and all(id(event) in left for event in own):
                found.append(own[-1])
        return found

    def _is_of_job(self, event: LogEvent) -> bool:
        """Whether a line of the kernel is about a process or host of the job.

        Other programs of the host run out of memory too. A process of the job has a
        known id, or the name of a program that trains.
        """
        if event.pattern.speaker == "kubernetes":
            job = _name_of_job(event)
            is_other = bool(job and self._jobs) and job not in self._jobs
            # A container that did not answer its probe is started again.
            is_again = event.pattern.name == "pod-probe-failed"
            return not is_other and not (is_again and self._finished and self._is_sound)
        if event.pattern.speaker != "kernel":
            return True
        host = _short(self.ranks.host(event))
        ranks = self.seen | self.everyone()
        hosts = {_short(self.ranks.host_of(rank)) for rank in ranks} - {None}
        if host is not None and hosts and host not in hosts:
            return False
        if event.fields.get("pid") in self.pids:
            return True
        name = event.fields.get("comm") or (
            event.fields.get("what", "") if event.kind is Evidence.OOM else ""
        )
        # The program of a worker of torch that loads data raises what became of it.
        is_over = self._finished or (self._goes_on and name.startswith("pt_data"))
        if is_over and self._is_sound:
            return False
        return not name or bool(_PROGRAMS.search(name))

    def speakers(self, *kinds: Evidence) -> Iterator[int]:
        """Yield the ranks that say lines of some kinds."""
        for kind in kinds:
            for event in self.by_kind[kind]:
                rank = self.ranks.speaker(event)
                if rank is not None:
                    yield rank

    def reports_of(self, rank: int | None) -> list[LogEvent]:
        """Return the lines by which a rank says that it waits or lost somebody.

        That NCCL tells a call, or somebody a count, says nothing of the kind.
        """
        return [
            event
            for kind in (Evidence.TIMEOUT, Evidence.CLOSED, Evidence.STATE)
            for event in self.by_kind[kind]
            if self.ranks.speaker(event) == rank
            and (kind is not Evidence.STATE or "enqueued" in event.fields)
        ]

    def _raised(self) -> Iterator[tuple[int, str]]:
        """Yield the ranks that ended as a program that raises, if nothing says why.

        Before torch 2.2 no line of a traceback has the rank. What waited in vain then
        has none either, and the status of the process has to tell who it was.
        """
        nameless = {
            event.file
            for kind in (Evidence.TIMEOUT, Evidence.CLOSED)
            for event in self.by_kind[kind]
            if self.ranks.speaker(event) is None
        }
        for event in self.by_kind[Evidence.EXIT]:
            rank = self.ranks.speaker(event)
            has_raised = event.fields.get("exit") == "1" and event.file in nameless
            if rank is not None and has_raised:
                yield rank, event.file

    # Which logs were given

    def everyone(self) -> frozenset[int]:
        """Return all ranks of the job; empty if its size is not known."""
        return self.ranks.everyone() if self.ranks.is_size_known else frozenset()

    @cached_property
    def _closing(self) -> list[LogEvent]:
        return [event for event in self.by_kind[Evidence.CASCADE]
                if "closing" in event.fields]  # fmt: skip

    def closes_in(self, file: str) -> bool:
        """Whether a launcher says in a file which processes it ended itself."""
        return any(event.file == file for event in self._closing)

    def was_closed(self, ended: LogEvent) -> bool:
        """Whether the launcher of a process ended it; other hosts have its id too."""
        told: dict[str, set[str | None]] = defaultdict(set)
        for event in self._closing:
            if event.file == ended.file:
                told[launcher_of(event.fields)].add(event.fields["closing"])
        pids = told.get(launcher_of(ended.fields), set().union(*told.values()))
        return ended.fields.get("pid") in pids

    @cached_property
    def closed(self) -> set[int]:
        """Ranks that ran until their launcher ended them: it accounts for all of its.

        Those that it did not end itself have ended before, each with a status.
        """
        gone: dict[tuple[str, str], set[str]] = defaultdict(set)
        for event in (*self._closing, *self.by_kind[Evidence.EXIT]):
            pid = event.fields.get("closing") or event.fields.get("pid", "")
            if event.pattern.speaker == "torchrun":
                gone[event.file, launcher_of(event.fields)].add(pid)
        num_gone = Counter[str]()
        for (file, _), pids in gone.items():
            num_gone[file] += len(pids - {""})
        files = {event.file for event in self._closing}
        ranks = {
            file: self.speakers_of_file.get(_log_of(file), set()) for file in files
        }
        accounted = (
            ranks[file] for file in files if num_gone[file] >= len(ranks[file])
        )
        return set().union(*accounted) - self.claimed

    @cached_property
    def is_lost_elsewhere(self) -> bool:
        """Whether only hosts of which no log was given closed connections, by names."""
        said = {event.fields.get("peer_server", "")
                for event in self.by_kind[Evidence.CLOSED]} - {""}  # fmt: skip
        peers = {_short(self.ranks.host_name(name)) for name in said}
        hosts = {self.ranks.host_of(rank) for rank in self.seen}
        hosts |= {self.ranks.host(event) for event in self.by_kind[Evidence.EXIT]}
        names = {_short(host) for host in hosts} - {None}
        return bool(names and peers) and peers.isdisjoint({*names, None})

    def gaps(self, files: Iterable[str] | None = None) -> set[int]:
        """Return the ranks that are missing among their neighbours in one file.

        Of the log of a node with ranks 8, 9 and 11, rank 10 is missing, and of one with
        8 to 15 nobody, although ranks 0 to 7 must exist. If many are missing, the logs
        are not complete, and nobody is.
        """
        logs = set(self.speakers_of_file if files is None else map(_log_of, files))
        rows = [self.speakers_of_file.get(log, set()) for log in logs]
        missing = set().union(*map(_missing_among, rows)) - self.seen
        if len(missing) > max(1, sum(map(len, rows)) // 8):
            missing = set()
        missing |= (self.listed - self.seen) if files is None else set()
        limit = self.ranks.size if self.ranks.is_size_known else None
        return {rank for rank in missing if limit is None or rank < limit}

    def without_log(self) -> set[int]:
        """Return the ranks of which no line was read, as far as ranks are known."""
        return set(self.everyone() or range(max(self.seen, default=0))) - self.seen

    @cached_property
    def heard(self) -> set[int]:
        """Ranks of which a log was given in which they would say for whom they wait."""
        kinds = Evidence.IDENTITY, Evidence.EDGE
        in_plog = {self.ranks.speaker(event) for kind in kinds
                   for event in self.by_kind[kind]
                   if event.pattern.speaker == "hccl"} - {None}  # fmt: skip
        return self.seen & in_plog if len(in_plog) > 1 else self.seen

    @property
    def quiet(self) -> set[int]:
        """Ranks of which a log was given that does not say that they wait."""
        return self.seen - self.waiters

    def silent(self) -> set[int]:
        """Return the ranks of which a log was given, and of whose end nobody tells."""
        return self.quiet - self.claimed - self.closed

    def is_covered(self, rank: int) -> bool:
        """Whether a log of a rank was given, or one of its neighbours on its host."""
        if rank in self.seen or rank in self.gaps():
            return True
        host = self.ranks.host_of(rank)
        there = self.ranks.on_host(host) if host is not None else self._block(rank)
        return bool(self.seen & set(there))

    def _block(self, rank: int) -> set[int]:
        """Return the ranks of the host of a rank, if all hosts have equally many."""
        hosts: dict[str, set[int]] = defaultdict(set)
        for one in self.seen:
            if (host := self.ranks.host_of(one)) is not None:
                hosts[host].add(one)
        size = max(map(len, hosts.values()), default=0)
        blocks = [{one // size for one in ranks} for ranks in hosts.values()]
        if len(hosts) < 2 or any(len(block) > 1 for block in blocks):
            return set()
        return {one for one in self.seen if one // size == rank // size}

    # Who waits

    def _find_waits(self) -> Iterator[Wait]:
        waiting: set[int] = set()
        for event in (*self.by_kind[Evidence.TIMEOUT], *self.by_kind[Evidence.STATE]):
            rank, said = self.ranks.speaker(event), event.fields
            number = said.get("seq", said.get("index"))
            has_waited = event.kind is Evidence.TIMEOUT or number is not None
            if rank is None or not has_waited or ("op" not in said and rank in waiting):
                continue  # the line before says more of the same wait
            waiting.add(rank)
            yield Wait(
                rank,
                self.ranks.group(event)[0],
                None if number is None or not number.isdecimal() else int(number[:18]),
                _operation(said, event.pattern.speaker),
                said.get("site", ""),
                event,
            )

    def first_waits(self) -> dict[tuple[str, int], Wait]:
        """Return the first report of every rank in every group."""
        found: dict[tuple[str, int], Wait] = {}
        for wait in self.waits:
            found.setdefault((wait.group, wait.rank), wait)
        return found

    def _find_edges(self) -> Iterator[tuple[int, int, LogEvent]]:
        events = [*self.by_kind[Evidence.EDGE], *self.by_kind[Evidence.LINK],
                  *self.by_kind[Evidence.TIMEOUT]]  # fmt: skip
        placed = {self.ranks.speaker(one) for one in events
                  if one.pattern.speaker == "hccl" and _names_place(one)}  # fmt: skip
        for event in events:
            speaker = self.ranks.speaker(event)
            # A number in a group says less than the place in another line.
            is_told = event.pattern.name == "hccl-socket-role" and speaker in placed
            if speaker is not None and not is_told:
                for peer in self.ranks.peers(event):
                    if peer != speaker:
                        yield speaker, peer, event

    def waiting_for(self, culprits: Iterable[int]) -> str | None:
        """Return who waits for some ranks, and where."""
        accused = set(culprits)
        waits = [wait for wait in self.waits if wait.rank not in accused]
        waiters = sorted(self.waiters - accused)
        if not waiters:
            return None
        who = f"{counted(len(waiters), 'rank')} ({folded(waiters)})"
        group = self.ranks.group_name(accused | set(waiters))
        verb = "waits" if len(waiters) == 1 else "wait"
        text = f"{who} {verb} for {'them' if len(accused) > 1 else 'it'}"
        common = Counter((wait.op, wait.seq) for wait in waits if wait.op)
        if common:
            (op, seq), _ = common.most_common(1)[0]
            number = f" {seq}" if seq is not None else ""
            text += f" in {op.partition(' of ')[0]}{number}"
        text = f"{text} of the {group}" if group else text
        return f"{text}{self._last_sign_of(accused)}" if len(accused) == 1 else text

    def _last_sign_of(self, accused: Iterable[int]) -> str:
        (rank,) = accused
        done = [event.fields["done"] for one, event in states_of(self)
                if one == rank and "done" in event.fields]  # fmt: skip
        when = self.ranks.last_time_of(rank)
        signs = [f"completed {done[0]}"] if done else []
        signs += [f"logged nothing after {when}"] if when else []
        return f"; it {' and '.join(signs)}" if signs else ""


def _number_below(event: LogEvent, lines: Lines) -> dict[int | None, int]:
    """Return how many of some lines stand below another, by their speakers."""
    return {rank: len(said) - bisect_right(said, event.line)
            for rank, said in lines.get(event.file, {}).items()}  # fmt: skip


def is_left_loader(event: LogEvent) -> bool:
    """Whether a process or thread that loads data lost what it loads them for.

    Its program ended, well or not: nothing says how.
    """
    is_beside = event.fields.keys() >= {"in_background", "of_loader"}
    return is_beside and event.kind is Evidence.CLOSED


def _is_of_helper(event: LogEvent) -> bool:
    """Whether a shell tells the end of a program that does not look like a job."""
    command = event.fields.get("command", "")
    is_alone = event.fields.get("signal_alone") == "Terminated"
    return is_alone or (bool(command) and not _PROGRAMS.search(command))


def _is_of_server(event: LogEvent) -> bool:
    return bool(_SERVED.search(event.text))


def _names_place(event: LogEvent) -> bool:
    return bool(event.fields.keys() & {"peer_server", "peer_address"})


def _name_of_job(event: LogEvent) -> str:
    """Return the name of a pod without its number or its chance letters."""
    return re.sub(r"(?:-\d+|-[a-z0-9]{5})+$", "", event.fields.get("pod", ""))


def _has_failed(event: LogEvent) -> bool:
    """Whether a line says that a process did not end well."""
    is_end = event.kind is Evidence.EXIT and not _is_of_helper(event)
    return is_end and event.fields.get("exit") not in ("0", "-15")


ABORT = "SIGABRT"


def signal_of(event: LogEvent) -> str | None:
    """Return the name of the signal that ended a process, None if none did."""
    ended = causes.data()["ended"]
    said = next((event.fields[name] for name in event.fields
                 if name.startswith("signal")), "")  # fmt: skip
    name = ended["signals"].get(event.fields.get("exit", ""))
    name = name or ended["signals"].get(f"-{said}") or ended["words"].get(said)
    return name or said or None


def _short(host: str | None) -> str | None:
    """Return the first part of a name of a host; None for an address."""
    return (
        None
        if host is None or re.match(r"[\d.]+$|.*:", host)
        else (host.partition(".")[0])
    )


def cause_of(
    case: Case,
    rule: Rule,
    ranks: Iterable[int],
    what: str,
    evidence: Sequence[LogEvent],
    *,
    host: str | None = None,
    advice: str | None = None,
) -> Cause:
    """Return a cause; ``what`` follows the names of the ranks or of the host."""
    accused = tuple(sorted(set(ranks)))
    hosts = {case.ranks.host_of(rank) for rank in accused}
    host = host or (hosts.pop() if len(hosts) == 1 else None)
    if host in {event.file for event in evidence}:
        host = None  # a file stands for a host whose name is not known
    processes = {tuple(map(event.fields.get, _OF_PROCESS)) for event in evidence
                 if event.pattern is evidence[0].pattern}  # fmt: skip
    hidden = _OF_PROCESS if len(processes) > 1 and not accused else ()
    known = details(case, evidence[0], accused, what, hidden) if evidence else ""
    known = "" if rule.code == "RT601" else known  # the line is what is wrong
    what = f"{what} ({known})" if known else what
    subject = subject_of(case, accused, host, evidence)
    if len(accused) > 1:
        verb, _, rest = what.partition(" ")
        what = f"{_PLURAL.get(verb, verb)} {rest}"
    return Cause(
        rule=rule,
        ranks=accused,
        host=host,
        headline=f"{subject}{what}" if what[0] == ":" else f"{subject} {what}",
        waiting=case.waiting_for(accused),
        evidence=shortened(evidence, case),
        advice=advice,
    )


def name_of_process(evidence: Sequence[LogEvent]) -> str | None:
    """Return what launchers call the one process of some lines, None if nothing."""
    for field, form in (("pod", "pod {}"), ("voice", 'process "{}"')):
        names = {event.fields.get(field) for event in evidence}
        name = names.pop() if len(names) == 1 else None
        if name:
            return form.format(name)
    return None


def subject_of(
    case: Case,
    ranks: Sequence[int],
    host: str | None,
    evidence: Sequence[LogEvent] = (),
) -> str:
    """Return who a sentence is about."""
    if len(ranks) == 1:
        text = case.ranks.describe(ranks[0])
        is_bare = host and "(" not in text
        return f"{text} ({host})" if is_bare else text
    if ranks:
        return f"ranks {folded(ranks)}" + (f" ({host})" if host else "")
    kinds = {event.kind for event in evidence}
    is_target = host and Evidence.EDGE in kinds  # not reached by who says so
    name = None if is_target else name_of_process(evidence)
    if name not in (None, f"pod {host}"):
        return f"{name} on {host}" if host else f"{name}"
    if kinds in ({Evidence.OOM}, {Evidence.EXIT}):
        return f"a process on {host}" if host else "a process"
    if kinds == {Evidence.NODE}:
        return host or "a node of the job"
    subjects = ((Evidence.SCHEDULER, "the job"), (Evidence.START, "the launcher"))
    return host or next((who for kind, who in subjects if kinds == {kind}), "a rank")


_OF_FILE = re.compile(
    r"attempt_\d+[/\\](?P<local_rank>\d{1,7})[/\\](?:std(?:err|out)\.log|error\.json)$"
    r"|(?:^|[/\\])workerlog\.(?P<local_rank_of_paddle>\d{1,7})$"
    r"|(?:^|[/\\])worker_(?P<worker>\d{1,7})\.log$"
)
"""Names that torchrun, Paddle and msrun give to the log of one process."""

_DETAILS = (
    ("local_rank_of_paddle", "local rank {}"), ("worker", "worker {}"),
    ("pid", "pid {}"), ("local_rank", "local rank {}"), ("task", "task {}"),
    ("bus", "PCI {}"), ("port", "port {}"), ("program", "program {}"),
)  # fmt: skip


_OF_PROCESS = ("pid", "local_rank", "task")
"""Which of these tell one process from others: nothing of one is said of several."""


def _told(name: str, value: str) -> str:
    """Return what shows that a detail is told already: small numbers are many."""
    return f"local rank {value}" if name == "local_rank" else value


def details(
    case: Case,
    event: LogEvent,
    ranks: Sequence[int],
    what: str,
    hidden: Collection[str] = (),
) -> str:
    """Return what else is known of a process: ``pid 4413, port 29500``.

    A line of another process says nothing of the one that it accuses.
    """
    speaker = case.ranks.speaker(event)
    if len(ranks) > 1 or (ranks and speaker != ranks[0]) or event.kind in NOT_OF_ITSELF:
        return ""
    if event.pattern.speaker == "kubernetes":
        return ""  # the process is that of the kubelet
    of_file = _OF_FILE.search(event.file)
    said = {**(of_file.groupdict() if of_file and not ranks else {}), **event.fields}
    hidden = {*hidden, *(("local_rank", "task") if ranks else ())}
    return ", ".join(
        form.format(value)
        for name, form in _DETAILS
        if (value := said.get(name)) and name not in hidden
        and (value != "0" or name not in ("pid", "bus", "port"))
        and not re.search(rf"\b{re.escape(_told(name, value))}\b", what)
    )  # fmt: skip


def shortened(evidence: Sequence[LogEvent], case: Case) -> tuple[LogEvent, ...]:
    """Return the evidence, and a line of somebody who waits if there is room."""
    lines = {(event.file, event.line): event for event in evidence}
    for wait in case.waits[:1]:
        lines.setdefault((wait.event.file, wait.event.line), wait.event)
    return tuple(lines.values())[:MAX_EVIDENCE]


def seconds_of(event: LogEvent) -> float | None:
    """Return when a line was written, None if it does not say it.

    Most lines say the time of day, some the date too; the date counts if it is there.
    """
    said = event.fields.get("time", "")
    found = re.search(r"(\d\d):(\d\d):(\d\d)(?:[.,](\d{1,6}))?", said)
    if found is None:
        return None
    hours, minutes, seconds = (int(found[part]) for part in (1, 2, 3))
    of_day = hours * 3600 + minutes * 60 + seconds + float(f"0.{found[4] or 0}")
    day = re.match(r"(\d{4})-(\d\d)-(\d\d)", said)
    try:
        return (
            of_day + (date(*map(int, day.groups())).toordinal() if day else 0) * DAY_S
        )
    except ValueError:
        return of_day


def seconds_between(first: LogEvent, second: LogEvent) -> float | None:
    """Return how long after a line another was written, None if it is not known."""
    start, end = seconds_of(first), seconds_of(second)
    if start is None or end is None:
        return None
    if min(start, end) < DAY_S:  # one has no date: less than half a day apart
        return (end - start + DAY_S / 2) % DAY_S - DAY_S / 2
    return end - start


def states_of(case: Case) -> Iterator[tuple[int, LogEvent]]:
    """Yield how far ranks came, with the lines that say it."""
    for event in case.by_kind[Evidence.STATE]:
        rank = case.ranks.speaker(event)
        if rank is not None:
            yield rank, event


def _missing_among(ranks: set[int]) -> set[int]:
    """Return the few ranks that are missing in a row of ranks, such as those of a node.

    The one before the first is, if all others up to the end of the node are there.
    """
    if len(ranks) < 2:
        return set()
    first, last = min(ranks), max(ranks)
    missing = set(range(first, last)) - ranks if last - first < MAX_ROW else set()
    block = 1 << (first ^ last).bit_length()
    if first % block == 1 and not missing and (last + 1) % block == 0:
        return {first - 1}
    return missing


def _log_of(file: str) -> str:
    """Return a file, or the folder in which torchrun has the logs of one host."""
    return re.sub(r"(attempt_\d+)[/\\]\d+[/\\]std(?:err|out)\.log$", r"\1", file)


def _operation(fields: dict[str, str], speaker: str) -> str:
    op = fields.get("op", "")
    if speaker == "hccl":  # AllReduce_10.0.0.3%eth0_60000_0_17
        op = op.partition("_")[0]
    return f"{op} of {fields['numel']}" if op and "numel" in fields else op
