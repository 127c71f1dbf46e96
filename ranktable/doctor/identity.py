"""Who says a line: ranks by all that logs and the rank table know of them.

The best name of a process is its global rank; then host and local rank, host and chip,
the address of its chip, its process id, and at last the name of the file. ``[rank9]``
is a global rank; ``[Rank 1]`` in the same line is the rank in a communicator.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING

from ranktable.doctor.host_names import HostNames, hosts_of_kernel_files
from ranktable.doctor.lines import launcher_of
from ranktable.doctor.patterns import OF_OTHERS, Evidence

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from ranktable.doctor.lines import Log, LogEvent
    from ranktable.layout.parallel import ParallelLayout
    from ranktable.schema.model import RankTable

_NO_HOME = re.compile(r"plog|debug|run|device-\d+")
"""Folders of HCCL's logs: one process writes into several of them."""
MAX_RANKS = 1 << 18
"""More ranks no job has; a larger number in a log is none of a rank or size."""

_RANK_OF_FILE = re.compile(  # the second is of Azure ML
    r"(?:(?:^|[^a-z])rank[_-]?|(?:^|[/\\])std_log_process_)(\d+)(?!\d)"
)
_NODE_OF_FILE = re.compile(r"(?:^|[/\\])std_log_process_\d+")
"""The same, if the process is one of torchrun."""
_LAST_NUMBER = re.compile(r"(?<!\d)\d{1,7}(?=\D*$)")
_RANK_OF_WORKER = re.compile(r"(?:^|[/\\])worker_(\d{1,7})\.log$")
"""The log that msrun of MindSpore writes for each rank."""
_DEVICE_OF_FILE = re.compile(r"(?:^|[^a-z])device[_-](\d+)(?!\d)")
LOCAL_RANK_OF_FILE = re.compile(
    r"attempt_\d+[/\\](\d+)[/\\](?:std(?:err|out)\.log|error\.json)$"
)
_UNKNOWN = ("", "-1", "0" + ".0.0.0", "localhost", "127.0.0.1", "unknown",
            "localhost.localdomain", "1.0.0.127.in-addr.arpa", "ip6-localhost",
            "::1")  # fmt: skip
"""Values that name no host, chip or address."""
_OF_AGENTS = {"torchrun-stuck", "nccl-status", "nccl-report"}
"""Messages of others that tell of a rank whose own log may not be there."""

_TIMED_OUT = re.compile(r"(?<=caught collective operation timeout: ).* ran for \d+")
"""The operation of a watchdog of torch, and how long it ran."""

OF_PAIRS = ("SEND", "RECV")
"""Operations of two ranks, in groups of their own where others are of all ranks."""

MAX_AHEAD_ANYWHERE = 16
"""Operations that a process can begin before its peers, if no line tells the group: at
most a few messages that a rank only sends are done before its peers are there."""

_WORLD_GROUPS = ("hccl_world_group", "default_pg", "default")


