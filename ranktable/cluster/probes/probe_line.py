"""What a probe finds on one node, as a value and as one line of JSON."""

from __future__ import annotations

import json

from msgspec import Struct, to_builtins

from ranktable.cluster.device_list import MAX_CHIP
from ranktable.schema.address import is_address

VERSION = 1
"""Of the line; it grows when a key changes its meaning, not when one is added."""

MAX_CHIPS = 1024
"""Chips of one host; hosts have tens of them."""

MAX_HOST_LENGTH = 255
"""Characters of a host name, as in the domain name system."""

HEALTHY = frozenset({"active", "ok", "normal"})
"""Words of the vendors' tools for a chip that works, in small letters."""


class ProbedChip(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One chip, with what is known of it; what is not known is left out of the line.

    Attributes:
        device_id: Its index on its host, as a rank table has it.
        bus_address: PCI address: ``0000:07:00.0``.
        uuid: Identifier of the chip, the same in every host.
        serial: Serial number of the card, which several chips may share.
        status: The word of the vendor's tool: ``Active``.
        address: IP address of the chip's own network interface.
        model: Its model where the chips of a node differ.
    """

    device_id: int
    bus_address: str | None = None
    uuid: str | None = None
    serial: str | None = None
    status: str | None = None
    address: str | None = None
    model: str | None = None

    @property
    def is_healthy(self) -> bool:
        """Whether its status, if there is one, is a good one."""
        return self.status is None or self.status.casefold() in HEALTHY


class NotDetected(Struct, frozen=True):
    """Something that could not be seen, and why."""

    what: str
    why: str


class NodeProbe(Struct, frozen=True, kw_only=True):
    """What was seen of one node.

    Attributes:
        probe: Version of the line.
        host: Name of the host.
        vendor: Who makes the chips, None when there are none.
        model: Model of all chips, None when it is not known or they differ.
        driver: Version of the driver, None when it is not known.
        chips: The chips, by device_id.
        unseen: What could not be seen.
    """

    probe: int = VERSION
    host: str
    vendor: str | None = None
    model: str | None = None
    driver: str | None = None
    chips: tuple[ProbedChip, ...] = ()
    unseen: tuple[NotDetected, ...] = ()

    def to_line(self) -> str:
        """Return the line, with its end; it is ASCII, whatever the names in it."""
        return json.dumps(to_builtins(self), separators=(",", ":")) + "\n"

    @property
    def is_sound(self) -> bool:
        """Whether its values are right, where the types are."""
        device_ids = [chip.device_id for chip in self.chips]
        return (
            self.probe == VERSION
            and 0 < len(device_ids) <= MAX_CHIPS
            and len(set(device_ids)) == len(device_ids)
            and min(device_ids) >= 0
            and max(device_ids) <= MAX_CHIP
            and 0 < len(self.host) <= MAX_HOST_LENGTH
            and is_printed(self.host)
            and all(c.address is None or is_address(c.address) for c in self.chips)
        )


def is_printed(host: str) -> bool:
    """Whether a host has neither blanks nor what cannot be printed."""
    return host.isprintable() and " " not in host
