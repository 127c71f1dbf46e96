"""What a communication backend has to say for itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Where one process runs.

    Attributes:
        rank: Its global rank.
        local_rank: Its index on its node, None if nothing says it.
        device_id: Its chip, likewise; a backend that binds a device is given one.
        local_chip_map: The chips of its node, by local rank; empty if unknown.
    """

    rank: int
    local_rank: int | None
    device_id: int | None
    local_chip_map: tuple[int, ...]


class Backend(Protocol):
    """A communication library and the devices it serves."""

    @property
    def name(self) -> str:
        """The name ``torch.distributed`` knows it by."""
        ...

    @property
    def needs_chip_map(self) -> bool:
        """Whether a group cannot be made without the chips of its members."""
        ...

    @property
    def binds_device(self) -> bool:
        """Whether the group is told its device when it is made."""
        ...

    def why_not(self) -> str | None:
        """Return why it cannot be used here, None if it can.

        It may import torch, but not a vendor's package.

        Raises:
            BootstrapError: Something is installed that must not be imported.
        """
        ...

    def select_device(self, placement: Placement) -> torch.device:
        """Make the chip of this process current and return it.

        Raises:
            BootstrapError: The host has no such chip.
            ConflictingVariablesError: The environment names another chip.
        """
        ...

    def group_options(self, chip_map: Sequence[int] | None) -> object | None:
        """Return ``pg_options`` of a group.

        Args:
            chip_map: The chip of each member, in the order of the group.
        """
        ...
