"""Where the experts of a layout are, whoever's meaning of ep is used."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING

from ranktable.layout.errors import LayoutError
from ranktable.layout.sizes import divisors, either, factors, nearest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ranktable.layout.grid import Grid
    from ranktable.layout.view import View


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is known when the experts are laid out.

    Attributes:
        order: Every token, the fastest first.
        written: The order as it was given.
        sizes: Size of tp, cp, dp and pp, and of ep where it is an axis of its own.
        dp_replicate: Copies that dp holds of what is sharded over the rest of it.
        grid: The grid of everything but the experts.
        ep: Size of the expert groups, None where nothing is said.
        etp: Ranks that share one expert, None where nothing is said.
    """

    order: tuple[str, ...]
    written: str
    sizes: Mapping[str, int]
    dp_replicate: int
    grid: Grid
    ep: int | None
    etp: int | None

    @property
    def data(self) -> tuple[str, ...]:
        """The axes of the grid that make up dp."""
        return ("dp",) if self.dp_replicate == 1 else ("dp_shard", "dp_replicate")

    @property
    def shard(self) -> dict[str, int]:
        """The axis over which one copy is sharded, with its size."""
        return {self.data[0]: self.sizes["dp"] // self.dp_replicate}

    @property
    def stage(self) -> dict[str, int]:
        """The factors of the ranks of a stage that hold one copy."""
        return {"tp": self.sizes["tp"], "cp": self.sizes["cp"], **self.shard}


@dataclass(frozen=True, slots=True, kw_only=True)
class Experts:
    """Where the experts are.

    Attributes:
        ep: Size of the expert groups.
        etp: Ranks that share one expert.
        axes: Names that the experts add to those of the other axes.
        view: The grid of the experts, None where the other grid has them too.
        aliases: Names of the experts' axes in the other grid.
        counted: The order of the groups in the other grid; see ``View``.
    """

    ep: int
    etp: int
    axes: tuple[str, ...] = ()
    view: View | None = None
    aliases: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    counted: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def no_experts(request: Request, etp: int) -> Experts:
    """Return the experts of a layout without: whatever is asked, a rank has all."""
    shared = ("tp",) if etp > 1 else ()
    aliases = {"ep": (), "etp": shared, "edp": ("cp", *request.data)}
    return Experts(ep=1, etp=etp, aliases=aliases)


def fixed_etp(request: Request, size: int, why: str) -> int:
    """Return the only etp of a style.

    Raises:
        LayoutError: Another one is asked for.
    """
    if request.etp not in (None, size):
        raise LayoutError(
            f"etp {request.etp} beside {factors(request.stage)} is not free: {why}; "
            f"nearest: etp={size}, or ep_style megatron"
        )
    return size


def must_divide(ep: int, whole: Mapping[str, int], whose: str) -> None:
    """Raise LayoutError unless ep divides the product of these factors."""
    size = prod(whole.values())
    if size % ep:
        choices = either(f"ep={choice}" for choice in nearest(ep, divisors(size)))
        raise LayoutError(
            f"ep {ep} does not divide {factors(whole)}, as {whose} needs; nearest: "
            f"{choices}"
        )
