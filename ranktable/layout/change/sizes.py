"""Sizes of a layout that fit another number of chips."""

from __future__ import annotations

from itertools import islice, product
from math import prod
from typing import TYPE_CHECKING

from ranktable.layout.grid import did_you_mean, divisors, either, factors
from ranktable.layout.layout_errors import LayoutError
from ranktable.layout.parallel import OWN_AXIS, ParallelLayout
from ranktable.schema.text import counted

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping


def factor_names(layout: ParallelLayout) -> tuple[str, ...]:
    """Return the names of the sizes whose product is the number of ranks."""
    own = ("ep",) if layout.ep_style == OWN_AXIS else ()
    return ("tp", "cp", *own, "dp", "pp")


def check_kept(layout: ParallelLayout, kept: Collection[str]) -> None:
    """Raise LayoutError unless these are sizes of a layout, and one other is free."""
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
    """Return a layout with other sizes, None if they are not valid together."""
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
    above: int = 0,
) -> ParallelLayout:
    """Return the largest layout for some chips that keeps some sizes.

    dp becomes as large as the chips allow, unless it is kept. Other sizes that are not
    kept become divisors of their old values, the largest that give as many ranks.

    Args:
        layout: The layout as it is.
        available: Number of chips.
        kept: The sizes that stay as they are.
        world_size: The number of ranks that is wanted, by default as many as fit.
        above: Only numbers of ranks above this one are suggested in the message.

    Raises:
        LayoutError: There is no such layout.
    """
    check_kept(layout, kept)
    now = {name: getattr(layout, name) for name in factor_names(layout)}

    def fitted(sizes: Mapping[str, int], ranks: int | None) -> ParallelLayout | None:
        return _largest(layout, sizes, available, kept, ranks)

    found = fitted(now, world_size)
    if found is not None:
        return found
    near: list[str] = []
    for name in (name for name in now if name in kept):
        smaller = divisors(now[name])[-2::-1]
        fits = (one for one in smaller if fitted({**now, name: one}, world_size))
        near += (f"{name}={one}" for one in islice(fits, 1))
    if world_size is not None:
        fewer = range(min(world_size - 1, available), above, -1)
        for worlds in (fewer, range(world_size + 1, available + 1)):
            fits = (one for one in worlds if fitted(now, one))
            near += (counted(one, "rank") for one in islice(fits, 1))
    fixed = {name: size for name, size in now.items() if name in kept}
    named = factors(fixed) if fixed else "nothing"
    if layout.ep > 1 and "ep" not in now:
        named += f" beside ep {layout.ep} x etp {layout.etp}"
    raise LayoutError(
        f"{named} is kept, and there {'is' if available == 1 else 'are'} "
        f"{counted(available, 'chip')}"
        + (f" for {counted(world_size, 'rank')}" if world_size is not None else "")
        + (f"; nearest: {either(near)}" if near else "; nothing fits")
    )


def _largest(
    layout: ParallelLayout,
    now: Mapping[str, int],
    available: int,
    kept: Collection[str],
    world_size: int | None,
) -> ParallelLayout | None:
    """Return the largest layout; of several, that with the largest other sizes."""
    choices = [
        [size] if name in kept or name == "dp" else divisors(size)[::-1]
        for name, size in now.items()
    ]
    best: ParallelLayout | None = None
    for chosen in product(*choices):
        sizes = dict(zip(now, chosen, strict=True))
        copy = prod(size for name, size in sizes.items() if name != "dp")
        options: Iterable[int] = range(available // copy, 0, -1)
        if world_size is not None:
            options = [dp for dp in (world_size // copy,) if dp in options]
        for dp in options:
            is_wanted = world_size in (None, dp * copy)
            if not is_wanted or ("dp" in kept and dp != sizes["dp"]):
                continue
            found = resized(layout, {**sizes, "dp": dp})
            if found is not None:
                if best is None or found.world_size > best.world_size:
                    best = found
                break
    return best
