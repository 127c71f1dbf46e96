"""Workflow commands of GitHub Actions, shown as annotations of a pull request.

Source: GitHub Actions, workflow commands, "Setting an error message".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ranktable.report.renderer import summary

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ranktable.report.style import Style
    from ranktable.schema.check_report import Report
    from ranktable.schema.diagnostic import Diagnostic

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
