"""Diagnostics for programs: one JSON document, or one JSON line a diagnostic.

The form is stable: keys are only added. ``docs/json.md`` documents it.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from ranktable.report.renderer import severities
from ranktable.schema.diagnostic import Severity

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ranktable.report.style import Style
    from ranktable.schema.check_report import Report
    from ranktable.schema.diagnostic import Diagnostic, Location


def render_json(reports: Sequence[Report], _style: Style) -> Iterator[str]:
    """Yield one document with every file and the totals."""
    document = {
        "ok": all(report.ok for report in reports),
        "files": [
            {
                "file": report.file,
                "ok": report.ok,
                "format": report.format,
                "diagnostics": [as_data(item) for item in report.diagnostics],
            }
            for report in reports
        ],
        "totals": _totals(reports),
    }
    yield _text(document, indent=2) + "\n"


def render_jsonl(reports: Sequence[Report], _style: Style) -> Iterator[str]:
    """Yield a line for each diagnostic and a last one with the totals."""
    for report in reports:
        for diagnostic in report.diagnostics:
            yield _text(as_data(diagnostic)) + "\n"
    yield _text({"totals": _totals(reports)}) + "\n"


def as_data(diagnostic: Diagnostic) -> dict[str, object]:
    """Return a diagnostic as plain data."""
    return {
        "code": diagnostic.code,
        "severity": diagnostic.severity.value,
        "message": diagnostic.message,
        "hint": diagnostic.hint,
        "fixable": diagnostic.fixable,
        "location": _location(diagnostic.location),
        "related": [_location(place) for place in diagnostic.related],
    }


def _location(place: Location) -> dict[str, object]:
    return {
        "file": place.file,
        "pointer": place.pointer,
        "line": place.line,
        "column": place.column,
        "end_line": place.end_line,
        "end_column": place.end_column,
        **({"label": place.label} if place.label else {}),
    }


def _totals(reports: Sequence[Report]) -> dict[str, object]:
    found = severities(reports)
    by_code: dict[str, int] = {}
    for report in reports:
        for code, count in report.totals.items():
            by_code[code] = by_code.get(code, 0) + count
    return {
        "files": len(reports),
        "errors": found[Severity.ERROR],
        "warnings": found[Severity.WARNING],
        "notes": found[Severity.NOTE],
        "shown": sum(len(report.diagnostics) for report in reports),
        "by_code": dict(sorted(by_code.items())),
    }


def _text(data: object, indent: int | None = None) -> str:
    # ASCII only, so that no terminal and no log sees a raw control character.
    return json.dumps(data, indent=indent)
