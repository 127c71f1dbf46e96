"""A node that is to become part of a table, and where it was read."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ranktable.cluster.sources import Place
from ranktable.schema.document import SourceSpan

if TYPE_CHECKING:
    from collections.abc import Callable

    from ranktable.schema.document import Path
    from ranktable.schema.model import Node

_NUMBER = re.compile(r"([0-9]+)")

HostKey = tuple[tuple[str | int, ...], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One node of one file.

    Attributes:
        node: The node; the ranks of a probe's are all 0.
        source: Index of its file.
        file: Name of its file.
        path: Path of the node in the document of its file, None for a probe's.
        line: Gives the spot of a probe's host, None for a node of a table.
        identifiers: UUIDs and serial numbers of its chips.
        vendor: Who makes its chips, None when that is not known.
        model: What its chips are, None when that is not known or they differ.
    """

    node: Node
    source: int
    file: str
    path: Path | None = None
    line: Callable[[], SourceSpan] | None = field(
        default=None, repr=False, compare=False
    )
    identifiers: frozenset[str] = frozenset()
    vendor: str | None = None
    model: str | None = None

    @property
    def host(self) -> str | None:
        """Its host, None if none is known."""
        return self.node.host

    def whereabouts(self, other: Member) -> str:
        """Return where this node is, for a message about another one."""
        return "an earlier node" if self.source == other.source else self.file

    def at(self, *steps: str | int, label: str | None = None) -> Place:
        """Return the place of something below the node, or of a probe's host."""
        if self.path is not None:
            return Place(self.source, SourceSpan((*self.path, *steps), label=label))
        assert self.line is not None  # noqa: S101 - a probe's
        return Place(self.source, replace(self.line(), label=label))


def host_key(host: str) -> HostKey:
    """Return the key under which hosts are in the order of their numbers.

    >>> sorted(["n10", "n9", "n1", "login"], key=host_key)
    ['login', 'n1', 'n9', 'n10']
    """
    pieces = _NUMBER.split(host)
    # Texts and numbers alternate, so that two keys compare alike with alike.
    return tuple(int(p) if i % 2 else p for i, p in enumerate(pieces)), host


def short(host: str) -> str:
    """Return a host without its domain; an address has none.

    >>> short("n1.site"), short("10.0.0.1")
    ('n1', '10.0.0.1')
    """
    name = host.partition(".")[0]
    return host if not name or name.isdigit() else name
