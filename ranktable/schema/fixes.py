"""Safe repairs: edits of the text that a rule is certain of."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from typing import TYPE_CHECKING

from ranktable.schema.check import check_bytes
from ranktable.schema.document import SourceSpan, find_spans
from ranktable.schema.json_parser import COMMENT, find_too_deep
from ranktable.schema.rules.syntax import NOT_JSON

if TYPE_CHECKING:
    from ranktable.schema.finding import Diagnostic
    from ranktable.schema.report import Options, Report

MAX_COMMAS = 2
"""Most commas in a row that are repaired; more are not a simple mistake."""

# A string, or commas and the bracket after them. The pattern also matches a string
# without an end, so that no text is read twice.
_COMMENTS = re.compile(rf'("(?:[^"\\]|\\.)*"?)|[ \t]*(?:{COMMENT.pattern})', re.DOTALL)
_COMMA = re.compile(r"[ \t\r\n]*,[ \t\r\n]*")
_COMMAS = re.compile(r'"(?:[^"\\]|\\.)*"?|,[ \t\r\n,]*([\]}]?)', re.DOTALL)


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
            return _without_trailing_commas(text, first)
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


def _without_trailing_commas(text: str, first: int) -> str:
    """Return the text without the commas after last items.

    A parser stops at the first of them, and parsing again for each comma would be slow.
    Text after the next error of another kind is not changed.

    Args:
        text: A text that is sound up to the first of them.
        first: Offset of this comma.
    """
    commas = [first, *(at for at in _trailing_commas(text) if at > first)]
    end = _sound_characters(_without(text, commas))
    kept = [at for number, at in enumerate(commas) if at - number <= end]
    return _without(text, kept or [first])


def _trailing_commas(text: str) -> list[int]:
    return [
        at
        for run in _COMMAS.finditer(text)
        if run[1] and run[0].count(",") <= MAX_COMMAS
        for at in range(run.start(), run.end())
        if text[at] == ","
    ]


def _without(text: str, offsets: list[int]) -> str:
    edges = [-1, *offsets, len(text)]
    return "".join(text[a + 1 : b] for a, b in pairwise(edges))


def _sound_characters(text: str) -> int:
    """Return how many characters of a text a parser reads before it stops."""
    try:
        json.loads(text, parse_int=str)
    except json.JSONDecodeError as error:
        return error.pos
    except RecursionError:
        found = find_too_deep(text)
        span = found.span if found is not None else None
        return span.offsets[0] if span is not None and span.offsets else 0
    return len(text)
