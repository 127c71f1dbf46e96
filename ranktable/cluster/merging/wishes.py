"""How nodes are to be merged: their order, and the numbering of the ranks."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ranktable.schema.topology import Topology


class Order(str, Enum):
    """How the nodes of a merged table are put in order."""

    GIVEN = "given"
    BY_RANK = "by-rank"
    BY_HOST = "by-host"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """How nodes are to be merged.

    Attributes:
        order: Order of the nodes, None for the one that suits the files.
        hosts: The hosts in the order of the nodes, None when they are not listed.
        renumber: Whether ranks are counted anew.
        topology: Links of every host, None when unknown.
        limit: Findings of each code to keep, None for all.
    """

    order: Order | None = None
    hosts: Sequence[str] | None = None
    renumber: bool = False
    topology: Topology | None = None
    limit: int | None = None
