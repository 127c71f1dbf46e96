"""Read a cluster spec: from its bytes to a value, or to findings."""

from __future__ import annotations

import os
import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ranktable.cluster.argument import ArgumentError
from ranktable.cluster.generate import ring_order
from ranktable.cluster.host_lists import expand_hosts, fold_hosts
from ranktable.cluster.hostfiles.hostfile_rules import BAD_HOST
from ranktable.cluster.schema_errors import called
from ranktable.cluster.source_text import MAX_SLOTS, SourceText, is_host, parse_source
from ranktable.cluster.specs import spec_rules as rules
from ranktable.cluster.specs.spec import NAME, ClusterSpec, parse_pattern
from ranktable.cluster.specs.spec_shape import read_shape
from ranktable.schema.file_kind import DESCRIPTIONS, FileKind
from ranktable.schema.files import lies_in
from ranktable.schema.finding import RankTableError
from ranktable.schema.rules.syntax import TOO_MANY
from ranktable.schema.text import printable, quoted
from ranktable.schema.topology import BUILT_IN
from ranktable.schema.topology_file import find_topology
from ranktable.schema.values import is_address

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ranktable.cluster.specs.spec import AddressPattern
    from ranktable.cluster.specs.spec_shape import SpecDocument
    from ranktable.schema.document import Path
    from ranktable.schema.file_kind import Source
    from ranktable.schema.report import Options, Report
    from ranktable.schema.topology import Topology

MAX_SIZE_BYTES = 4 * 1024 * 1024
"""Most specs have one page; one that lists 100,000 irregular hosts has 1 MB."""

DEFAULT_LIMIT = 20
"""Most findings of each code that are located and shown."""

_MAX_SHOWN = 60

Chips = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SpecReading:
    """The result of reading.

    Attributes:
        report: The findings.
        spec: The spec, None if there is an error.
    """

    report: Report
    spec: ClusterSpec | None


_KEYS = tuple(
    re.compile(rb"(?m:^|[{,][ \t]*(?=\"))\"?" + key + rb"\"?[ \t]*:")
    for key in (b"nodes", b"chips")
)


def looks_like_spec(start: bytes) -> bool:
    """Whether the beginning of a file is that of a cluster spec."""
    is_script = start.startswith(b"#!")  # it may contain a spec: templates/jobs
    return not is_script and all(key.search(start) for key in _KEYS)


def _judge(source: Source, options: Options) -> list[Report]:
    return [read_spec(source.data, file=source.name, limit=options.limit).report]


SPEC = FileKind(
    name=NAME,
    title="a cluster spec",
    detect=lambda start, _: looks_like_spec(start),
    judge=_judge,
    names=("cluster.yaml", "cluster.yml", "cluster-spec.yaml", "cluster-spec.yml"),
    endings=DESCRIPTIONS,
    advice="ranktable gen --spec {file} -o TABLE makes its table",
)


def read_spec(
    data: bytes | str, *, file: str = "<string>", limit: int | None = DEFAULT_LIMIT
) -> SpecReading:
    """Read a cluster spec.

    Args:
        data: The file.
        file: Its path; a ring given as a file is searched in the same folder.
        limit: Most findings of each code to locate; the report counts all.
    """

    def read(source: SourceText) -> ClusterSpec | None:
        document = read_shape(source)
        return None if document is None else _SpecReader(document, file).spec()

    report, spec, _ = parse_source(
        data, read, file=file, name=NAME, limit=limit, max_size_bytes=MAX_SIZE_BYTES
    )
    return SpecReading(report, spec)


@dataclass(frozen=True, slots=True)
class _SpecNodes:
    """The nodes of a spec.

    Attributes:
        count: Number of nodes.
        index: Index of each host, None if only the count is known.
    """

    count: int
    index: dict[str, int] | None

    def called(self, node: int) -> str:
        """Return the name of a node for messages."""
        return f"node {node}" if self.index is None else list(self.index)[node]


