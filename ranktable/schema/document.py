"""A document: its text, its plain data, and the place of each value in the text.

A JSON parser that keeps positions takes several times as long as a plain one, and a
sound table does not need positions. So the text is scanned again only when there is
something to show. The scan skips the other values with the C decoder of the standard
library; it takes 0.03 s for 10 MB, for one path or for a hundred. The text has already
been parsed, so the scan does not find syntax errors.
"""

from __future__ import annotations

import json
import re
from functools import cached_property
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Path = tuple[str | int, ...]
"""Keys and indices from the root of a document."""

Offsets = tuple[int, int]
"""First character and end of a piece of a text."""


class SourceSpan(NamedTuple):
    """A place in a document.

    Attributes:
        path: Keys and indices from the root.
        part: The value, the key before it, the last repetition of that key, or the
            first key of that name with its value.
        offsets: First character and end in the text, if the parser knows them; they
            are used instead of the path.
        label: A short description, for a related place.
    """

    path: Path = ()
    part: Literal["value", "key", "repeated key", "first member"] = "value"
    offsets: Offsets | None = None
    label: str | None = None

    @property
    def pointer(self) -> str | None:
        """JSON Pointer (RFC 6901) of the path, None for a place in broken syntax."""
        if self.offsets is not None and not self.path:
            return None
        return "".join(
            "/" + str(step).replace("~", "~0").replace("/", "~1") for step in self.path
        )


class Location(NamedTuple):
    """A place in a file.

    Lines and columns are 1-based and columns count code points. The end is exclusive.
    All four are None if there is no position, for example if the file is missing.

    Attributes:
        file: Name of the file as the user gave it.
        pointer: JSON Pointer (RFC 6901) of the value, None for a syntax error.
        line: Line of the first character.
        column: Column of the first character.
        end_line: Line of the end.
        end_column: Column after the last character.
        label: A short description, for a related location: ``first use``.
    """

    file: str
    pointer: str | None = None
    line: int | None = None
    column: int | None = None
    end_line: int | None = None
    end_column: int | None = None
    label: str | None = None

    def __str__(self) -> str:
        """Return ``file:line:column``, or as much of it as is known."""
        if self.line is None:
            return self.file
        return f"{self.file}:{self.line}:{self.column}"


class Document(NamedTuple):
    """A document of JSON or YAML.

    Attributes:
        text: The text; other documents may be parts of it too.
        data: Plain data: dictionaries, lists, text, numbers, booleans and None.
        values: Offsets of every value by its path, if the parser records them. The
            JSON parser does not; the text is searched when a place is shown.
        keys: Offsets of every key, by the path of its value.
    """

    text: str
    data: object
    values: Mapping[Path, Offsets] | None = None
    keys: Mapping[Path, Offsets] = {}

    def get(self, *path: str | int) -> object:
        """Return a value, None if there is none."""
        value = self.data
        for step in path:
            if isinstance(value, dict) and isinstance(step, str):
                value = value.get(step)
            elif isinstance(value, list) and isinstance(step, int):
                value = value[step] if 0 <= step < len(value) else None
            else:
                return None
        return value

    def has(self, *path: str | int) -> bool:
        """Whether there is a value, even None."""
        if not path:
            return True
        holder, step = self.get(*path[:-1]), path[-1]
        if isinstance(holder, list) and isinstance(step, int):
            return 0 <= step < len(holder)
        return isinstance(holder, dict) and step in holder

    def span_of(
        self, *path: str | int, of_key: bool = False, label: str | None = None
    ) -> SourceSpan:
        """Return the place of a value or its key; if absent, of its parent object.

        Args:
            path: Keys and indices from the root.
            of_key: Whether to return the place of the key.
            label: A short description, for a related place.
        """
        while path and not self.has(*path):
            path = path[:-1]
        if self.values is None:
            part: Literal["key", "value"] = "key" if of_key and path else "value"
            return SourceSpan(path, part, label=label)
        offsets = self.keys.get(path) if of_key else None
        return SourceSpan(
            path, offsets=offsets or self.values.get(path, (0, 0)), label=label
        )


