"""One name for a host that logs call by several: full and short name, and address."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_ADDRESS = re.compile(r"[\d.]+|[0-9a-fA-F:]*:[0-9a-fA-F:.]*")
_KERNEL_FILE = re.compile(r"[-_.]?\b(?:dmesg|kern(?:el)?|syslog|messages|journal)\b.*")


class HostNames:
    """The names of hosts, each with the one that is told."""

    def __init__(
        self,
        names: Iterable[str],
        pairs: Iterable[tuple[str, str]],
        preferred: Iterable[str],
    ) -> None:
        """Join names.

        Args:
            names: All names and addresses of hosts.
            pairs: Names that are known to be of one host.
            preferred: Names that are told, such as those of the rank table.
        """
        self._group: dict[str, str] = {}
        self._told: dict[str, str] = {}
        known = {*names, *preferred}
        for first, second in (*pairs, *_full_and_short(known)):
            self._group[self._root(first)] = self._root(second)
        groups: dict[str, list[str]] = defaultdict(list)
        wanted = set(preferred)
        for name in sorted({*known, *self._group}):
            groups[self._root(name)].append(name)
        for root, members in groups.items():
            self._told[root] = min(
                members,
                key=lambda one: (one not in wanted, bool(_ADDRESS.fullmatch(one)),
                                 len(one), one),
            )  # fmt: skip

    def _root(self, name: str) -> str:
        while (above := self._group.get(name, name)) != name:
            name = above
        return name

    def told(self, name: str) -> str:
        """Return the name of a host that is told."""
        return self._told.get(self._root(name), name)


def _full_and_short(names: set[str]) -> list[tuple[str, str]]:
    """Return the full names whose first part is a host, if it is of one alone."""
    by_short: dict[str, list[str]] = defaultdict(list)
    for name in names:
        if "." in name and not _ADDRESS.fullmatch(name):
            by_short[name.partition(".")[0]].append(name)
    return [
        (full[0], short)
        for short, full in by_short.items()
        if len(full) == 1 and short in names
    ]


def hosts_of_kernel_files(parts: Iterable[tuple[str, ...]]) -> set[str]:
    """Return the hosts after which the log of a kernel and another file are named.

    ``hi1-dmesg.log`` beside ``hi1.log`` is that of host hi1.

    Args:
        parts: The names of each file by which it may be named after its host.
    """
    all_parts = list(parts)
    known = {
        base
        for names in all_parts
        for name in names
        if (base := _KERNEL_FILE.sub("", name)) and base != name
    }
    others = [names for names in all_parts
              if not any(_KERNEL_FILE.search(name) for name in names)]  # fmt: skip
    if not others:  # only logs of kernels: a name with a number is that of a host
        return {base for base in known if re.search(r"\d", base)}
    return {base for base in known if any(base in names for names in others)}
