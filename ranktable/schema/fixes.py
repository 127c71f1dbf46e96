"""Safe repairs: edits of the text that a rule is certain of."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ranktable.schema.check import check_bytes
from ranktable.schema.document import SourceSpan, find_spans
from ranktable.schema.json_parser import COMMENT
from ranktable.schema.rules.syntax import NOT_JSON

if TYPE_CHECKING:
    from ranktable.schema.finding import Diagnostic
    from ranktable.schema.report import Options, Report

# A string, which is kept, or what is removed. A string without an end is one too, so
# that no text is read twice.
_COMMENTS = re.compile(rf'("(?:[^"\\]|\\.)*"?)|[ \t]*(?:{COMMENT.pattern})', re.DOTALL)
_COMMA = re.compile(r"[ \t\r\n]*,[ \t\r\n]*")
_COMMAS = re.compile(r'("(?:[^"\\]|\\.)*"?)|,(?=[ \t\r\n]*[\]}])', re.DOTALL)


def repaired_text(report: Report, options: Options) -> str | None:
    """Return the text after all safe repairs, None if no repair is needed.

    One repair may make another possible, because a table with correct syntax can be
    judged. So repairs are repeated until none is left, or until one changes nothing.

    Args:
        report: What was found in the file.
        options: The options of the check.
    """
    every = options._replace(limit=None)
    seen: set[str] = set()
    done: str | None = None
    data = report.data
    while data is not None:
        text = fixed_text(check_bytes(data, every, file=report.file))
        if text is None or text in seen:
            break
        seen.add(text)
        done, data = text, text.encode()
    return done


def fixed_text(report: Report) -> str | None:
    """Return the text with every safe repair, None if there is none.

    Everything else stays the same, character by character. A repair is safe if all
    readers that accept the old text already read it like the new one.
    """
    repairs = [each for each in report.diagnostics if each.edit is not None]
    if report.text is None or not repairs:
        return None
    text = report.text
    if repairs[0].code == NOT_JSON.code and repairs[0].span and repairs[0].span.offsets:
        first = repairs[0].span.offsets[0]
        if text[first] == ",":
            return text[:first] + _COMMAS.sub(r"\1", text[first:])
        return text[:first].rstrip(" \t") + _COMMENTS.sub(r"\1", text[first:])
    spans = find_spans(text, [_edited_span(repair) for repair in repairs])
    replacements = sorted(
        _replacement(text, repair, spans[_edited_span(repair)]) for repair in repairs
    )
    parts, done = [], 0
    for start, end, new in replacements:
        if start < done:
            continue  # inside removed text; the next run sees what is left
        parts += [text[done:start], new]
        done = end
    return "".join([*parts, text[done:]])


def _edited_span(repair: Diagnostic) -> SourceSpan:
    """Return the span of the text that the edit changes."""
    span, edit = repair.span, repair.edit
    assert span is not None
    if edit is not None and edit.kind == "remove member":
        return SourceSpan(span.path, "first member")
    return span


def _replacement(
    text: str, repair: Diagnostic, span: tuple[int, int]
) -> tuple[int, int, str]:
    start, end = span
    edit = repair.edit
    assert edit is not None
    if edit.kind == "replace":
        return start, end, edit.text
    if edit.kind == "insert":  # as the first member of an object
        return start + 1, start + 1, edit.text
    if edit.kind == "remove member":  # with the comma and the blanks after it
        end = _COMMA.match(text, end).end()  # type: ignore[union-attr]
    return start, end, ""
