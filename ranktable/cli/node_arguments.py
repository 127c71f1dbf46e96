"""Nodes and chips as arguments: names of hosts, host files, tables, lines of probe."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from ranktable.cli.kinds import CONFIG_MAP, kinds_like
from ranktable.cli.output import CommandError, about
from ranktable.cli.sources import STANDARD_INPUT, OtherKindError, read_input
from ranktable.cli.table_input import part_of, spec_in
from ranktable.cluster.generate import parse_numbers
from ranktable.cluster.host_lists import expand_hosts
from ranktable.schema.check import TABLE, check_bytes
from ranktable.schema.file_kind import DESCRIPTIONS
from ranktable.schema.finding import RankTableError, Severity
from ranktable.schema.report import Options
from ranktable.schema.values import is_address

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ranktable.schema.model import Node
    from ranktable.schema.report import Report

NODES_HELP = (
    "hosts, or a file: a rank table, a cluster spec or lines of ranktable probe; - is "
    "standard input."
)
_SLOTS = re.compile(r"(?<=[^:]):[0-9]+$")
"""The number of processes after a host in a host file of MPICH: ``n1:8``."""

_ENDINGS = (".json", ".jsonl", ".yaml", ".yml")


def chips_in(texts: Sequence[str]) -> dict[str, list[int]]:
    """Return the chips of texts such as ``n3:2,5``.

    Raises:
        CommandError: A text has another form.
    """
    found: dict[str, list[int]] = {}
    for text in texts:
        host, colon, chips = text.rpartition(":")
        if not colon or not host:
            raise CommandError(
                f"--lost-chips: {text!r} is not a node and chips: n3:2,5"
            )
        with about("--lost-chips"):
            numbers = parse_numbers(chips, noun="a chip", example="2,5")
        for one in hosts_in(host):
            found.setdefault(one, []).extend(numbers)
    return found


def is_file(text: str) -> bool:
    """Whether an argument is the name of a file, even of a missing one."""
    return text == STANDARD_INPUT or os.sep in text or text.endswith(_ENDINGS)


def hosts_in(text: str) -> list[str]:
    """Return the hosts of a list such as ``n[01-04],n7``.

    Raises:
        ArgumentError: It is malformed.
        CommandError: There are no hosts.
    """
    hosts = expand_hosts(text)
    if not hosts:
        raise CommandError(f"{text!r} does not name a node")
    return hosts


def hosts_of_file(file: str) -> list[str]:
    """Return the hosts of a file: those that begin its lines; slots are not read.

    Raises:
        ArgumentError: A list is malformed.
        CommandError: There are no hosts.
    """
    name, data = read_input(file)
    lines = data.decode("utf-8-sig", "replace").splitlines()
    rows = [line.partition("#")[0].split() for line in lines]
    first = [row[0] for row in rows if row]
    words = [one if is_address(one) else _SLOTS.sub("", one) for one in first]
    if not words:
        raise CommandError(f"{name} names no hosts")
    with about(name):
        return list(dict.fromkeys(host for one in words for host in hosts_in(one)))


def named_or_read(texts: Sequence[str]) -> list[str | Node]:
    """Return hosts by name, and the nodes of files."""
    found: list[str | Node] = []
    for text in texts:
        found += read_nodes(text) if is_file(text) else hosts_in(text)
    return found


def read_nodes(file: str) -> tuple[Node, ...]:
    """Return the nodes in a rank table, a part of one, a cluster spec, or probe lines.

    Raises:
        CommandError: They are not sound.
        OtherKindError: The file is clearly of another kind.
    """
    # These take long to load, and most commands get only the names of hosts.
    from ranktable.cluster import merge as merging
    from ranktable.cluster.specs.read_spec import SPEC
    from ranktable.cluster.specs.spec import table_from_spec

    source = read_input(file)
    name, data = source
    default = SPEC if file.endswith(DESCRIPTIONS[:2]) else TABLE
    kind = next(kinds_like(source), default)
    if kind is SPEC:
        return table_from_spec(replace(spec_in(source), spares=frozenset())).nodes
    if kind is merging.PROBES:
        options = merging.MergeOptions()
        merged = merging.merge_probes([name], [data], [None], options)
        if merged.table is None:
            raise _unsound(name, merged.reports)
        return merged.table.nodes
    if kind not in (TABLE, CONFIG_MAP):
        raise OtherKindError(kind, source)
    report = check_bytes(data, Options(limit=5, is_table_wanted=True), file=name)
    table = part_of(report)
    if table is None:
        raise _unsound(name, [report])
    return table.nodes


def _unsound(name: str, reports: Iterable[Report]) -> CommandError:
    errors = [
        diagnostic
        for report in reports
        for diagnostic in report.diagnostics
        if diagnostic.severity is Severity.ERROR
    ]
    return CommandError(f"{name} is not sound\n{RankTableError(errors)}", 1)