class Ranks:
    """The ranks of a job: where each runs, and which of them said a line.

    Attributes:
        table: The rank table, None if there is none.
        size: Number of ranks, None if nothing says it.
        is_size_known: Whether the table or a log says the size; otherwise it is the
            highest rank that was seen, and one.
        seen: Ranks that say a line.
        has_groups: Whether torch has several groups, so that ``[Rank 1]`` is of one.
        are_tasks_agents: Whether a task of Slurm starts the ranks of its node.
    """

    def __init__(
        self,
        logs: Sequence[Log],
        table: RankTable | None = None,
        layout: ParallelLayout | None = None,
    ) -> None:
        """Learn from the table and from every line that names a process."""
        self.table = table
        self._layout = layout
        self._by_place: dict[tuple[str, str], int] = {}
        self._by_local: dict[tuple[str, str], int] = {}
        self._by_address: dict[str, int] = {}
        self._by_pid: dict[tuple[str, str], int] = {}
        self._pids: set[str] = set()
        self._of_several: set[tuple[str, str]] = set()
        self._by_host_pid: dict[tuple[str, str], set[int]] = defaultdict(set)
        self._by_group: dict[str, dict[int, int]] = defaultdict(dict)
        self._by_host: dict[str, set[int]] = defaultdict(set)
        self._hosts_of_home: dict[str, set[str]] = defaultdict(set)
        self._host: dict[int, str] = {}
        self._chip: dict[int, int] = {}
        self._of_file = _ranks_of_files(logs)
        self._last_time: dict[int, str] = {}
        self._host_of_file: dict[str, str] = {}
        self._group_of: dict[tuple[str, str], tuple[str, int | None]] = {}
        self.has_groups = False
        if table is not None:
            self._learn_table(table)
        events = [event for log in logs for event in log.events]
        self._names = _host_names(events, table)
        self._claimed = {size for log in logs for size in log.sizes}
        self._tasks_are_ranks = _are_ranks(events, self._claimed)
        self.are_tasks_agents = _are_agents(events)
        self._is_one_node = _is_one_node(events, self._of_file)
        self._shared = _shared_processes(events)
        self._host_of_pod = _hosts_of_pods(events)
        groups = {
            event.fields.get("group", "") for event in events
            if event.pattern.speaker == "hccl" and "group_size" in event.fields
        }  # fmt: skip
        self._has_hccl_groups = len(groups - {""}) > 1
        self._tell_places = table is not None or any(
            event.kind is Evidence.IDENTITY and "address" in event.fields
            for event in events
        )
        self._linked = {
            (*self._process(event), event.fields["group_peer"]): address
            for event in events
            if "group_peer" in event.fields
            and (address := event.fields.get("peer_address"))
        }
        self.size, self.is_size_known = self._learn_size(logs, events)
        self._learn_files(logs, events)
        self.has_groups = self._are_in_groups(events)
        named = [event for event in events if "rank" in event.fields
                 or event.kind is Evidence.IDENTITY]  # fmt: skip
        # The first one counts: ranks by name, and once more with what later lines said.
        for event in (*named, *events, *events):
            self._learn(event)
        self.seen = {rank for log in logs for rank in log.ranks}
        for event in events:
            rank = self.speaker(event)
            is_of_agent = event.pattern.name in _OF_AGENTS
            if rank is not None and event.kind not in OF_OTHERS and not is_of_agent:
                self.seen.add(rank)
        self.seen = {rank for rank in self.seen if rank < MAX_RANKS}
        if table is None and self.seen and max(self.seen) >= (self.size or 0):
            self.size, self.is_size_known = max(self.seen) + 1, False

    # What is known

    def describe(self, rank: int) -> str:
        """Return ``rank 27 (n4, chip 3; tp 3, pp 1)``, or as much as is known."""
        host, chip = self._host.get(rank), self._chip.get(rank)
        known = [host] if host else []
        if chip is not None:
            known.append(f"chip {chip}")
        text = ", ".join(known)
        if self._layout is not None and rank < self._layout.world_size:
            at = self._layout.coordinates(rank)
            axes = ", ".join(f"{axis} {at[axis]}" for axis in self._layout.kinds)
            text = f"{text}; {axes}" if text and axes else text or axes
        return f"rank {rank} ({text})" if text else f"rank {rank}"

    def host_of(self, rank: int) -> str | None:
        """Return the host of a rank, None if it is not known."""
        return self._host.get(rank)

    def host_name(self, name: str) -> str:
        """Return the name that is told of a host, by any name or address of it."""
        return self._names.told(name)

    def chip_of(self, rank: int) -> int | None:
        """Return the chip of a rank, None if it is not known."""
        return self._chip.get(rank)

    def last_time_of(self, rank: int) -> str | None:
        """Return the last time in the log of a rank, None if it has none of its own."""
        return self._last_time.get(rank)

    def on_host(self, host: str) -> tuple[int, ...]:
        """Return the ranks that run on a host."""
        return tuple(sorted(self._by_host.get(host, ())))

    def has_process(self, pid: str) -> bool:
        """Whether a rank, on whichever host, has a process id."""
        return bool(pid) and pid in self._pids

    def everyone(self) -> frozenset[int]:
        """Return every rank of the job, as far as its size is known."""
        return frozenset(range(self.size or 0))

    def group_name(self, ranks: Iterable[int]) -> str | None:
        """Return the name of the group along an axis that has just these ranks."""
        wanted = sorted(ranks)
        if self._layout is None or len(wanted) < 2:
            return None
        for axis in self._layout.kinds:
            groups = self._layout.along(axis)
            if groups.group_size == len(wanted) and wanted in groups:
                return f"{axis} group of rank {wanted[0]}"
        return None

    def members(self, ranks: Iterable[int], event: LogEvent) -> frozenset[int]:
        """Return who has to take part in the operation of a line; empty if unknown.

        Args:
            ranks: Ranks that do.
            event: A line of one of them.
        """
        group, size = self.group(event)
        if self._is_whole(event, group, size):
            return self.everyone()
        known = self._by_group[group]
        if group and len(set(known.values())) == size:
            return frozenset(known.values())
        found = set(self._groups_with(frozenset(ranks), event))
        if group:
            return found.pop() if len(found) == 1 else frozenset()
        return min((*found, self.everyone()), key=len)

    def _groups_with(
        self, ranks: frozenset[int], event: LogEvent
    ) -> Iterator[frozenset[int]]:
        """Yield the groups of the layout in which the speaker has the rank it says."""
        place, speaker = event.number("group_rank"), self.speaker(event)
        for axis in self._layout.kinds if self._layout is not None else ():
            for group in self._layout.along(axis) if self._layout is not None else ():
                is_place = place is None or group[place : place + 1] == [speaker]
                if len(group) > 1 and ranks <= set(group) and is_place:
                    yield frozenset(group)

    # Who says a line, and of whom it speaks

    def speaker(self, event: LogEvent) -> int | None:
        """Return the rank that says a line, None if it cannot be told."""
        fields = event.fields
        rank = fields.get("rank", "")
        if not rank and self._tasks_are_ranks:
            rank = fields.get("task", "")
        if rank.isdecimal() and len(rank) < 8:
            return int(rank)
        in_group = self._in_group(event, event.number("group_rank"))
        if event.kind is Evidence.IDENTITY and in_group is not None:
            return in_group  # it says itself who it is
        at_place = self._by_places(event)
        if at_place is not None:
            return at_place
        of_process = self._by_process(event)
        if of_process is not None:
            return of_process
        is_of_other = event.kind in OF_OTHERS or event.pattern.is_of_another
        if in_group is not None or is_of_other:
            return in_group
        return self._of_file.get(event.file)

    def _by_process(self, event: LogEvent) -> int | None:
        """Return the rank of a process id, None if several processes may have it.

        What the kernel and others say of a process stands elsewhere than its own lines.
        """
        process = self._process(event)
        if process in self._by_pid and process not in self._of_several:
            return self._by_pid[process]
        is_of_other = event.kind in OF_OTHERS or event.pattern.speaker == "kernel"
        if not is_of_other or "group_rank" in event.fields:
            return None
        here = self._by_host_pid.get((self.host(event) or "", process[1]), set())
        return next(iter(here)) if len(here) == 1 else None

    def _by_places(self, event: LogEvent) -> int | None:
        """Return the rank of a local rank or chip of a host, None if not known.

        A file may have lines of several agents, each of its own local ranks: of what
        they say of an end, the process id tells the rank.
        """
        if event.kind is Evidence.EXIT and self._process(event) in self._by_pid:
            return None
        fields, host = event.fields, self.host(event) or ""
        server = self._names.told(fields.get("server", ""))
        for known, key in (
            (self._by_local, (host, fields.get("local_rank", ""))),
            (self._by_place, (server, fields.get("device", ""))),
            (self._by_place, (host, fields.get("device", ""))),
        ):
            if all(key) and key in known:
                return known[key]
        local_rank = event.number("local_rank")
        if self._is_one_node and local_rank is not None:
            return local_rank
        return self._by_address.get(fields.get("address", ""))

    def host(self, event: LogEvent) -> str | None:
        """Return the host of the process that says a line."""
        for place in map(self._names.told, event.fields.get("places", "").split()):
            if place in self._by_host:
                return place
        said = event.fields.get("host") or event.fields.get("server") or ""
        if said not in _UNKNOWN:
            return self._names.told(said)
        if host := self._host_of_pod.get(event.fields.get("pod", "")):
            return self._names.told(host)
        rank = event.number("rank")
        if rank is not None:  # what others told of their hosts says nothing of its own
            return self._host.get(rank, self._host_of_file.get(event.file))
        there = self._hosts_of_home[_home(event.file)]
        only = next(iter(there)) if len(there) == 1 else None
        return self._host_of_file.get(event.file, only)

    def _process(self, event: LogEvent) -> tuple[str, str]:
        """Return where a process writes, and its id; its file if it has no id."""
        pid = event.fields.get("pid", "")
        home = _home(event.file), pid
        if not pid:
            return event.file, ""
        where = f"{event.file}:{launcher_of(event.fields)}"
        return (where, pid) if home in self._shared else home

    def peers(self, event: LogEvent) -> tuple[int, ...]:
        """Return the ranks that a line waits for or accuses; empty if none is told."""
        fields = event.fields
        if "keys" in fields:
            return _awaited(fields["keys"])
        named = event.numbers("peers") or event.numbers("peer")
        if "group_peers" in fields:
            both = (self._in_group(event, one) for one in event.numbers("group_peers"))
            named = tuple(rank for rank in both if rank is not None)
        return named or self._peers_by_place(event)

    def _peers_by_place(self, event: LogEvent) -> tuple[int, ...]:
        fields = event.fields
        server = self._names.told(fields.get("peer_server", "").strip("[]"))
        own = self.speaker(event)
        if not server and own is not None:  # a chip of the same server
            server = self._host.get(own, "")
        devices = re.findall(r"\d+", fields.get("peer_device", ""))
        places = [self._by_place.get((server, device)) for device in devices]
        found = [rank for rank in places if rank is not None]
        address = fields.get("peer_address") or fields.get("peer_ip") or ""
        if not found and address in self._by_address:
            found = [self._by_address[address]]
        peer = self._in_group(event, event.number("group_peer"))
        if not found and peer is not None and self._may_be(peer, event, own, server):
            found = [peer]
        if not found and (devices or (address and "group_peer" in fields)):
            known = self._by_place if devices else self._by_address
            left = self.everyone() - set(known.values())
            found = list(left) if len(left) == 1 and len(devices) < 2 else []
        if not found and not devices:
            there = server if "peer_server" in fields else ""
            there = there or self._names.told(address)
            found = [*self.on_host(there)]
        return tuple(found)

    def _may_be(self, peer: int, event: LogEvent, own: int | None, server: str) -> bool:
        """Whether a number in a group of HCCL may be the rank: nothing else is there.

        The numbers in its lines are those in the group, whose name they may not tell.
        A line without an address is of the same link as one with it.
        """
        fields = event.fields
        if "group" in fields and self._is_whole(event, *self.group(event)):
            return True
        place, address = event.number("group_rank"), fields.get("peer_address", "")
        if event.pattern.speaker == "hccl" and not address and place is None:
            address = self._linked.get((*self._process(event), str(peer)), "")
        at = (server, fields.get("peer_device", ""))
        is_elsewhere = self._tell_places and (
            (address and self._by_address.get(address) != peer)
            or (all(at) and self._by_place.get(at) != peer)
        )
        return place in (None, own) and not is_elsewhere

    def at_places(self, text: str) -> set[int]:
        """Return the ranks of a list of hosts with their chips: ``10.0.0.1/0,1``."""
        places = (
            (self._names.told(host), chip)
            for host, chips in re.findall(r"([\w.:]+)/([\d,]+)", text)
            for chip in chips.split(",")
        )
        return {self._by_place[place] for place in places if place in self._by_place}

    def disagreements(self, events: Iterable[LogEvent]) -> list[tuple[LogEvent, str]]:
        """Return the lines by which a rank runs elsewhere than the table says."""
        if self.table is None:
            return []
        found: dict[int, tuple[LogEvent, str]] = {}
        hosts = {node.host for node in self.table.nodes}
        for event in events:
            rank = event.number("rank")
            said = event.fields.get("server") or event.fields.get("host") or ""
            host = self._names.told(said)
            if rank is None or rank in found or not 0 <= rank < self.table.world_size:
                continue
            listed = self._host.get(rank)
            chip = event.number("device")
            if host in hosts and listed is not None and host != listed:
                found[rank] = event, f"runs on {host}, and the table has it on {listed}"
            elif host == listed and chip not in (None, self._chip.get(rank)):
                said = f"uses chip {chip} of {host}"
                found[rank] = event, f"{said}, and the table says {self._chip[rank]}"
        return [found[rank] for rank in sorted(found)]

    # Learning

    def _learn_table(self, table: RankTable) -> None:
        for node in table.nodes:
            for local_rank, device in enumerate(node.devices):
                rank, chip = device.rank, str(device.device_id)
                self._chip[rank] = device.device_id
                if device.address:
                    self._by_address[device.address] = rank
                if node.host is not None:
                    self._host[rank] = node.host
                    self._by_host[node.host].add(rank)
                    self._by_place[node.host, chip] = rank
                    self._by_local[node.host, str(local_rank)] = rank

    def _learn_size(
        self, logs: Sequence[Log], events: Sequence[LogEvent]
    ) -> tuple[int | None, bool]:
        if self.table is not None:
            return self.table.world_size, True
        fields = ("size", "group_size")
        sizes = {event.number(name) or 0 for event in events for name in fields}
        several_groups = len(self._claimed) > 1
        sizes |= set() if several_groups else self._claimed
        said = max((size for size in sizes if size <= MAX_RANKS), default=0)
        named = {rank for log in logs for rank in log.ranks}
        named.update(rank for event in events for rank in event.numbers("rank"))
        highest = max((rank for rank in named if rank < MAX_RANKS), default=-1) + 1
        return max(said, highest) or None, said >= max(highest, 1)

    def _learn_files(self, logs: Sequence[Log], events: Sequence[LogEvent]) -> None:
        hosts = {node.host for node in self.table.nodes} if self.table else set()
        hosts.update(self._names.told(event.fields.get("host", "")) for event in events)
        hosts |= hosts_of_kernel_files([tuple(_parts(log.file)) for log in logs])
        hosts -= {"", None}
        for log in logs:
            for part in reversed(_parts(log.file)):
                if part in hosts:
                    self._host_of_file[log.file] = part
                    break
        for log in logs:
            if log.file in self._of_file and log.last_time:
                self._last_time[self._of_file[log.file]] = log.last_time
            host = self._host_of_file.get(log.file, "")
            for known, pattern in (
                (self._by_local, LOCAL_RANK_OF_FILE),
                (self._by_place, _DEVICE_OF_FILE),
            ):
                number = pattern.findall(log.file)
                if number and (host, number[-1]) in known:
                    self._of_file.setdefault(log.file, known[host, number[-1]])

    def _are_in_groups(self, events: Iterable[LogEvent]) -> bool:
        """Return whether ranks of torch wait in groups that are not of all ranks.

        A line tells such a group, or another rank than launcher or file; or what waits
        in vain cannot have been one group (``_are_of_several``).
        """
        waits: list[LogEvent] = []
        for event in events:
            said, place = event.fields, event.number("group_rank")
            if event.pattern.speaker != "torch" or place is None:
                continue
            if not _is_of_any_group(event):
                if not self._is_whole(event, said.get("group", ""), None):
                    return True
                continue
            told = event.number("rank")
            told = self._of_file.get(event.file) if told is None else told
            if told not in (None, place):
                return True
            if told is None and event.kind is Evidence.TIMEOUT:
                waits.append(event)
        return _are_of_several(waits, self.size or 0)

    def _learn(self, event: LogEvent) -> None:
        fields = event.fields
        process = self._process(event)
        self._learn_group(event, process)
        if event.kind is Evidence.ATTEMPT:
            if "peers" not in fields:
                return
            host = self._host_of_file.setdefault(event.file, event.file)
            for local_rank, number in enumerate(event.numbers("peers")):
                self._by_local[host, str(local_rank)] = number
            return
        rank = self.speaker(event)
        if rank is None:
            return
        is_guess = event.kind is Evidence.EXIT and "rank" not in fields
        if process[1] and not is_guess:
            self._pids.add(process[1])
            known = self._by_pid.setdefault(process, rank)
            if known != rank and "rank" in fields:
                self._of_several.add(process)  # such as that of a collector of logs
        host = self._names.told(fields.get("host", ""))
        if event.kind is Evidence.IDENTITY and process[1] and host not in _UNKNOWN:
            self._by_host_pid[host, process[1]].add(rank)
        group_rank = event.number("group_rank")
        if "group" in fields and group_rank is not None:
            self._by_group[fields["group"]].setdefault(group_rank, rank)
        self._learn_place(event, rank)

    def _learn_group(self, event: LogEvent, process: tuple[str, str]) -> None:
        """Note the group of a process, if it has only one."""
        if "group_size" in event.fields:
            group = event.fields.get("group", ""), event.number("group_size")
            if self._group_of.setdefault(process, group) != group:
                self._group_of[process] = f"one of {process}", None

    def _learn_place(self, event: LogEvent, rank: int) -> None:
        fields = event.fields
        host = fields.get("host") or fields.get("server") or ""
        if host not in _UNKNOWN and event.kind is not Evidence.EDGE:
            host = self._names.told(host)
            self._host.setdefault(rank, host)
            self._by_host[host].add(rank)
            if self._is_one_node or event.kind not in OF_OTHERS:
                self._hosts_of_home[_home(event.file)].add(host)
            for known, name in (
                (self._by_place, "device"),
                (self._by_local, "local_rank"),
            ):
                if fields.get(name, "") not in _UNKNOWN:
                    known.setdefault((host, fields[name]), rank)
            chip = event.number("device")
            if chip is not None:
                self._chip.setdefault(rank, chip)
        if fields.get("address", "") not in _UNKNOWN:
            self._by_address.setdefault(fields["address"], rank)

    def _in_group(self, event: LogEvent, number: int | None) -> int | None:
        """Return the global rank of a rank of the communicator of a line."""
        if number is None:
            return None
        group, size = self.group(event)
        if number in self._by_group[group]:
            return self._by_group[group][number]
        return number if not group or self._is_whole(event, group, size) else None

    def group(self, event: LogEvent) -> tuple[str, int | None]:
        """Return the name and size of the communicator of a line, as far as known."""
        fields = event.fields
        own, size = self._group_of.get(self._process(event), ("", None))
        name = fields.get("group") or fields.get("group_id") or own
        size = size if name == own or event.pattern.speaker != "hccl" else None
        is_any = self.has_groups and _is_of_any_group(event)
        is_any |= self._has_hccl_groups and event.pattern.speaker == "hccl"
        if not name and is_any:
            name = f"one of {fields.get('rank') or fields.get('task') or event.file}"
        return name, event.number("group_size") or size

    def _is_whole(self, event: LogEvent, group: str, size: int | None) -> bool:
        name = event.fields.get("group_name", group)
        is_first = event.fields.get("group_id") == "0"
        return name in _WORLD_GROUPS or is_first or size == (self.size or 0)


