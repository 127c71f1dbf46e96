"""torch_tpu.tpu.read_rank_table of July and August 2024, and of later releases.

The files are read with ``open(path, "r")`` and ``json.load``. Since August 2024 the
function returns the chips of the node that has the rank of the process, in file order.
The manual's script then takes ``chip_map[rank]``, which is right on the first node
only. The function reads ``world_rank``, a key that no generator of the vendor writes.
Before August 2024 it compared the count of servers, and the address of each server with
that of the machine, and returned the chips of the whole file to every rank.

Source: sophgo/torch-tpu, torch_tpu/tpu/utils.py, 5cacb475 (2024-07-03), c60da905, and
bc46f06c (2024-08-23) to fe9b478b (2025-12-09).
"""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any

from ranktable.schema.readers.reader import indexed, raised

if TYPE_CHECKING:
    from collections.abc import Sequence

ERRORS = (
    ArithmeticError,  # int() of Infinity
    AssertionError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,  # among them JSONDecodeError and UnicodeDecodeError
)
"""Exceptions of Python if plain data is not a rank table."""


def load(data: bytes) -> Any:
    """Return the data of a JSON file as the vendor's Python code gets it.

    The last of repeated keys is used, NaN is a number, and a byte order mark is
    refused. The file is opened as text, so every kind of line break counts as one
    character in the positions of messages. The real encoding is that of the locale;
    here it is UTF-8. Messages are those of the running Python.

    Raises:
        ValueError: It is not UTF-8, not JSON, or has an integer of too many digits.
        RecursionError: It is nested too deeply.
    """
    return json.load(io.TextIOWrapper(io.BytesIO(data), encoding="utf-8"))


class TorchTpu:
    """torch_tpu since August 2024."""

    name = "torch_tpu"
    title = "torch_tpu since August 2024: read_rank_table()"

    def outcomes(self, data: bytes, ranks: Sequence[int]) -> list[str]:
        """Return what the process of each rank gets."""
        search = _LookUps(ranks)
        failure = None
        try:
            search.walk(load(data))
        except ERRORS as error:
            failure = raised(error)
        return [
            search.failures.get(rank)
            or failure
            or indexed(search.chip_maps.get(rank, []), rank)
            for rank in ranks
        ]


class _LookUps:
    """One walk over a table for many processes, each of which would read it itself.

    Attributes:
        chip_maps: Chips of the last node that has a rank, by rank.
        failures: Exception by rank, for ranks whose own chips cannot be read.
    """

    def __init__(self, ranks: Sequence[int]) -> None:
        self.ranks = frozenset(ranks)
        self.chip_maps: dict[int, list[int]] = {}
        self.failures: dict[int, str] = {}

    def walk(self, document: Any) -> None:
        """Look at every device of every node, in document order.

        Raises:
            Exception: One of ``ERRORS``; every process that has not failed before gets
                it.
        """
        for node in document["node_list"]:
            chips: list[int] | str | None = None
            for device in node["device_list"]:
                rank = int(device["world_rank"])
                if rank not in self.ranks or rank in self.failures:
                    continue
                if chips is None:
                    chips = _chips(node)
                if isinstance(chips, str):
                    self.failures[rank] = chips
                else:
                    self.chip_maps[rank] = chips


def _chips(node: Any) -> list[int] | str:
    """Return the chips of a node, or the exception that they cause.

    Only the process whose rank is on the node converts them, so a missing device_id
    does not affect the ranks of other nodes.
    """
    try:
        return [int(device["device_id"]) for device in node["device_list"]]
    except ERRORS as error:
        return raised(error)


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


def _chip_map(document: Any) -> list[int]:
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
        # assumed to be that of the first server, so a second one cannot match.
        address = server["server_ip"]
        if machine is None and isinstance(address, str) and address:
            machine = address
        if address != machine:
            raise AssertionError("The machine ip is inconsistent with the config ip")
        chips.extend(int(device["device_id"]) for device in server["device"])
    return chips
