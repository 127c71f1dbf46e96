"""Named groups of hosts and groups of these, as they are read: names used once."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ranktable.cluster.host_lists import MAX_HOSTS
from ranktable.cluster.hostfiles import hostfile_rules as rules
from ranktable.layout.boundaries import Hierarchy, Level
from ranktable.schema.diagnostic import quoted
from ranktable.schema.rules.syntax import TOO_MANY

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ranktable.cluster.source_text import SourceText, Token
    from ranktable.schema.document import SourceSpan

    Place = Token | SourceSpan

MAX_HEIGHT = 32
"""Levels of switches; the largest networks have four."""


@dataclass(slots=True)
class Names:
    """How many names a text may have in its lists, which can be short and mean many.

    Attributes:
        source: The text.
        left: Names that are left.
    """

    source: SourceText
    left: int = MAX_HOSTS

    def take(self, names: list[str], place: Place) -> list[str]:
        """Return names; after saying so, none where there are too many."""
        if self.left < 0:
            return []
        self.left -= len(names)
        if self.left >= 0:
            return names
        message = f"this is more than {MAX_HOSTS} hosts"
        self.source.report(TOO_MANY, place, message)
        return []

    @property
    def is_used_up(self) -> bool:
        """Whether all names have been found."""
        return self.left < 0


@dataclass(slots=True)
class HostTree:
    """Groups as they are found in a text, with the places of their names.

    Attributes:
        source: The text.
        kind: What a group is called: ``switch``.
        groups: Where the name of every group stands first.
        hosts: Group of every host.
        parents: Group around a group, and where that is said.
    """

    source: SourceText
    kind: str
    groups: dict[str, Place] = field(default_factory=dict)
    hosts: dict[str, str] = field(default_factory=dict)
    parents: dict[str, tuple[str, Place]] = field(default_factory=dict)

    def add_group(self, name: str, place: Place) -> None:
        """Add a group, unless there is one of this name."""
        if name in self.groups:
            self.source.report(
                rules.COUNTS_DISAGREE,
                place,
                f"the {self.kind} {quoted(name)} is described twice",
            )
        self.groups.setdefault(name, place)

    def add_hosts(self, group: str, names: list[str], place: Place) -> None:
        """Put hosts into a group, unless they are in one."""
        for name in names:
            if name in self.hosts:
                first = quoted(self.hosts[name])
                self.source.report(
                    rules.HOST_TWICE,
                    place,
                    f"the host {quoted(name)} is in the {self.kind} {quoted(group)} "
                    f"and in {first}",
                    hint="a host is in one of them",
                )
            self.hosts.setdefault(name, group)

    def add_children(self, group: str, names: list[str], place: Place) -> None:
        """Put groups into a group, unless they are in one."""
        for name in names:
            if name in self.parents:
                self.source.report(
                    rules.COUNTS_DISAGREE,
                    place,
                    f"the {self.kind} {quoted(name)} is below {quoted(group)} and "
                    f"below {quoted(self.parents[name][0])}",
                )
            self.parents.setdefault(name, (group, place))

    def hierarchy(self) -> Hierarchy | None:
        """Return the levels, None after saying what is wrong with them."""
        for name, (_, place) in self.parents.items():
            if name not in self.groups:
                self.source.report(
                    rules.COUNTS_DISAGREE,
                    place,
                    f"there is no {self.kind} {quoted(name)}",
                )
        if not self.hosts:
            self.source.refuse_nothing(())
        paths = self._paths() if self.source.is_sound else None
        if paths is None or not self.source.is_sound:
            return None
        height = max(map(len, paths.values()))
        return Hierarchy(levels=tuple(self._level(paths, at) for at in range(height)))

    def _paths(self) -> Mapping[str, list[str]] | None:
        """Return the groups around the hosts of every group, the group first."""
        paths: dict[str, list[str]] = {}
        for leaf in dict.fromkeys(self.hosts.values()):
            path = paths[leaf] = [leaf]
            while path[-1] in self.parents:
                above, place = self.parents[path[-1]]
                if above in path or len(path) == MAX_HEIGHT:
                    self.source.report(
                        rules.COUNTS_DISAGREE,
                        place,
                        f"the {self.kind} {quoted(above)} is below itself"
                        if above in path
                        else f"this is more than {MAX_HEIGHT} levels",
                    )
                    return None
                path.append(above)
        return paths

    def _level(self, paths: Mapping[str, list[str]], at: int) -> Level:
        # A branch that ends early is a group of its own on the levels above.
        around = {leaf: path[min(at, len(path) - 1)] for leaf, path in paths.items()}
        groups = {host: around[leaf] for host, leaf in self.hosts.items()}
        return Level(name=f"{self.kind} {at + 1}" if at else self.kind, groups=groups)


def refuse_both(source: SourceText, place: Place, kind: str, *, given: int) -> None:
    """Say that a group has hosts and groups, or neither."""
    if given != 1:
        source.report(
            rules.BAD_LINE,
            place,
            f"a {kind} has either nodes or other {kind}es below it",
        )
