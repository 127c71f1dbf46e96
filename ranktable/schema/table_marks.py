"""How a rank table is known from its name or from its beginning.

The lists come from the formats, so that a new format cannot be forgotten.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Final

from ranktable.schema.formats import LISTS
from ranktable.schema.formats.foreign import foreign_formats
from ranktable.schema.super_pods import PODS

if TYPE_CHECKING:
    from collections.abc import Iterable

TABLE_NAMES: Final = (
    *("*rank_table*.json", "*ranktable*.json", "*hccl*.json"),
    *("*rank-table*.json", "*rank.table*.json"),
)
"""Names of rank tables; the hooks, the action and the editors' settings have them."""


def _quoted(keys: Iterable[str]) -> re.Pattern[bytes]:
    return re.compile(rf"""["'](?:{"|".join({*keys})})["']""".encode())


_LIST = _quoted((*LISTS, PODS))


@cache
def _foreign_list() -> re.Pattern[bytes]:
    """Return a pattern for the lists of tables that are named, but not read."""
    every = {mark for one in foreign_formats() for marks in one.marks for mark in marks}
    return _quoted(one for one in every if one.endswith("_list") and "[]" not in one)


def looks_like_table(start: bytes) -> bool:
    """Whether the beginning of a file is that of a rank table, perhaps a damaged one.

    It may be a dictionary of Python, or encoded as UTF-16.
    """
    return _LIST.search(_object(start)) is not None


def looks_like_any_table(start: bytes) -> bool:
    """Whether the beginning is that of a table, also of one that is not read."""
    return has_list(_object(start))


def _object(start: bytes) -> bytes:
    """Return the beginning of an object in UTF-8; nothing for another file."""
    if start[:2] in (b"\xff\xfe", b"\xfe\xff"):
        start = start[2:].replace(b"\0", b"")
    return start if start.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] == b"{" else b""


def has_list(text: bytes) -> bool:
    """Whether a text has the list of a table, also of one that is not read.

    A table inside a manifest of JSON is escaped, and its list is not found.
    """
    return bool(_LIST.search(text) or _foreign_list().search(text))
