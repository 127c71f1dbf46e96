"""The largest layout for some number of chips, with some sizes as they are."""

from __future__ import annotations

from itertools import product
from math import prod
from typing import TYPE_CHECKING

from ranktable.layout.errors import LayoutError
from ranktable.layout.experts import OWN_AXIS
from ranktable.layout.order import did_you_mean
from ranktable.layout.parallel import ParallelLayout
from ranktable.layout.sizes import divisors, either, factors, nearest
from ranktable.schema.wording import counted

if TYPE_CHECKING:
    from collections.abc import Collection


def factor_names(layout: ParallelLayout) -> tuple[str, ...]:
    """Return the sizes whose product is the number of ranks."""
    own = ("ep",) if layout.ep_style == OWN_AXIS else ()
    return ("tp", "cp", *own, "dp", "pp")


def check_kept(layout: ParallelLayout, kept: Collection[str]) -> None:
    """Raise LayoutError unless these are sizes of a layout, and one is left to give."""
    names = factor_names(layout)
    for name in kept:
        if name not in names:
            raise LayoutError(
                f"there is no size {name!r} to keep; they are {', '.join(names)}"
                f"{did_you_mean(name, names)}"
            )
    if set(names) <= set(kept):
        sizes = {name: getattr(layout, name) for name in names}
        raise LayoutError(
            f"{factors(sizes)} is to be kept whole, so that no other number of ranks "
            "fits; leave one of the sizes out, such as dp"
        )


def resized(layout: ParallelLayout, sizes: dict[str, int]) -> ParallelLayout | None:
    """Return a layout with other sizes, None if there is none."""
    own = {} if layout.ep_style in ("scaletorch", "vllm") else {"ep": layout.ep}
    experts = {**own, "etp": layout.etp} if layout.ep > 1 else {}
    try:
        return ParallelLayout(
            **{**experts, **sizes},
            dp_replicate=layout.dp_replicate,
            order=layout.order,
            ep_style=layout.ep_style,
        )
    except LayoutError:
        return None


def fit_layout(
    layout: ParallelLayout,
    available: int,
    kept: Collection[str],
    *,
    world_size: int | None = None,
) -> ParallelLayout:
    """Return the largest layout for some chips that keeps some sizes.

    dp becomes what there is room for, unless it is kept. Other sizes that are not kept
    become divisors of what they are, the largest that give as many ranks.

    Args:
        layout: The layout as it is.
        available: Number of chips.
        kept: The sizes that stay as they are.
        world_size: The number of ranks that is wanted, by default as many as fit.

    Raises:
        LayoutError: There is no such layout.
    """
    check_kept(layout, kept)
    now = {name: getattr(layout, name) for name in factor_names(layout)}
    choices = [
        [size] if name in kept or name == "dp" else divisors(size)[::-1]
        for name, size in now.items()
    ]
    best: ParallelLayout | None = None
    for chosen in product(*choices):
        found = _largest(
            layout, dict(zip(now, chosen, strict=True)), available, kept, world_size
        )
        if found and (best is None or found.world_size > best.world_size):
            best = found
    if best is None:
        raise LayoutError(_none_fits(now, available, kept, world_size))
    return best


def _largest(
    layout: ParallelLayout,
    sizes: dict[str, int],
    available: int,
    kept: Collection[str],
    world_size: int | None,
) -> ParallelLayout | None:
    """Return the layout with the largest dp that there is room for."""
    copy = prod(size for name, size in sizes.items() if name != "dp")
    if "dp" in kept:
        options = [sizes["dp"]] if copy * sizes["dp"] <= available else []
    else:
        options = list(range(available // copy, 0, -1))
    if world_size is not None:
        options = [dp for dp in options if dp * copy == world_size]
    made = (resized(layout, {**sizes, "dp": dp}) for dp in options)
    return next((found for found in made if found is not None), None)


def _none_fits(
    now: dict[str, int], available: int, kept: Collection[str], world_size: int | None
) -> str:
    fixed = {name: size for name, size in now.items() if name in kept}
    copy = prod(fixed.values())
    wanted = available if world_size is None else world_size
    named = factors(fixed) if fixed else "nothing"
    if world_size is not None and (world_size > available or world_size % copy == 0):
        return (
            f"{counted(world_size, 'rank')} with {named} kept cannot be laid out on "
            f"{counted(available, 'chip')} that are left"
        )
    ranks = nearest(wanted, [copy * n for n in range(1, available // copy + 1)])
    near = [f"{name}={size}" for name, size in _smaller(fixed, wanted)]
    near += [f"{number} ranks" for number in ranks if world_size is not None]
    chips = counted(available, "chip")
    return (
        f"{named} is kept, and there {'is' if available == 1 else 'are'} {chips}"
        + (f" for {counted(world_size, 'rank')}" if world_size is not None else "")
        + (f"; nearest: {either(near)}" if near else "; nothing fits")
    )


def _smaller(fixed: dict[str, int], wanted: int) -> list[tuple[str, int]]:
    """Return for every size the largest divisor of it with which one copy would fit."""
    copy = prod(fixed.values())
    found = []
    for name, size in fixed.items():
        room = wanted // (copy // size)
        fitting = [d for d in divisors(size) if d <= room and d < size]
        if fitting:
            found.append((name, fitting[-1]))
    return found
