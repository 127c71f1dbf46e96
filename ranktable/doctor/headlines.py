"""What is told of a cause: who it is about, what else is known, and what to do."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ranktable.doctor.patterns import Evidence
from ranktable.schema.text import folded

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from ranktable.doctor.case import Case
    from ranktable.doctor.lines import LogEvent
    from ranktable.schema.finding import Rule

MAX_EVIDENCE = 6

NOT_OF_ITSELF = {
    Evidence.HEARTBEAT, Evidence.ABSENT, Evidence.EDGE, Evidence.LINK, Evidence.STATE,
    Evidence.TIMEOUT, Evidence.MISMATCH,
}  # fmt: skip
"""What a process says of another, or of how far it came."""

_PLURAL = {"was": "were", "is": "are", "has": "have", "calls": "call"}
"""The verbs with which a sentence about one rank begins, as those about several."""


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
    for field in ("task", "local_rank"):
        numbers = {event.fields.get(field, "") for event in evidence
                   if event.pattern is evidence[0].pattern}  # fmt: skip
        if len(numbers) > 1 and all(map(str.isdecimal, numbers)):
            return f"{field.replace('_', ' ')}s {folded(sorted(map(int, numbers)))}"
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
    is_node = kinds == {Evidence.NODE} and not (name or "").startswith("pod ")
    if name not in (None, f"pod {host}") and not is_node:
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
    r"|(?:^|[/\\])task[_-]?0*(?P<task>\d{1,7})\.(?:out|err|log)$"
)
"""Names that torchrun, Paddle, msrun and Slurm (%t) give to the log of one process."""

_DETAILS = (
    ("local_rank_of_paddle", "local rank {}"), ("worker", "worker {}"),
    ("pid", "pid {}"), ("local_rank", "local rank {}"), ("task", "task {}"),
    ("bus", "PCI {}"), ("port", "port {}"), ("program", "program {}"),
)  # fmt: skip

_OF_PROCESS = ("pid", "local_rank", "task")
"""Which of these tell one process from others: nothing of one is said of several."""


def _told(name: str, form: str, value: str) -> str:
    """Return what shows that a detail is told already: small numbers are many."""
    return value if name in ("pid", "bus", "port", "program") else form.format(value)


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
    if event.pattern.speaker == "kubernetes" or event.pattern.name == "slurm-cancelled":
        return ""  # the process is that of the kubelet, or of slurmstepd
    of_file = _OF_FILE.search(event.file)
    said = {**(of_file.groupdict() if of_file and not ranks else {}), **event.fields}
    hidden = {*hidden, *(("local_rank", "task") if ranks else ())}
    return ", ".join(
        form.format(value)
        for name, form in _DETAILS
        if (value := said.get(name)) and name not in hidden
        and (value != "0" or name not in ("pid", "bus", "port"))
        and not re.search(rf"\b{re.escape(_told(name, form, value))}\b", what)
    )  # fmt: skip


def shortened(evidence: Sequence[LogEvent], case: Case) -> tuple[LogEvent, ...]:
    """Return the evidence, and a line of somebody who waits if there is room."""
    lines = {(event.file, event.line): event for event in evidence}
    for wait in case.waits[:1]:
        lines.setdefault((wait.event.file, wait.event.line), wait.event)
    return tuple(lines.values())[:MAX_EVIDENCE]
