"""``torch_tpu.tpu.read_rank_table`` of July and August 2024.

It returns the chips of the whole file to every rank, after it has compared the count of
servers and the address of each with the address of the machine.

Source: sophgo/torch-tpu, torch_tpu/tpu/utils.py, 5cacb475 (2024-07-03) and c60da905.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ranktable.schema.readers.python_json import ERRORS, load
from ranktable.schema.readers.reader import indexed, raised

if TYPE_CHECKING:
    from collections.abc import Sequence


class TorchTpu2024:
    """torch_tpu of July 2024."""

    name = "torch_tpu_2024"
    title = "torch_tpu of July 2024: read_rank_table()"

    def outcomes(self, data: bytes, ranks: Sequence[int]) -> list[str]:
        """Return what the process of each rank gets on the first server's machine."""
        try:
            chip_map = _chip_map(load(data))
        except ERRORS as error:
            return [raised(error)] * len(ranks)
        return [indexed(chip_map, rank) for rank in ranks]


def _chip_map(document: Any) -> list[int]:  # noqa: ANN401 - any JSON, as in the original
    """Return the chips of every server, in file order.

    Raises:
        Exception: One of ``ERRORS``.
    """
    written, counted = document["server_count"], len(document["server_list"])
    if written != counted:
        raise AssertionError
    chips: list[int] = []
    machine: str | None = None
    for server in document["server_list"]:
        # The address of the machine comes from ifconfig and is not known here. It is
        # taken to be that of the first server; a second one can then not match.
        address = server["server_ip"]
        if machine is None and isinstance(address, str) and address:
            machine = address
        if address != machine:
            raise AssertionError("The machine ip is inconsistent with the config ip")
        chips.extend(int(device["device_id"]) for device in server["device"])
    return chips
