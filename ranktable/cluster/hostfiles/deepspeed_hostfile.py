"""Host files of DeepSpeed: ``worker-0 slots=4``.

The slots of a host are the chips 0 to slots - 1.

Source: microsoft/DeepSpeed, deepspeed/launcher/runner.py, _parse_hostfile.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ranktable.cluster.hostfiles import hostfile_rules as rules
from ranktable.cluster.hostfiles.hostfile import (
    HostTable,
    LauncherFormat,
    names_of,
    refuse_interleaved,
    sizes_of,
)
from ranktable.cluster.source_text import words_of
from ranktable.schema.diagnostic import quoted

if TYPE_CHECKING:
    from ranktable.cluster.hostfiles.hostfile import Hostfile, WriterOptions
    from ranktable.cluster.source_text import SourceText, Token

TITLE = "a DeepSpeed host file"
_SLOTS = "slots="
_EXAMPLE = "a line is a host and its slots: worker-0 slots=4"
_TWICE = "DeepSpeed stops"
_LINE = re.compile(r"^[ \t]*[^#\s]\S*[ \t]+slots=[0-9]", re.MULTILINE)


def read(source: SourceText) -> Hostfile | None:
    """Return the hosts of a host file with their chips."""
    table = HostTable(source)
    for line in source.lines():
        words = words_of(line)
        if words and not words[0].text.startswith("#"):
            _read_line(source, words, table)
    return table.hostfile(are_chips=True)


def _read_line(source: SourceText, words: list[Token], table: HostTable) -> None:
    if len(words) == 1 or not words[1].text.startswith(_SLOTS):
        source.report(
            rules.BAD_LINE,
            words[min(1, len(words) - 1)],
            f"the host {quoted(words[0].text)} is not followed by slots=N",
            hint=_EXAMPLE,
        )
        return
    number = words[1].part(len(_SLOTS))
    slots = source.count(number, hint=_EXAMPLE, lax=_lax(number.text))
    _report_rest(source, words[2:])
    if source.host(words[0]) is not None and slots is not None:
        table.add(words[0], slots, _TWICE)


def _lax(text: str) -> str:
    """Return what DeepSpeed reads from a wrong number: its digits, of any script."""
    match = re.match(r"\d{1,9}", text)
    return f"DeepSpeed takes it as {int(match[0])}" if match else "DeepSpeed stops"


def _report_rest(source: SourceText, words: list[Token]) -> None:
    if words and not words[0].text.startswith("#"):
        source.report(
            rules.IGNORED_TEXT,
            words[0],
            f"DeepSpeed ignores {quoted(words[0].text)} and what follows it",
            hint="remove it, or put it on a line of its own that begins with #",
        )


def write(hostfile: Hostfile, _options: WriterOptions) -> str:
    """Return the text of a host file; DeepSpeed uses the chips 0 to slots - 1."""
    refuse_interleaved(hostfile, TITLE)
    pairs = zip(names_of(hostfile, TITLE), sizes_of(hostfile), strict=True)
    return "".join(f"{name} slots={size}\n" for name, size in pairs)


DEEPSPEED_HOSTFILE = LauncherFormat(
    name="deepspeed-hostfile",
    title=TITLE,
    read=read,
    write=write,
    matches=_LINE.search,
)
