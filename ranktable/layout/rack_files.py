"""Racks and pods of hosts: lists in columns, Slurm's topologies, labels of nodes.

A list has one host a line and the groups that it is in: ``n1 rack1 pod1``. Two columns
are a host and its rack; scripts that sort host lists by rack use this form. If the
first line begins with ``host`` or ``name``, it names the columns, and there may be more
of them, the smallest groups first. ``kubectl get nodes -o custom-columns=...`` prints
such a list.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING

from ranktable.cluster.hostfiles.hostfile_rules import NO_HOSTS
from ranktable.cluster.source_text import parse_source, words_of
from ranktable.layout.boundaries import Hierarchy, Level
from ranktable.layout.node_labels import is_node_list, read_nodes
from ranktable.layout.rack_rules import (
    BAD_RACKS_LINE,
    MAX_LEVELS,
    RACKS_DISAGREE,
    known_hosts,
)
from ranktable.layout.slurm_topology import is_slurm_topology, reader_of
from ranktable.schema.file_kind import DESCRIPTIONS, FileKind, not_judged
from ranktable.schema.text import counted, quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from ranktable.cluster.source_text import SourceText, Token
    from ranktable.schema.file_kind import Source
    from ranktable.schema.report import Options, Report

MAX_SIZE_BYTES = 8 * 1024 * 1024
"""A line for each of 100,000 hosts is 3 MB."""

DEFAULT_LIMIT = 20
"""Most findings of each code that are located and shown."""

_HEADERS = ("host", "name")
"""How a line with the names of the columns begins; kubectl's are often in capitals."""

_NO_LABEL = "<none>"
"""What kubectl prints for a node that does not have a label."""

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,30}")
_COLUMNS = "write a host and its rack, n1 rack1, or name the columns: host rack pod"


def is_known_by_content(data: bytes) -> bool:
    """Whether a file says itself that it is a topology, or nodes with labels."""
    text = data[:MAX_SIZE_BYTES].decode("utf-8", "replace")
    return is_slurm_topology(text) or is_node_list(text)


def read_rack_file(
    data: bytes, *, file: str, limit: int | None = DEFAULT_LIMIT
) -> tuple[Report, Hierarchy | None]:
    """Return the findings in a file of racks, and its levels if there is no error."""
    text = data[:MAX_SIZE_BYTES].decode("utf-8", "replace")
    name = "host-columns"
    read: Callable[[SourceText], Hierarchy | None] = _read_columns
    if is_slurm_topology(text):
        name, read = reader_of(text)
    elif is_node_list(text):
        name, read = "kubernetes-nodes", read_nodes
    report, hierarchy, _ = parse_source(
        data, read, file=file, name=name, limit=limit, max_size_bytes=MAX_SIZE_BYTES
    )
    if hierarchy is None and report.ok:
        reason = "what Include names is not read, and there is nothing else"
        report = not_judged(file, reason, "name the files that it includes")
    return report, hierarchy


def _judge(source: Source, options: Options) -> list[Report]:
    return [read_rack_file(source.data, file=source.name, limit=options.limit)[0]]


def _judge_nodes(source: Source, options: Options) -> list[Report]:
    """Judge nodes with labels; what only names a node, as an event does, is not one."""
    reports = _judge(source, options)
    return [] if [*reports[0].totals] == [NO_HOSTS.code] else reports


NODES = FileKind(
    name="kubernetes-nodes",
    title="nodes of Kubernetes with the labels of a topology",
    detect=lambda start, _: is_node_list(start.decode("utf-8", "replace")),
    judge=_judge_nodes,
    endings=DESCRIPTIONS,
    is_part=True,
    advice="name the table of the job; --racks {file} adds the racks",
)

SWITCHES = FileKind(
    name="slurm-topology-conf",
    title="a topology of Slurm",
    detect=lambda start, _: is_slurm_topology(start.decode("utf-8", "replace")),
    judge=_judge,
    names=("topology.conf", "topology.yaml"),
    endings=(".conf", ".yaml", ".yml"),
    advice="name the table of the job; --racks {file} adds the racks",
)


# Columns


def _lines(source: SourceText) -> Iterator[list[Token]]:
    """Yield the words of every line that is not empty, without comments."""
    for line in source.lines():
        words = words_of(line.part(0, len(line.text.partition("#")[0])))
        if words:
            yield words


def _read_columns(source: SourceText) -> Hierarchy | None:
    """Return the levels of a list in columns, None after reporting an error."""
    rows = list(_lines(source))
    names = ["rack"]
    if rows and rows[0][0].text.lower() in _HEADERS:
        names = _column_names(source, rows.pop(0))
    hosts: dict[str, list[Token]] = {}
    for words in rows:
        if len(words) != len(names) + 1:
            message = f"the line has {counted(len(words), 'word')}, not"
            message = f"{message} {len(names) + 1}"
            source.report(BAD_RACKS_LINE, words[-1], message, hint=_COLUMNS)
            continue
        if any(word.text == _NO_LABEL for word in words):
            continue  # the racks of this node are not known
        for host in known_hosts(source, words[0], len(hosts)):
            if host in hosts:
                message = f"the host {quoted(host)} is listed twice"
                first = hosts[host][0]
                source.report(RACKS_DISAGREE, words[0], message, first_use=first)
            hosts.setdefault(host, words)
    source.refuse_nothing(hosts)
    _refuse_unnested(source, names, hosts.values())
    if not source.is_sound:
        return None
    return Hierarchy(
        levels=tuple(
            Level(name=name, groups={h: words[at].text for h, words in hosts.items()})
            for at, name in enumerate(names, 1)
        )
    )


def _column_names(source: SourceText, words: list[Token]) -> list[str]:
    """Return the names of the columns after the first."""
    seen: dict[str, Token] = {}
    for word in words[1:]:
        name = word.text.lower()
        if not _NAME.fullmatch(name) or name in ("node", *_HEADERS):
            message = f"{quoted(word.text)} cannot be the name of a group of nodes"
            source.report(BAD_RACKS_LINE, word, message)
        elif name in seen:
            message = f"the column {quoted(word.text)} occurs twice"
            source.report(BAD_RACKS_LINE, word, message, first_use=seen[name])
        seen.setdefault(name, word)
    if not 0 < len(words) - 1 <= MAX_LEVELS:
        message = f"a list has 1 to {MAX_LEVELS} columns of groups"
        source.report(BAD_RACKS_LINE, words[0], message, hint=_COLUMNS)
    return [word.text.lower() for word in words[1:]]


def _refuse_unnested(
    source: SourceText, names: list[str], rows: Iterable[list[Token]]
) -> None:
    """Report a group that lies in two groups of the next column."""
    for at, (inner, outer) in enumerate(pairwise(names), 1):
        around: dict[str, Token] = {}
        for words in rows:
            here = words[at + 1]
            first = around.setdefault(words[at].text, here)
            if first.text != here.text:
                source.report(
                    RACKS_DISAGREE,
                    here,
                    f"the {inner} {quoted(words[at].text)} lies in the {outer} "
                    f"{quoted(here.text)} and in {quoted(first.text)}",
                    hint="list the smallest groups first",
                    first_use=first,
                )