def _is_of_any_group(event: LogEvent) -> bool:
    """Whether a line of torch has the rank in a group that it does not tell."""
    named = ("group", "group_id", "group_name")
    return event.pattern.speaker == "torch" and event.fields.keys().isdisjoint(named)


def _are_of_several(waits: Iterable[LogEvent], size: int) -> bool:
    """Whether time-outs of torch, each with a number of a rank, are of several groups.

    In one group no two processes have one number, all wait in one operation but those
    that are at fault, and nobody is far ahead. The job has ``size`` ranks or more.
    """
    told: dict[int, dict[str, LogEvent]] = defaultdict(dict)
    for event in waits:
        if what := _TIMED_OUT.search(event.text):  # in other lines again, maybe
            told[event.number("group_rank") or 0].setdefault(what[0], event)
    of_places = [list(one.values()) for one in told.values()]
    firsts = {seq for one in of_places if (seq := one[0].number("seq")) is not None}
    are_pairs = {event.fields.get("op") in OF_PAIRS
                 for one in of_places for event in one}  # fmt: skip
    is_part = max(told, default=0) + 1 < size
    return (
        len(firsts) > 2
        or max(firsts, default=0) - min(firsts, default=0) > MAX_AHEAD_ANYWHERE
        or len(are_pairs) > 1
        or any(len(one) > 1 and (is_part or _are_of_two(one)) for one in of_places)
    )


