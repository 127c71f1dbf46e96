"""Formats that look like rank tables and are not read; the data is in a file.

Such a file is known by its marks, so that RT111 says who reads it and what to do.
"""

from __future__ import annotations

import json
import os
from functools import cache
from typing import Any, Final, NamedTuple

SPARE_ID = 64
"""The local_id of the spare chip of HCCL 2.0."""


class Foreign(NamedTuple):
    """A format that is named, but not read.

    Attributes:
        name: Its name.
        marks: Groups of marks; a file with all marks of one group has this format. A
            mark is a key at the top, or ``list[].key`` for a key of the first object in
            a list.
        title: What it is.
        readers: Who reads it.
        advice: What to do.
    """

    name: str
    marks: tuple[tuple[str, ...], ...]
    title: str
    readers: str
    advice: str


@cache
def foreign_formats() -> tuple[Foreign, ...]:
    """Return the formats, in the order in which they are tried."""
    # Every process of a job may come here: TOML would take it another 3 ms.
    path = os.path.join(os.path.dirname(__file__), "foreign.json")
    with open(path, encoding="utf-8") as file:
        return tuple(Foreign(**entry) for entry in json.load(file))


def foreign_format(document: object) -> tuple[Foreign, str] | None:
    """Return the format of a document that is not read, and the mark of it.

    Returns:
        None for a document of another format.
    """
    for foreign in foreign_formats():
        for marks in foreign.marks:
            if all(_has(document, mark) for mark in marks):
                is_one = _TESTS.get(foreign.name)
                if is_one is None or is_one(document):
                    return foreign, marks[-1]
    return None


def _has(document: Any, mark: str) -> bool:
    """Whether a document has a mark."""
    key, is_inner, inner = mark.partition("[].")
    if not is_inner:
        return isinstance(document, dict) and key in document
    listed = document
    if key:
        listed = document.get(key) if isinstance(document, dict) else None
    return isinstance(listed, list) and bool(listed) and _has(listed[0], inner)


def _is_sccl_2024(document: Any) -> bool:
    """Whether servers have an address for an id, and are counted by an integer.

    HCCL counts them by a string, so there ``server_ip`` is a misspelt ``server_id``.
    """
    return (
        _has(document, "server_list[].server_ip")
        and not _has(document, "server_list[].server_id")
        and type(document.get("server_count")) is int
    )


def _is_changed(document: Any) -> bool:
    """Whether ranks beyond the count are listed, with a spare chip among them."""
    listed = document.get("rank_list") if isinstance(document, dict) else None
    if not isinstance(listed, list) or type(document.get("rank_count")) is not int:
        return False
    ranks = [one for one in listed if isinstance(one, dict)]
    numbers = [one.get("rank_id") for one in ranks]
    return any(one.get("local_id") == SPARE_ID for one in ranks) and any(
        type(number) is int and number >= document["rank_count"] for number in numbers
    )


_TESTS: Final = {"sccl-2024": _is_sccl_2024, "hccl-changed": _is_changed}
"""What a file of these formats has besides its marks."""
