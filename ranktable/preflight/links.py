"""``check --links``: an exact all_reduce in each node, then in pairs of nodes.

It comes after the records of ``check --live``, in the same store. The processes agree
on nodes and backend, make the groups, and measure in a thread that is given up after
the time-out. Then each posts its times or what went wrong, and all get one verdict.
"""

from __future__ import annotations

import json
import os
import time
from concurrent.futures import wait
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from msgspec import json as json_text
from msgspec import structs

from ranktable._error import Error
from ranktable.cluster.generate import parse_numbers
from ranktable.preflight import link_rules as rules
from ranktable.preflight import rules as rules_of_ranks
from ranktable.preflight.here import Looked
from ranktable.preflight.link_verdict import (
    SLOW_ON_CHIPS,
    SLOW_ON_CPUS,
    LinkNode,
    Step,
    ended,
    judge_links,
    nodes_of,
    not_measured,
    steps_of,
)
from ranktable.preflight.live import NOT_ALL, NOT_CONNECTED
from ranktable.preflight.records import ProcessRecord, unlike
from ranktable.preflight.stored_findings import as_data, as_finding, diagnostics_of
from ranktable.runtime.agreement import with_world_size
from ranktable.runtime.backends.backend import backend_named, choose_backend
from ranktable.runtime.environment import Environment, resolve_environment
from ranktable.runtime.master_address import with_master
from ranktable.runtime.process_group import init_process_group, join, place
from ranktable.runtime.rendezvous import Deadline, first_line, in_background
from ranktable.schema.finding import Severity
from ranktable.schema.text import counted, first_few, fold_numbers
from ranktable.simulate.simulated_run import VARIABLE as SIMULATED_RUN

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ranktable.preflight.live import LiveChecked, Meeting
    from ranktable.runtime.job import Job
    from ranktable.schema.finding import Finding
    from ranktable.schema.model import RankTable

DEFAULT_TIMEOUT_S = 120.0
"""Time to measure: a large job takes most of a minute to connect. As much for all to
say which backend they would use: importing torch may take long."""

CHIP_MIB, CPU_MIB = 64, 4
WARM_UPS, REPETITIONS = 1, 5
IN_A_ROW = 4  # all_reduces behind one barrier, so that its own time counts little
PATTERN, RANK_PATTERN = 1021, 64
"""Elements and ranks count up to these, so that float32 sums 15,000 ranks exactly."""

_STEP_PART = 0.25  # of the time, for one group on CPUs: the next ones come in time, too
_TELL_S = 1.0  # to tell what is known before the others stop waiting
_NEVER = 10.0  # on chips torch's time-out ends the process: it comes after this check


