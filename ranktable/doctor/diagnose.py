"""The whole way: logs -> events -> ranks -> causes -> diagnosis."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ranktable.doctor.attempts import UNSURE, earlier_jobs, last_attempt
from ranktable.doctor.barriers import barriers_of, left_waiting
from ranktable.doctor.case import Case
from ranktable.doctor.files import read_logs
from ranktable.doctor.flight_recorder import compare
from ranktable.doctor.identity import Ranks
from ranktable.doctor.patterns import Evidence
from ranktable.doctor.verdict import (
    agreed,
    decide,
    has_ended_well,
    kernel_notes,
    other_kills,
    parts_away,
    stacks,
    told_unknown,
    unknown_errors,
)
from ranktable.doctor.waiting import counted_behind
from ranktable.layout.parallel import remembered
from ranktable.schema.document import Location
from ranktable.schema.finding import Diagnostic

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ranktable.doctor.files import OnFile
    from ranktable.doctor.headlines import Cause
    from ranktable.doctor.lines import Log, LogEvent
    from ranktable.schema.model import RankTable


@dataclass(frozen=True, kw_only=True)
class Diagnosis:
    """What the logs of a job say.

    Attributes:
        causes: Why it failed, the first cause first; empty if nothing failed.
        logs: What was read.
        ranks: The ranks, by table and logs.
        unseen: Ranks of which no line was seen.
        unknown: Errors that are not known here, the first of each speaker.
        unknown_text: How many these are, and the first of them; None without any.
        has_ended_well: Whether the job said that it ended, or goes on to the end.
        notes: What may matter, and is no failure by itself.
        num_ignored: Number of causes that are left out because of their codes.
    """

    causes: tuple[Cause, ...]
    logs: tuple[Log, ...]
    ranks: Ranks
    unseen: tuple[int, ...]
    unknown: tuple[LogEvent, ...] = ()
    unknown_text: str | None = None
    has_ended_well: bool = False
    notes: tuple[str, ...] = ()
    num_ignored: int = 0

    @property
    def num_recognised(self) -> int:
        """Number of lines with a known message."""
        return sum(
            event.count
            for log in self.logs
            for event in log.events
            if event.kind is not Evidence.LIFE
        )

    @property
    def is_judged(self) -> bool:
        """Whether anything in the logs could be judged."""
        read = any(log.num_bytes for log in self.logs)
        spoken = any(log.ranks for log in self.logs)
        return read and (self.num_recognised > 0 or spoken or self.has_ended_well)

    def only(self, codes: tuple[str, ...]) -> Diagnosis:
        """Return this diagnosis with the causes whose codes begin with one of these."""
        kept = [cause for cause in self.causes if cause.rule.code.startswith(codes)]
        left_out = len(self.causes) - len(kept)
        return replace(self, causes=tuple(kept), num_ignored=left_out)

    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """Return the causes as diagnostics, each at its most telling line."""
        return tuple(_diagnostic(cause) for cause in self.causes)


def diagnose(
    paths: Iterable[str],
    *,
    table: RankTable | None = None,
    on_file: OnFile | None = None,
) -> Diagnosis:
    """Read the logs of a job and say why it failed.

    Args:
        paths: Files, folders (read whole) and ``-`` for standard input.
        table: The rank table of the job; without it, ranks and hosts are only those
            that the logs name.
        on_file: Called with the name of every file before it is read.

    Raises:
        LayoutError: The table stores a layout that is not valid.
    """
    return judge_logs(tuple(read_logs(paths, on_file)), table)


def judge_logs(logs: Sequence[Log], table: RankTable | None = None) -> Diagnosis:
    """Say why a job failed whose logs were read.

    Raises:
        LayoutError: The table stores a layout that is not valid.
    """
    layout = None if table is None else remembered(table)
    logs = sorted(logs, key=lambda log: log.file)
    earlier = earlier_jobs(logs)
    current = last_attempt([log for log in logs if log.file not in earlier])
    ranks = Ranks(current, table, layout)
    passed = left_waiting(current)
    events = [
        event for log in current for event in log.events if id(event) not in passed
    ]
    events += compare(current)
    case = Case(events, ranks)
    causes, unknown = decide(case), unknown_errors(case)
    told = {cause.headline for cause in causes}
    notes = [text for _, text in parts_away(case) if text not in told]
    sure = [event for event in events if UNSURE not in event.fields]
    if len(sure) < len(events):
        causes, doubt = agreed(causes, decide(Case(sure, ranks)))
        notes += doubt
    notes += [*counted_behind(case), *other_kills(case, causes), *stacks(case)]
    notes += kernel_notes(case, causes)
    notes += [f"{name} is of an earlier job, and was not judged" for name in earlier]
    open_barriers = list(barriers_of(current))
    if not any(cause.rule.code in ("RT602", "RT604") for cause in causes):
        notes += open_barriers
    is_known = table is not None or ranks.is_size_known
    named = {ranks.speaker(event) for event in events
             if event.pattern.name == "nccl-status"}  # fmt: skip
    unseen = sorted(ranks.everyone() - ranks.seen - named) if is_known else []
    return Diagnosis(
        causes=tuple(causes),
        logs=tuple(logs),
        ranks=ranks,
        unseen=tuple(unseen),
        unknown=tuple(unknown),
        unknown_text=told_unknown(case, unknown) if unknown else None,
        has_ended_well=has_ended_well(case, is_open=bool(open_barriers)),
        notes=tuple(notes),
    )


def _diagnostic(cause: Cause) -> Diagnostic:
    message = cause.headline
    if cause.waiting:
        message = f"{message}; {cause.waiting}"
    first = cause.evidence[0] if cause.evidence else None
    return Diagnostic(
        code=cause.rule.code,
        severity=cause.rule.severity,
        location=_location(first),
        message=message,
        hint=cause.fix,
        related=tuple(
            _location(event, event.text.strip()) for event in cause.evidence[1:]
        ),
    )


def _location(event: LogEvent | None, label: str | None = None) -> Location:
    if event is None:
        return Location(file="-")
    return Location(file=event.file, line=event.line, column=1, label=label)
