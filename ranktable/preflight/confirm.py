"""What processes find together after their records are judged.

They confirm that they still run, with their clocks and with the hosts that they tried.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ranktable.preflight import rules
from ranktable.preflight.reach import Attempt, hosts_apart, judge_reach
from ranktable.preflight.records import is_any_clock_off, judge_clocks, named
from ranktable.preflight.stored_findings import as_data
from ranktable.schema.text import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from ranktable.preflight.records import ProcessRecord
    from ranktable.schema.finding import Finding
    from ranktable.schema.model import RankTable


def first_of_hosts(
    tickets: Sequence[int], records: Sequence[ProcessRecord]
) -> list[int]:
    """Return the ticket of the lowest rank of each host, none for one host."""
    pairs = sorted(zip(records, tickets, strict=True), key=lambda each: each[0].rank)
    first: dict[tuple[str, str], int] = {}
    for record, ticket in pairs:
        first.setdefault((record.host, record.address), ticket)
    return list(first.values()) if len({r.host for r in records}) > 1 else []


@dataclass(frozen=True, kw_only=True)
class Confirming:
    """The verdict on processes that have come before.

    Attributes:
        record: What the process that judges said.
        table: Its table.
        ticket: Its ticket.
        records_of: Returns what the processes with some tickets said.
        hosts_of: Returns what the first process of each host said.
        tickets: The tickets of all that came.
        data: The verdict on their records.
    """

    record: ProcessRecord
    table: RankTable | None
    ticket: int
    records_of: Callable[[Sequence[int]], list[ProcessRecord]]
    hosts_of: Callable[[], list[ProcessRecord]]
    tickets: Sequence[int]
    data: Mapping[str, Any]

    def differing(self, said: Mapping[int, str]) -> tuple[str, tuple[int, ...]]:
        """Return the verdict on the processes that confirmed."""
        texts = {ticket: json.loads(text) for ticket, text in said.items()}
        found = list(self._ended(sorted(set(self.tickets) - said.keys())))
        attempts = [Attempt(*each) for _, _, tried in texts.values() for each in tried]
        apart: list[int] = []
        if any(each.why for each in attempts):
            records = self.hosts_of()
            apart = [records[n].rank for n in sorted(hosts_apart(attempts))]
            found += judge_reach(attempts, [each.host for each in records])
        is_off = is_any_clock_off({t: clock for t, (_, clock, _) in texts.items()})
        verdict = {
            "findings": [as_data(each) for each in found],
            "apart": apart,
            "speaker": min(said, key=lambda ticket: (texts[ticket][0], ticket)),
            "clocks": self.data["whole"] and is_off and len(said) > 1,
        }
        return json.dumps(verdict), ()

    def _ended(self, absent: Sequence[int]) -> Iterator[Finding]:
        """Yield the ranks that ended after they came, with those that never came."""
        if not absent:
            return
        ranks = sorted(each.rank for each in self.records_of(absent))
        who = named(ranks, self.table)
        what = f"{counted(len(absent), 'rank')} ended or stopped meanwhile: {who}"
        if lost := self.data["lost"]:
            size = self.record.world_size
            what = (
                f"{len(ranks) + len(lost)} ranks of {size} are missing: {who} ended or "
                f"stopped while the others waited; {named(lost, self.table)} did "
                "not come"
            )
        yield rules.MISSING.finding(None, what)

    def missing(self, _absent: Sequence[int], _time_s: float) -> str:
        """Return the verdict of a process that is alone."""
        own = json.dumps([self.record.rank, time.time(), []])
        return self.differing({self.ticket: own})[0]


@dataclass(frozen=True)
class ClockJudging:
    """The verdict on clocks, of which each process tells two times."""

    def differing(self, said: Mapping[int, str]) -> tuple[str, tuple[int, ...]]:
        """Return which clocks are off."""
        times = [json.loads(text) for text in said.values()]
        found = judge_clocks({rank: (first, second) for rank, first, second in times})
        return json.dumps([as_data(each) for each in found]), ()

    def missing(self, _absent: Sequence[int], _time_s: float) -> str:
        """Return that nothing is known of clocks."""
        return "[]"