_BLANKS = re.compile(r"[ \t\r\n]*")


def parse_sound(data: bytes) -> Document:
    """Return the document of bytes in which no syntax error was found."""
    text = data.decode()
    return Document(text=text, data=json.loads(text))


class _WantedPath:
    """The requested spans at one value, and the branches below it."""

    __slots__ = ("children", "spans")

    def __init__(self) -> None:
        self.children: dict[str | int, _WantedPath] = {}
        self.spans: list[SourceSpan] = []


def find_spans(text: str, spans: Iterable[SourceSpan]) -> dict[SourceSpan, Offsets]:
    """Return the offsets (start, end) of each span that is in the text."""
    found: dict[SourceSpan, Offsets] = {}
    root = _WantedPath()
    for span in spans:
        if span.offsets is not None:
            found[span] = span.offsets
            continue
        branch = root
        for step in span.path:
            branch = branch.children.setdefault(step, _WantedPath())
        branch.spans.append(span)
    if root.spans or root.children:
        try:
            _Locator(text, found, json.JSONDecoder()).value(_skip(text, 0), root)
        except ValueError:  # an integer with more digits than Python converts
            decoder = json.JSONDecoder(parse_int=str)
            _Locator(text, found, decoder).value(_skip(text, 0), root)
    return found


class _Locator:
    """One scan of a text."""

    def __init__(
        self, text: str, found: dict[SourceSpan, Offsets], decoder: json.JSONDecoder
    ) -> None:
        self.text = text
        self.found = found
        self.scan = decoder.raw_decode

    def value(self, start: int, branch: _WantedPath) -> int:
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

    def items(self, at: int, branch: _WantedPath) -> int:
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

    def members(self, at: int, branch: _WantedPath) -> int:
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
                    self.forget(child)  # the data has the last repetition only
                entered.add(key)
                end = self.value(value_start, child)
                self.key(child, (at, key_end), end)
            at = _skip(text, end)
            if text[at] == ",":
                at = _skip(text, at + 1)
        return at + 1

    def forget(self, branch: _WantedPath) -> None:
        """Drop the offsets below a value whose key is repeated later."""
        for child in branch.children.values():
            for span in child.spans:
                self.found.pop(span, None)
            self.forget(child)

    def key(self, branch: _WantedPath, offsets: Offsets, value_end: int) -> None:
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
        """Start at the first line."""
        self.text = text
        self._known = (0, 1, 0)  # an offset, its line, and where that begins

    @cached_property
    def starts(self) -> list[int]:
        """Where every line begins."""
        return [0, *(match.end() for match in re.finditer("\n", self.text))]

    def place(self, offset: int) -> tuple[int, int]:
        """Return the 1-based line and column of an offset, fast for increasing ones."""
        known, line, start = self._known
        if offset < known:
            known, line, start = 0, 1, 0
        line += self.text.count("\n", known, offset)
        start = max(start, self.text.rfind("\n", known, offset) + 1)
        self._known = (offset, line, start)
        return line, offset - start + 1

    def get(self, number: int) -> str:
        """Return a line by its 1-based number, without its end."""
        start = self.starts[number - 1]
        end = self.starts[number] if number < len(self.starts) else len(self.text)
        return self.text[start:end].rstrip("\r\n")


def find_locations(
    text: str, spans: Iterable[SourceSpan], *, file: str
) -> dict[SourceSpan, Location]:
    """Return the location of every span; some have no position."""
    spans = list(spans)
    offsets = find_spans(text, spans)
    lines = Lines(text)
    # In one sweep: the end of a span may be behind the beginning of the next.
    ends = sorted({offset for pair in offsets.values() for offset in pair})
    places = {offset: lines.place(offset) for offset in ends}
    found = {}
    for span in spans:
        if span not in offsets:
            found[span] = Location(file=file, pointer=span.pointer, label=span.label)
            continue
        (line, column), (end_line, end_column) = (places[at] for at in offsets[span])
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
