"""Rank tables inside Kubernetes ConfigMaps.

A ConfigMap is YAML or JSON. Any key may hold a table: as text, or as base64 of gzip.
Each table is judged as a file of its own, so this module only takes the texts out.
Nothing larger than the size limit of a file is ever unpacked.
"""

from __future__ import annotations

import base64
import binascii
import re
import zlib
from typing import TYPE_CHECKING, Any, NamedTuple

from ranktable.schema.document import Document
from ranktable.schema.finding import Finding, Findings
from ranktable.schema.json_parser import parse
from ranktable.schema.rules import shape as rules
from ranktable.schema.rules.syntax import TOO_LARGE
from ranktable.schema.text import quoted
from ranktable.schema.values import plain_number
from ranktable.schema.yaml_parser import MAX_YAML_BYTES, parse_yaml

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ranktable.schema.document import Path

_TABLE_KEY = re.compile(r"(?i).*(?:rank.?table|hccl).*\.json")
"""Names of keys of operators, such as hccl.json, and of users."""

_LIST = re.compile(
    r"""["'](?:node|server|rank|group|super_pod|server_group|prefill_device)_list["']"""
)
"""What a table under another key has."""

_GZIP_TEXT, _GZIP = "H4sI", b"\x1f\x8b"
_PIECE_BYTES = 1 << 16
"""Bytes that are unpacked at a time, so that the size is known early."""


class Inner(NamedTuple):
    """A table that was taken out of a ConfigMap.

    Attributes:
        key: Its key.
        text: Its text.
    """

    key: str
    text: str


class _BadConfigMapError(Exception):
    def __init__(self, finding: Finding) -> None:
        self.finding = finding
        super().__init__(finding.message)


def unwrap(
    text: str, max_size_bytes: int, limit: int | None
) -> list[Inner] | Findings | None:
    """Return the tables in the ConfigMaps of a text, or why they cannot be read.

    Returns:
        None for a text that is not a manifest of Kubernetes; an empty list for a
        manifest without a table.
    """
    documents, found = _documents(text, limit)
    manifests = [each for document in documents for each in _manifests(document)]
    if not manifests:
        return None
    if found:
        return found
    tables: list[Inner] = []
    try:
        for document, path, members in manifests:
            if members.get("kind") == "ConfigMap":
                used = sum(len(table.text) for table in tables)
                tables += _tables(document, path, members, max_size_bytes - used)
    except _BadConfigMapError as refused:
        return Findings([refused.finding])
    return tables


def _documents(text: str, limit: int | None) -> tuple[list[Document], Findings]:
    if text.lstrip()[:1] in ("{", "["):
        parsed = parse(text, limit)
        if isinstance(parsed, Finding):
            return [], Findings()
        return [Document(text=text, data=parsed[0])], parsed[1]
    if len(text) > MAX_YAML_BYTES:
        return [], Findings()
    return parse_yaml(text, limit)


def _manifests(document: Document) -> Iterator[tuple[Document, Path, dict[str, Any]]]:
    """Yield the objects of a document, which may be a list of them."""
    found: list[tuple[Path, object]] = [((), document.data)]
    items = document.get("items")
    if isinstance(items, list):
        found = [(("items", index), item) for index, item in enumerate(items)]
    for path, members in found:
        if isinstance(members, dict) and isinstance(members.get("kind"), str):
            yield document, path, members


def _tables(
    document: Document, path: Path, members: dict[str, Any], left: int
) -> Iterator[Inner]:
    """Yield the tables in a ConfigMap.

    Args:
        document: The text of the ConfigMap.
        path: Where the ConfigMap is in it.
        members: Its plain data.
        left: Number of characters that may be unpacked.
    """
    for holder in ("data", "binaryData"):
        data = members.get(holder)
        values = data if isinstance(data, dict) else {}
        total = plain_number(values.get("total")) or 1
        for key, value in values.items():
            here = (*path, holder, key)
            is_known = _TABLE_KEY.fullmatch(key) is not None
            if not isinstance(value, str):
                if is_known:
                    message = f"{key} is {quoted(value)}, not text"
                    _refuse(document, here, message, "write the table as a block: |")
                continue
            table = value
            if holder == "binaryData" or value.lstrip().startswith(_GZIP_TEXT):
                table = _unpacked(document, here, value, left, is_wanted=is_known)
            if not (is_known or _LIST.search(table)):
                continue
            if total > 1 and "cm_index" in values:
                message = f"{key} is one of {total} parts of a table"
                hint = "put the text of all parts, in the order of cm_index, into one"
                _refuse(document, here, message, hint)
            left -= len(table)
            yield Inner(key, table)


def _refuse(document: Document, path: Path, message: str, hint: str | None) -> None:
    span = document.span_of(*path)
    raise _BadConfigMapError(rules.CONFIG_MAP.finding(span, message, hint=hint))


def _unpacked(
    document: Document, path: Path, value: str, left: int, *, is_wanted: bool
) -> str:
    """Return the text of a packed value; an empty text if it is not one and may be."""
    try:
        data = base64.b64decode("".join(value.split()), validate=True)
        if data[:2] == _GZIP:
            data = _expanded(document, path, data, left)
        return data.decode()
    except (binascii.Error, zlib.error, UnicodeDecodeError) as error:
        if is_wanted:
            kind = "base64" if isinstance(error, binascii.Error) else "gzip of a text"
            _refuse(document, path, f"{path[-1]} is not {kind}: {error}", None)
    return ""


def _expanded(document: Document, path: Path, data: bytes, left: int) -> bytes:
    # If it is too large, the rest is only counted and not kept.
    if sum(map(len, _pieces(data, left))) > left:
        span = document.span_of(*path)
        message = "the table is larger than the limit of a file when it is unpacked"
        raise _BadConfigMapError(TOO_LARGE.finding(span, message))
    machine = zlib.decompressobj(wbits=31)
    found = machine.decompress(data)
    if not machine.eof:
        _refuse(document, path, f"{path[-1]} is gzip without its end", None)
    return found


def _pieces(data: bytes, most: int) -> Iterator[bytes]:
    """Yield the unpacked bytes in pieces, up to the first that exceeds the limit."""
    machine = zlib.decompressobj(wbits=31)
    size = 0
    while data and not machine.eof and size <= most:
        piece = machine.decompress(data, _PIECE_BYTES)
        data = machine.unconsumed_tail
        size += len(piece)
        yield piece


def new_config_map(data: bytes, key: str) -> bytes:
    """Return a ConfigMap in YAML around the bytes of a table."""
    start = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n"
    start += f"  name: rings-config-ranktable\ndata:\n  {key}: |\n"
    body = "".join(f"    {line}\n" for line in data.decode().rstrip().split("\n"))
    return (start + body).encode()
