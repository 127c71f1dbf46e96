"""The picture of a table for a notebook."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ranktable.layout.change.facts import CostFacts
from ranktable.layout.parallel import remembered
from ranktable.report.html_page import render_picture
from ranktable.report.page_data import ReportFacts
from ranktable.schema.check import check
from ranktable.schema.writing import dumps

if TYPE_CHECKING:
    from ranktable.layout.parallel import ParallelLayout
    from ranktable.schema.model import RankTable


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """A picture of a table, which a notebook shows.

    Attributes:
        title: What is drawn, in words.
        svg: The picture, for a file or a page.
    """

    title: str
    svg: str

    def __repr__(self) -> str:
        """Return the title, because the picture is long."""
        return f"Drawing({self.title!r})"

    def _repr_html_(self) -> str:
        """Return the picture for IPython, which calls this."""
        return self.svg


def draw(table: RankTable, *, layout: ParallelLayout | None = None) -> Drawing:
    """Return a picture of a table: nodes and chips with their ranks.

    Args:
        table: The table.
        layout: The layout of the ranks, by default that in the table. Its outermost
            axis gives the colours; without a layout the local rank does.

    Raises:
        LayoutError: The layout in the table is not valid.
        RankTableError: The table has an error.
    """
    columns = check(dumps(table)).columns
    assert columns is not None  # what was written can be read
    costs = CostFacts()
    facts = ReportFacts(
        name=table.format,
        columns=columns,
        table=table,
        layout=layout or remembered(table),
        costs=costs,
        boundaries=costs.boundaries(table, table.nodes),
    )
    return Drawing(
        title=f"{facts.name}: {facts.sizes}", svg="".join(render_picture(facts))
    )
