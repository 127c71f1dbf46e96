"""``check --live``: every process says what it believes, and all get one verdict.

The processes meet in the store of the job, as ``init_process_group`` does. Each takes a
ticket, so that two with the same rank both count, and posts one record. The last one
judges all records. Then all confirm that they still run, with their clocks. A process
makes the same number of requests however many there are.
"""

from __future__ import annotations

import json
import os
import socket
import time
from concurrent.futures import wait
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from importlib import import_module, metadata
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import json as json_text
from msgspec import structs

from ranktable.cluster.discovery.machine import Machine
from ranktable.cluster.generate import parse_numbers
from ranktable.preflight import rules
from ranktable.preflight.chips_of_ranks import why_not_compared
from ranktable.preflight.confirm import ClockJudging, Confirming, first_of_hosts
from ranktable.preflight.facts import Declared, Facts
from ranktable.preflight.here import Checked, Looked
from ranktable.preflight.host_gate import look_at_host, looked_at, loopback_ranks
from ranktable.preflight.reach import (
    Attempt,
    listen,
    loopback_setting,
    own_address,
    peers_of,
    told_address,
    try_to_reach,
)
from ranktable.preflight.records import (
    ProcessRecord,
    chip_users,
    judge,
    own_record,
    rows,
    usual_size,
)
from ranktable.preflight.stored_findings import (
    BY_CODE,
    as_data,
    as_finding,
    diagnostics_of,
)
from ranktable.runtime.environment import Environment, no_rank, resolve_environment
from ranktable.runtime.errors import BootstrapError, ConflictingVariablesError
from ranktable.runtime.master_address import with_master
from ranktable.runtime.rendezvous import (
    Deadline,
    LateError,
    SlowStartError,
    in_background,
    in_time,
    open_store,
    refuse_slow_start,
    serves_store,
)
from ranktable.runtime.store_alone import load_store
from ranktable.runtime.store_round import StoreRound, usable_store
from ranktable.schema.text import counted, fold_numbers, quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from torch._C._distributed_c10d import Store

    from ranktable.schema.model import RankTable

DEFAULT_TIMEOUT_S = 30.0
"""Time for all processes to come, if none is given."""

NAME_S = 2.5
"""Time for the name of rank 0's host to resolve, if no time-out is given."""

SETTLE_S = 1.5
"""Time for processes that nobody expects, such as a second one with the same rank."""

READY_S, READY_EACH_S = 5.0, 0.001
"""Time for all to confirm that they still run: some seconds, and more for each rank."""

MAX_LATE = 4
"""So many processes that come after the verdict say so; the others only end."""

_SHOWN_LOST = 1000
_PATIENCE_S = 1.0  # then it is looked what answers at the address of rank 0
_ANSWER_S = 1.0
_LATE_S = 3.0  # the store stays for late processes after a rank was missing
NOT_CONNECTED = {rules.NO_WAY.code, rules.OWN_NAME.code, rules.PORTS.code}
"""The rules about ways between hosts, which are told before links are measured."""

NOT_ALL = {rules.MISSING.code, rules.DOUBLED.code, rules.OTHER_SIZE.code}
"""The rules about processes that are not those of one job."""


class UnreachableError(Exception):
    """Rank 0 cannot be reached, or its store was lost; the text says why."""


@dataclass(frozen=True, kw_only=True)
class LiveChecked:
    """What one process knows at the end.

    Attributes:
        checked: The verdict on all.
        is_speaker: Whether this process tells it; the others only end with its status.
        is_finished: Whether there is a verdict.
        records: What all processes said, if they were asked for.
        apart: The first ranks of hosts that others do not reach.
        loopback: Those of hosts of which gloo would tell others a loopback address.
        leave: To be called when the verdict has been told.
    """

    checked: Checked
    is_speaker: bool
    is_finished: bool = True
    records: tuple[ProcessRecord, ...] = ()
    apart: tuple[int, ...] = ()
    loopback: tuple[int, ...] = ()
    leave: Callable[[], None] = lambda: None


class Then(Protocol):
    """What all processes do together after the verdict on their records."""

    @property
    def limit_s(self) -> float:
        """Time for it."""
        ...

    def __call__(self, meeting: Meeting, live: LiveChecked) -> LiveChecked:
        """Return the verdict on both."""
        ...