def _are_of_two(waits: Sequence[LogEvent]) -> bool:
    """Whether time-outs with one number are of two processes.

    One process tells the operations of its group in their order, each once.
    """
    for one, other in pairwise(waits):
        first, second = one.number("seq"), other.number("seq")
        if one.file != other.file or first is None or second is None:
            return True
        if not 0 < second - first <= MAX_AHEAD_ANYWHERE:
            return True
    return False


def _host_names(events: Sequence[LogEvent], table: RankTable | None) -> HostNames:
    names = {event.fields.get(name, "") for event in events
             for name in ("host", "server", "peer_server")}  # fmt: skip
    pairs = [
        (event.fields["host"], event.fields["bootstrap"])
        for event in events
        if {"host", "bootstrap"} <= event.fields.keys()
        and not event.fields["bootstrap"].startswith("127.")
    ]
    hosts_of: dict[str, set[str]] = defaultdict(set)
    for host, address in pairs:
        hosts_of[address].add(host.partition(".")[0])
    # Several have one address where each told that of a bridge of its own.
    pairs = [pair for pair in pairs if len(hosts_of[pair[1]]) == 1]
    listed = [node.host for node in table.nodes if node.host] if table else []
    return HostNames(names - set(_UNKNOWN), pairs, listed)


_AGE = re.compile(r"(?:^|\s)(?=\d)(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?\s")
"""How long ago an event of Kubernetes was: ``3m10s``."""


