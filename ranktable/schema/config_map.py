"""Rank tables inside Kubernetes ConfigMaps: read from them, and written back.

A ConfigMap is YAML or JSON. The table is the text of one of its keys, or that text as
base64 of gzip. ClusterD splits long tables into several ConfigMaps, with ``cm_index``
and ``total``. Nothing larger than the size limit of a file is ever unpacked.
"""

from __future__ import annotations

import base64
import binascii
import gzip
import json
import re
import zlib
from bisect import bisect_right
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

from ranktable.schema.document import Document, Lines, SourceSpan, find_spans
from ranktable.schema.finding import Finding, Findings
from ranktable.schema.format import NotExpressibleError, plain_number
from ranktable.schema.json_parser import parse
from ranktable.schema.rules import shape as rules
from ranktable.schema.rules.syntax import TOO_LARGE
from ranktable.schema.text import quoted
from ranktable.schema.yaml_parser import MAX_YAML_BYTES, parse_yaml

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ranktable.schema.document import Offsets, Path
    from ranktable.schema.finding import Edit

KEYS = ("hccl.json", "jobstart_hccl.json", "global_ranktable.json")
"""Keys of ``data`` that hold a table: those of operators, of CCE, and of MindIE."""

_GZIP = "H4sI"
"""The first characters of base64 of gzip."""

_PIECE_BYTES = 1 << 16
"""Bytes that are unpacked at a time, so that the size is known early."""