def check_live(
    env: Mapping[str, str],
    table: RankTable | None = None,
    *,
    unread: str = "",
    path: str | None = None,
    timeout_s: float | None = None,
    wants_records: bool = False,
    then: Then | None = None,
) -> LiveChecked:
    """Post the record of this process, and return the verdict on all.

    Args:
        env: The variables of the launcher.
        table: The table of this process, None without one.
        unread: Why its table cannot be read.
        path: The table as it was named.
        timeout_s: Time for all processes to come.
        wants_records: Whether all records are returned to the process that speaks.
        then: What all processes do after the verdict.

    Raises:
        LaunchEnvironmentError: This process has no rank, or no address of rank 0.
    """
    # Torch writes what it tries at the address; what matters is said here.
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "FATAL")
    if then is None:
        load_store()
    else:  # it may need all of torch, whose start takes none of the time of the others
        import_module("torch")
    environment, problem = _environment(env, table)
    facts = Facts(machine=Machine(), env=env, path=path, is_live=True)
    record = own_record(
        environment,
        facts,
        table,
        unread=unread,
        problem=problem,
        torch_version=_torch_version(),
    )
    record, server = _with_host(record, facts, table, environment)
    name = f"rank {record.rank}, {record.process}"
    deadline = Deadline.after(DEFAULT_TIMEOUT_S if timeout_s is None else timeout_s)
    try:
        name_s = NAME_S if timeout_s is None else timeout_s
        store, borrows = _open(environment, env, deadline, name_s)
        record = structs.replace(record, borrows=borrows)
        meeting = Meeting(
            part=_parts(store),
            record=record,
            table=table,
            deadline=deadline,
            serves=serves_store(record.rank, env),
            ready_s=READY_S + READY_EACH_S * record.world_size,
            wants_records=wants_records,
            then=then,
        )
        limit_s = deadline.left_s + SETTLE_S + 3 * meeting.ready_s
        if then is not None:  # it has two more rounds
            limit_s += then.limit_s + 2 * meeting.ready_s
        result = in_time(meeting.hold, limit_s)
    except UnreachableError as error:
        reason = str(error)
    except LateError:
        reason = (
            "the store of rank 0 no longer answers: the process is stopped or hangs"
        )
    except RuntimeError as error:  # torch's errors of the network are RuntimeErrors
        reason = f"the store of rank 0 was lost ({str(error).splitlines()[0][:100]})"
    else:
        leave = partial(_leave, result.leave, _LATE_S + 2 * meeting.ready_s, server)
        return replace(result, leave=leave)
    found = [rules.UNREACHABLE.finding(None, f"{name}: {reason}")]
    checked = Checked(subject=name, diagnostics=diagnostics_of(found))
    return LiveChecked(checked=checked, is_speaker=True, is_finished=False)


def _leave(
    leave: Callable[[], None], time_s: float, server: socket.socket | None
) -> None:
    """Leave the others, who may have ended meanwhile; the verdict stands."""
    with suppress(LateError, RuntimeError):
        in_time(leave, time_s)
    if server is not None:
        server.close()


def _with_host(
    record: ProcessRecord,
    facts: Facts,
    table: RankTable | None,
    environment: Environment,
) -> tuple[ProcessRecord, socket.socket | None]:
    """Return the record with what is found of the host, and a socket that listens."""
    declared = None
    if table is not None and record.node is not None and record.placed is not None:
        declared = Declared(
            report=None, table=table, node_rank=record.node, named=(record.host,)
        )
    is_first = environment.local_rank in (0, None)
    said = look_at_host(facts, declared, is_first=is_first)
    address = own_address(facts.env, environment.master_addr or "")
    server = listen(address) if address else None
    record = structs.replace(
        record,
        findings=tuple(tuple(as_data(each)) for each in said.found),
        agrees=" ".join(said.agrees),
        skipped=tuple(tuple(each) for each in said.skipped),
        address=address if server is not None else "",
        port=server.getsockname()[1] if server is not None else 0,
        told=told_address(facts.env),
        loopback=loopback_setting(facts.env),
    )
    return record, server


def _torch_version() -> str:
    """Return the version of torch, which takes a second to import."""
    try:
        return metadata.version("torch")
    except metadata.PackageNotFoundError:
        raise ImportError("torch") from None


