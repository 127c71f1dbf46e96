"""A host of which only the name is known: it gets the chips of another node."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import structs

from ranktable.layout.layout_errors import ChangeError

if TYPE_CHECKING:
    from ranktable.schema.model import Device, Node


def twin_of(node: Node, host: str, *, name: str) -> Node:
    """Return a host with the same chips as a node.

    Extra keys and the super pod belong to the other host and are left out.

    Args:
        node: A node.
        host: Name of the new host.
        name: Name of the node, for a message.

    Raises:
        ChangeError: The chips have addresses, which belong to one host only.
    """
    if any(_is_of_host(device) for device in node.devices):
        raise ChangeError(
            f"the chips of {name} have addresses, and those of {host} are not known; "
            "give its rank table or its line of ranktable probe as a file"
        )
    devices = tuple(structs.replace(device, extra={}) for device in node.devices)
    return structs.replace(node, host=host, devices=devices, extra={})


def _is_of_host(device: Device) -> bool:
    """Whether a device has an address that no other host can have."""
    address = device.address
    if not address or device.is_emulated:
        return False
    return not (address.startswith("127.") or address == "::1")