_TOKEN = re.compile(r"\\u[dD][89abAB]..\\u....|\\u....|\\.|.", re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class Wrapper:
    """The ConfigMap around a table.

    Attributes:
        text: The whole text of the file.
        inner: The text of the table.
        offsets: First character and end of the value with the table.
        is_packed: Whether the value is base64 of gzip.
        is_whole: Whether the whole table is in one ConfigMap.
    """

    text: str
    inner: str
    offsets: Offsets
    is_packed: bool = False
    is_whole: bool = True

    def with_table(self, data: bytes) -> bytes:
        """Return the whole text with another table in it.

        Raises:
            NotExpressibleError: The table is split over several ConfigMaps.
        """
        if json.loads(data) == json.loads(self.inner):
            return self.text.encode()
        if not self.is_whole:
            raise NotExpressibleError("the table is in several ConfigMaps")
        start, end = self.offsets
        before, after = self.text[:start], self.text[end:]
        if self.text[start] in "|>" and not self.is_packed:
            return f"{before}{self._block(data.decode())}{after}".encode()
        value = data.decode()
        if self.is_packed:
            value = base64.b64encode(gzip.compress(data, mtime=0)).decode()
        line_end = "\n" if self.text[start:end].endswith("\n") else ""
        return f"{before}{json.dumps(value)}{line_end}{after}".encode()

    def _block(self, table: str) -> str:
        start, end = self.offsets
        lines = self.text[start:end].split("\n")[1:]
        first = next((line for line in lines if line.strip()), "    ")
        indent = first[: len(first) - len(first.lstrip(" "))]
        body = "".join(f"{indent}{line}\n" for line in table.rstrip("\n").split("\n"))
        return f"|\n{body}"


@dataclass(frozen=True, kw_only=True)
class Inner:
    """A table that was read from its ConfigMap.

    Attributes:
        text: Its text.
        wrapper: The ConfigMap.
        path: Path of the value with the table.
    """

    text: str
    wrapper: Wrapper
    path: Path

    def outer(self, found: Sequence[Finding]) -> Iterator[Finding]:
        """Yield the findings of the table, with their places in the whole file."""
        spans = {span for one in found for span in (one.span, *one.related) if span}
        offsets = find_spans(self.text, spans)
        place = self._places() if found else None
        lines = Lines(self.text)
        for one in found:
            message = one.message
            if place is None and one.span in offsets:
                line, column = lines.place(offsets[one.span][0])
                message += f" (line {line}, column {column} of the table)"
            yield replace(
                one,
                message=message,
                edit=one.edit if self._takes(one.edit) else None,
                span=self._outer(one.span, offsets, place),
                related=tuple(
                    outer
                    for span in one.related
                    if (outer := self._outer(span, offsets, place))
                ),
            )

    def _takes(self, edit: Edit | None) -> bool:
        """Whether an edit of the table can be made in the whole text too.

        It can in a block of YAML; elsewhere the table is escaped or packed.
        """
        start = self.wrapper.offsets[0]
        is_block = self.wrapper.text[start] == "|" and not self.wrapper.is_packed
        is_plain = is_block and self.wrapper.is_whole
        return is_plain and edit is not None and edit.kind in ("replace", "insert")

    def _outer(
        self,
        span: SourceSpan | None,
        offsets: dict[SourceSpan, Offsets],
        place: Callable[[int], int] | None,
    ) -> SourceSpan | None:
        found = self.wrapper.offsets
        if span is None:
            return SourceSpan(self.path, offsets=found)
        if place is not None and span in offsets:
            start, end = offsets[span]
            found = (place(start), place(end))
        path = (*self.path, *span.path)
        return SourceSpan(path, offsets=found, label=span.label)

    def _places(self) -> Callable[[int], int] | None:
        """Return a function from a character of the table to its place in the text."""
        if self.wrapper.is_packed or not self.wrapper.is_whole:
            return None
        start, end = self.wrapper.offsets
        value, inner = self.wrapper.text[start:end], self.text
        at = value.find(inner)
        if at >= 0:
            return lambda offset: start + at + offset
        if value.startswith('"'):
            return _in_quotes(value, inner, start)
        return _in_block(value, inner, start) if value.startswith("|") else None


def _in_quotes(value: str, inner: str, start: int) -> Callable[[int], int] | None:
    tokens = _TOKEN.findall(value[1:-1])
    if len(tokens) != len(inner):
        return None
    ends = list(accumulate(map(len, tokens), initial=start + 1))
    return lambda offset: ends[min(offset, len(inner))]


def _in_block(value: str, inner: str, start: int) -> Callable[[int], int] | None:
    outer_starts = [match.end() for match in re.finditer("\n", value)]
    lines = value.split("\n")[1:]
    first = next((line for line in lines if line.strip()), "")
    indent = len(first) - len(first.lstrip(" "))
    inner_starts = [0, *(match.end() for match in re.finditer("\n", inner))]
    if any(
        line[indent:] != wanted
        for line, wanted in zip(lines, inner.split("\n"), strict=False)
    ):
        return None

    def place(offset: int) -> int:
        line = bisect_right(inner_starts, offset) - 1
        if line >= len(outer_starts):
            return start + len(value)
        return start + outer_starts[line] + indent + offset - inner_starts[line]

    return place


class _Part(NamedTuple):
    """One ConfigMap of a file, with a table or a part of one."""

    document: Document
    path: Path
    members: dict[str, Any]


def unwrap(
    text: str, max_size_bytes: int, limit: int | None
) -> Inner | Findings | None:
    """Return the table in a text that is a ConfigMap, or why it has none.

    Returns:
        None for a text that is not a ConfigMap.
    """
    documents, found = _documents(text, limit)
    parts = [part for document in documents for part in _parts(document)]
    if not parts:
        return None
    if found.counts:
        return found
    try:
        return _inner(text, parts, max_size_bytes)
    except _BadConfigMapError as refused:
        return Findings([refused.finding])


def _documents(text: str, limit: int | None) -> tuple[list[Document], Findings]:
    if text.lstrip()[:1] in ("{", "["):
        parsed = parse(text, limit)
        if isinstance(parsed, Finding):
            return [], Findings()
        return [Document(text=text, data=parsed[0])], parsed[1]
    if len(text) > MAX_YAML_BYTES:
        return [], Findings()
    return parse_yaml(text, limit)


def _parts(document: Document) -> Iterator[_Part]:
    """Yield the ConfigMaps of a document, which may be a list of them."""
    found: list[tuple[Path, object]] = [((), document.data)]
    items = document.get("items")
    if isinstance(items, list):
        found = [(("items", index), item) for index, item in enumerate(items)]
    for path, members in found:
        if not isinstance(members, dict):
            continue
        data = members.get("data")
        has_key = isinstance(data, dict) and any(key in data for key in KEYS)
        if has_key or members.get("kind") == "ConfigMap":
            yield _Part(document, path, members)


class _BadConfigMapError(Exception):
    def __init__(self, finding: Finding) -> None:
        self.finding = finding
        super().__init__(finding.message)


def _refuse(document: Document, path: Path, message: str, hint: str | None) -> None:
    span = document.span_of(*path)
    raise _BadConfigMapError(rules.CONFIG_MAP.finding(span, message, hint=hint))


def _inner(text: str, parts: list[_Part], max_size_bytes: int) -> Inner:
    texts = []
    values = [_value(part) for part in _ordered(parts)]
    left = max_size_bytes  # for all parts together
    for part, path, value in values:
        texts.append(_unpacked(part.document, path, value, left))
        left -= len(texts[-1])
    first, path, value = values[0]
    whole = "".join(texts)
    offsets = _offsets(first.document, path)
    wrapper = Wrapper(
        text=text,
        inner=whole,
        offsets=offsets,
        is_packed=_is_packed(path, value),
        is_whole=len(values) == 1,
    )
    return Inner(text=whole, wrapper=wrapper, path=path)


def _offsets(document: Document, path: Path) -> Offsets:
    span = document.span_of(*path)
    if span.offsets is not None:
        return span.offsets
    return find_spans(document.text, [span])[span]


def _ordered(parts: list[_Part]) -> list[_Part]:
    """Return the parts of one table in their order."""
    first = parts[0]
    data = first.members.get("data")
    members = data if isinstance(data, dict) else {}
    total = plain_number(members.get("total"))
    if total is None or "cm_index" not in members:
        total = 1
    if len(parts) == total:
        return sorted(parts, key=_index) if total > 1 else parts
    path = (*first.path, "data")
    if total > 1:
        verb = "is" if len(parts) == 1 else "are"
        message = f"the table is in {total} ConfigMaps, and here {verb} {len(parts)}"
        _refuse(first.document, (*path, "total"), message, "put all into one file")
    message = f"there are {len(parts)} ConfigMaps with a table"
    _refuse(first.document, path, message, "judge each in a file of its own")
    return parts


def _index(part: _Part) -> int:
    return plain_number(part.members["data"].get("cm_index")) or 0


def _value(part: _Part) -> tuple[_Part, Path, str]:
    """Return the part, the path and the value of the table in a ConfigMap."""
    for holder in ("data", "binaryData"):
        data = part.members.get(holder)
        if not isinstance(data, dict):
            continue
        for key in KEYS:
            if key not in data:
                continue
            path = (*part.path, holder, key)
            if isinstance(data[key], str):
                return part, path, data[key]
            message = f"{key} is {quoted(data[key])}, not text"
            _refuse(part.document, path, message, "write the table as a block: |")
    listed = ", ".join(KEYS)
    _refuse(part.document, part.path, f"this ConfigMap has none of {listed}", None)
    raise AssertionError


def _is_packed(path: Path, value: str) -> bool:
    return path[-2] == "binaryData" or value.lstrip().startswith(_GZIP)


def _unpacked(document: Document, path: Path, value: str, max_size_bytes: int) -> str:
    """Return the text of a packed table, at most so many bytes of it."""
    if not _is_packed(path, value):
        return value
    data = b""
    try:
        data = base64.b64decode("".join(value.split()), validate=True)
        if data[:2] == b"\x1f\x8b":
            data = _expanded(document, path, data, max_size_bytes)
        return data.decode()
    except (binascii.Error, zlib.error, UnicodeDecodeError) as error:
        kind = "base64" if isinstance(error, binascii.Error) else "gzip of a text"
        _refuse(document, path, f"{path[-1]} is not {kind}: {error}", None)
    raise AssertionError


def _expanded(
    document: Document, path: Path, data: bytes, max_size_bytes: int
) -> bytes:
    # If it is too large, the rest is only counted and not kept.
    if sum(map(len, _pieces(data, max_size_bytes))) > max_size_bytes:
        span = document.span_of(*path)
        message = "the table is larger than the limit of a file when it is unpacked"
        raise _BadConfigMapError(TOO_LARGE.finding(span, message))
    machine = zlib.decompressobj(wbits=31)
    found = machine.decompress(data)
    if not machine.eof:
        _refuse(document, path, f"{path[-1]} is gzip without its end", None)
    return found


def _pieces(data: bytes, max_size_bytes: int) -> Iterator[bytes]:
    """Yield the unpacked bytes in pieces, up to the first that exceeds the limit."""
    machine = zlib.decompressobj(wbits=31)
    size = 0
    while data and not machine.eof and size <= max_size_bytes:
        piece = machine.decompress(data, _PIECE_BYTES)
        data = machine.unconsumed_tail
        size += len(piece)
        yield piece


def new_config_map(data: bytes) -> bytes:
    """Return a ConfigMap in YAML around the bytes of a table."""
    start = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n"
    start += "  name: rings-config-ranktable\ndata:\n  hccl.json: |\n"
    body = "".join(f"    {line}\n" for line in data.decode().rstrip().split("\n"))
    return (start + body).encode()