def _hosts_of_pods(events: Iterable[LogEvent]) -> dict[str, str]:
    """Return the hosts of pods, by what Kubernetes says of both, if it is one host.

    A pod whose node was lost, or short of memory, was on the only node of which that is
    said. One that was started again after its end says nothing of where it ended.
    """
    said = [event for event in events if event.pattern.speaker == "kubernetes"]
    ended = {event.fields.get("pod"): event for event in said
             if event.kind is not Evidence.IDENTITY}  # fmt: skip
    hosts: dict[str, set[str]] = defaultdict(set)
    for event in said:
        pod, end = event.fields.get("pod", ""), ended.get(event.fields.get("pod"))
        if end is None or not _is_later(event, end):
            hosts[pod] |= {event.fields.get("host", "")} - {""}
    for kind, names in (
        (Evidence.NODE, ("lost_host",)),
        (Evidence.OOM, ("short_host", "short_of_memory")),
    ):
        fallen = {event.fields.get(name, "") for event in said for name in names} - {""}
        for event in said if len(fallen) == 1 else ():
            if event.kind is kind and not hosts[event.fields.get("pod", "")]:
                hosts[event.fields.get("pod", "")] |= fallen
    hosts.pop("", None)
    return {pod: next(iter(one)) for pod, one in hosts.items() if len(one) == 1}


