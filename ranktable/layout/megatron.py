"""Every group that Megatron creates, in its order: along axes, and special ones.

Source: initialize_model_parallel of Megatron-Core 0.16, seventeen kinds of groups.
"""

from __future__ import annotations

import warnings
from itertools import chain
from typing import TYPE_CHECKING

from ranktable.layout.layout_errors import LayoutError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ranktable.layout.parallel import ParallelLayout

    Lists = list[list[int]]


def megatron_groups(layout: ParallelLayout) -> dict[str, Lists]:
    """Return every group that Megatron creates for a layout, by kind.

    Args:
        layout: A layout with ep_style megatron.

    Raises:
        LayoutError: The layout has another ep_style.

    Warns:
        UserWarning: Megatron refuses the order.
    """
    if layout.ep_style != "megatron":
        raise LayoutError(
            f"ep_style {layout.ep_style} has other groups than Megatron; make the "
            "layout with ep_style megatron"
        )
    if layout.refusal is not None:
        warnings.warn(layout.refusal, stacklevel=2)
    kinds = {name: layout.groups(name) for name in _FIRST_KINDS}
    kinds["embedding"] = [embedding_ranks(stages) for stages in kinds["pp"]]
    kinds["position-embedding"] = [stages[:1] for stages in kinds["pp"]]
    kinds |= {name: layout.groups(name) for name in _LAST_KINDS}
    kinds["optimizer-instance"] = [list(chain.from_iterable(kinds["etp-ep-pp"]))]
    return kinds


_FIRST_KINDS = ("dp-cp", "dp", "cp", "tp-pp", "tp", "pp")
_LAST_KINDS = (
    *("tp-dp-cp", "tp-dp", "tp-cp"),
    *("ep", "etp", "etp-ep", "etp-ep-pp", "edp"),
)


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
