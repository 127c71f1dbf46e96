"""Which ranks belong together: sizes and an order, turned into groups."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from ranktable.layout.conversion import count_as
from ranktable.layout.naming import find_view, split_names
from ranktable.layout.neighbours import Neighbours, all_neighbours, neighbours_in
from ranktable.layout.presets import find_preset
from ranktable.layout.resolve import Wishes, resolve

if TYPE_CHECKING:
    from ranktable.layout.grid import Groups
    from ranktable.layout.resolve import Resolved


@dataclass(frozen=True, init=False, kw_only=True)
class ParallelLayout:
    """Sizes of the parallel axes, and the order in which ranks count over them.

    Attributes:
        tp: Ranks that share every tensor.
        cp: Ranks that share every sequence.
        ep: Ranks over which the experts are spread; see ``ep_style``.
        dp: Ranks that hold the same share of the model and other data.
        pp: Stages of the pipeline.
        etp: Ranks that share one expert.
        dp_replicate: Copies within dp, each sharded over the rest of it.
        dcp: Ranks of a tp group that share the sequence of vLLM's decoding.
        order: The axes, the fastest first: the one in which neighbours differ.
        ep_style: Whose meaning ep has: megatron, torchtitan, deepspeed, scaletorch or
            vllm.
        world_size: Number of ranks.
    """

    tp: int
    cp: int
    ep: int
    dp: int
    pp: int
    etp: int
    dp_replicate: int
    dcp: int
    order: str
    ep_style: str
    world_size: int
    _resolved: Resolved = field(init=False, repr=False, compare=False)
    _found: dict[str, Groups] = field(init=False, repr=False, compare=False)

    def __init__(  # noqa: PLR0913 - every one is a size of its own
        self,
        *,
        tp: int = 1,
        cp: int = 1,
        ep: int | None = None,
        dp: int = 1,
        pp: int = 1,
        etp: int | None = None,
        dp_replicate: int = 1,
        dcp: int = 1,
        order: str = "tp-cp-ep-dp-pp",
        ep_style: str = "megatron",
        world_size: int | None = None,
    ) -> None:
        """Check the sizes and infer the one that is -1.

        Args:
            tp: Size of tp.
            cp: Size of cp.
            ep: Size of ep; by default 1, or the whole stage with ep_style vllm.
            dp: Size of dp.
            pp: Size of pp.
            etp: Size of etp; by default what the ep_style has, tp with megatron.
            dp_replicate: How many copies dp holds.
            dcp: vLLM's decode context parallel size, which divides tp.
            order: The axes, the fastest first; one of size 1 may be left out.
            ep_style: Whose meaning ep has.
            world_size: Number of ranks; by default the product of the sizes.

        Raises:
            LayoutError: There is no such layout; its text names every factor and the
                nearest valid choices.
        """
        wishes = Wishes(
            tp=tp,
            cp=cp,
            ep=ep,
            dp=dp,
            pp=pp,
            etp=etp,
            dp_replicate=dp_replicate,
            dcp=dcp,
            order=order,
            ep_style=ep_style,
            world_size=world_size,
        )
        resolved = resolve(wishes)
        values: dict[str, object] = {
            **resolved.fields,
            "dp_replicate": dp_replicate,
            "dcp": dcp,
            "order": order,
            "ep_style": ep_style,
            "_resolved": resolved,
            "_found": {},
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @classmethod
    def preset(cls, name: str, **sizes: int) -> ParallelLayout:
        """Return a layout with the order and the ep_style of a library.

        Args:
            name: megatron, deepspeed, torchtitan, scaletorch, vllm or jax.
            **sizes: What else the layout is made with.

        Raises:
            LayoutError: There is no such preset or layout.
        """
        preset = find_preset(name)
        return cls(order=preset.order, ep_style=preset.ep_style, **sizes)

    @property
    def axes(self) -> tuple[str, ...]:
        """Names of the axes, the fastest first, then what the experts add to them."""
        return self._resolved.axes

    @property
    def sizes(self) -> dict[str, int]:
        """Size of every axis."""
        return {name: self.along(name).group_size for name in self.axes}

    @cached_property
    def kinds(self) -> tuple[str, ...]:
        """The axes along which there is anybody to talk to."""
        return tuple(name for name, size in self.sizes.items() if size > 1)

    @property
    def mesh_shape(self) -> dict[str, int]:
        """Axes and sizes with the slowest first, as torch and JAX write a mesh."""
        grid = self._resolved.views[0].grid
        return {axis.name: axis.size for axis in reversed(grid.axes)}

    def along(self, axes: str) -> Groups:
        """Return the groups along some axes as a sequence that makes them when asked.

        Args:
            axes: Names of axes, such as ``tp`` or ``dp-cp``, in any order.

        Raises:
            LayoutError: There are no such axes, or they lie in different grids.
        """
        if axes not in self._found:
            names = split_names(axes)
            self._found[axes] = find_view(self._resolved.views, names).groups(names)
        return self._found[axes]

    def groups(self, axes: str) -> list[list[int]]:
        """Return the groups along some axes, as the library of the order lists them.

        Raises:
            LayoutError: There are no such axes, or they lie in different grids.
        """
        return list(self.along(axes))

    def coordinates(self, rank: int) -> dict[str, int]:
        """Return the coordinate of a rank along every axis.

        Raises:
            IndexError: There is no such rank.
        """
        return {name: self.along(name).place_of(rank) for name in self.axes}

    def rank(self, **coordinates: int) -> int:
        """Return the rank at some coordinates; those of axes of size 1 may be left out.

        Raises:
            LayoutError: A coordinate is missing or out of range, or two contradict
                each other.
        """
        return self._resolved.rank_at(coordinates)

    def neighbours(
        self, rank: int, axes: str, *, is_ring: bool | None = None
    ) -> Neighbours:
        """Return the ranks before and after a rank along some axes.

        Args:
            rank: The rank.
            axes: Names of axes, such as ``pp``.
            is_ring: Whether the last is followed by the first; by default everywhere
                but along pp, whose stages are a chain unless they are interleaved.

        Raises:
            IndexError: There is no such rank.
            LayoutError: There are no such axes.
        """
        if is_ring is None:
            is_ring = _is_ring(axes)
        return neighbours_in(self.along(axes), rank, is_ring=is_ring)

    def all_neighbours(self, axes: str) -> list[Neighbours]:
        """Return what ``neighbours`` does, for every rank.

        Raises:
            LayoutError: There are no such axes.
        """
        return all_neighbours(self.along(axes), is_ring=_is_ring(axes))

    def order_like(self, peer: str | ParallelLayout) -> ParallelLayout:
        """Return the layout with these sizes and the order and ep_style of a peer.

        Where ep is an axis of its own, dp is the number of ranks for each expert;
        elsewhere they are part of dp. The product stays what it is.

        Args:
            peer: The name of a preset, or a layout.

        Raises:
            LayoutError: The sizes fit no such layout.
        """
        like = find_preset(peer) if isinstance(peer, str) else peer
        counted = count_as(like.ep_style, self._resolved, was=self.ep_style)
        return ParallelLayout(
            tp=self.tp,
            cp=self.cp,
            ep=counted.ep,
            dp=counted.dp,
            pp=self.pp,
            etp=counted.etp,
            dp_replicate=self.dp_replicate,
            dcp=self.dcp if like.ep_style == "vllm" else 1,
            order=like.order,
            ep_style=like.ep_style,
            world_size=self.world_size,
        )


def _is_ring(axes: str) -> bool:
    """Whether the last is followed by the first; the stages of a pipeline end."""
    return axes != "pp"
