"""Which codes are wanted, and how much is left out of a report because of it."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ranktable.schema.finding import Diagnostic, Severity
    from ranktable.schema.report import Report


class Selection(NamedTuple):
    """Codes that are wanted, given as their beginnings.

    Attributes:
        select: Codes to report; all codes if empty.
        ignore: Codes to leave out.
    """

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()

    def wants(self, code: str) -> bool:
        """Whether a code is reported."""
        is_selected = not self.select or code.startswith(self.select)
        return is_selected and not code.startswith(self.ignore)

    def of(self, report: Report) -> Report:
        """Return a report with only the wanted codes; it counts what is left out."""
        kept = report.only(self.wants)
        left_out = Counter(report.ignored)
        left_out.update(
            {k: n for k, n in report.counts.items() if k not in kept.counts}
        )
        return kept._replace(ignored=dict(left_out))

    def left_out(
        self, diagnostics: Iterable[Diagnostic]
    ) -> dict[tuple[str, Severity], int]:
        """Return the number of findings that are left out, by code and severity."""
        codes = ((each.code, each.severity) for each in diagnostics)
        return dict(Counter(code for code in codes if not self.wants(code[0])))
