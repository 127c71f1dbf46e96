"""The names of axes that a caller writes: ``dp-cp``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ranktable.layout.errors import LayoutError
from ranktable.layout.order import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ranktable.layout.view import View


def split_names(axes: str) -> tuple[str, ...]:
    """Return the names in ``dp-cp``.

    Raises:
        LayoutError: A name is given twice.
    """
    names = tuple(axes.split("-"))
    for name in names:
        if names.count(name) > 1:
            raise LayoutError(f"the axes {axes!r} name {name} twice")
    return names


def find_view(views: Sequence[View], names: Iterable[str]) -> View:
    """Return the first view that knows all of these names.

    Raises:
        LayoutError: A name is unknown, or no view knows all of them.
    """
    wanted = tuple(names)
    for view in views:
        if all(name in view.names for name in wanted):
            return view
    known = all_names(views)
    for name in wanted:
        if name not in known:
            raise LayoutError(
                f"there is no axis {name!r}; the axes are {', '.join(known)}"
                f"{did_you_mean(name, known)}"
            )
    together = ", and so do ".join(", ".join(view.names) for view in views)
    raise LayoutError(
        f"the axes {'-'.join(wanted)} lie in different grids; {together} go together"
    )


def all_names(views: Sequence[View]) -> tuple[str, ...]:
    """Return every name once, in the order of the views."""
    return tuple(dict.fromkeys(name for view in views for name in view.names))
