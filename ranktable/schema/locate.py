"""From a path in a document to its place in the text, on demand.

A parser that keeps positions costs several times a plain parse, and a sound table
needs none. This scans the text again, only when there is something to show, and skips
over what is not asked for with the decoder of the standard library, which is C: one
pass of 0.03 s over 10 MB for one path or for a hundred.

It runs on text that has been parsed, so it meets no syntax error.
"""

from __future__ import annotations

import json
import re
from functools import cached_property
from typing import TYPE_CHECKING

from ranktable.schema.diagnostic import Location

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ranktable.schema.document import Offsets, SourceSpan

_BLANKS = re.compile(r"[ \t\r\n]*")


class _Branch:
    """The spans that are wanted at one value, and the branches below it."""

    __slots__ = ("children", "spans")

    def __init__(self) -> None:
        self.children: dict[str | int, _Branch] = {}
        self.spans: list[SourceSpan] = []


def find_spans(text: str, spans: Iterable[SourceSpan]) -> dict[SourceSpan, Offsets]:
    """Return the offsets (start, end) of each span that the text has."""
    found: dict[SourceSpan, Offsets] = {}
    root = _Branch()
    for span in spans:
        if span.offsets is not None:
            found[span] = span.offsets
            continue
        branch = root
        for step in span.path:
            branch = branch.children.setdefault(step, _Branch())
        branch.spans.append(span)
    if root.spans or root.children:
        try:
            _Locator(text, found, json.JSONDecoder()).value(_skip(text, 0), root)
        except ValueError:  # an integer with more digits than Python converts
            decoder = json.JSONDecoder(parse_int=str)
            _Locator(text, found, decoder).value(_skip(text, 0), root)
    return found


class _Locator:
    """One pass over a text."""

    def __init__(
        self, text: str, found: dict[SourceSpan, Offsets], decoder: json.JSONDecoder
    ) -> None:
        self.text = text
        self.found = found
        self.scan = decoder.raw_decode

    def value(self, start: int, branch: _Branch) -> int:
        """Find the spans at and below the value that starts here; return its end."""
        opening = self.text[start]
        if branch.children and opening == "{":
            end = self.members(start, branch)
        elif branch.children and opening == "[":
            end = self.items(start, branch)
        else:
            end = self.scan(self.text, start)[1]
        for span in branch.spans:
            if span.part == "value":
                self.found[span] = (start, end)
        return end

    def items(self, at: int, branch: _Branch) -> int:
        text, children, scan = self.text, branch.children, self.scan
        index = 0
        at = _skip(text, at + 1)
        while text[at] != "]":
            child = children.get(index)
            at = scan(text, at)[1] if child is None else self.value(at, child)
            at = _skip(text, at)
            if text[at] == ",":
                at = _skip(text, at + 1)
            index += 1
        return at + 1

    def members(self, at: int, branch: _Branch) -> int:
        text, children, scan = self.text, branch.children, self.scan
        entered: set[str] = set()
        at = _skip(text, at + 1)
        while text[at] != "}":
            key, key_end = scan(text, at)
            value_start = _skip(text, _skip(text, key_end) + 1)
            child = children.get(key)
            if child is None:
                end = scan(text, value_start)[1]
            else:
                if key in entered:
                    self.forget(child)  # the data holds the last repetition only
                entered.add(key)
                end = self.value(value_start, child)
                self.key(child, (at, key_end), end)
            at = _skip(text, end)
            if text[at] == ",":
                at = _skip(text, at + 1)
        return at + 1

    def forget(self, branch: _Branch) -> None:
        """Drop what was found below a value that is repeated further on."""
        for child in branch.children.values():
            for span in child.spans:
                self.found.pop(span, None)
            self.forget(child)

    def key(self, branch: _Branch, offsets: Offsets, value_end: int) -> None:
        for span in branch.spans:
            if span.part == "key":
                self.found.setdefault(span, offsets)
            elif span.part == "repeated key":
                self.found[span] = offsets
            elif span.part == "first member":
                self.found.setdefault(span, (offsets[0], value_end))


def _skip(text: str, at: int) -> int:
    """Return the offset of the next character that is not blank."""
    return _BLANKS.match(text, at).end()  # type: ignore[union-attr]


class Lines:
    """The lines of a text: line and column of an offset, and a line by its number."""

    def __init__(self, text: str) -> None:
        """Begin at the first line."""
        self.text = text
        self._known = (0, 1)  # an offset and its line

    @cached_property
    def starts(self) -> list[int]:
        """Where every line begins."""
        return [0, *(match.end() for match in re.finditer("\n", self.text))]

    def place(self, offset: int) -> tuple[int, int]:
        """Return the 1-based line and column of an offset, fast for increasing ones."""
        known, line = self._known
        if offset < known:
            known, line = 0, 1
        line += self.text.count("\n", known, offset)
        self._known = (offset, line)
        return line, offset - self.text.rfind("\n", 0, offset)

    def get(self, number: int) -> str:
        """Return a line by its 1-based number, without its end."""
        start = self.starts[number - 1]
        end = self.starts[number] if number < len(self.starts) else len(self.text)
        return self.text[start:end].rstrip("\r\n")


def find_locations(
    text: str, spans: Iterable[SourceSpan], *, file: str
) -> dict[SourceSpan, Location]:
    """Return the location of every span, without a position where there is none."""
    spans = list(spans)
    offsets = find_spans(text, spans)
    lines = Lines(text)
    found = {}
    for span in sorted(spans, key=lambda span: offsets.get(span, (0, 0))):
        if span not in offsets:
            found[span] = Location(file=file, pointer=span.pointer, label=span.label)
            continue
        start, end = offsets[span]
        line, column = lines.place(start)
        end_line, end_column = lines.place(end)
        found[span] = Location(
            file=file,
            pointer=span.pointer,
            line=line,
            column=column,
            end_line=end_line,
            end_column=end_column,
            label=span.label,
        )
    return found
