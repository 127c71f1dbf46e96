"""Files inside Kubernetes ConfigMaps.

A ConfigMap is YAML or JSON. Any key may hold a file: as text, or as base64 of gzip.
Each is judged as a file of its own, so this module only takes the texts out.
Nothing larger than the size limit of a file is ever unpacked.
"""

from __future__ import annotations

import base64
import binascii
import re
import zlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from ranktable.schema.document import Document
from ranktable.schema.file_kind import matches
from ranktable.schema.finding import Finding, Findings
from ranktable.schema.json_parser import parse
from ranktable.schema.rules import shape as rules
from ranktable.schema.rules.syntax import REFUSED_YAML, TOO_LARGE
from ranktable.schema.table_marks import TABLE_NAMES, looks_like_any_table
from ranktable.schema.text import quoted
from ranktable.schema.values import plain_number
from ranktable.schema.yaml_parser import MAX_YAML_BYTES, parse_yaml

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ranktable.schema.document import Offsets, Path

_GZIP_TEXT, _GZIP = "H4sI", b"\x1f\x8b"
_PIECE_BYTES = 1 << 16
"""Bytes that are unpacked at a time, so that the size is known early."""


Wanted = Callable[[str, bytes | None], bool]
"""Whether the text under a key is wanted; None for the text: by the key alone."""


def is_table(key: str, text: bytes | None) -> bool:
    """Whether the text under a key is a rank table; see ``Wanted``."""
    return matches(key, TABLE_NAMES) or (
        text is not None and looks_like_any_table(text)
    )


_RESOURCES = (
    ("sophgo", r"""soph(?:go|on)[^\s"':]{0,64}"""),
    ("nvidia", r"nvidia\.com/(?:gpu|mig-)[\w.-]{0,64}"),
    ("amd", r"amd\.com/gpu"),
    ("ascend", r"huawei\.com/(?:Ascend|npu)[\w.-]{0,64}"),
)
"""How the jobs of a manifest ask for the chips of a vendor."""


def vendor_of_jobs(text: str) -> str | None:
    """Return whose chips the jobs of a manifest ask for, None if it does not say."""
    said = "\n".join(line.partition("#")[0] for line in text.splitlines())
    return next(
        (
            vendor
            for vendor, name in _RESOURCES
            if re.search(rf"""{name}["']?\s{{0,64}}:\s{{0,64}}["']?[1-9]""", said)
        ),
        None,
    )


class Inner(NamedTuple):
    """A file that was taken out of a ConfigMap.

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
    text: str, max_size_bytes: int, limit: int | None, is_wanted: Wanted
) -> list[Inner] | Findings | None:
    """Return the files in the ConfigMaps of a text, or why they cannot be read.

    Args:
        text: The text.
        max_size_bytes: Largest size of all files together.
        limit: Most findings of each code to locate.
        is_wanted: Tells which files are wanted.

    Returns:
        None for a text that is not a manifest of Kubernetes; an empty list for a
        manifest in which no file is wanted.
    """
    documents, found = _documents(text, limit)
    manifests = [each for document in documents for each in _manifests(document)]
    if not manifests:
        return None
    maps = [each for each in manifests if each[2].get("kind") == "ConfigMap"]
    places = [document.span_of(*path).offsets for document, path, _ in maps]
    if found := _without_other_objects(found, places, limit):
        return found
    tables: list[Inner] = []
    try:
        for document, path, members in maps:
            left = max_size_bytes - sum(len(table.text) for table in tables)
            tables += _files(document, path, members, left, is_wanted)
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
    return parse_yaml(text)


def _without_other_objects(
    found: Findings, places: list[Offsets | None], limit: int | None
) -> Findings:
    """Return findings without the aliases and tags outside of all ConfigMaps.

    Another object beside a ConfigMap, such as a job, is read by its own kind.
    """
    kept = Findings(limit=limit)
    for finding in found:
        start = finding.span.offsets[0] if finding.span and finding.span.offsets else 0
        is_inside = any(place and place[0] <= start < place[1] for place in places)
        if is_inside or finding.rule is not REFUSED_YAML:
            kept.add(finding)
    return kept


def _manifests(document: Document) -> Iterator[tuple[Document, Path, dict[str, Any]]]:
    """Yield the objects of a document, which may be a list of them."""
    found: list[tuple[Path, object]] = [((), document.data)]
    is_bare = isinstance(document.data, list)  # as jq prints the items
    items = document.data if is_bare else document.get("items")
    if isinstance(items, list):
        at: Path = () if is_bare else ("items",)
        found = [((*at, index), item) for index, item in enumerate(items)]
    is_list = document.get("kind") == "ConfigMapList"  # its items may name no kind
    for path, members in found:
        if isinstance(members, dict) and isinstance(members.get("kind"), str):
            yield document, path, members
        elif isinstance(members, dict) and is_list:
            yield document, path, {"kind": "ConfigMap", **members}


def _files(
    document: Document,
    path: Path,
    members: dict[str, Any],
    left: int,
    is_wanted: Wanted,
) -> Iterator[Inner]:
    """Yield the wanted files in a ConfigMap.

    Args:
        document: The text of the ConfigMap.
        path: Where the ConfigMap is in it.
        members: Its plain data.
        left: Number of characters that may be unpacked.
        is_wanted: Tells which files are wanted.
    """
    for holder in ("data", "binaryData"):
        data = members.get(holder)
        values = data if isinstance(data, dict) else {}
        total = plain_number(values.get("total")) or 1
        for key, value in values.items():
            here = (*path, holder, key)
            is_known = is_wanted(key, None)
            if not isinstance(value, str):
                if is_known:
                    message = f"{key} is {quoted(value)}, not text"
                    _refuse(document, here, message, "write it as a block: |")
                continue
            table = value
            if holder == "binaryData" or value.lstrip().startswith(_GZIP_TEXT):
                table = _unpacked(document, here, value, left, is_wanted=is_known)
            if not (is_known or is_wanted(key, table.encode(errors="replace"))):
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


def new_config_map(data: bytes, format_name: str) -> bytes:
    """Return a ConfigMap in YAML around the bytes of a table of a format."""
    key = "hccl.json" if format_name.startswith("hccl") else "rank_table.json"
    start = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n"
    start += f"  name: rings-config-ranktable\ndata:\n  {key}: |\n"
    body = "".join(f"    {line}\n" for line in data.decode().rstrip().split("\n"))
    return (start + body).encode()
