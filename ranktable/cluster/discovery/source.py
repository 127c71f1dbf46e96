"""The interface of a family of chips: where it shows, and how it is looked at."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ranktable.cluster.discovery.unseen import UnseenError
from ranktable.cluster.probe_line import SeenChip, Unseen

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ranktable.cluster.discovery.machine import Machine


@dataclass(slots=True, kw_only=True)
class Sighting:
    """What was seen of one family of chips.

    Attributes:
        chips: The chips.
        driver: Version of the driver, None when it is not known.
        unseen: What could not be seen, and why.
    """

    chips: list[SeenChip] = field(default_factory=list)
    driver: str | None = None
    unseen: list[Unseen] = field(default_factory=list)

    def miss(self, what: str, why: str | UnseenError) -> None:
        """Note something that could not be seen."""
        self.unseen.append(Unseen(what, str(why)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A family of chips that is looked for.

    Attributes:
        name: Its name.
        vendor: Who makes it, as a line names it.
        looked_for: What shows that it is there, for people.
        traces: Folders and prefixes of the names whose numbers show it without a tool.
        look: Looks at a node.
    """

    name: str
    vendor: str
    looked_for: str
    traces: tuple[tuple[str, str], ...]
    look: Callable[[Machine], Sighting]

    def count_traces(self, machine: Machine) -> int:
        """Return how many chips show without asking a tool."""
        return max((len(machine.numbers(*trace)) for trace in self.traces), default=0)


def refuse_repetition(numbers: Iterable[int], what: str) -> None:
    """Raise UnseenError when a tool lists a number twice."""
    seen: set[int] = set()
    for number in numbers:
        if number in seen:
            raise UnseenError(f"{what} {number} is listed twice")
        seen.add(number)
