"""Safe repairs: edits of the text that change nothing but what a rule is certain of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ranktable.schema.document import SourceSpan
from ranktable.schema.locate import find_spans

if TYPE_CHECKING:
    from ranktable.schema.check_report import Report
    from ranktable.schema.finding import Finding


def fixed_text(report: Report) -> str | None:
    """Return the text with every safe repair made, None if there is none to make.

    Everything else stays as it was, character by character. A repair is safe when all
    readers that accept the old text already read it like the new one.
    """
    repairs = [finding for finding in report.findings if finding.edit is not None]
    if report.text is None or not repairs:
        return None
    text = report.text
    spans = find_spans(text, [_edited_span(finding) for finding in repairs])
    replacements = sorted(
        (_replacement(text, finding, spans[_edited_span(finding)]))
        for finding in repairs
    )
    parts, done = [], 0
    for start, end, new in replacements:
        if start < done:
            continue  # inside text that is removed; the next run sees what is left
        parts += [text[done:start], new]
        done = end
    return "".join([*parts, text[done:]])


def _edited_span(finding: Finding) -> SourceSpan:
    """Return the span of the text that the edit is about."""
    span, edit = finding.span, finding.edit
    assert span is not None  # noqa: S101 - an edit has a place
    if edit is not None and edit.kind == "remove member":
        return SourceSpan(span.path, "first member")
    return span


def _replacement(
    text: str, finding: Finding, span: tuple[int, int]
) -> tuple[int, int, str]:
    start, end = span
    edit = finding.edit
    assert edit is not None  # noqa: S101 - chosen for it
    if edit.kind == "replace":
        return start, end, edit.text
    if edit.kind == "insert":  # as the first member of an object
        return start + 1, start + 1, edit.text
    if edit.kind == "remove member":  # with the comma and the blanks after it
        rest = text[text.index(",", end) + 1 :]
        end = len(text) - len(rest.lstrip(" \t\r\n"))
    return start, end, ""
