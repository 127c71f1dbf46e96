"""Slurm's node lists with the tasks of each node: ``n[01-02] 8(x2)``.

Both are next to each other or on two lines, as in ``SLURM_JOB_NODELIST`` and
``SLURM_TASKS_PER_NODE``; lines with these variables are read too.

Sources: SchedMD/slurm, src/common/hostlist.c, and uint32_compressed_to_str in
src/common/slurm_protocol_api.c.
"""

from __future__ import annotations

import re
from collections import Counter
from itertools import groupby, repeat
from typing import TYPE_CHECKING

from ranktable.cluster.argument import ArgumentError
from ranktable.cluster.host_lists import MAX_HOSTS, expand_hosts, fold_hosts
from ranktable.cluster.hostfiles import hostfile_rules as rules
from ranktable.cluster.hostfiles.hostfile import (
    Host,
    Hostfile,
    LauncherFormat,
    names_of,
    refuse_interleaved,
    sizes_of,
)
from ranktable.cluster.source_text import MAX_SLOTS, Token, is_host, words_of
from ranktable.schema.text import counted, quoted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ranktable.cluster.hostfiles.hostfile import WriterOptions
    from ranktable.cluster.source_text import SourceText

NODELIST_TITLE = "a Slurm node list"
_NODELIST_EXAMPLE = "write the nodes, then their tasks: n[01-02] 8(x2)"
_LISTS = ("SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST")
_COUNTS = ("SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE")
_ASSIGNMENT = re.compile(r"([A-Z_]+)=(['\"]?)(.*)\2")
_COUNT = re.compile(r"([0-9]{1,9})(?:\(x([0-9]{1,9})\))?")
_NODELIST_KNOWN = re.compile(
    r"\s*(?:SLURM_(?:STEP_|JOB_)?NODELIST=|[A-Za-z0-9][^\s:=#\[]*\[[0-9]"
    r"|[A-Za-z0-9][^\s:=#]*\s+[0-9]{1,9}\(x)"
)


def read_nodelist(source: SourceText) -> Hostfile | None:
    """Return the hosts of a node list, with their tasks if these are given."""
    nodes, counts = _words(source)
    if nodes is None:
        source.refuse_nothing(())
        return None
    names = expand_token(source, nodes)
    source.refuse_nothing(names)
    sizes = None if counts is None else _sizes(source, counts, len(names))
    if sum(sizes or ()) > MAX_SLOTS:
        source.too_many(nodes, "processes")
    # A name inside brackets has no place of its own, so the list is shown.
    for name, times in Counter(names).items():
        if times > 1:
            message = f"{quoted(name)} is described twice; Slurm has every node once"
            source.report(rules.HOST_TWICE, nodes, message)
    if not source.is_sound:
        return None
    pairs = zip(names, sizes or repeat(None), strict=False)
    return Hostfile(hosts=tuple(Host(name=name, slots=size) for name, size in pairs))


def _words(source: SourceText) -> tuple[Token | None, Token | None]:
    """Return the node list and the counts as they are written."""
    nodes: Token | None = None
    counts: Token | None = None
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
                source.report(rules.BAD_LINE, word, message, hint=_NODELIST_EXAMPLE)
    return nodes, counts


def _assigned(word: Token) -> tuple[str | None, Token]:
    """Return the variable that a word assigns, None if none, and its value."""
    match = _ASSIGNMENT.fullmatch(word.text)
    if match is None:
        return None, word
    return match[1], word.part(match.start(3), match.end(3))


def expand_token(source: SourceText, nodes: Token) -> list[str]:
    """Return the hosts of a list in Slurm's notation; report errors."""
    try:
        names = expand_hosts(nodes.text)
    except ArgumentError as error:
        at = error.position or 0
        source.report(
            rules.BAD_HOST, nodes.part(at, at + 1), error.reason, hint=error.hint
        )
        return []
    for name in names:
        if not is_host(name):
            source.host(Token(name, nodes.start, nodes.end))
            return []
    return names


def _sizes(source: SourceText, counts: Token, num_hosts: int) -> list[int] | None:
    """Return the tasks of every node."""
    sizes: list[int] = []
    for word in counts.parts(","):
        match = _COUNT.fullmatch(word.text)
        if match is None:
            shown = quoted(word.text) if word.text else "nothing"
            message = f"{shown} is not a number of tasks such as 8 or 8(x2)"
            source.report(rules.BAD_COUNT, word, message, hint=_NODELIST_EXAMPLE)
            continue
        repeated = int(match[2] or 1)
        if int(match[1]) == 0 or repeated == 0:
            message = f"{quoted(word.text)} leaves nodes without tasks"
            source.report(rules.NO_SLOTS, word, message, hint=_NODELIST_EXAMPLE)
            continue
        if len(sizes) + repeated > MAX_HOSTS:
            source.too_many(word, "hosts")
            return None
        sizes += [int(match[1])] * repeated
    if source.is_sound and len(sizes) != num_hosts:
        source.report(
            rules.COUNTS_DISAGREE,
            counts,
            f"the counts are for {counted(len(sizes), 'node')}, the list has "
            f"{num_hosts}",
            hint="a count in parentheses repeats the number before it: 8(x2),4",
        )
    return sizes


def write_nodelist(hostfile: Hostfile, _options: WriterOptions) -> str:
    """Return the text of a node list with the tasks of its nodes."""
    refuse_interleaved(hostfile, NODELIST_TITLE)
    nodes = fold_hosts(names_of(hostfile, NODELIST_TITLE))
    counts = ",".join(_counts(sizes_of(hostfile)))
    return f"{nodes} {counts}\n"


def _counts(sizes: list[int]) -> Iterator[str]:
    for size, run in groupby(sizes):
        repeated = sum(1 for _ in run)
        yield f"{size}(x{repeated})" if repeated > 1 else str(size)


SLURM_NODELIST = LauncherFormat(
    name="slurm-nodelist",
    title=NODELIST_TITLE,
    read=read_nodelist,
    write=write_nodelist,
    matches=_NODELIST_KNOWN.match,
)
