"""From the bytes of a description to its value, or to what is wrong with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ranktable.cluster.descriptions.source import Source
from ranktable.schema.check_report import Report, make_report
from ranktable.schema.decoding import decode
from ranktable.schema.finding import Finding
from ranktable.schema.quota import Quota
from ranktable.schema.rules.reading import TOO_LARGE

if TYPE_CHECKING:
    from collections.abc import Callable

    from ranktable.cluster.descriptions.description import Description
    from ranktable.cluster.descriptions.form import Form

MAX_SIZE_BYTES = 64 * 1024 * 1024
"""A rank file of a million ranks is 32 MB."""

DEFAULT_LIMIT = 20
"""Findings of each code that are placed and shown."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What came of reading.

    Attributes:
        report: What was found.
        description: The description, None if there is an error.
        left_out: What the text says of hosts and the description does not.
    """

    report: Report
    description: Description | None
    left_out: tuple[str, ...] = ()


def read_description(
    data: bytes, form: Form, *, file: str, limit: int | None = DEFAULT_LIMIT
) -> Reading:
    """Read a description of a kind."""
    decoded = _decoded(data)
    if isinstance(decoded, Finding):
        text = data.decode("utf-8", "replace") if decoded.span else None
        return Reading(_report([decoded], text, file, form.name, Quota(limit)), None)
    text, found = decoded
    return read_text(
        text, form.read, file=file, name=form.name, limit=limit, found=found
    )


def read_text(  # noqa: PLR0913 - every one is an option of its own
    text: str,
    read: Callable[[Source], Description | None],
    *,
    file: str,
    name: str,
    limit: int | None = DEFAULT_LIMIT,
    found: list[Finding] | None = None,
) -> Reading:
    """Read a text with a reader.

    Args:
        text: The text.
        read: The reader.
        file: Name to report.
        name: Name of the kind of text.
        limit: Findings of each code to place; the report counts all.
        found: What was found before.
    """
    source = Source(text, Quota(limit))
    description = None if source.refuse_long() else read(source)
    every = [*(found or ()), *source.found]
    report = _report(every, text, file, name, source.quota)
    return Reading(
        report, description if report.ok else None, tuple(sorted(source.left_out))
    )


def _decoded(data: bytes) -> tuple[str, list[Finding]] | Finding:
    if len(data) > MAX_SIZE_BYTES:
        message = f"the file is larger than {MAX_SIZE_BYTES} bytes"
        return TOO_LARGE.finding(None, message)
    return decode(data)


def _report(
    found: list[Finding], text: str | None, file: str, name: str, quota: Quota
) -> Report:
    return make_report(found, file=file, text=text, format_name=name, quota=quota)
