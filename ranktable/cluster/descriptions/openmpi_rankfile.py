"""Rank files of Open MPI and PRRTE: ``rank 0=node01 slot=0``.

A slot is a CPU of the host, by its logical number; a rank table's chip is written
there. Of Open MPI 4.1.4 it was seen that it binds to CPU 0 where a slot is no number.

Source: openpmix/prrte, src/mca/rmaps/rank_file/rmaps_rank_file.c and
docs, detail-placement-rankfiles.rst.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ranktable.cluster.descriptions.description import MAX_SLOTS
from ranktable.cluster.descriptions.expressing import chips_of, names_of, ranks_of
from ranktable.cluster.descriptions.form import Form
from ranktable.cluster.descriptions.openmpi_hosts import (
    host_word,
    identity,
    refuse_names,
)
from ranktable.cluster.descriptions.openmpi_lines import EQUALS, read_lines
from ranktable.cluster.descriptions.placing import Placing
from ranktable.cluster.descriptions.source import Word
from ranktable.cluster.hostfiles import hostfile_rules as rules
from ranktable.schema.messages import quoted

if TYPE_CHECKING:
    from ranktable.cluster.descriptions.description import Description
    from ranktable.cluster.descriptions.form import Settings
    from ranktable.cluster.descriptions.source import Source

TITLE = "an Open MPI rank file"
_EXAMPLE = "write, for example, rank 0=node01 slot=0"
_SHAPE = (("rank",), None, (EQUALS,), None, ("slot", "slots"), (EQUALS,), None)
_RELATIVE = re.compile(r"\+[nN][0-9]{1,7}")
# [package:]cores, and more after a semicolon.
_CORES = r"(?:\*|[0-9]{1,9}(?:-[0-9]{1,9})?(?:,[0-9]{1,9}(?:-[0-9]{1,9})?)*)"
_SLOTS = re.compile(rf"(?:[0-9]{{1,9}}:)?{_CORES}(?:;(?:[0-9]{{1,9}}:)?{_CORES})*")
_COUNTS_DOWN = re.compile(r"([0-9]+)-([0-9]+)")
_LINE = re.compile(r"^[ \t]*rank[ \t]+\S+[ \t]*=", re.MULTILINE)


def read(source: Source) -> Description | None:
    """Return the hosts of a rank file, with the ranks and slots of each."""
    placing = Placing(source)
    for words in read_lines(source):
        _read_line(source, words, placing)
    return placing.description()


def _read_line(source: Source, words: list[Word], placing: Placing) -> None:
    for place, wanted in enumerate(_SHAPE):
        text = words[place].text if place < len(words) else ""
        if not text or (text == EQUALS if wanted is None else text not in wanted):
            _say_shape(source, words, place)
            return
    for word in words[len(_SHAPE) : len(_SHAPE) + 1]:
        source.say(
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
        name = host.text if host.text.startswith("+") else identity(host.text)
        placing.add(name, host, rank, words[1], slot)


def _say_shape(source: Source, words: list[Word], place: int) -> None:
    if place < len(words):
        word = words[place]
        message = f"{quoted(word.text)} is not what a line of a rank file has here"
    else:
        last = words[-1]
        word = Word(last.text, last.start, last.end)
        message = f"the line ends after {quoted(last.text)}"
        if place >= len(_SHAPE) - 3:
            message += "; a rank needs a slot"
    source.say(rules.BAD_LINE, word, message, hint=_EXAMPLE)


def _host(source: Source, word: Word) -> Word | None:
    if word.text.startswith("+"):
        if _RELATIVE.fullmatch(word.text):
            return Word(f"+n{int(word.text[2:])}", word.start, word.end)
        source.say(
            rules.BAD_HOST,
            word,
            f"{quoted(word.text)} is no place of a host",
            hint="+n0 is the first host of the allocation",
        )
        return None
    return host_word(source, word)


def _slot(source: Source, word: Word) -> tuple[int | None, Word]:
    """Return the slot if the list is a single one, and its place."""
    if not _SLOTS.fullmatch(word.text):
        source.say(
            rules.BAD_COUNT,
            word,
            f"{quoted(word.text)} is not a list of slots; Open MPI 4 binds to CPU 0",
            hint="write 3, 0-1,4 or 1:0-2",
        )
        return None, word
    for low, high in _COUNTS_DOWN.findall(word.text):
        if int(high) < int(low):
            source.say(rules.BAD_COUNT, word, f"the range {low}-{high} counts down")
    is_one = word.text.isdigit()
    return int(word.text) if is_one else None, word


def write(description: Description, _settings: Settings) -> str:
    """Return the rank file of a description, a line for each rank in their order."""
    names = names_of(description, TITLE)
    refuse_names(names, TITLE)
    placed = zip(names, ranks_of(description), chips_of(description), strict=True)
    lines = sorted(
        (rank, name, chip)
        for name, ranks, chips in placed
        for rank, chip in zip(ranks, chips, strict=True)
    )
    return "".join(f"rank {rank}={name} slot={chip}\n" for rank, name, chip in lines)


OPENMPI_RANKFILE = Form(
    name="openmpi-rankfile",
    title=TITLE,
    read=read,
    write=write,
    is_known_by=lambda text: _LINE.search(text) is not None,
)
