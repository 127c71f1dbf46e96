"""Rank files of Open MPI and PRRTE: ``rank 0=node01 slot=0``.

A slot is a CPU of the host, by its logical number; a rank table's chip is written
there. Open MPI 4.1.4 was seen to bind to CPU 0 where a slot is not a number.

Source: openpmix/prrte, src/mca/rmaps/rank_file/rmaps_rank_file.c and
docs, detail-placement-rankfiles.rst.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ranktable.cluster.hostfiles import hostfile_rules as rules
from ranktable.cluster.hostfiles.host_table import RankAssignment
from ranktable.cluster.hostfiles.hostfile import (
    LauncherFormat,
    chips_of,
    names_of,
    ranks_of,
)
from ranktable.cluster.hostfiles.openmpi_hostfile import (
    EQUALS,
    compared_name,
    host_word,
    read_lines,
    refuse_names,
)
from ranktable.cluster.source_text import MAX_SLOTS, Token
from ranktable.schema.diagnostic import quoted

if TYPE_CHECKING:
    from ranktable.cluster.hostfiles.hostfile import Hostfile, WriterOptions
    from ranktable.cluster.source_text import SourceText

TITLE = "an Open MPI rank file"
_EXAMPLE = "write, for example, rank 0=node01 slot=0"
_SHAPE = (("rank",), None, (EQUALS,), None, ("slot", "slots"), (EQUALS,), None)
_RELATIVE = re.compile(r"\+[nN][0-9]{1,7}")
# [package:]cores, and more after a semicolon.
_CORES = r"(?:\*|[0-9]{1,9}(?:-[0-9]{1,9})?(?:,[0-9]{1,9}(?:-[0-9]{1,9})?)*)"
_SLOTS = re.compile(rf"(?:[0-9]{{1,9}}:)?{_CORES}(?:;(?:[0-9]{{1,9}}:)?{_CORES})*")
_COUNTS_DOWN = re.compile(r"([0-9]+)-([0-9]+)")
_LINE = re.compile(r"^[ \t]*rank[ \t]+\S+[ \t]*=", re.MULTILINE)


def read(source: SourceText) -> Hostfile | None:
    """Return the hosts of a rank file, with the ranks and slots of each."""
    assignment = RankAssignment(source)
    for words in read_lines(source):
        _read_line(source, words, assignment)
    return assignment.hostfile()


def _read_line(
    source: SourceText, words: list[Token], assignment: RankAssignment
) -> None:
    for place, wanted in enumerate(_SHAPE):
        text = words[place].text if place < len(words) else ""
        if not text or (text == EQUALS if wanted is None else text not in wanted):
            _report_shape(source, words, place)
            return
    for word in words[len(_SHAPE) : len(_SHAPE) + 1]:
        source.report(
            rules.BAD_LINE,
            word,
            f"{quoted(word.text)} follows the slots; Open MPI ignores it",
            hint="give every rank a line of its own",
        )
    rank = source.number(words[1], "a rank", hint=_EXAMPLE)
    host = _host(source, words[3])
    slot = _slot(source, words[6])
    if rank is not None and rank >= MAX_SLOTS:
        source.too_many(words[1], "ranks")
    elif rank is not None and host is not None:
        name = host.text if host.text.startswith("+") else compared_name(host.text)
        assignment.add(name, host, rank, words[1], slot)


def _report_shape(source: SourceText, words: list[Token], place: int) -> None:
    if place < len(words):
        word = words[place]
        message = f"{quoted(word.text)} is not what a line of a rank file has here"
    else:
        last = words[-1]
        word = Token(last.text, last.start, last.end)
        message = f"the line ends after {quoted(last.text)}"
        if place >= len(_SHAPE) - 3:
            message += "; a rank needs a slot"
    source.report(rules.BAD_LINE, word, message, hint=_EXAMPLE)


def _host(source: SourceText, word: Token) -> Token | None:
    if word.text.startswith("+"):
        if _RELATIVE.fullmatch(word.text):
            return Token(f"+n{int(word.text[2:])}", word.start, word.end)
        source.report(
            rules.BAD_HOST,
            word,
            f"{quoted(word.text)} is not a place of a host",
            hint="+n0 is the first host of the allocation",
        )
        return None
    return host_word(source, word)


def _slot(source: SourceText, word: Token) -> tuple[int | None, Token]:
    """Return the slot if the list is a single one, and its place."""
    if not _SLOTS.fullmatch(word.text):
        source.report(
            rules.BAD_COUNT,
            word,
            f"{quoted(word.text)} is not a list of slots; Open MPI 4 binds to CPU 0",
            hint="write 3, 0-1,4 or 1:0-2",
        )
        return None, word
    for low, high in _COUNTS_DOWN.findall(word.text):
        if int(high) < int(low):
            source.report(rules.BAD_COUNT, word, f"the range {low}-{high} counts down")
    is_one = word.text.isdigit()
    return int(word.text) if is_one else None, word


def write(hostfile: Hostfile, _options: WriterOptions) -> str:
    """Return the rank file of a hostfile, a line for each rank in their order."""
    names = names_of(hostfile, TITLE)
    refuse_names(names, TITLE)
    placed = zip(names, ranks_of(hostfile), chips_of(hostfile), strict=True)
    lines = sorted(
        (rank, name, chip)
        for name, ranks, chips in placed
        for rank, chip in zip(ranks, chips, strict=True)
    )
    return "".join(f"rank {rank}={name} slot={chip}\n" for rank, name, chip in lines)


OPENMPI_RANKFILE = LauncherFormat(
    name="openmpi-rankfile",
    title=TITLE,
    read=read,
    write=write,
    matches=_LINE.search,
)