def _is_later(event: LogEvent, end: LogEvent) -> bool:
    """Whether a pod was assigned to a node after it had ended, by their ages."""
    ages = [age for one in (event, end) if (age := _AGE.search(one.text))]
    if event.pattern.name != "event-scheduled" or len(ages) < 2:
        return False
    scheduled, gone = ([int(part or 0) for part in age.groups()] for age in ages)
    return scheduled < gone


def _are_ranks(events: Sequence[LogEvent], claimed: set[int]) -> bool:
    """Whether tasks of Slurm are ranks: lines with both say so, or no line has a rank.

    A task with number 0 says nothing: a launcher of each host has rank 0 there too. As
    many tasks as the program says that it has ranks are these.
    """
    tasks = {event.fields["task"] for event in events if "task" in event.fields}
    numbers = {int(task) for task in tasks if task.isdecimal() and len(task) < 8}
    said = [event for event in events
            if "rank" in event.fields and event.kind not in OF_OTHERS]  # fmt: skip
    both = {(event.fields["task"], event.fields["rank"])
            for event in said if "task" in event.fields}  # fmt: skip
    if both - {("0", "0")}:
        return all(task == rank for task, rank in both)
    is_dense = len(numbers) > 1 and numbers == set(range(len(numbers)))
    return is_dense and (not said or claimed == {len(numbers)})