def _environment(
    env: Mapping[str, str], table: RankTable | None
) -> tuple[Environment, str]:
    """Return the facts from the launcher, and what is wrong with them.

    A process whose rank and size contradict each other still comes, so that all learn
    of it: torch would let the others go on without it.
    """
    from ranktable.runtime.agreement import with_world_size

    problem = ""
    try:
        environment = with_world_size(resolve_environment(env), table)
    except ConflictingVariablesError as error:
        rank, size = env.get("RANK", ""), env.get("WORLD_SIZE", "")
        port = env.get("MASTER_PORT", "")
        if not (rank.isdigit() and size.isdigit() and port.isdigit()):
            raise
        problem = error.message
        environment = Environment(
            rank=int(rank),
            world_size=int(size),
            master_addr=env.get("MASTER_ADDR"),
            master_port=int(port),
        )
    if environment.rank is None or environment.world_size is None:
        raise no_rank(environment, env)
    return with_master(environment, table), problem


def _open(
    environment: Environment, env: Mapping[str, str], deadline: Deadline, name_s: float
) -> tuple[Store, str]:
    """Return the store of the job, and the port if another program serves it.

    Raises:
        UnreachableError: It cannot be reached; the reason is what was seen from here.
    """
    host, port = environment.master_addr, environment.master_port
    assert host is not None
    assert port is not None
    try:
        refuse_slow_start(environment, deadline)
        _await_name(host, Deadline.after(min(name_s, deadline.left_s)))
        return _opened(environment, env, deadline), ""
    except SlowStartError as error:
        raise UnreachableError(f"{error.message}: --timeout") from None
    except BootstrapError as error:
        if not serves_store(environment.rank, env):
            raise UnreachableError(why_unreachable(host, port)) from None
        reason = error.message
    # Another process may have this rank and the port: it comes as the others do.
    as_client = {**env, "TORCHELASTIC_USE_AGENT_STORE": "True"}
    try:
        return _opened(environment, as_client, deadline), f"port {port}"
    except BootstrapError:
        raise UnreachableError(reason) from None


def _opened(
    environment: Environment, env: Mapping[str, str], deadline: Deadline
) -> Store:
    """Return the store, or raise as soon as something else answers."""
    host, port = environment.master_addr, environment.master_port
    assert host is not None
    assert port is not None
    opening = in_background(lambda: open_store(environment, env, deadline))
    wait([opening], _PATIENCE_S)
    if not opening.done() and (answer := _other_answer(host, port)):
        raise UnreachableError(answer)
    return opening.result()


def _await_name(host: str, deadline: Deadline) -> None:
    """Wait until a name resolves; those of Kubernetes appear some seconds late."""
    while True:
        try:
            in_time(lambda: socket.getaddrinfo(host, None), deadline.left_s + 0.1)
        except LateError:
            raise UnreachableError(f"no name server answers for {host}") from None
        except OSError as error:
            if deadline.left_s > 0:
                time.sleep(min(0.5, deadline.left_s))
                continue
            reason = (error.strerror or str(error)).lower()
            message = f"the name {host} does not resolve on this host: {reason}"
            raise UnreachableError(message) from None
        return


def why_unreachable(host: str, port: int) -> str:
    """Return what is seen of an address from here, empty if it may be a store."""
    where = f"{host}:{port}"
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except socket.gaierror:
        return f"the name {host} does not resolve on this host"
    addresses = list(dict.fromkeys(str(each[4][0]) for each in found))
    if addresses != [host]:  # a stale line of /etc/hosts names another host
        where += f" ({', '.join(addresses[:4])})"
    try:
        socket.create_connection((host, port), timeout=_ANSWER_S).close()
    except ConnectionRefusedError:
        return (
            f"the port refuses: nothing listens at {where}; rank 0 does not run there, "
            "or not yet, or the name means another host here"
        )
    except OSError as error:
        reason = (error.strerror or str(error) or "timed out").lower()
        return f"{where} does not answer: {reason}"
    return _other_answer(host, port) or (
        f"{where} takes connections and is silent: rank 0 is stopped or hangs"
    )


