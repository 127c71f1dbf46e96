"""How a rank table is known from its name or from its beginning.

The lists come from the formats, so that a new format cannot be forgotten.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from ranktable.schema.formats import FOREIGN, LISTS
from ranktable.schema.super_pods import PODS

if TYPE_CHECKING:
    from collections.abc import Iterable

TABLE_NAMES: Final = (
    *("*rank_table*.json", "*ranktable*.json", "*hccl*.json"),
    *("*rank-table*.json", "*rank.table*.json"),
)
"""Names of rank tables; the hooks, the action and the editors' settings have them."""

FOREIGN_LISTS: Final = tuple(
    mark
    for foreign in FOREIGN
    for marks in foreign.marks
    for mark in marks
    if mark.endswith("_list") and "[]" not in mark
)
"""The lists of tables that are named, but not read."""


def _quoted(keys: Iterable[str]) -> re.Pattern[bytes]:
    return re.compile(rf"""["'](?:{"|".join({*keys})})["']""".encode())


_LIST = _quoted((*LISTS, PODS))
_ANY_LIST = _quoted((*LISTS, PODS, *FOREIGN_LISTS))


def looks_like_table(start: bytes, lists: re.Pattern[bytes] = _LIST) -> bool:
    """Whether the beginning of a file is that of a rank table, perhaps a damaged one.

    It may be a dictionary of Python, or encoded as UTF-16.
    """
    if start[:2] in (b"\xff\xfe", b"\xfe\xff"):
        start = start[2:].replace(b"\0", b"")
    is_object = start.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] == b"{"
    return is_object and lists.search(start) is not None


def looks_like_any_table(start: bytes) -> bool:
    """Whether the beginning is that of a table, also of one that is not read."""
    return looks_like_table(start, _ANY_LIST)


def has_list(text: bytes) -> bool:
    """Whether a text has the list of a table, also of one that is not read.

    A table inside a manifest of JSON is escaped, and its list is not found.
    """
    return _ANY_LIST.search(text) is not None