class _SpecReader:
    """Reads the values of a spec whose shape is sound.

    Every key is judged, even if others are wrong.
    """

    def __init__(self, document: SpecDocument, file: str) -> None:
        self.document = document
        self.values = document.values
        self.report = document.report
        self.file = file
        self.nodes = self._nodes()

    def spec(self) -> ClusterSpec | None:
        chips = self._chips()
        ring = self._ring()
        pattern = self._pattern()
        racks = self._racks()
        spares = self._spares()
        if self.values.get("order", "as-listed") != "as-listed":
            self._check_order()
        if self.nodes is None or chips is None:
            return None
        own = self._in_ring(*chips, ring[1] if ring else None)
        if own is None:
            return None
        return ClusterSpec(
            hosts=None if self.nodes.index is None else list(self.nodes.index),
            chips=own,
            addresses=self._addresses(pattern, self.nodes, own) if pattern else None,
            racks=racks,
            spares=spares,
            order=self.values.get("order", "as-listed"),
            ring=ring[0] if ring else None,
        )

    def _nodes(self) -> _SpecNodes | None:
        value = self.values.get("nodes")
        if not isinstance(value, str):
            return None if value is None else _SpecNodes(value, None)
        hosts = self._hosts(("nodes",), value)
        if hosts is None:
            return None
        return _SpecNodes(len(hosts), {host: index for index, host in enumerate(hosts)})

    def _chips(self) -> tuple[list[tuple[Path, Chips]], list[int]] | None:
        """Return the sets of chips with their paths, and for every node its set."""
        value = self.values.get("chips")
        if value is None:
            return None
        if isinstance(value, dict):
            sets = [self._set(("chips", key), chips) for key, chips in value.items()]
            paths = [(("chips", key), key) for key in value]
            set_of = self._groups("chips", paths, of_key=True)
        else:
            sets = [self._set(("chips",), value)]
            set_of = None if self.nodes is None else [0] * self.nodes.count
        known = [one for one in sets if one is not None]
        if set_of is None or len(known) < len(sets):
            return None
        if sum(len(known[index][1]) for index in set_of) > MAX_SLOTS:
            message = f"these are more than {MAX_SLOTS} chips in all"
            self.report(TOO_MANY, ("chips",), message)
            return None
        return known, set_of

    def _set(self, path: Path, value: int | list[int]) -> tuple[Path, Chips] | None:
        if (path, False) in self.document.wrong:
            return None
        if isinstance(value, int):
            return path, tuple(range(value))
        seen: set[int] = set()
        for index, chip in enumerate(value):
            if ((*path, index), False) in self.document.wrong:
                continue
            if chip in seen:
                message = f"chip {quoted(chip)} is listed twice in {called(path, 'it')}"
                self.report(rules.CHIP_TWICE, (*path, index), message)
            seen.add(chip)
        return (path, tuple(value)) if len(seen) == len(value) else None

    def _ring(self) -> tuple[str, Topology] | None:
        """Return the name of the topology and the topology, None if there is none."""
        name = self.values.get("ring")
        if name is None:
            return None
        if all(topology.name != name for topology in BUILT_IN):
            folder = os.path.dirname(self.file)
            if not lies_in(os.path.join(folder, name), folder):
                message = (
                    f"the file {quoted(name)} is outside of the folder of the spec"
                )
                hint = "put the file of links beside the spec"
                self.report(rules.NO_RING, ("ring",), message, hint=hint)
                return None
            name = os.path.join(folder, name)
        try:
            return name, find_topology(name)
        except RankTableError as error:
            first = error.diagnostics[0]
            self.report(rules.NO_RING, ("ring",), first.message, hint=first.hint)
            return None

    def _in_ring(
        self,
        sets: Sequence[tuple[Path, Chips]],
        set_of: list[int],
        topology: Topology | None,
    ) -> list[Chips] | None:
        """Return the chips of every node in ring order, None if a node has no ring."""
        ordered: list[Chips] = []
        for path, chips in sets:
            try:
                order = ring_order(chips, topology) if topology else chips
            except ArgumentError as error:
                self.report(rules.NO_RING, path, error.reason, hint=error.hint)
                continue
            ordered.append(tuple(order))
        if len(ordered) < len(sets):
            return None
        return [ordered[index] for index in set_of]

    def _pattern(self) -> AddressPattern | None:
        """Return the pattern of the addresses, None if there is none."""
        text = self.values.get("addresses")
        if text is None:
            return None
        try:
            pattern = parse_pattern(text)
        except ArgumentError as error:
            path = ("addresses",)
            self.report(rules.BAD_PATTERN, path, error.reason, hint=error.hint)
            return None
        if pattern.has_host and self.nodes is not None and self.nodes.index is None:
            message = "addresses has {host}, and nodes is a count"
            self.report(rules.NO_NAMES, ("addresses",), message, hint="write {node}")
            return None
        return pattern

    def _addresses(
        self, pattern: AddressPattern, nodes: _SpecNodes, chips: Sequence[Chips]
    ) -> list[list[str]] | None:
        """Return the address of every chip, None after reporting a wrong one."""
        hosts = [None] * nodes.count if nodes.index is None else list(nodes.index)
        node_of: dict[str, int] = {}
        found = []
        for node, (host, own) in enumerate(zip(hosts, chips, strict=True)):
            found.append(pattern.addresses(node, host, own))
            for chip, address in zip(own, found[-1], strict=True):
                other = node_of.setdefault(address, node)
                if other != node:
                    both = f"{nodes.called(other)} and {nodes.called(node)}"
                    message = f"{both} both get {quoted(address)}"
                    self.report(rules.ADDRESS_TWICE, ("addresses",), message)
                    return None
                if not is_address(address):
                    message = (
                        f"chip {chip} of {nodes.called(node)} gets {quoted(address)}, "
                        "which is not an address"
                    )
                    self.report(rules.BAD_ADDRESS, ("addresses",), message)
                    return None
        return found

    def _racks(self) -> list[int] | None:
        """Return the index of the rack of every node, None if there are no racks."""
        value = self.values.get("racks")
        if isinstance(value, dict):
            paths = [(("racks", name), hosts) for name, hosts in value.items()]
            return self._groups("racks", paths)
        if value is None or self.nodes is None:
            return None
        return [index // value for index in range(self.nodes.count)]

    def _spares(self) -> frozenset[int]:
        """Return the indices of the spares."""
        if "spares" not in self.values:
            return frozenset()
        spares = frozenset(self._indices(("spares",), self.values["spares"]) or ())
        if self.nodes is not None and len(spares) == self.nodes.count:
            message = "every host is a spare, so the table would have no node"
            self.report(rules.NOTHING_LEFT, ("spares",), message)
        return spares

    def _check_order(self) -> None:
        if not self.document.document.has("racks"):
            order = self.values["order"]
            message = f"the order {order} needs racks, but the spec has none"
            self.report(rules.NO_RACKS, ("order",), message)

    def _groups(
        self, key: str, lists: Sequence[tuple[Path, Any]], *, of_key: bool = False
    ) -> list[int] | None:
        """Return the index of the group of every node.

        Args:
            key: The key of these groups.
            lists: The host list of every group, with its path.
            of_key: Whether the lists are the keys at these paths.

        Returns:
            The indices; None after reporting an error, or without nodes.
        """
        found = [self._indices(path, value, of_key=of_key) for path, value in lists]
        if self.nodes is None or self.nodes.index is None or None in found:
            return None
        hosts = list(self.nodes.index)
        group_of = [-1] * self.nodes.count
        is_sound = True
        for group, ((path, _), members) in enumerate(zip(lists, found, strict=True)):
            twice = [hosts[node] for node in members or () if group_of[node] >= 0]
            if twice:
                is_sound = False
                message = f"{_named(twice)} in two groups of {key}"
                self.report(rules.HOST_TWICE, path, message, of_key=of_key)
            for node in members or ():
                group_of[node] = group
        left_out = [host for node, host in enumerate(hosts) if group_of[node] < 0]
        if left_out:
            message = f"{_named(left_out)} in nodes, but not in a group of {key}"
            self.report(rules.HOST_LEFT_OUT, (key,), message, of_key=True)
        return group_of if is_sound and not left_out else None

    def _indices(
        self, path: Path, value: str, *, of_key: bool = False
    ) -> list[int] | None:
        """Return the indices in ``nodes`` of the hosts of a list."""
        if (path, of_key) in self.document.wrong:
            return None
        hosts = self._hosts(path, value, of_key=of_key)
        if hosts is None or self.nodes is None:
            return None
        index = self.nodes.index
        if index is None:
            message = f"{called(path, 'it')} names hosts, but nodes is a count"
            hint = "list the hosts in nodes"
            self.report(rules.NO_NAMES, path, message, hint=hint, of_key=of_key)
            return None
        unknown = [host for host in hosts if host not in index]
        if unknown:
            message = f"{_named(unknown)} in {called(path, 'it')}, but not in nodes"
            self.report(rules.HOST_UNKNOWN, path, message, of_key=of_key)
            return None
        return [index[host] for host in hosts]

    def _hosts(
        self, path: Path, value: str, *, of_key: bool = False
    ) -> list[str] | None:
        """Return the hosts of a list, None after reporting errors."""
        name, hint, rule = called(path), None, rules.BAD_HOSTS
        try:
            hosts = expand_hosts(value)
        except ArgumentError as error:
            hint = error.hint
            message = (
                f"{name}: {error.reason}, at character {(error.position or 0) + 1}"
            )
        else:
            odd = next((host for host in hosts if not is_host(host)), None)
            twice = [host for host, count in Counter(hosts).items() if count > 1]
            if not hosts:
                message = f"{name} names no host"
            elif odd is not None:
                rule, message = BAD_HOST, f"{quoted(odd)} is not the name of a host"
            elif twice:
                rule, message = (
                    rules.HOST_TWICE,
                    f"{_named(twice)} listed twice in {name}",
                )
            else:
                return hosts
        self.report(rule, path, message, hint=hint, of_key=of_key)
        return None


def _named(hosts: Iterable[str]) -> str:
    """Return a list of hosts as the subject of a sentence: ``n[1-2] are``."""
    every = list(hosts)
    text = fold_hosts(every)
    shown = text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}..."
    return f"{printable(shown)} {'is' if len(every) == 1 else 'are'}"
