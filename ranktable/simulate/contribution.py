"""What the built-in script's ranks leave for the launcher."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from pathlib import Path

TENSOR_LENGTH = 4
"""Elements that every rank adds, each a one; as in the script of SOPHGO's manual."""


class Contribution(msgspec.Struct, frozen=True, kw_only=True):
    """What one rank has got.

    Attributes:
        rank: Its global rank.
        node_rank: Its simulated node.
        device_id: Its chip, as the tensor tells it.
        result: The sum.
        time_s: Time of the all_reduce.
    """

    rank: int
    node_rank: int
    device_id: int
    result: list[float]
    time_s: float


def leave(folder: Path, contribution: Contribution) -> None:
    """Write what a rank has got."""
    draft = folder / f"{contribution.rank}.draft"
    draft.write_bytes(msgspec.json.encode(contribution))
    # Whole or not at all: the job may be ended at any moment.
    draft.rename(draft.with_suffix(".json"))


def contributions(folder: Path) -> dict[int, Contribution]:
    """Return what the ranks have left, by rank."""
    left = (
        msgspec.json.decode(path.read_bytes(), type=Contribution)
        for path in folder.glob("*.json")
    )
    return {found.rank: found for found in left}
