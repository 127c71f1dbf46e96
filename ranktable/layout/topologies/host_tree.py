"""Named groups of hosts, and groups of groups, as a file describes them."""

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
"""Most levels of switches; the largest networks have four."""


@dataclass(slots=True)
class Names:
    """A limit for host names, because a short list such as n[1-9999999] means many.

    Attributes:
        source: The text.
        left: How many more names are allowed.
    """

    source: SourceText
    left: int = MAX_HOSTS

    def take(self, names: list[str], place: Place) -> list[str]:
        """Return the names; if there are too many, report that and return none."""
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
        """Whether the limit has been reached."""
        return self.left < 0


@dataclass(slots=True)
class HostTree:
    """Groups of a file, with the positions of their names.

    Attributes:
        source: The text.
        kind: What a group is called: ``switch``.
        groups: Where the name of every group occurs first.
        hosts: Group of every host, and where that is written.
        parents: Parent group of a group, and where that is written.
    """

    source: SourceText
    kind: str
    groups: dict[str, Place] = field(default_factory=dict)
    hosts: dict[str, str] = field(default_factory=dict)
    parents: dict[str, tuple[str, Place]] = field(default_factory=dict)

    def add_group(self, name: str, place: Place) -> None:
        """Add a group; report a name that is already used."""
        if name in self.groups:
            self.source.report(
                rules.COUNTS_DISAGREE,
                place,
                f"the {self.kind} {quoted(name)} is described twice",
            )
        self.groups.setdefault(name, place)

    def add_hosts(self, group: str, names: list[str], place: Place) -> None:
        """Put hosts into a group; report those that are in one already."""
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
        """Put groups into a group; report those that are in one already."""
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
        """Return the levels, None after reporting errors."""
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
        """Return for every group its path: the group itself, then its parents."""
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
        # A branch with fewer levels counts as a group of its own on the higher ones.
        around = {leaf: path[min(at, len(path) - 1)] for leaf, path in paths.items()}
        groups = {host: around[leaf] for host, leaf in self.hosts.items()}
        return Level(name=f"{self.kind} {at + 1}" if at else self.kind, groups=groups)


def refuse_both(source: SourceText, place: Place, kind: str, *, given: int) -> None:
    """Report a group that has both hosts and groups, or neither."""
    if given != 1:
        source.report(
            rules.BAD_LINE,
            place,
            f"a {kind} has either nodes or other {kind}es below it",
        )
