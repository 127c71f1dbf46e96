"""One line a diagnostic: ``file:line:column: CODE message``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ranktable.report.renderer import summary
from ranktable.schema.messages import printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ranktable.report.style import Style
    from ranktable.schema.check_report import Report


def render_concise(reports: Sequence[Report], style: Style) -> Iterator[str]:
    """Yield a line for each diagnostic and a last line with the totals."""
    for report in reports:
        for diagnostic in report.diagnostics:
            place = style.mark(printable(str(diagnostic.location)), "place")
            code = style.mark(diagnostic.code, diagnostic.severity.value)
            severity = diagnostic.severity.value
            yield f"{place}: {severity}[{code}] {printable(diagnostic.message)}\n"
        if report.ok and not report.totals:
            yield f"{style.mark(printable(report.file), 'place')}: sound\n"
    if any(report.totals for report in reports):
        yield summary(reports) + "\n"
