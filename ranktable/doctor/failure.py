"""A failure of a rank, process or host, and how much it says."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ranktable.doctor.case import Case
    from ranktable.doctor.lines import LogEvent
    from ranktable.schema.finding import Rule

HARD, TOLD, SIGNAL, GENERAL, STATUS, OUTSIDE = range(6)
"""How much a failure says, the most first: memory and chips; exceptions that say what
happened; signals; exceptions of general types; exit statuses; and the scheduler."""


@dataclass(frozen=True, kw_only=True)
class Failure:
    """Something that happened to a process or host by itself."""

    rule: Rule
    rank: int | None
    host: str | None
    what: str
    event: LogEvent
    strength: int
    advice: str | None = None

    @cached_property
    def kind(self) -> tuple[str, str, str | None]:
        """What equal failures of several ranks have in common."""
        text = re.sub(r"0x[0-9a-f]+|\d+", "#", self.what)
        return self.rule.code, text, self.host if self.rank is None else None


def failure_of(
    case: Case, rule: Rule, what: str, event: LogEvent, strength: int
) -> Failure:
    """Return the failure that a line tells of its own process or host."""
    return Failure(rule=rule, rank=case.ranks.speaker(event), what=what, event=event,
                   host=case.ranks.host(event), strength=strength)  # fmt: skip
