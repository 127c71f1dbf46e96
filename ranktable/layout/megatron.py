"""Every group that Megatron creates, in its order: along axes, and special ones.

Source: initialize_model_parallel of Megatron-Core 0.16: seventeen kinds of groups in
the plain case, and more for hierarchical or hybrid context parallelism and for several
instances of the distributed optimizer.
"""

from __future__ import annotations

import warnings
from itertools import chain
from math import prod
from typing import TYPE_CHECKING

from ranktable.layout.grid import make_grid
from ranktable.layout.layout_errors import LayoutError
from ranktable.layout.sizes import divisors, either, factors, nearest

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ranktable.layout.parallel import ParallelLayout

    Lists = list[list[int]]


def megatron_groups(
    layout: ParallelLayout,
    *,
    hierarchical_cp: Sequence[int] = (),
    hybrid_cp: bool = False,
    optimizer_instances: int = 1,
) -> dict[str, Lists]:
    """Return every group that Megatron creates for a layout, by kind.

    Args:
        layout: A layout with ep_style megatron.
        hierarchical_cp: Sizes of the levels of cp, the innermost first.
        hybrid_cp: Whether the sizes of dp and cp change from batch to batch.
        optimizer_instances: Copies of the distributed optimizer's state.

    Raises:
        LayoutError: A size does not divide another one as it must.

    Warns:
        UserWarning: Megatron refuses the order.
    """
    if layout.ep_style != "megatron":
        raise LayoutError(
            f"ep_style {layout.ep_style} has other groups than Megatron; order_like"
            "('megatron') gives a layout that has them"
        )
    if layout.refusal is not None:
        warnings.warn(layout.refusal, stacklevel=2)
    along = layout.groups
    kinds: dict[str, Lists] = {"dp-cp": along("dp-cp")}
    if optimizer_instances != 1:
        # Megatron only joins the instances along edp, where its optimizer needs it.
        intra, _ = _instances("dp-cp", kinds["dp-cp"], optimizer_instances)
        kinds["dp-cp-intra"] = intra
    if hybrid_cp:
        kinds |= _hybrid(layout)
    kinds |= {"dp": along("dp"), "cp": along("cp")}
    if hierarchical_cp:
        kinds |= _hierarchical_cp(layout, hierarchical_cp)
    kinds |= {name: along(name) for name in ("tp-pp", "tp", "pp")}
    kinds["embedding"] = [embedding_ranks(stages) for stages in kinds["pp"]]
    kinds["position-embedding"] = [stages[:1] for stages in kinds["pp"]]
    for name in ("tp-dp-cp", "tp-dp", "tp-cp", *_EXPERT_KINDS):
        kinds[name] = along(name)
    if optimizer_instances != 1:
        intra, inter = _instances("edp", kinds["edp"], optimizer_instances)
        kinds |= {"edp-intra": intra, "edp-inter": inter}
    kinds["optimizer-instance"] = _whole_instances(kinds, optimizer_instances)
    return kinds


_EXPERT_KINDS = ("ep", "etp", "etp-ep", "etp-ep-pp", "edp")


EMBEDDINGS = ("embedding", "position-embedding")
"""Groups that are not along an axis, made by every library with pipeline stages."""


def groups_named(layout: ParallelLayout, name: str) -> Sequence[Sequence[int]]:
    """Return the groups along some axes, or those of the embedding.

    Raises:
        LayoutError: There are no such axes.
    """
    if name not in EMBEDDINGS:
        return layout.along(name)
    held = 2 if name == "embedding" else 1
    return [embedding_ranks(stages)[:held] for stages in layout.along("pp")]


def embedding_ranks(stages: Sequence[int]) -> list[int]:
    """Return the first and last rank of a pipeline, which hold the embedding."""
    return [stages[0], stages[-1]] if len(stages) > 1 else list(stages)


def levels(ranks: Sequence[int], sizes: Sequence[int]) -> list[Lists]:
    """Return the groups of every level of a hierarchy over some ranks.

    Args:
        ranks: The ranks, as many as the product of the sizes.
        sizes: Size of the groups of every level, the innermost first.
    """
    grid = make_grid((str(level), size) for level, size in enumerate(sizes))
    return [
        [[ranks[place] for place in group] for group in grid.groups([str(level)])]
        for level in range(len(sizes))
    ]


def _by_level(groups: Iterable[Sequence[int]], sizes: Sequence[int]) -> list[Lists]:
    """Return the groups of every level of a hierarchy, for all of these groups."""
    found = [levels(ranks, sizes) for ranks in groups]
    return [
        list(chain.from_iterable(one[level] for one in found))
        for level in range(len(sizes))
    ]


def _hierarchical_cp(layout: ParallelLayout, sizes: Sequence[int]) -> dict[str, Lists]:
    named = {f"level {level}": size for level, size in enumerate(sizes)}
    if min(sizes) < 1 or prod(sizes) != layout.cp:
        rest = prod(sizes[:-1])
        fits = rest > 0 and layout.cp % rest == 0
        nearby = [*sizes[:-1], layout.cp // rest] if fits else [layout.cp]
        raise LayoutError(
            f"the levels of cp are {factors(named)}, and cp is {layout.cp}; nearest: "
            f"{' x '.join(map(str, nearby))}"
        )
    found = _by_level(layout.along("cp"), sizes)
    return {f"cp-level-{level}": groups for level, groups in enumerate(found)}


def _hybrid(layout: ParallelLayout) -> dict[str, Lists]:
    """Return slices of dp-cp for every power of two up to half of its size."""
    groups = layout.along("dp-cp")
    size = groups.group_size
    if not _is_cut_evenly(size):
        choices = nearest(size, filter(_is_cut_evenly, range(2, 2 * size + 3)))
        raise LayoutError(
            f"hybrid cp cuts {factors({'cp': layout.cp, 'dp': layout.dp})} into slices "
            "of 2, 4, 8 and so on up to half of it, and not all of them come out even; "
            f"nearest: {either(choices)}"
        )
    slices = [1 << bit for bit in range(1, size.bit_length() - 1)]
    return {
        f"dp-cp-{width}": [
            ranks[start : start + width]
            for ranks in groups
            for start in range(0, size, width)
        ]
        for width in slices
    }


def _is_cut_evenly(size: int) -> bool:
    """Whether every slice of a power of two, up to half the size, divides it."""
    largest = 1 << max(0, size.bit_length() - 2)
    return size % 2 == 0 and size % largest == 0


def _instances(kind: str, groups: Lists, instances: int) -> list[Lists]:
    """Return each group cut into slices, and the groups that join the slices."""
    size = len(groups[0])
    if instances < 1 or size % instances:
        choices = either(nearest(instances, divisors(size)))
        raise LayoutError(
            f"{instances} instances of the optimizer do not divide the {size} ranks of "
            f"a {kind} group; nearest: {choices}"
        )
    return _by_level(groups, [size // instances, instances])


def _whole_instances(kinds: dict[str, Lists], instances: int) -> Lists:
    """Return the ranks of each instance; they are sorted only without pp."""
    models = kinds["etp-ep-pp"]
    each = len(models) // instances
    return [
        list(chain.from_iterable(models[start : start + each]))
        for start in range(0, len(models), each)
    ]