def _are_agents(events: Sequence[LogEvent]) -> bool:
    """Whether tasks start ranks: an agent speaks, or a task has another rank."""
    return any(
        event.pattern.speaker == "torchrun"
        or (
            event.kind not in OF_OTHERS
            and event.fields.get("task", "") != event.fields.get("rank", "")
            and {"task", "rank"} <= event.fields.keys()
        )
        for event in events
    )


def _is_one_node(events: Sequence[LogEvent], of_file: Mapping[str, int]) -> bool:
    """Whether local ranks are ranks: a launcher of one host says so of all it names."""
    pairs = [
        (event.fields["rank"], event.fields["local_rank"])
        for event in events
        if {"rank", "local_rank"} <= event.fields.keys()
    ]
    pairs += [
        (str(of_file[event.file]), event.fields["local_rank"])
        for event in events
        if event.fields.keys().isdisjoint({"rank", "host"})
        and "local_rank" in event.fields
        and event.file in of_file
    ]
    hosts = {event.fields["host"] for event in events
             if "host" in event.fields and event.kind is Evidence.EXIT}  # fmt: skip
    return bool(pairs) and len(hosts) < 2 and all(one == two for one, two in pairs)


def _ranks_of_files(logs: Sequence[Log]) -> dict[str, int]:
    """Return the rank of each file that is of one, by what it says and by its name.

    One file with one rank is often that of all ranks, of which one speaks. Of the
    processes of a host that share a file, perhaps one alone tells its rank: ranks that
    follow each other, each in one file, show that every rank has its own.
    """
    single = [
        log for log in logs
        if len({event.fields.get("pid") for event in log.events
                if event.kind is Evidence.LIFE}) < 2
    ]  # fmt: skip
    found = {log.file: min(log.ranks) for log in single if len(log.ranks) == 1}
    if len({*found.values()}) < 2:
        found = {}
    found.update(_ranks_of_silent(logs, found))
    for log in logs:
        if _NODE_OF_FILE.search(log.file) and any(
            event.pattern.speaker == "torchrun" for event in log.events
        ):
            continue
        if numbers := _RANK_OF_FILE.findall(log.file):
            found.setdefault(log.file, int(numbers[-1]))
    found.update(_ranks_of_workers(logs))
    told = {log.file: min(log.named) for log in single if len(log.named) == 1}
    both = {**told, **found}
    ranks = {*both.values()}
    has_neighbours = any(rank + 1 in ranks for rank in ranks)
    return both if has_neighbours and len(ranks) == len(both) else found


def _ranks_of_silent(logs: Sequence[Log], told: dict[str, int]) -> dict[str, int]:
    """Return the ranks of files that tell none, by those of the files beside them.

    The names of such files differ in one number, the local rank: it is as far from the
    rank in all files that tell theirs, and none is left out. A number above the rank is
    another one.
    """
    beside: dict[tuple[str, str], dict[int, str]] = defaultdict(dict)
    for log in logs:
        if number := _LAST_NUMBER.search(log.file):
            place = log.file[: number.start()], log.file[number.end() :]
            beside[place][int(number[0])] = log.file
    found: dict[str, int] = {}
    for files in beside.values():
        known = {number: told[file] for number, file in files.items() if file in told}
        shifts = {rank - number for number, rank in known.items()}
        is_row = max(files) - min(files) < len(files)
        if is_row and len(known) > 1 and len(shifts) == 1 and min(shifts) >= 0:
            found.update({file: number + min(shifts) for number, file in files.items()
                          if file not in told})  # fmt: skip
    found = found or _ranks_by_numbers([log.file for log in logs], told)
    return found if not {*found.values()} & {*told.values()} else {}


