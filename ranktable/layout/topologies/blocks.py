"""Slurm's blocks: nodes with a fast network, and larger blocks of several blocks."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from ranktable.cluster.hostfiles import hostfile_rules as rules
from ranktable.layout.boundaries import Hierarchy, Level

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ranktable.layout.topologies.host_tree import HostTree, Place


def block_hierarchy(
    tree: HostTree, sizes: Sequence[int], place: Place | None
) -> Hierarchy | None:
    """Return the blocks, and the larger blocks given by the sizes.

    The first size is the number of nodes of a block. Each other size is a power of two
    times the one before; so many neighbouring blocks of the file form a larger block.

    Args:
        tree: The blocks.
        sizes: ``BlockSizes``; may be empty.
        place: Where the sizes are in the file.

    Source: SchedMD/slurm, topology.conf(5) and topology.yaml(5), BlockSizes.
    """
    for before, size in pairwise(sizes):
        times = size // before if before else 0
        if size % max(before, 1) or times < 2 or times & (times - 1):
            tree.source.report(
                rules.COUNTS_DISAGREE,
                place,
                f"the block size {size} is not a power of two times {before}",
            )
    base = tree.hierarchy()
    if base is None or not tree.source.is_sound:
        return None
    index = {name: at for at, name in enumerate(tree.groups)}
    larger = [
        Level(
            name=f"{size // sizes[0]} blocks",
            groups={
                host: f"blocks {index[block] // (size // sizes[0])}"
                for host, block in tree.hosts.items()
            },
        )
        for size in sizes[1:]
    ]
    return Hierarchy(levels=(*base.levels, *larger))
