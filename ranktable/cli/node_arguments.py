"""Nodes and ranks as arguments: names of hosts, rank tables, lines of probe."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import replace
from difflib import get_close_matches
from typing import TYPE_CHECKING, Annotated

from msgspec import structs

from ranktable.cli.output import CommandError, about
from ranktable.cli.parameters import flag
from ranktable.cli.sources import STANDARD_INPUT, read_input
from ranktable.cli.table_input import part_of, sound_spec
from ranktable.cluster.generate import parse_numbers
from ranktable.cluster.host_lists import expand_hosts
from ranktable.layout.change.nodes import (
    find_nodes,
    is_spare,
    node_names,
    spares_of,
    with_chips_of,
)
from ranktable.schema.check import check_bytes
from ranktable.schema.declare import SUPER_POD_KEY
from ranktable.schema.finding import RankTableError, Severity
from ranktable.schema.report import Options
from ranktable.schema.super_pods import PODS, pods_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from ranktable.schema.model import Node, RankTable
    from ranktable.schema.report import Report

NODES_HELP = (
    "a host, or a file: a rank table, a cluster spec or lines of ranktable probe; - is "
    "standard input."
)
_ENDINGS = (".json", ".jsonl", ".yaml", ".yml")

New = Annotated[
    bool,
    flag(
        "Accept hosts that are neither spares nor described by a file; they get "
        "the chips of the replaced node, or of the last node.",
        "--new",
    ),
]


def ranks_in(text: str) -> list[int]:
    """Return the ranks in a text such as ``1,4-5``.

    Raises:
        CommandError: It is not such a list, or names a rank twice.
    """
    with about("--drop-ranks"):
        ranks = parse_numbers(text, noun="a rank", example="1,4-5")
    for rank, times in Counter(ranks).items():
        if times > 1:
            raise CommandError(f"--drop-ranks names {rank} twice")
    return ranks


def places_of(table: RankTable, names: list[str], *, again: bool) -> list[int]:
    """Return the places of nodes; with ``again``, only of those that still exist.

    Raises:
        ArgumentError: A list of hosts is malformed.
        ChangeError: There is no such node, or one is given twice.
    """
    wanted = [host for text in names for host in hosts_in(text)]
    if again:
        there = set(node_names(table.nodes))
        wanted = [name for name in wanted if name in there]
    return find_nodes(table, wanted)


def node_like(table: RankTable, like: Node, host: str, *, is_new: bool) -> Node:
    """Return a host with the chips of another node, if only its name is known.

    Raises:
        CommandError: --new is missing, so the name may be a typing mistake.
        ChangeError: The chips have addresses, which belong to one host only.
    """
    name = like.host or "the last node"
    chips = ",".join(str(device.device_id) for device in like.devices)
    if not is_new:
        spares = [node.host for node in spares_of(table) if node.host is not None]
        near = get_close_matches(host, spares, n=2) or spares[:4]
        meant = f"did you mean {' or '.join(near)}? Or " if near else ""
        raise CommandError(
            f"{host!r} is not a spare of the table, and no file describes it; {meant}"
            f"add --new if it has the chips {chips} of {name}"
        )
    return with_chips_of(like, host, name=name)


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


def one_host(text: str) -> str:
    """Return a name if it is the name of one host.

    Raises:
        ArgumentError: It is not a name, or it is malformed.
        CommandError: It names several hosts, or none.
    """
    hosts = hosts_in(text)
    if len(hosts) > 1:
        raise CommandError(f"{text!r} names {len(hosts)} hosts; give one")
    return hosts[0]


def read_nodes(file: str) -> tuple[Node, ...]:
    """Return the nodes in a rank table, a part of one, a cluster spec, or probe lines.

    Raises:
        CommandError: They are not sound.
    """
    # These take long to load, and most commands get only the names of hosts.
    from ranktable.cluster import merge as merging
    from ranktable.cluster.probes.read_probes import is_probe_text
    from ranktable.cluster.specs.spec import table_from_spec

    if file.endswith((".yaml", ".yml")):
        return table_from_spec(replace(sound_spec(file), spares=frozenset())).nodes
    name, data = read_input(file)
    if is_probe_text(data):
        options = merging.MergeOptions()
        merged = merging.merge_probes([name], [data], [None], options)
        if merged.table is None:
            raise _unsound(name, merged.reports)
        return merged.table.nodes
    report = check_bytes(data, Options(limit=5, is_table_wanted=True), file=name)
    table = part_of(report)
    if table is None:
        raise _unsound(name, [report])
    pods = pods_of(table) if PODS in table.extra else [None] * table.num_nodes
    return with_pods(table.nodes, pods)


def lacking_nodes(
    file: str, there: Collection[str | None], *, again: bool
) -> tuple[Node, ...]:
    """Return the nodes of a file, without those that a table has already.

    A file of a whole cluster holds the nodes of the table too.

    Args:
        file: The file.
        there: The hosts that are already there.
        again: Whether it may hold no other nodes.

    Raises:
        CommandError: All of its nodes are there, or they are not sound.
    """
    nodes = read_nodes(file)
    lacking = tuple([node for node in nodes if node.host not in there])
    if not lacking and not again and len(nodes) > 1:
        raise CommandError(
            f"{file}: all of its {len(nodes)} nodes are in the table or among its "
            "spares"
        )
    return lacking or (() if again else nodes)


def with_pods(nodes: Sequence[Node], pods: Sequence[object]) -> tuple[Node, ...]:
    """Return nodes that name their super pods, if these are known."""
    return tuple(
        node
        if pod is None
        else structs.replace(node, extra={**node.extra, SUPER_POD_KEY: pod})
        for node, pod in zip(nodes, pods, strict=True)
    )


def read_node(file: str, table: RankTable) -> Node:
    """Return the node of a file, or the only one that a table lacks.

    Raises:
        CommandError: There are several such nodes, or the file is not sound.
    """
    nodes = read_nodes(file)
    there = {node.host for node in table.nodes} - {None}
    new = [node for node in nodes if node.host not in there]
    found = nodes if len(nodes) == 1 else new
    if len(found) != 1:
        lacks = f", of which the table lacks {len(new)}" if there else ""
        are_spares = bool(new) and all(is_spare(table, str(node.host)) for node in new)
        way = (
            "name one of the spares"
            if are_spares
            else "add them first: ranktable spares --add"
        )
        raise CommandError(
            f"{file} holds {len(nodes)} nodes{lacks}; give one, as ranktable split "
            f"writes them, or {way}"
        )
    return found[0]


def _unsound(name: str, reports: Iterable[Report]) -> CommandError:
    errors = [
        diagnostic
        for report in reports
        for diagnostic in report.diagnostics
        if diagnostic.severity is Severity.ERROR
    ]
    return CommandError(f"{name} is not sound\n{RankTableError(errors)}", 1)
