"""A host of which only the name is known: it has the chips that another node has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import structs

from ranktable.layout.change.errors import ChangeError

if TYPE_CHECKING:
    from ranktable.schema.model import Device, Node


def twin_of(node: Node, host: str, *, name: str) -> Node:
    """Return a host with the chips of a node, as far as they are known without it.

    Keys without a meaning, and the super pod, are those of one host and left out.

    Args:
        node: A node.
        host: Name of the other one.
        name: What the node is called, for a message.

    Raises:
        ChangeError: The chips have addresses, which are those of one host only.
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