def _other_answer(host: str, port: int) -> str:
    """Return what answers there that is not a store, empty if that is not seen."""
    with suppress(OSError):
        address = (host, port)
        with socket.create_connection(address, timeout=_ANSWER_S) as connection:
            connection.settimeout(_ANSWER_S)
            connection.sendall(b"GET / HTTP/1.0\r\n\r\n")  # a store closes, or waits
            answer = connection.recv(64)
        if answer:
            line = answer.split(b"\n")[0].decode("utf-8", "replace").strip()
            return (
                f"something else answers at {host}:{port}: {quoted(line)}; choose "
                "another MASTER_PORT"
            )
    return ""


def _parts(store: Store) -> Callable[[str], Store]:
    from torch._C._distributed_c10d import PrefixStore

    return lambda name: PrefixStore(name, store)


class _Records(StoreRound):
    """A round that judges processes that nobody expects, too."""

    def is_last(self, count: int) -> bool:
        """Whether this member judges; it waits until no other has come for a time."""
        if count < len(self.ranks) or self.store.add("judges", 1) != 1:
            return False
        before = 0
        while before != count:
            time.sleep(SETTLE_S)
            before, count = count, self.store.add("count", 0)
        return True


@dataclass(kw_only=True)
class Meeting:
    """The part of one process.

    Attributes:
        part: Returns a part of the store of the job by its name.
        record: What this process says.
        table: Its table.
        deadline: Until when others may come.
        serves: Whether the store ends with this process.
        ready_s: Time for all to confirm that they still run.
        wants_records: Whether all records are returned.
        then: What follows the verdict.
    """

    part: Callable[[str], Any]
    record: ProcessRecord
    table: RankTable | None
    deadline: Deadline
    serves: bool
    ready_s: float = READY_S
    wants_records: bool = False
    then: Then | None = None
    store: Any = None
    ticket: int = -1

    def hold(self) -> LiveChecked:
        """Post the record, and return the verdict."""
        self.store = usable_store(self.part("all"))
        self.ticket = self.store.add("ticket", 1) - 1
        self.store.set(f"record/{self.ticket}", json_text.encode(self.record).decode())
        self._offer_rows()
        size = self._least_size()
        held = self._round("records", self.ticket, range(size), self, _Records)
        data = json.loads(self._post(held, str(self.ticket), self.deadline))
        if self.ticket >= data["to"] or self.ticket in data["gaps"]:
            return self._late(data)
        result = self._result(data)
        if self.then is not None:
            result = self.then(self, result)
        is_speaker = result.is_speaker
        return replace(
            result,
            is_speaker=is_speaker or self._is_heir(),
            leave=lambda: self._leave(data, is_speaker=is_speaker),
        )

    def _least_size(self) -> int:
        """Return how many are waited for, before one of them judges.

        If two sizes are known, one of them is wrong, and all ranks of the larger one
        may never come.
        """
        own = self.record.world_size
        first = int(self.store.compare_set("size", "", str(own)))
        if own < first:
            self.store.set("smaller", str(own))
        elif self.store.check(["smaller"]):
            return int(self.store.get("smaller"))
        return min(own, first)

    def _late(self, data: dict[str, Any]) -> LiveChecked:
        """Return the verdict on this process, which came after that on the others."""
        if self.store.check(["left over"]):
            text = json.loads(self.store.get("left over"))
            checked = Checked(
                subject=data["subject"], diagnostics=diagnostics_of([as_finding(text)])
            )
            is_speaker = self.store.add("late", 1) <= MAX_LATE
            return LiveChecked(checked=checked, is_speaker=is_speaker)
        was_missing = data["count"] < self.record.world_size
        rule = rules.MISSING if was_missing else rules.OTHER_SIZE
        who = f"rank {self.record.rank}, {self.record.process}"
        found = [rule.finding(None, f"{who}, came after the verdict on the others")]
        checked = Checked(subject=data["subject"], diagnostics=diagnostics_of(found))
        is_speaker = self.store.add("late", 1) <= MAX_LATE
        return LiveChecked(checked=checked, is_speaker=is_speaker)

    def _is_heir(self) -> bool:
        """Wait until the verdict is told, or return whether this process tells it."""
        try:
            self.store.wait(["told"], timedelta(seconds=self.ready_s))
        except RuntimeError:  # the speaker has ended, or the store is lost
            return bool(self.store.add("heirs", 1) == 1)
        return False

    def _result(self, data: dict[str, Any]) -> LiveChecked:
        found = [as_finding(each) for each in data["findings"]]
        is_whole = data["whole"]
        told = self._confirm(data)
        lost = [as_finding(each) for each in told["findings"]]
        if any(each.rule is rules.MISSING for each in lost):  # it names all of them
            found = [each for each in found if each.rule is not rules.MISSING]
        found += lost
        speaker = told["speaker"] == self.ticket
        known = {each.rule.code for each in found}
        skipped = [Looked(*each) for each in data["not_checked"]]
        if not is_whole:
            why = "not all ranks came once"
            lacking = (rules.CLOCK, rules.IDLE_CHIP)
            skipped += [Looked(rule.code, rule.name, why) for rule in lacking]
        passed = known | {each.code for each in skipped} | {rules.UNREACHABLE.code}
        if data["hosts"] < 2:
            passed.add(rules.NO_WAY.code)
        checked = Checked(
            subject=data["subject"],
            diagnostics=diagnostics_of(found),
            agrees=tuple(
                Looked(rule.code, rule.name)
                for rule in rules.OF_RANKS
                if rule.code not in passed
            )
            + tuple(
                Looked(code, BY_CODE[code].name)
                for code in data["agrees"]
                if code not in passed
            ),
            not_checked=tuple(skipped),
        )
        is_wanted = self.wants_records and speaker
        tickets = [each for each in range(data["to"]) if each not in data["gaps"]]
        records = self._records(tickets) if is_wanted else ()
        return LiveChecked(
            checked=checked,
            is_speaker=speaker,
            records=tuple(records),
            apart=tuple(told["apart"]),
            loopback=tuple(data["loopback"]),
        )

    def _round(
        self,
        name: str,
        member: int,
        members: Sequence[int],
        wording: Any,
        kind: type[StoreRound] = StoreRound,
    ) -> StoreRound:
        return kind(
            store=self.part(name),
            rank=member,
            ranks=members,
            wording=wording,
            is_alone=True,
        )

    def _post(self, held: StoreRound, text: str, deadline: Deadline) -> str:
        """Return the message of the verdict; a process alone judges itself."""
        held.post(text)
        verdict = held.hear(
            deadline.time_s, left_s=deadline.left_s, look_s=self.ready_s
        )
        if verdict.kind == "agreed":
            return held.wording.differing({held.rank: text})[0]
        return verdict.message

    def ask(self, name: str, wording: Any, said: str, deadline: Deadline) -> Any:
        """Return the verdict on what the ranks of a whole job say, as data."""
        ranks = range(self.record.world_size)
        held = self._round(name, self.record.rank, ranks, wording)
        return json.loads(self._post(held, said, deadline))

    def _offer_rows(self) -> None:
        """Put the rows of a table into the store, once for each table."""
        if self.table is not None and self.record.table:
            key = self.record.table
            claimed = self.store.compare_set(f"claim/{key}", "", str(self.ticket))
            if claimed.decode() == str(self.ticket):
                self.store.set(f"rows/{key}", "\n".join(rows(self.table)))

    def _rows_of(self, digest: str) -> list[str] | None:
        if not self.store.check([f"rows/{digest}"]):
            return None
        text: bytes = self.store.get(f"rows/{digest}")
        return text.decode().splitlines()

    def _records(self, tickets: Sequence[int]) -> list[ProcessRecord]:
        texts = self.store.multi_get([f"record/{ticket}" for ticket in tickets])
        return [json_text.decode(text, type=ProcessRecord) for text in texts]

    def differing(self, said: Mapping[int, str]) -> tuple[str, tuple[int, ...]]:
        """Return the verdict on the processes with some tickets."""
        tickets = sorted(said)
        return self._verdict(tickets, self._records(tickets)), ()

    def missing(self, _absent: Sequence[int], _time_s: float) -> str:
        """Return the verdict on this process, which is alone."""
        return self._verdict([self.ticket], [self.record])

    def _verdict(self, tickets: Sequence[int], records: Sequence[ProcessRecord]) -> str:
        found = judge(records, self.table, self._rows_of)
        borrowed = [each for each in found if each.rule is rules.PORTS]
        if borrowed and any(each.borrows for each in records):
            self.store.set("left over", json.dumps(as_data(borrowed[0])))
        agrees, skipped = looked_at(records)
        ranks = {each.rank for each in records}
        first = first_of_hosts(tickets, records)
        self.store.set("first", json.dumps(first))  # only one process a host reads it
        hosts = {each.host for each in records}
        size = counted(usual_size(records), "rank")
        came = counted(len(records), "process", "processes")
        end = tickets[-1] + 1
        return json.dumps(
            {
                "findings": [as_data(each) for each in found],
                "not_checked": [*_not_checked(records), *skipped],
                "agrees": agrees,
                "whole": sorted(each.rank for each in records)
                == list(range(self.record.world_size))
                and len({each.world_size for each in records}) == 1,
                "lost": sorted(set(range(usual_size(records))) - ranks)[:_SHOWN_LOST],
                "tickets": fold_numbers(tickets),
                "loopback": loopback_ranks(records),
                "hosts": len(first),
                "subject": f"{came} of {size}, {counted(len(hosts), 'host')}",
                "judge": self.ticket,
                "count": len(records),
                "to": end,
                "gaps": sorted(set(range(end)) - set(tickets))[:1000],
            }
        )

    def _confirm(self, data: dict[str, Any]) -> dict[str, Any]:
        """Return what all find together, those that ended meanwhile, and who speaks."""
        tickets = parse_numbers(data["tickets"], noun="a ticket", example="1,4-5")
        is_first = self.record.local_rank in (0, None)
        tried = []
        if data["whole"] and data["hosts"] > 1 and is_first:
            tried = self._try_hosts(self._first())
        before = time.time()
        text = json.dumps([self.record.rank, before, tried])
        last = Confirming(
            record=self.record,
            table=self.table,
            ticket=self.ticket,
            records_of=self._records,
            hosts_of=lambda: self._records(self._first()),
            tickets=tickets,
            data=data,
        )
        told: dict[str, Any] = self._ask_tickets("ready", tickets, last, text)
        if told["clocks"]:
            text = json.dumps([self.record.rank, before, time.time()])
            clocks = ClockJudging()
            told["findings"] += self._ask_tickets("clock", tickets, clocks, text)
        return told

    def _first(self) -> list[int]:
        """Return the ticket of the first process of each host."""
        found: list[int] = json.loads(self.store.get("first"))
        return found

    def _try_hosts(self, first: Sequence[int]) -> list[Attempt]:
        """Return which hosts the first process of a host tried, and why not reached."""
        if self.ticket not in first:
            return []
        place = first.index(self.ticket)
        targets = peers_of(place, len(first))
        peers = self._records([first[target] for target in targets])
        known = [
            (target, (peer.address, peer.port))
            for target, peer in zip(targets, peers, strict=True)
            if peer.address
        ]
        reasons = try_to_reach([where for _, where in known])
        return [
            Attempt(place, target, f"{address}:{port}", why)
            for (target, (address, port)), why in zip(known, reasons, strict=True)
        ]

    def _ask_tickets(
        self, name: str, tickets: Sequence[int], wording: Any, said: str
    ) -> Any:
        held = self._round(name, self.ticket, tickets, wording)
        return json.loads(self._post(held, said, Deadline.after(self.ready_s)))

    def _leave(self, data: dict[str, Any], *, is_speaker: bool) -> None:
        """Let the others end; the store waits for all, as long as they may take."""
        if is_speaker:
            self.store.set("told", "1")
        if self.store.add("done", 1) == data["count"]:
            self.store.set("end", "1")
        if self.serves:
            if data["count"] < self.record.world_size:
                time.sleep(_LATE_S)
            self.store.wait(["end"], timedelta(seconds=self.ready_s))


def _not_checked(records: Sequence[ProcessRecord]) -> list[Looked]:
    """Return what the records do not tell."""
    found = []
    if not any(each.table for each in records):
        lacking = (rules.OTHER_TABLE, rules.MISPLACED)
        found += [(rule, "no process has a table") for rule in lacking]
    if why := why_not_compared(chip_users(records)):
        found.append((rules.SAME_CHIP, why))
    if why := why or next((e.chip.unknown for e in records if e.chip.unknown), ""):
        found.append((rules.IDLE_CHIP, why))
    return [Looked(rule.code, rule.name, why) for rule, why in found]