@dataclass(kw_only=True)
class LinkCheck:
    """What one process does after its record is judged.

    Attributes:
        table: The table, None without one.
        unread: Why the table cannot be read.
        size_mib: Size of a tensor; by default it depends on the backend.
        timeout_s: Time to measure, None for the default.
        with_live: Whether the verdict on the records is shown, too.
    """

    table: RankTable | None
    unread: str = ""
    size_mib: int | None = None
    timeout_s: float | None = None
    with_live: bool = False

    @property
    def measure_s(self) -> float:
        """Time to measure."""
        return DEFAULT_TIMEOUT_S if self.timeout_s is None else self.timeout_s

    @property
    def limit_s(self) -> float:
        """Time for everything."""
        return 2 * self.measure_s

    def __call__(self, meeting: Meeting, live: LiveChecked) -> LiveChecked:
        """Return the verdict on the links, after that on the records."""
        errors = {
            each.code
            for each in live.checked.diagnostics
            if each.severity is Severity.ERROR
        }
        if not self.with_live:
            told = NOT_ALL | NOT_CONNECTED
            shown = tuple(d for d in live.checked.diagnostics if d.code in told)
            checked = replace(
                live.checked, diagnostics=shown, agrees=(), not_checked=()
            )
            live = replace(live, checked=checked)
            errors &= NOT_ALL
        if meeting.record.world_size == 1:
            return _with(live, (), _all_skipped("the job has one process"))
        errors.discard(rules_of_ranks.NO_WAY.code)  # the others are measured
        if errors:
            codes = ", ".join(sorted(errors))
            return _with(live, (), _all_skipped(f"what differs comes first: {codes}"))
        return self._measured(meeting, live)

    def _measured(self, meeting: Meeting, live: LiveChecked) -> LiveChecked:
        backend, problem = self._backend()
        record = structs.replace(
            meeting.record,
            problem=problem,
            versions={},
            settings={"backend": backend, "size": str(self._mib(backend))},
        )
        own = json_text.encode(record).decode()
        limit = Deadline.after(self.measure_s + meeting.ready_s)
        plan = meeting.ask("links", _Planning(meeting.record), own, limit)
        findings = [as_finding(each) for each in plan["findings"]]
        if findings:
            skipped = _all_skipped("communication did not start")
            live = replace(live, is_speaker=plan["speaker"] == meeting.record.rank)
            return _with(live, findings, skipped)
        nodes = tuple(
            LinkNode(number, host, _ranks_in(ranks))
            for number, host, ranks in plan["nodes"]
        )
        is_on_cpu = backend != "none" and backend_named(backend).serves_cpu
        lost = {*live.apart, *(live.loopback if is_on_cpu else ())}
        apart = [node for node in nodes if lost & set(node.ranks)]
        nodes = tuple(node for node in nodes if node not in apart)
        if not nodes:
            return _with(live, (), _all_skipped("no two hosts reach each other"))
        work = _Work(
            rank=meeting.record.rank,
            members=[] if not apart else sorted(r for n in nodes for r in n.ranks),
            steps=steps_of(nodes),
            table=self.table,
            backend=backend,
            size_bytes=self._mib(backend) << 20,
            timeout_s=self.measure_s,
        )
        wait([in_background(work.do)], self.measure_s)
        judging = _Judging(meeting, nodes, work)
        limit = Deadline.after(max(work.deadline.left_s, 0.0) + meeting.ready_s)
        verdict = meeting.ask("measured", judging, work.said(), limit)
        is_speaker = verdict["speaker"] == meeting.record.rank
        data = meeting.store.get("measured").decode() if is_speaker else "[]"
        checked = replace(
            live.checked,
            subject=f"{live.checked.subject}, {counted(len(nodes), 'node')}",
            measured=tuple(json.loads(data)),
        )
        return _with(
            replace(live, checked=checked, is_speaker=is_speaker),
            [as_finding(each) for each in verdict["findings"]],
            [*_not_reached(apart), *(Looked(*each) for each in verdict["not_checked"])],
        )

    def _backend(self) -> tuple[str, str]:
        """Return the backend of this process, and why it cannot start."""
        name = "none"
        try:
            backend = choose_backend(None)
            name = backend.name
            environment = with_world_size(resolve_environment(), self.table)
            needs_device = not backend.serves_cpu
            backend.select_device(
                place(environment, self.table, needs_device=needs_device)
            )
        except Error as error:
            return name, first_line(error)
        return name, f"the table is {self.unread}" if self.unread else ""

    def _mib(self, backend: str) -> int:
        is_on_cpu = backend == "none" or backend_named(backend).serves_cpu
        is_on_cpu |= SIMULATED_RUN in os.environ
        return self.size_mib or (CPU_MIB if is_on_cpu else CHIP_MIB)


def _ranks_in(text: str) -> tuple[int, ...]:
    return tuple(parse_numbers(text, noun="a rank", example="1,4-5"))


def _not_reached(apart: Sequence[LinkNode]) -> list[Looked]:
    """Return the nodes that could not take part."""
    rule = rules.SLOW_PAIR
    why = "other hosts are not reached, so nothing was measured there"
    why = f"{first_few(apart)}: {why}"
    return [Looked(rule.code, rule.name, why)] if apart else []


def _all_skipped(why: str) -> list[Looked]:
    return [
        Looked(rule.code, rule.name, why)
        for rule in rules.OF_LINKS
        if rule is not rules.MEASURED
    ]


def _with(
    live: LiveChecked, found: Sequence[Finding], skipped: Sequence[Looked]
) -> LiveChecked:
    """Return the verdict on the records with that on the links."""
    told = {each.rule.code for each in found}
    skipped = [each for each in skipped if each.code not in told]
    passed = {rules.MEASURED.code, *told, *(each.code for each in skipped)}
    agrees = [Looked(r.code, r.name) for r in rules.OF_LINKS if r.code not in passed]
    checked = replace(
        live.checked,
        diagnostics=(*live.checked.diagnostics, *diagnostics_of(found)),
        agrees=(*live.checked.agrees, *agrees),
        not_checked=(*live.checked.not_checked, *skipped),
    )
    return replace(live, checked=checked)