def _ranks_by_numbers(files: Sequence[str], told: Mapping[str, int]) -> dict[str, int]:
    """Return the ranks of silent files, if one number in the names of all is the rank.

    Names may differ in more than it: hosts (``%N-%t``), or a folder for each pod. The
    word before the number is alike, and so is the sign behind it.
    """
    alike: dict[tuple[object, ...], dict[str, int]] = defaultdict(dict)
    for file in files:
        parts = re.split(r"(?<!\d)(\d{1,7})(?!\d)", file)
        for at in range(1, len(parts), 2):
            word = re.findall(r"[^\W\d_]*[\W_]?\Z", parts[at - 1])[0]
            place = len(parts), at, word, parts[at + 1][:1], os.path.splitext(file)[1]
            alike[place][file] = int(parts[at])
    for by_file in alike.values():
        known = by_file.keys() & told.keys()
        ranks = {*by_file.values()}
        is_row = len(ranks) == len(by_file) == max(ranks) - min(ranks) + 1
        is_rank = all(told[file] == by_file[file] for file in known)
        if is_row and len(known) > 1 and is_rank:
            return {file: rank for file, rank in by_file.items() if file not in told}
    return {}


def _ranks_of_workers(logs: Sequence[Log]) -> dict[str, int]:
    """Return the ranks of MindSpore's logs, unless each host numbers its own ones."""
    beside = {os.path.dirname(log.file) for log in logs if log.is_of_mindspore}
    found = {
        log.file: int(number[1])
        for log in logs
        if (number := _RANK_OF_WORKER.search(log.file))
        and os.path.dirname(log.file) in beside
    }
    return found if len({*found.values()}) == len(found) else {}


def _home(file: str) -> str:
    """Return the folder of all files of the processes that write into a file."""
    folder = os.path.dirname(file)
    while _NO_HOME.fullmatch(os.path.basename(folder)):
        folder = os.path.dirname(folder)
    return folder


def _shared_processes(events: Iterable[LogEvent]) -> set[tuple[str, str]]:
    """Return the process ids of a folder that processes of several hosts have.

    Agents of one job are in containers or on hosts whose ids are often the same.
    """
    places: dict[tuple[str, str], set[str]] = defaultdict(set)
    agents: dict[tuple[str, str], set[str]] = defaultdict(set)
    for event in events:
        process = process_of(event)
        if process[1] and event.kind is Evidence.IDENTITY:
            place = event.fields.get("server") or event.fields.get("host", "")
            places[process].add(place)
        elif process[1] and event.pattern.speaker == "torchrun":
            agents[process].add(f"{event.file}:{launcher_of(event.fields)}")
    shared = {process for process, hosts in places.items() if len(hosts - {""}) > 1}
    return shared | {process for process, ones in agents.items() if len(ones) > 1}


def process_of(event: LogEvent) -> tuple[str, str]:
    """Return the folder of the logs of a process, and its id."""
    return _home(event.file), event.fields.get("pid", "")


def old_processes(logs: Sequence[Log]) -> set[tuple[str, str]]:
    """Return the processes that others replaced.

    Of the processes of one folder that used one chip, the last one counts.
    """
    started: dict[tuple[str, ...], dict[str, str]] = defaultdict(dict)
    for event in (event for log in logs for event in log.events):
        fields = event.fields
        if (
            event.kind is Evidence.IDENTITY
            and {"pid", "device", "time"} <= fields.keys()
        ):
            place = _home(event.file), fields.get("server", ""), fields["device"]
            started[place].setdefault(fields["pid"], fields["time"])
    return {
        (place[0], pid)
        for place, pids in started.items()
        for pid in pids
        if pids[pid] < max(pids.values())
    }


def _awaited(keys: str) -> tuple[int, ...]:
    """Return the rank whose key of a store is missing.

    A store names all keys that were asked for; the first is the one it waits for. What
    SCCL waits for is published by rank 0.
    """
    last = re.match(r"[^,;]*?(\d+)(?=[,;]|$)", keys)
    if "SCCL" in keys:
        return (0,)
    return (int(last[1]),) if last else ()


def _parts(path: str) -> list[str]:
    """Return the parts of a path by which a file may be named after its host."""
    found: list[str] = []
    for part in path.split(os.sep):
        stem = part.split(".")[0]
        found += [part, stem, *re.split(r"[_.]", part), *stem.split("-")]
    return found
