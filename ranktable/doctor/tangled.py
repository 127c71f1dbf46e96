"""Take lines apart that a writer tangled: tags within a line, lines within a text.

mpirun puts its tag before every part that a process writes, also within a line. A log
that shows an object with a traceback has the ends of its lines as a backslash and n.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

_TAG = re.compile(rb"\[\d{1,7},\d{1,7}\]<std(?:out|err|diag)>:")
_TAGGED_TWICE = re.compile(_TAG.pattern + rb"[^\n]*" + _TAG.pattern)
_TRACE_IN_TEXT = b"(most recent call last):\\n"


def is_tagged_within(head: bytes) -> bool:
    """Whether a line of the beginning of a log has more than one tag of mpirun."""
    return _TAGGED_TWICE.search(head) is not None


def tagged_once(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Yield lines that keep the first tag of mpirun, not the same one within."""
    for line in lines:
        if tag := _TAG.search(line):
            start, text = line[: tag.end()], line[tag.end() :]
            yield start + text.replace(tag[0], b"") + b"\n"
        else:
            yield line + b"\n"


def has_text_of_trace(head: bytes) -> bool:
    """Whether the beginning of a log has a traceback within a text."""
    return _TRACE_IN_TEXT in head


def lines_of_texts(
    lines: Iterable[bytes], strip: Callable[[str], int], extra: list[int]
) -> Iterator[bytes]:
    """Yield lines, and those of a traceback that is the text of one.

    Args:
        lines: The lines.
        strip: Returns how long the prefixes of a line are that are known.
        extra: The numbers of lines that are added are noted here.
    """
    number = 0
    for line in lines:
        number += 1
        if _TRACE_IN_TEXT not in line:
            yield line + b"\n"
            continue
        text = line.decode("utf-8", "replace")
        start = text[: strip(text)]
        for index, part in enumerate(text[len(start) :].split("\\n")):
            if index:
                number += 1
                extra.append(number)
            said = part.replace('\\"', '"')
            yield f"{start}{said}\n".encode()
