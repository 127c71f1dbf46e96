"""Slurm's node lists with the number of tasks of each node: ``n[01-02] 8(x2)``.

The two stand side by side or on two lines, as ``SLURM_JOB_NODELIST`` and
``SLURM_TASKS_PER_NODE`` have them; lines with these variables are read too.

Source: SchedMD/slurm, src/common/hostlist.c and uint32_compressed_to_str in
src/common/slurm_protocol_api.c.
"""

from __future__ import annotations

import re
from itertools import groupby
from typing import TYPE_CHECKING

from ranktable.cluster.argument import ArgumentError
from ranktable.cluster.descriptions.expressing import (
    names_of,
    refuse_interleaved,
    sizes_of,
)
from ranktable.cluster.descriptions.form import Form
from ranktable.cluster.descriptions.roster import Roster
from ranktable.cluster.descriptions.source import Word, is_host, words_of
from ranktable.cluster.host_folding import fold_hosts
from ranktable.cluster.host_list_faults import MAX_HOSTS
from ranktable.cluster.hostfiles import hostfile_rules as rules
from ranktable.cluster.hosts import expand_hosts
from ranktable.schema.messages import counted, quoted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ranktable.cluster.descriptions.description import Description
    from ranktable.cluster.descriptions.form import Settings
    from ranktable.cluster.descriptions.source import Source

TITLE = "a Slurm node list"
_EXAMPLE = "write the nodes, then their tasks: n[01-02] 8(x2)"
_LISTS = ("SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST")
_COUNTS = ("SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE")
_ASSIGNMENT = re.compile(r"([A-Z_]+)=(['\"]?)(.*)\2")
_COUNT = re.compile(r"([0-9]{1,9})(?:\(x([0-9]{1,9})\))?")
_KNOWN = re.compile(
    r"\s*(?:SLURM_(?:STEP_|JOB_)?NODELIST=|[A-Za-z0-9][^\s:=#\[]*\[[0-9]"
    r"|[A-Za-z0-9][^\s:=#]*\s+[0-9]{1,9}\(x)"
)


def read(source: Source) -> Description | None:
    """Return the hosts of a node list, with their tasks where those are given."""
    nodes, counts = _words(source)
    if nodes is None:
        source.refuse_nothing(())
        return None
    names = expanded(source, nodes)
    source.refuse_nothing(names)
    sizes = None if counts is None else _sizes(source, counts, len(names))
    if not source.is_sound:
        return None
    roster = Roster(source)
    for place, name in enumerate(names):
        size = None if sizes is None else sizes[place]
        # A name within brackets stands nowhere, so the list is shown.
        roster.add(
            Word(name, nodes.start, nodes.end), size, "Slurm has every node once"
        )
    return roster.description()


def _words(source: Source) -> tuple[Word | None, Word | None]:
    """Return the node list and the counts as they are written."""
    nodes: Word | None = None
    counts: Word | None = None
    for line in source.lines():
        for word in words_of(line):
            if word.text.startswith("#"):
                break
            name, value = _assigned(word)
            if word.text == "export":
                continue
            if nodes is None and (name is None or name in _LISTS):
                nodes = value
            elif counts is None and (name is None or name in _COUNTS):
                counts = value
            else:
                message = f"{quoted(word.text)} is neither a node list nor its counts"
                source.say(rules.BAD_LINE, word, message, hint=_EXAMPLE)
    return nodes, counts


def _assigned(word: Word) -> tuple[str | None, Word]:
    """Return the variable that a word sets, None if it sets none, and the value."""
    match = _ASSIGNMENT.fullmatch(word.text)
    if match is None:
        return None, word
    return match[1], word.part(match.start(3), match.end(3))


def expanded(source: Source, nodes: Word) -> list[str]:
    """Return the hosts of a list in Slurm's notation; say what is wrong with it."""
    try:
        names = expand_hosts(nodes.text)
    except ArgumentError as error:
        at = error.position or 0
        source.say(
            rules.BAD_HOST, nodes.part(at, at + 1), error.reason, hint=error.hint
        )
        return []
    for name in names:
        if not is_host(name):
            source.host(Word(name, nodes.start, nodes.end))
            return []
    return names


def _sizes(source: Source, counts: Word, num_hosts: int) -> list[int] | None:
    """Return the tasks of every node."""
    sizes: list[int] = []
    for word in counts.parts(","):
        match = _COUNT.fullmatch(word.text)
        if match is None:
            shown = quoted(word.text) if word.text else "nothing"
            message = f"{shown} is not a number of tasks such as 8 or 8(x2)"
            source.say(rules.BAD_COUNT, word, message, hint=_EXAMPLE)
            continue
        repeated = int(match[2] or 1)
        if int(match[1]) == 0 or repeated == 0:
            message = f"{quoted(word.text)} leaves nodes without tasks"
            source.say(rules.NO_SLOTS, word, message, hint=_EXAMPLE)
            continue
        if len(sizes) + repeated > MAX_HOSTS:
            source.too_many(word, "hosts")
            return None
        sizes += [int(match[1])] * repeated
    if source.is_sound and len(sizes) != num_hosts:
        source.say(
            rules.COUNTS_DISAGREE,
            counts,
            f"the counts are for {counted(len(sizes), 'node')}, the list has "
            f"{num_hosts}",
            hint="a count in parentheses repeats the number before it: 8(x2),4",
        )
    return sizes


def write(description: Description, _settings: Settings) -> str:
    """Return the node list of a description and the tasks of its nodes."""
    refuse_interleaved(description, TITLE)
    nodes = fold_hosts(names_of(description, TITLE))
    counts = ",".join(_counts(sizes_of(description)))
    return f"{nodes} {counts}\n"


def _counts(sizes: list[int]) -> Iterator[str]:
    for size, run in groupby(sizes):
        repeated = sum(1 for _ in run)
        yield f"{size}(x{repeated})" if repeated > 1 else str(size)


SLURM_NODELIST = Form(
    name="slurm-nodelist",
    title=TITLE,
    read=read,
    write=write,
    is_known_by=lambda text: _KNOWN.match(text) is not None,
)
