"""Findings for programs: JSON, SARIF 2.1.0 and GitHub annotations.

The JSON form is stable: keys are only added. ``docs/json.md`` documents them.

Sources: OASIS, Static Analysis Results Interchange Format 2.1.0; GitHub Actions,
workflow commands, "Setting an error message".
"""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING
from urllib.parse import quote

from ranktable import __version__
from ranktable.report.terminal import render_concise, render_full, severities, summary
from ranktable.schema.finding import Severity

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ranktable.report.terminal import Style
    from ranktable.schema.document import Location
    from ranktable.schema.finding import Diagnostic, Rule
    from ranktable.schema.report import Report


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
                **ignored_data([report]),
            }
            for report in reports
        ],
        "totals": _totals(reports),
    }
    # ASCII only, so that no terminal and no log gets a raw control character.
    yield json.dumps(document, indent=2) + "\n"


def as_data(diagnostic: Diagnostic) -> dict[str, object]:
    """Return a diagnostic as plain data."""
    return {
        "code": diagnostic.code,
        "severity": diagnostic.severity.value,
        "message": diagnostic.message,
        "hint": diagnostic.hint,
        "fixable": diagnostic.fixable,
        "location": _json_location(diagnostic.location),
        "related": [_json_location(place) for place in diagnostic.related],
    }


def _json_location(place: Location) -> dict[str, object]:
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
        **ignored_data(reports),
    }


def ignored_data(reports: Sequence[Report]) -> dict[str, dict[str, int]]:
    """Return how many findings of each code were left out, nothing for none."""
    found: Counter[str] = Counter()
    for report in reports:
        for (code, _), number in report.ignored.items():
            found[code] += number
    return {"ignored": dict(sorted(found.items()))} if found else {}


_SCHEMA = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/"
    "sarif-schema-2.1.0.json"
)


def render_sarif(reports: Sequence[Report], _style: Style) -> Iterator[str]:
    """Yield one log with one run: the rules that were broken, and the results."""
    # Every rule and its page: only this format pays.
    from ranktable.report.catalogue import RULES
    from ranktable.report.rule_pages import page_of

    broken = {each.code for report in reports for each in report.diagnostics}
    rules = [rule for rule in RULES if rule.code in broken]
    index = {rule.code: place for place, rule in enumerate(rules)}
    results = [
        _sarif_result(diagnostic, index)
        for report in reports
        for diagnostic in report.diagnostics
    ]
    total = sum(sum(report.totals.values()) for report in reports)
    log = {
        "$schema": _SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "ranktable",
                        "semanticVersion": __version__,
                        "rules": [
                            _sarif_rule(rule, page_of(rule).why) for rule in rules
                        ],
                    }
                },
                # Columns count code points, not UTF-16 units as by default.
                "columnKind": "unicodeCodePoints",
                "results": results,
                "properties": {
                    "total": total,
                    "shown": len(results),
                    **ignored_data(reports),
                },
            }
        ],
    }
    yield json.dumps(log, indent=2) + "\n"


def _sarif_rule(rule: Rule, why: str) -> dict[str, object]:
    return {
        "id": rule.code,
        "name": "".join(word.capitalize() for word in rule.name.split("-")),
        "shortDescription": {"text": rule.summary},
        "fullDescription": {"text": why},
        "help": {"text": rule.fix},
        "defaultConfiguration": {"level": rule.severity.value},
    }


def _sarif_result(diagnostic: Diagnostic, index: dict[str, int]) -> dict[str, object]:
    text = diagnostic.message
    if diagnostic.hint is not None:
        text += f"; {diagnostic.hint}"
    result: dict[str, object] = {
        "ruleId": diagnostic.code,
        "ruleIndex": index[diagnostic.code],
        "level": diagnostic.severity.value,
        "message": {"text": _sarif_text(text)},
        "locations": [_sarif_location(diagnostic.location)],
    }
    if diagnostic.related:
        result["relatedLocations"] = [
            _sarif_location(place) for place in diagnostic.related
        ]
    return result


def _sarif_text(text: str) -> str:
    """Return text in which braces are not placeholders and brackets are not links.

    Source: SARIF 2.1.0, sections 3.11.5 and 3.11.6.
    """
    text = text.replace("{", "{{").replace("}", "}}")
    return text.replace("\\", "\\\\").replace("[", "\\[").replace("]", "\\]")


def _sarif_location(place: Location) -> dict[str, object]:
    # A path is not a URI: blanks, %, # and control characters are escaped.
    physical: dict[str, object] = {"artifactLocation": {"uri": _uri(place.file)}}
    if place.line is not None:
        physical["region"] = {
            "startLine": place.line,
            "startColumn": place.column,
            "endLine": place.end_line,
            "endColumn": place.end_column,
        }
    location: dict[str, object] = {"physicalLocation": physical}
    if place.label is not None:
        location["message"] = {"text": place.label}
    return location


def _uri(file: str) -> str:
    uri = quote(file, errors="surrogateescape")
    return f"file://{uri}" if file.startswith("/") else uri


_COMMANDS = {"error": "error", "warning": "warning", "note": "notice"}


def render_github(reports: Sequence[Report], _style: Style) -> Iterator[str]:
    """Yield a workflow command for each diagnostic, and the totals as plain text."""
    for report in reports:
        for diagnostic in report.diagnostics:
            yield _command(diagnostic) + "\n"
    yield summary(reports) + "\n"


def _command(diagnostic: Diagnostic) -> str:
    place = diagnostic.location
    fields: dict[str, object] = {"file": _property(place.file)}
    if place.line is not None:
        fields["line"] = place.line
        fields["col"] = place.column
        fields["endLine"] = place.end_line
        fields["endColumn"] = place.end_column
    fields["title"] = f"ranktable {diagnostic.code}"
    listed = ",".join(f"{key}={value}" for key, value in fields.items())
    text = diagnostic.message
    if diagnostic.hint is not None:
        text += f"\nhelp: {diagnostic.hint}"
    command = _COMMANDS[diagnostic.severity.value]
    return f"::{command} {listed}::{_escaped(text)}"


def _escaped(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _escaped(text).replace(":", "%3A").replace(",", "%2C")


RENDERERS = {
    "full": render_full,
    "concise": render_concise,
    "json": render_json,
    "sarif": render_sarif,
    "github": render_github,
}
