"""SARIF 2.1.0, which code hosts and editors show beside the file.

Source: OASIS, Static Analysis Results Interchange Format 2.1.0.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING
from urllib.parse import quote

from ranktable import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ranktable.report.style import Style
    from ranktable.schema.check_report import Report
    from ranktable.schema.diagnostic import Diagnostic, Location, Rule

_SCHEMA = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/"
    "sarif-schema-2.1.0.json"
)


def render_sarif(reports: Sequence[Report], _style: Style) -> Iterator[str]:
    """Yield one log with one run: the rules that were broken and the results."""
    broken = {f.rule.code: f.rule for report in reports for f in report.findings}
    rules = [broken[code] for code in sorted(broken)]
    index = {rule.code: place for place, rule in enumerate(rules)}
    results = [
        _result(diagnostic, index)
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
                        "rules": [_rule(rule) for rule in rules],
                    }
                },
                # Columns count code points here, not the UTF-16 units of the default.
                "columnKind": "unicodeCodePoints",
                "results": results,
                "properties": {"total": total, "shown": len(results)},
            }
        ],
    }
    yield json.dumps(log, indent=2) + "\n"


def _rule(rule: Rule) -> dict[str, object]:
    return {
        "id": rule.code,
        "name": "".join(word.capitalize() for word in rule.name.split("-")),
        "shortDescription": {"text": rule.summary},
        "fullDescription": {"text": rule.why},
        "help": {"text": rule.fix},
        "defaultConfiguration": {"level": rule.severity.value},
    }


def _result(diagnostic: Diagnostic, index: dict[str, int]) -> dict[str, object]:
    text = diagnostic.message
    if diagnostic.hint is not None:
        text += f"; {diagnostic.hint}"
    result: dict[str, object] = {
        "ruleId": diagnostic.code,
        "ruleIndex": index[diagnostic.code],
        "level": diagnostic.severity.value,
        "message": {"text": _escaped(text)},
        "locations": [_location(diagnostic.location)],
    }
    if diagnostic.related:
        result["relatedLocations"] = [_location(place) for place in diagnostic.related]
    return result


def _escaped(text: str) -> str:
    """Return text in which no brace is a placeholder and no bracket begins a link.

    Source: SARIF 2.1.0, sections 3.11.5 and 3.11.6.
    """
    text = text.replace("{", "{{").replace("}", "}}")
    return text.replace("\\", "\\\\").replace("[", "\\[").replace("]", "\\]")


def _location(place: Location) -> dict[str, object]:
    # A path is no URI: blanks, %, # and control characters are escaped.
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
