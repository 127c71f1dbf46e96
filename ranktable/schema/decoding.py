"""Bytes to text: strict UTF-8, with every other encoding named."""

from __future__ import annotations

import codecs
from typing import TYPE_CHECKING

from ranktable.schema.document import SourceSpan
from ranktable.schema.finding import Edit, Finding
from ranktable.schema.rules import reading as rules

if TYPE_CHECKING:
    from ranktable.schema.files import UnreadableError

# The longer mark first: UTF-32-LE begins with the mark of UTF-16-LE.
_WIDE_MARKS = (
    (codecs.BOM_UTF32_LE, "UTF-32"),
    (codecs.BOM_UTF32_BE, "UTF-32"),
    (codecs.BOM_UTF16_LE, "UTF-16"),
    (codecs.BOM_UTF16_BE, "UTF-16"),
)


def unreadable(error: UnreadableError) -> Finding:
    """Return the finding for a file that was not read."""
    rule = next(rule for rule in rules.RULES if rule.code == error.code)
    return rule.finding(None, error.message, hint=error.hint)


def decode(data: bytes) -> tuple[str, list[Finding]] | Finding:
    """Return the text of a document, and a warning for a byte order mark.

    UTF-16 and UTF-32 are named, invalid UTF-8 is placed. The mark is not part of the
    text that is returned.
    """
    for mark, name in _WIDE_MARKS:
        if data.startswith(mark):
            return _wide(name)
    # JSON begins with two ASCII characters; a zero byte among them is a wide one.
    ascii_of_start = data[:4].replace(b"\0", b"")
    if b"\0" in data[:4] and ascii_of_start and ascii_of_start.isascii():
        return _wide("UTF-16 or UTF-32")
    found = []
    if data.startswith(codecs.BOM_UTF8):
        data = data[len(codecs.BOM_UTF8) :]
        found.append(
            rules.BYTE_ORDER_MARK.finding(
                SourceSpan(offsets=(0, 0)),
                "the file begins with a byte order mark, which some readers refuse",
                edit=Edit("remove"),
            )
        )
    try:
        return data.decode("utf-8"), found
    except UnicodeDecodeError as error:
        return _not_utf8(data, error)


def _not_utf8(data: bytes, error: UnicodeDecodeError) -> Finding:
    offset = len(data[: error.start].decode("utf-8"))
    return rules.NOT_UTF8.finding(
        SourceSpan(offsets=(offset, offset + 1)),
        f"byte 0x{data[error.start]:02x} is not UTF-8",
    )


def _wide(name: str) -> Finding:
    return rules.WIDE_ENCODING.finding(
        None, f"the file is {name}, not UTF-8", hint="convert it with iconv"
    )
