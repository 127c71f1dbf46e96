"""A rule: its code, what it means, and what others do with the mistake."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from ranktable.schema.diagnostic import Severity
from ranktable.schema.finding import Edit, Finding

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from ranktable.schema.columns import Columns
    from ranktable.schema.document import SourceSpan
    from ranktable.schema.options import Options

    Check = Callable[[Columns, Options], Iterator[Finding]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """The one home of a diagnostic code; ``ranktable explain`` prints it.

    Attributes:
        code: Stable, documented, never reused.
        name: The code in words, as SARIF shows it.
        summary: The defect in one line.
        why: What goes wrong and where the rule comes from.
        fix: What to do about it.
        severity: Weight of the diagnostics it yields.
        readers: What each vendor library does with this mistake.
        seen_as: Texts under which users meet it and will search for it.
        bad: A smallest file with the defect, None when no content has it.
        good: Its nearest sound neighbour.
        options: Options of ``command`` that the two files need.
        command: The command that finds it: ``validate``, ``convert`` or ``merge``.
        beside: A file that goes before either, where the defect is between two files.
        check: Yields what breaks the rule in a table; None where a reader finds it.
        is_fast: Whether every process of a job runs the check; what other rules ask
            is compared at once there, see ``fast_decode.is_surely_sound``.
        needs: The option without which there is nothing to check, None if none.
    """

    code: str
    name: str
    summary: str
    why: str
    fix: str
    severity: Severity = Severity.ERROR
    readers: Mapping[str, str] = field(default_factory=dict)
    seen_as: tuple[str, ...] = ()
    bad: bytes | None = None
    good: bytes | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    command: str = "validate"
    beside: bytes | None = None
    check: Check | None = None
    is_fast: bool = False
    needs: Literal["tp", "topology"] | None = None

    def finding(
        self,
        span: SourceSpan | None,
        message: str,
        *,
        hint: str | None = None,
        related: tuple[SourceSpan, ...] = (),
        edit: Edit | None = None,
    ) -> Finding:
        """Return a finding of this rule."""
        return Finding(self, span, message, hint, related, edit)


def one_node(*devices: str, head: str = '"version":"1.0",') -> bytes:
    """Return an example: a table of one node, one device a line."""
    return nodes(devices, head=head)


def nodes(*node_list: tuple[str, ...], head: str = '"version":"1.0",') -> bytes:
    """Return an example: a table of several nodes, one device a line."""
    bodies = [
        '{"device_list":[\n  ' + ",\n  ".join(devices) + "]}" for devices in node_list
    ]
    return ("{" + head + '"node_list":[' + ",\n ".join(bodies) + "]}\n").encode()


def chips(*device_ids: int) -> bytes:
    """Return an example: one node with these chips, ranks in file order."""
    return one_node(
        *(device(device_id, rank) for rank, device_id in enumerate(device_ids))
    )


def device(device_id: int | str, rank: int | str) -> str:
    """Return an example: one device."""
    return f'{{"device_id":"{device_id}","rank":"{rank}","world_rank":"{rank}"}}'


PAIR = chips(0, 1)