@dataclass(frozen=True)
class _Planning:
    """The verdict on who takes part: the nodes, or why nothing can be measured."""

    record: ProcessRecord

    def differing(self, said: Mapping[int, str]) -> tuple[str, tuple[int, ...]]:
        records = [json_text.decode(text, type=ProcessRecord) for text in said.values()]
        absent = sorted(set(range(self.record.world_size)) - said.keys())
        nodes = nodes_of(records)
        found = []
        if absent:
            found.append(rules.NO_ANSWER.finding(None, ended(absent, nodes)))
        wrong = [each for each in records if each.problem]
        for each in wrong[:1]:
            more = f" ({len(wrong)} ranks)" if len(wrong) > 1 else ""
            message = f"rank {each.rank}, {each.process}: {each.problem}{more}"
            found.append(rules.NOT_STARTED.finding(None, message))
        values = [(each, each.settings) for each in records]
        if not wrong:
            told = unlike(rules.NOT_STARTED, values)
            found += told
        listed = [[n.number, n.host, fold_numbers(n.ranks)] for n in nodes]
        data = {
            "findings": [as_data(each) for each in found],
            "speaker": min(said),
            "nodes": listed,
        }
        return json.dumps(data), ()

    def missing(self, _absent: Sequence[int], _time_s: float) -> str:
        rank = self.record.rank
        return self.differing({rank: json_text.encode(self.record).decode()})[0]


