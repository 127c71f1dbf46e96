"""The options that say how the ranks of a table are laid out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from ranktable.cli.failure import CommandError
from ranktable.cli.mesh import ExpertStyle, Peer, make_layout

if TYPE_CHECKING:
    from ranktable.layout.parallel import ParallelLayout


def _size(text: str) -> object:
    return typer.Option(metavar="SIZE", help=text)


Tp = Annotated[int, _size("Tensor parallel ranks.")]
Cp = Annotated[int, _size("Context parallel ranks.")]
Pp = Annotated[int, _size("Stages of the pipeline.")]
Dp = Annotated[
    int | None, _size("Data parallel ranks; by default, and with -1, the rest.")
]
Ep = Annotated[int | None, _size("Expert parallel ranks.")]
Etp = Annotated[int | None, _size("Ranks that share one expert.")]
DpReplicate = Annotated[int, _size("Copies within dp, each sharded.")]
Order = Annotated[
    str | None,
    typer.Option(metavar="ORDER", help="The axes, fastest first: tp-cp-ep-dp-pp."),
]
Style = Annotated[ExpertStyle | None, typer.Option(help="Whose meaning --ep has.")]
Preset = Annotated[
    Peer | None, typer.Option(help="Order and expert style of a library.")
]


@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutOptions:
    """What was said of the layout; the fields are the options."""

    tp: int = 1
    cp: int = 1
    pp: int = 1
    dp: int | None = None
    ep: int | None = None
    etp: int | None = None
    dp_replicate: int = 1
    order: str | None = None
    ep_style: ExpertStyle | None = None
    preset: Peer | None = None

    @property
    def are_given(self) -> bool:
        """Whether anything was said."""
        return self != LayoutOptions()

    def layout(self, world_size: int, *, with_dp: bool = True) -> ParallelLayout:
        """Return the layout of a table.

        Args:
            world_size: Number of its ranks.
            with_dp: Whether dp is as it was given; if not, it is what is left.

        Raises:
            CommandError: A preset is given beside what it stands for.
            LayoutError: There is no such layout.
        """
        if self.preset and (self.order is not None or self.ep_style is not None):
            raise CommandError(
                "--preset is an order and an --ep-style; give it or them"
            )
        given = {
            "tp": self.tp,
            "cp": self.cp,
            "pp": self.pp,
            "dp": self.dp if with_dp else None,
            "ep": self.ep,
            "etp": self.etp,
            "dp_replicate": self.dp_replicate,
        }
        sizes = {name: size for name, size in given.items() if size is not None}
        return make_layout(sizes, self.order, self.ep_style, self.preset, world_size)
