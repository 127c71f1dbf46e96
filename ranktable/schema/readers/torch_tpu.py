"""``torch_tpu.tpu.read_rank_table`` since August 2024.

It returns the chips of the node that holds the rank of the process, in file order; the
manual's script then takes ``chip_map[rank]``, which fits the first node only. It reads
``world_rank``, a key that no generator of the vendor writes.

Source: sophgo/torch-tpu, torch_tpu/tpu/utils.py, bc46f06c (2024-08-23) to fe9b478b
(2025-12-09).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ranktable.schema.readers.python_json import ERRORS, load
from ranktable.schema.readers.reader import indexed, raised

if TYPE_CHECKING:
    from collections.abc import Sequence


class TorchTpu:
    """torch_tpu since August 2024."""

    name = "torch_tpu"
    title = "torch_tpu since August 2024: read_rank_table()"

    def outcomes(self, data: bytes, ranks: Sequence[int]) -> list[str]:
        """Return what the process of each rank gets."""
        search = _Search(ranks)
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


class _Search:
    """One walk on behalf of many processes, each of which would walk by itself.

    Attributes:
        chip_maps: Chips of the last node that has a rank, by rank.
        failures: Exception that ends the walk of a rank before everybody's.
    """

    def __init__(self, ranks: Sequence[int]) -> None:
        self.ranks = frozenset(ranks)
        self.chip_maps: dict[int, list[int]] = {}
        self.failures: dict[int, str] = {}

    def walk(self, document: Any) -> None:  # noqa: ANN401 - any JSON, as in the original
        """Look at every device of every node, in document order.

        Raises:
            Exception: One of ``ERRORS``, which the process of every rank meets that
                has not failed before.
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


def _chips(node: Any) -> list[int] | str:  # noqa: ANN401 - any JSON
    """Return the chips of a node, or the exception they end in.

    They are converted for the node that holds the rank only, so a device_id that is
    missing on one node leaves the ranks of the others alone.
    """
    try:
        return [int(device["device_id"]) for device in node["device_list"]]
    except ERRORS as error:
        return raised(error)
