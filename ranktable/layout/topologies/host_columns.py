"""Hosts and the groups that they are in, one host a line: ``n1 rack1 pod1``.

Two columns are a host and its rack; scripts that sort host lists by rack use this
form. If the first line begins with ``host``, it names the columns, and there may be
more of them, the smallest groups first.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING

from ranktable.cluster.hostfiles import hostfile_rules as rules
from ranktable.cluster.hostfiles.slurm import expand_token
from ranktable.cluster.source_text import words_of
from ranktable.layout.boundaries import Hierarchy, Level
from ranktable.layout.topologies.host_tree import Names
from ranktable.schema.diagnostic import counted, quoted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ranktable.cluster.source_text import SourceText, Token

MAX_LEVELS = 16
_HEADER = "host"
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,30}")
_EXAMPLE = "write a host and its rack, n1 rack1, or name the columns: host rack pod"


def read_columns(source: SourceText) -> Hierarchy | None:
    """Return the levels of a list in columns, None after reporting an error."""
    if source.text.lstrip().startswith("{"):
        message = "the JSON lists no nodes of Kubernetes"
        hint = "give what kubectl get nodes -o json prints"
        source.report(rules.BAD_LINE, None, message, hint=hint)
        return None
    rows = list(_rows(source))
    names = ["rack"]
    if rows and rows[0][0].text == _HEADER:
        names = _names(source, rows.pop(0))
    hosts: dict[str, tuple[Token, list[Token]]] = {}
    names_left = Names(source)
    for words in rows:
        if names_left.is_used_up:
            return None
        if len(words) != len(names) + 1:
            message = (
                f"the line has {counted(len(words), 'word')}, not {len(names) + 1}"
            )
            source.report(rules.BAD_LINE, words[-1], message, hint=_EXAMPLE)
            continue
        for host in names_left.take(expand_token(source, words[0]), words[0]):
            if host in hosts:
                message = f"the host {quoted(host)} is listed twice"
                first = hosts[host][0]
                source.report(rules.HOST_TWICE, words[0], message, first_use=first)
            hosts.setdefault(host, (words[0], words[1:]))
    source.refuse_nothing(hosts)
    _refuse_unnested(source, names, [groups for _, groups in hosts.values()])
    if not source.is_sound:
        return None
    return Hierarchy(
        levels=tuple(
            Level(
                name=name,
                groups={h: groups[at].text for h, (_, groups) in hosts.items()},
            )
            for at, name in enumerate(names)
        )
    )


def _rows(source: SourceText) -> Iterator[list[Token]]:
    """Yield the words of every line that is not empty."""
    for line in source.lines():
        words = words_of(line.part(0, len(line.text.partition("#")[0])))
        if words:
            yield words


def _names(source: SourceText, words: list[Token]) -> list[str]:
    """Return the names of the columns after the first."""
    seen: dict[str, Token] = {}
    for word in words[1:]:
        if not _NAME.fullmatch(word.text) or word.text in ("node", _HEADER):
            message = f"{quoted(word.text)} cannot be the name of a group of nodes"
            source.report(rules.BAD_LINE, word, message)
        elif word.text in seen:
            source.report(
                rules.BAD_LINE,
                word,
                f"the column {quoted(word.text)} occurs twice",
                first_use=seen[word.text],
            )
        seen.setdefault(word.text, word)
    if not 0 < len(words) - 1 <= MAX_LEVELS:
        message = f"a list has 1 to {MAX_LEVELS} columns of groups"
        source.report(rules.BAD_LINE, words[0], message, hint=_EXAMPLE)
    return [word.text for word in words[1:]]


def _refuse_unnested(
    source: SourceText, names: list[str], rows: list[list[Token]]
) -> None:
    """Report a group that lies in two groups of the next column."""
    for at, (inner, outer) in enumerate(pairwise(names)):
        around: dict[str, Token] = {}
        for groups in rows:
            first = around.setdefault(groups[at].text, groups[at + 1])
            if first.text != groups[at + 1].text:
                source.report(
                    rules.COUNTS_DISAGREE,
                    groups[at + 1],
                    f"the {inner} {quoted(groups[at].text)} lies in the {outer} "
                    f"{quoted(groups[at + 1].text)} and in {quoted(first.text)}",
                    hint="list the smallest groups first",
                    first_use=first,
                )