@dataclass(kw_only=True)
class _Work:
    """The measuring of one process; what is done so far can be read at any time.

    Attributes:
        rank: Its rank.
        members: The ranks that take part, empty for all.
        steps: What is measured.
        table: Its table.
        backend: Name of the backend.
        size_bytes: Size of a tensor.
        timeout_s: Time for all of it.
        deadline: Its end.
        problem: Why it could not begin, or ended.
        results: What was measured, by stage.
    """

    rank: int
    members: Sequence[int]
    steps: Sequence[Step]
    table: RankTable | None
    backend: str
    size_bytes: int
    timeout_s: float
    deadline: Deadline = field(init=False)
    problem: str = ""
    results: dict[int, dict[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.deadline = Deadline.after(self.timeout_s)

    def said(self) -> str:
        """Return what is known so far, for the others."""
        return json.dumps([self.rank, self.problem, dict(self.results)])

    def do(self) -> None:
        """Join the job, make all groups, and measure in those of this rank."""
        part = _STEP_PART if backend_named(self.backend).serves_cpu else _NEVER
        if self.members and self.rank not in self.members:
            return
        try:
            job = self._join(part * self.timeout_s)
            # All groups first: making one waits for all ranks, also busy ones.
            groups = [(step, self._group(job, step)) for step in self.steps]
            for step, group in groups:
                if group is not None:
                    self._measure(job, step, group)
        except Exception as error:  # noqa: BLE001 - it is told to all ranks
            self.problem = first_line(error)[:400]

    def _join(self, timeout_s: float) -> Job:
        if not self.members:
            return init_process_group(
                self.backend, table=self.table, timeout_s=timeout_s
            )
        # Without the hosts that are not reached, in the store that is there.
        os.environ["TORCHELASTIC_USE_AGENT_STORE"] = "True"
        environment = with_world_size(resolve_environment(), self.table)
        backend = choose_backend(self.backend)
        placement = place(environment, self.table, needs_device=not backend.serves_cpu)
        rank, size = self.members.index(self.rank), len(self.members)
        part = Environment(
            rank=rank,
            world_size=size,
            master_addr=with_master(environment, self.table).master_addr,
            master_port=with_master(environment, self.table).master_port,
        )
        placement = replace(placement, rank=rank, world_size=size, digest=None)
        return join(part, None, placement, backend, timedelta(seconds=timeout_s))

    def _ranks(self, step: Step) -> list[int]:
        """Return the ranks of a step as the job counts them."""
        ranks = list(step.ranks)
        return [self.members.index(each) for each in ranks] if self.members else ranks

    def _group(self, job: Job, step: Step) -> Any:
        is_member = self.rank in step.ranks
        try:
            group = job.shared_group(self._ranks(step))
        except (RuntimeError, ValueError) as error:  # of torch and of the backend
            if is_member:
                self.results[step.stage] = {"why": first_line(error)[:200]}
            return None
        return group if is_member else None

    def _measure(self, job: Job, step: Step, group: Any) -> None:
        if late := self._await_members(job, step):
            self.results[step.stage] = {"late": late}
            return
        try:
            ranks = self._ranks(step)
            self.results[step.stage] = measure(job, group, ranks, self.size_bytes)
        except (RuntimeError, ValueError) as error:
            self.results[step.stage] = {"why": first_line(error)[:200]}

    def _await_members(self, job: Job, step: Step) -> list[int]:
        """Return the ranks that still measure something else at the end of the time."""
        assert job.store is not None
        keys = [f"at/{step.stage}/{rank}" for rank in step.ranks]
        job.store.set(f"at/{step.stage}/{self.rank}", "1")
        left_s = self.deadline.left_s - _TELL_S
        with suppress(RuntimeError):
            job.store.wait(keys, timedelta(seconds=max(left_s, 0.001)))
            return []
        late = []
        for rank, key in zip(step.ranks, keys, strict=True):
            late.append(rank)
            with suppress(RuntimeError):
                job.store.wait([key], timedelta(seconds=0.01))
                late.pop()
        return late


def measure(
    job: Job, group: Any, ranks: Sequence[int], size_bytes: int
) -> dict[str, Any]:
    """Return the times of this rank, and what is wrong with the sums.

    An element is its index modulo a prime, plus a number of the rank. So every sum and
    each of its parts is exact in float32, and a part that is missing or comes twice
    changes it.
    """
    import torch
    import torch.distributed as dist

    count = size_bytes // 4
    element = torch.arange(count, dtype=torch.int32) % PATTERN
    added = [1 + place % RANK_PATTERN for place in range(len(ranks))]
    right = (element * len(ranks) + sum(added)).to(torch.float32)
    source = (element + added[ranks.index(job.rank)]).to(torch.float32).to(job.device)
    tensors = torch.empty(IN_A_ROW, count, dtype=torch.float32, device=job.device)
    one = torch.ones(1, dtype=torch.float32, device=job.device)
    times, wrong = [], ""
    for repetition in range(WARM_UPS + REPETITIONS):
        for tensor in tensors:
            tensor.copy_(source)
        dist.all_reduce(one.fill_(1.0), group=group)
        one.item()  # it waits for the device, and so for the other ranks
        began = time.perf_counter()
        for tensor in tensors:
            dist.all_reduce(tensor, group=group)
        tensors[-1][-1].item()
        if repetition >= WARM_UPS:
            times.append(round((time.perf_counter() - began) / IN_A_ROW, 9))
        for tensor in tensors:
            wrong = wrong or _wrong(tensor.cpu(), right)
    return {"times": times, "wrong": wrong}


def _wrong(got: Any, right: Any) -> str:
    """Return how a sum differs from the right one, empty if it does not."""
    differs = got.ne(right)
    count = int(differs.sum())
    if not count:
        return ""
    first = int(differs.nonzero()[0])
    return (
        f"{count} of {len(got)} elements, the first is [{first}]: {float(got[first])}, "
        f"not {float(right[first])}"
    )


@dataclass(frozen=True)
class _Judging:
    """The verdict on what was measured."""

    meeting: Meeting
    nodes: Sequence[LinkNode]
    work: _Work

    def differing(self, said: Mapping[int, str]) -> tuple[str, tuple[int, ...]]:
        answers = {rank: json.loads(text)[1:] for rank, text in said.items()}
        size_bytes, backend = self.work.size_bytes, self.work.backend
        found, measured = judge_links(
            self.nodes,
            answers,
            size_bytes,
            f"{size_bytes >> 20} MiB, {backend}",
            SLOW_ON_CPUS if backend_named(backend).serves_cpu else SLOW_ON_CHIPS,
        )
        data = [
            {
                "nodes": [node.number for node in each.step.nodes],
                "hosts": [node.host for node in each.step.nodes],
                "ranks": fold_numbers(each.step.ranks),
                "size_bytes": size_bytes,
                "time_us": round(each.time_s * 1e6, 1),
                "bus_gb_per_s": round(each.bandwidth, 4),
            }
            for each in measured
        ]
        # Only one process shows it.
        self.meeting.store.set("measured", json.dumps(data))
        verdict = {
            "findings": [as_data(each) for each in found],
            "not_checked": list(not_measured(self.nodes, measured)),
            "speaker": min(said),
        }
        return json.dumps(verdict), ()

    def missing(self, _absent: Sequence[int], _time_s: float) -> str:
        return self.differing({self.work.rank: self.work.said()})[0]
