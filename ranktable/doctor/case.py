"""The events of a failed job: whose logs were given, and who waited for whom."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from ranktable.doctor.causes import ABORT, PROGRAMS, signal_of
from ranktable.doctor.lines import launcher_of
from ranktable.doctor.patterns import CONSEQUENCES, FATAL, OF_OTHERS, Evidence
from ranktable.doctor.payload import judged_again
from ranktable.doctor.progress import Continuation
from ranktable.schema.text import counted, folded

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from ranktable.doctor.identity import Ranks
    from ranktable.doctor.lines import LogEvent

_Found = TypeVar("_Found")

MAX_ROW = 1 << 16
"""Ranks of one log, from the first to the last, among which some are sought."""

_PID = re.compile(r"\bpid(?:\(s\))?\W{1,2}(\d{1,9})")
"""A process that an exception is about."""


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
        has_steps_below: Whether steps stand below an error of unknown rank.
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
        self._found: dict[Callable[[Case], Any], Any] = {}
        self._first_lines: dict[object, dict[str, int]] = {}
        told = judged_again(events)
        progress = Continuation(told, ranks)
        self.overcome = progress.overcome()
        self.has_steps_below = progress.has_steps_below
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
        left = {id(event) for event in self.overcome}
        is_of_job = self._of_job(told, is_finished=bool(progress.finished))
        self.events = [
            event for event in told if id(event) not in left and is_of_job(event)
        ]
        self.kills = [
            event for event in told
            if event.kind is Evidence.OOM and event.pattern.speaker == "kernel"
            and PROGRAMS.search(event.fields.get("what", ""))
        ]  # fmt: skip
        self.by_kind: dict[Evidence, list[LogEvent]] = defaultdict(list)
        is_open = any(event.pattern.name == "pods-open" for event in self.events)
        for event in self.events:
            if not (is_open and event.pattern.name == "pods-completed"):
                self.by_kind[event.kind].append(event)
        self._learn_logs(told)
        self._learn_waiters()

    def _learn_logs(self, told: Sequence[LogEvent]) -> None:
        """Note which logs were given of whom, and whose end is told."""
        self.listed = {
            rank
            for event in self.by_kind[Evidence.ATTEMPT]
            for rank in event.numbers("peers")
        }
        self.speakers_of_file: dict[str, set[int]] = defaultdict(set)
        for event in told:
            rank = self.ranks.speaker(event)
            is_own = {"rank", "group_rank", "task"} & event.fields.keys()
            if rank is not None and is_own and event.kind not in OF_OTHERS:
                self.speakers_of_file[_log_of(event.file)].add(rank)
        self.claimed = set(self.speakers(Evidence.EXIT))
        self.aborted = {
            self.ranks.speaker(event) for event in self.by_kind[Evidence.EXIT]
            if signal_of(event) == ABORT
        }  # fmt: skip

    def _learn_waiters(self) -> None:
        """Note who waits or has lost somebody, and for whom.

        A watchdog of torch is stuck as a call of its process is. If those of several
        ranks are, they wait for another.
        """
        stuck = [event for event in self.by_kind[Evidence.HEARTBEAT]
                 if event.pattern.name == "torch-stuck"]  # fmt: skip
        if len({*map(self.ranks.speaker, stuck)} - {None}) > 1:
            self.by_kind[Evidence.TIMEOUT] += stuck
        self.waits = list(self._find_waits())
        waited = {wait.rank for wait in self.waits}
        files = {wait.event.file for wait in self.waits}
        self.by_kind[Evidence.CLOSED] = [  # a watchdog says so of what timed out, too
            event for event in self.by_kind[Evidence.CLOSED]
            if event.pattern.name != "torch-operations-failed"
            or ((rank := self.ranks.speaker(event)) not in waited
            and (rank is not None or event.file not in files))
        ]  # fmt: skip
        self.apart = {
            rank
            for event in self.by_kind[Evidence.CLOSED]
            if "apart" in event.fields
            and (rank := self.ranks.speaker(event)) is not None
        } - waited
        self.waiters = waited | set(self.speakers(Evidence.CLOSED, Evidence.ABSENT))
        self.waiters |= {
            rank
            for event in self.by_kind[Evidence.CASCADE]
            if event.pattern.name == "npu-code"
            and (rank := self.ranks.speaker(event)) is not None
        }
        self.waiters -= self.apart
        for rank, file in self._raised():
            self.waiters.add(rank)
            self.speakers_of_file[_log_of(file)].add(rank)
        self.edges = list(self._find_edges())
        self.waiters.update(waiter for waiter, _, _ in self.edges)

    def _of_job(
        self, told: Sequence[LogEvent], *, is_finished: bool
    ) -> Callable[[LogEvent], bool]:
        """Return what tells whether a line is about a process or host of the job.

        Other programs of the host run out of memory too. A process of the job has a
        known id, or the name of a program that trains.
        """
        is_sound = not any(
            event.kind in FATAL | CONSEQUENCES and event.pattern.speaker != "kernel"
            for event in told
        )
        goes_on = any(event.kind is Evidence.LIFE for event in told)
        jobs = {_name_of_job(event) for event in told
                if event.pattern.speaker != "kubernetes"} - {""}  # fmt: skip
        ranks = self.seen | self.everyone()
        hosts = {_short(self.ranks.host_of(rank)) for rank in ranks} - {None}

        def is_of_job(event: LogEvent) -> bool:
            if event.pattern.speaker == "kubernetes":
                job = _name_of_job(event)
                is_other = bool(job and jobs) and job not in jobs
                # A container that did not answer its probe is started again.
                is_again = event.pattern.name == "pod-probe-failed"
                return not is_other and not (is_again and is_finished and is_sound)
            if event.pattern.speaker != "kernel":
                return True
            host = _short(self.ranks.host(event))
            if host is not None and hosts and host not in hosts:
                return False
            if event.fields.get("pid") in self.pids:
                return True
            name = event.fields.get("comm") or (
                event.fields.get("what", "") if event.kind is Evidence.OOM else ""
            )
            # The program of a worker of torch that loads data raises what became of it.
            is_over = is_finished or (goes_on and name.startswith("pt_data"))
            if is_over and is_sound:
                return False
            return name in ("", "<unknown>") or bool(PROGRAMS.search(name))

        return is_of_job

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
        return self._reports.get(rank, [])

    @cached_property
    def _reports(self) -> dict[int | None, list[LogEvent]]:
        reports: dict[int | None, list[LogEvent]] = defaultdict(list)
        for kind in (Evidence.TIMEOUT, Evidence.CLOSED, Evidence.STATE):
            for event in self.by_kind[kind]:
                if kind is not Evidence.STATE or "enqueued" in event.fields:
                    reports[self.ranks.speaker(event)].append(event)
        return reports

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

    @cached_property
    def _closed_by(self) -> dict[str, dict[str, set[str]]]:
        """The ids of the processes that each launcher in a file says that it ended."""
        told: dict[str, dict[str, set[str]]] = {}
        for event in self._closing:
            of_file = told.setdefault(event.file, defaultdict(set))
            of_file[launcher_of(event.fields)].add(event.fields["closing"])
        return told

    def once(self, find: Callable[[Case], _Found]) -> _Found:
        """Return what a function finds in all of the case; it looks for it once."""
        if find not in self._found:
            self._found[find] = find(self)
        found: _Found = self._found[find]
        return found

    def has_above(
        self,
        event: LogEvent,
        kind: Evidence,
        is_meant: Callable[[LogEvent], bool] | None = None,
    ) -> bool:
        """Whether a line of a kind stands above another one in its log.

        Args:
            event: The other.
            kind: The kind.
            is_meant: What tells those that are meant, if not all are: a function of a
                module, as it looks at each line once.
        """
        if (kind, is_meant) not in self._first_lines:
            first: dict[str, int] = {}
            for one in filter(is_meant, self.by_kind[kind]):
                first[one.file] = min(one.line, first.get(one.file, one.line))
            self._first_lines[kind, is_meant] = first
        line = self._first_lines[kind, is_meant].get(event.file, event.line)
        return line < event.line

    def closes_in(self, file: str) -> bool:
        """Whether a launcher says in a file which processes it ended itself."""
        return file in self._closed_by

    def was_closed(self, ended: LogEvent) -> bool:
        """Whether the launcher of a process ended it; other hosts have its id too."""
        told = self._closed_by.get(ended.file, {})
        own = told.get(launcher_of(ended.fields))
        return any(
            ended.fields.get("pid") in pids
            for pids in (told.values() if own is None else (own,))
        )

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

    @cached_property
    def files_of_host(self) -> dict[str | None, set[str]]:
        """The logs in which each host, or a process of it, says a line."""
        files: dict[str | None, set[str]] = defaultdict(set)
        for event in self.events:
            files[self.ranks.host(event)].add(event.file)
        return files

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

    @cached_property
    def without_log(self) -> set[int]:
        """The ranks of which no line was read, as far as ranks are known."""
        return set(self.everyone() or range(max(self.seen, default=0))) - self.seen

    @cached_property
    def heard(self) -> set[int]:
        """Ranks of which a log was given in which they would say for whom they wait."""
        kinds = Evidence.IDENTITY, Evidence.EDGE
        in_plog = {self.ranks.speaker(event) for kind in kinds
                   for event in self.by_kind[kind]
                   if event.pattern.speaker == "hccl"} - {None}  # fmt: skip
        return self.seen & in_plog if len(in_plog) > 1 else self.seen

    def suspects(self, ranks: set[int]) -> set[int]:
        """Return those of some ranks for which others may have waited.

        One without a log is none while one with a log is quiet: it may itself have
        waited for that one, and nobody knows what it said.
        """
        heard = ranks & self.heard
        return heard or (set() if self.quiet & self.heard else ranks)

    @cached_property
    def quiet(self) -> set[int]:
        """Ranks of which a log was given that does not say that they wait."""
        return self.seen - self.waiters

    @cached_property
    def silent(self) -> set[int]:
        """The ranks of which a log was given, and of whose end nobody tells."""
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
        groups = {wait.group for wait in waits} - {""}
        signs = (self._last_sign_of(rank, groups) for rank in accused)
        return text + (next(signs) if len(accused) == 1 else "")

    def _last_sign_of(self, rank: int, groups: Collection[str]) -> str:
        done = [event.fields["done"] for one, event in states_of(self)
                if one == rank and "done" in event.fields
                and (not groups or self.ranks.group(event)[0] in groups)]  # fmt: skip
        when = self.ranks.last_time_of(rank)
        signs = [f"completed {done[0]}"] if done else []
        signs += [f"logged nothing after {when}"] if when else []
        return f"; it {' and '.join(signs)}" if signs else ""


def _names_place(event: LogEvent) -> bool:
    return bool(event.fields.keys() & {"peer_server", "peer_address"})


def _name_of_job(event: LogEvent) -> str:
    """Return the name of a pod without its number or its chance letters."""
    return re.sub(r"(?:-\d+|-[a-z0-9]{5})+$", "", event.fields.get("pod", ""))


def _short(host: str | None) -> str | None:
    """Return the first part of a name of a host; None for an address."""
    return (
        None
        if host is None or re.match(r"[\d.]+$|.*:", host)
        else (host.partition(".")[0])
    )


def two_hosts(case: Case, event: LogEvent) -> str:
    """Return the host that a line is of, and the one that it is about."""
    fields = event.fields
    there = fields.get("peer_server") or fields.get("peer_address")
    there = case.ranks.host_name(there or fields.get("peer_ip") or "")
    here = case.ranks.host(event)
    return f"{here} and {there}" if here and there else there


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
