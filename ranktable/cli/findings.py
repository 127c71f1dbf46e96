"""Findings of a command whose result is something else, such as a table."""

from __future__ import annotations

import sys
from enum import Enum
from typing import TYPE_CHECKING

from ranktable.cli.output import Color, style, write
from ranktable.report.findings_data import RENDERERS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ranktable.schema.check_report import Report

FORM_HELP = "Form of the findings."


class FindingsFormat(str, Enum):
    """Forms of findings; ``report.renderers`` has one renderer for each."""

    FULL = "full"
    CONCISE = "concise"
    JSON = "json"
    JSONL = "jsonl"
    SARIF = "sarif"
    GITHUB = "github"


def show_findings(
    reports: Sequence[Report],
    form: FindingsFormat | None,
    color: Color,
    *,
    aside: bool = False,
) -> None:
    """Print what was found.

    Args:
        reports: The reports; nothing is printed where there are none, unless a form
            for programs is asked for.
        form: The form; by default full on a terminal, concise in a pipe.
        color: When to use colour.
        aside: Whether to print on standard error, because standard output is the
            result's.
    """
    stream = sys.stderr if aside else sys.stdout
    if not reports and form in (None, FindingsFormat.FULL, FindingsFormat.CONCISE):
        return
    if form is None:
        form = FindingsFormat.FULL if stream.isatty() else FindingsFormat.CONCISE
    pieces = dict(RENDERERS)[form.value](reports, style(color, stream))
    if aside:
        stream.writelines(pieces)
    else:
        write(pieces)
