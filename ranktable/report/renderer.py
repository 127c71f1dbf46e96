"""The interface of a renderer and what several of them say alike."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Protocol

from ranktable.schema.diagnostic import Severity
from ranktable.schema.messages import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ranktable.report.style import Style
    from ranktable.schema.check_report import Report


class Renderer(Protocol):
    """Turns reports into text, piece by piece."""

    def __call__(self, reports: Sequence[Report], style: Style, /) -> Iterator[str]:
        """Yield the text; the pieces are written one after the other."""
        ...


def severities(reports: Sequence[Report]) -> Counter[Severity]:
    """Return how many errors, warnings and notes there are, shown or not."""
    found: Counter[Severity] = Counter()
    for report in reports:
        found.update(report.by_severity)
    return found


def summary(reports: Sequence[Report]) -> str:
    """Return one sentence: how many files, what was found, what is left out."""
    found = severities(reports)
    parts = [
        counted(found[severity], severity.value)
        for severity in Severity
        if found[severity]
    ]
    total = sum(found.values())
    shown = sum(len(report.diagnostics) for report in reports)
    fixable = sum(d.fixable for report in reports for d in report.diagnostics)
    text = f"found {' and '.join(parts)}" if parts else "no defects"
    if len(reports) > 1:
        text += f" in {counted(len(reports), 'file')}"
    if shown < total:
        text += f"; {shown} of {total} are shown (--max-errors 0 shows all)"
    if fixable:
        text += f"; {fixable} can be repaired with --fix"
    return text
