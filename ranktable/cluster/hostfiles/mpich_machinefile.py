"""Machine files of MPICH's Hydra and of Intel MPI: ``node01:8``.

Source: pmodels/mpich, src/pm/hydra/lib/utils/args.c; tried with MPICH 4.0.2.
"""

from __future__ import annotations

import re
from itertools import islice
from typing import TYPE_CHECKING

from ranktable.cluster.argument import ArgumentError
from ranktable.cluster.hostfiles import hostfile_rules as rules
from ranktable.cluster.hostfiles.hostfile import (
    HostTable,
    LauncherFormat,
    names_of,
    refuse_interleaved,
    sizes_of,
)
from ranktable.cluster.source_text import words_of
from ranktable.schema.addresses import is_address
from ranktable.schema.diagnostic import quoted

if TYPE_CHECKING:
    from ranktable.cluster.hostfiles.hostfile import Hostfile, WriterOptions
    from ranktable.cluster.source_text import SourceText, Token

TITLE = "an MPICH machine file"
_KEYS = {"binding": "bindings", "user": "user names"}
_EXAMPLE = "a line is a host, its number of processes and keys: node01:8 user=alice"
_TWICE = (
    "MPICH starts a second group of processes there, whose local ranks begin at 0 again"
)
_LINE = re.compile(r"^[ \t]*[A-Za-z0-9_.-]+:[0-9]+(?:[ \t#].*)?$", re.MULTILINE)


def read(source: SourceText) -> Hostfile | None:
    """Return the hosts of a machine file; a host without a number has one process."""
    table = HostTable(source)
    last = ""
    for line in source.lines():
        words = _words(source, line)
        if words:
            last = _read_line(source, words, table, last)
    return table.hostfile()


def _words(source: SourceText, line: Token) -> list[Token]:
    """Return the words of a line before a comment."""
    before, mark, _ = line.text.partition("#")
    words = words_of(line.part(0, len(before)))
    if mark and words:
        source.report(
            rules.NOT_EVERYWHERE,
            line.part(len(before), len(before) + 1),
            "MPICH 4.0 reads a comment here; its later sources do only at the "
            "beginning of a line",
            hint="put the comment on a line of its own",
        )
    return words


def _read_line(
    source: SourceText, words: list[Token], table: HostTable, last: str
) -> str:
    """Add the host of a line, and return its name."""
    before: set[str] = set()
    for word in words[1:]:
        _check_key(source, word, before)
    if is_address(words[0].text) and ":" in words[0].text:
        source.report(
            rules.BAD_HOST,
            words[0],
            f"MPICH cuts {quoted(words[0].text)} at its first colon",
            hint="an IPv6 address cannot be written here; give the host a name",
        )
        return ""
    name, *counts = islice(words[0].parts(":"), 3)
    host = source.host(name)
    slots = _slots(source, counts) if counts else 1
    if host is None or slots is None:
        return ""
    entry = table.entries.get(host)
    if entry is not None and host == last:
        entry.slots = (entry.slots or 0) + slots
        table.grow(name, slots)
    else:
        table.add(name, slots, _TWICE)
    return host


def _slots(source: SourceText, counts: list[Token]) -> int | None:
    for word in counts[1:]:
        source.report(
            rules.BAD_COUNT,
            word,
            f"{quoted(word.text)} stands after a second colon; MPICH ignores it",
            hint=_EXAMPLE,
        )
    value = _atoi(counts[0].text)
    lax = f"MPICH takes it as {value}"
    return source.count(counts[0], "a number of processes", hint=_EXAMPLE, lax=lax)


def _atoi(text: str) -> str:
    """Return the number that MPICH reads: the digits at the beginning, else 0."""
    match = re.match(r"-?[0-9]{1,9}", text)
    return "1" if not text else match[0] if match else "0"


def _check_key(source: SourceText, word: Token, before: set[str]) -> None:
    key, _, value = word.text.partition("=")
    if key not in _KEYS or not value:
        message = f"{quoted(word.text)} is not one of binding=... and user=..."
        source.report(rules.BAD_LINE, word, message, hint=_EXAMPLE)
    elif key in before:
        source.report(rules.BAD_LINE, word, f"{key} is given twice in this line")
    else:
        source.left_out.add(_KEYS[key])
    before.add(key)


def write(hostfile: Hostfile, _options: WriterOptions) -> str:
    """Return the machine file of a hostfile."""
    refuse_interleaved(hostfile, TITLE)
    names = names_of(hostfile, TITLE)
    for name in names:
        if ":" in name:
            raise ArgumentError(
                f"{TITLE} cannot name the host {name}: it is cut at its first colon",
                hint="name the hosts: --hosts LIST",
            )
    pairs = zip(names, sizes_of(hostfile), strict=True)
    return "".join(f"{name}:{size}\n" for name, size in pairs)


MPICH_MACHINEFILE = LauncherFormat(
    name="mpich-machinefile",
    title=TITLE,
    read=read,
    write=write,
    matches=_LINE.search,
)
