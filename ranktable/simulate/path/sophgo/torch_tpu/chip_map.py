"""``CHIP_MAP``: which chip each local rank of a node has."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ranktable.schema.topology import SOPHGO_8
from ranktable.simulate import device
from ranktable.simulate.errors import repaired
from ranktable.simulate.run import Finding, report
from torch_tpu._run import FOLDER, RUN
from torch_tpu.rank_table import is_rank_table_valid, read_rank_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch_tpu.options import ProcessGroupSCCLOptions

VARIABLE = "CHIP_MAP"
SHORT = "chip map size must be same with the nranks"
_PAIR = 2
"""Chips that the vendor takes without asking its library, which are 0 and 1."""


def mapped(index: object) -> object:
    """Return the chip of a local rank: by ``CHIP_MAP``, or else itself.

    What is no number is returned as it is.

    Raises:
        ValueError: It is negative.
        IndexError: ``CHIP_MAP`` has too few chips.
    """
    text = os.environ.get(VARIABLE)
    if not text:
        return index
    chips = [int(part) for part in text.split(",")]
    try:
        local_rank = int(index)  # type: ignore[call-overload]
    except (TypeError, ValueError):
        return index
    if local_rank < 0:
        raise ValueError(f"Invalid local_rank_idx: {local_rank}")
    return chips[local_rank]


def map_local_rank_to_device_idx(local_rank: int) -> object:
    """Return the chip of a local rank."""
    return mapped(local_rank)


def set_chip_map(
    options: ProcessGroupSCCLOptions,
    use_rank_table: bool = False,  # noqa: FBT001, FBT002 - the vendor's interface
    chip_map: Sequence[int] | None = None,
) -> None:
    """Give options a chip map, and export it.

    Args:
        options: What to put it into.
        use_rank_table: Whether to take it from the rank table.
        chip_map: What to take if ``CHIP_MAP`` is not set.

    Raises:
        ValueError: The map has too few chips for this node.
        RuntimeError: There is no ring of this size.
        TypeError: In a strict run, from a table that can be read.
    """
    if use_rank_table or _needs_table(chip_map):
        chips = read_rank_table()
        defect = TypeError("str expected, not list")  # which no variable can hold
        if RUN.is_strict:
            raise defect
        if use_rank_table:
            what = "set_chip_map with use_rank_table=True"
            repaired(FOLDER, what, f"TypeError: {defect}")
        else:
            what = "set_chip_map, which knows the chips of one node, for several"
            repaired(FOLDER, what, f"RuntimeError: {SHORT}")
        options.chip_map = chips
        _export(chips[_first_rank() : _first_rank() + _local_world_size()])
        return
    chips = _ring(_given(chip_map))
    options.chip_map = chips
    _export(chips)


def _needs_table(chip_map: Sequence[int] | None) -> bool:
    """Whether only the table has a chip for every rank: the job has other nodes too.

    The vendor looks at its own node only, so that its map is too short.
    """
    if RUN.is_strict or chip_map is not None or os.environ.get(VARIABLE):
        return False
    has_others = int(os.environ.get("WORLD_SIZE", "1")) > _local_world_size()
    return has_others and is_rank_table_valid()


def _given(chip_map: Sequence[int] | None) -> list[int] | None:
    """Return the map that the user wants; the variable wins over the argument."""
    text = os.environ.get(VARIABLE)
    if not text:
        return None if chip_map is None else list(chip_map)
    chips = [int(part) for part in text.split(",")]
    if chip_map is not None and list(chip_map) != chips:
        _warn(
            f"set_chip_map was given {list(chip_map)}, but takes {VARIABLE}={text}, "
            "which is set too"
        )
    return chips


def _ring(given: list[int] | None) -> list[int]:
    """Return a map whose chips are in the order of a ring, as the vendor does."""
    size = _local_world_size()
    if given is None and size <= _PAIR and (RUN.is_strict or _has_first_pair()):
        return [0, 1]
    if given is not None and len(given) < size:
        raise ValueError(f"Size mismatch: got {len(given)}, expected {size}")
    if given is not None and (size == 1 or not SOPHGO_8.broken_links(given[:size])):
        return given
    recommended = _recommended(size)
    if given is not None:
        _warn(
            f"set_chip_map was given {given}, which is in no order of a ring, and took "
            f"{recommended} in its place; so does torch_tpu, with an INFO line at most"
        )
    return recommended


def _has_first_pair() -> bool:
    return {0, 1}.issubset(device.chips())


def _recommended(size: int) -> list[int]:
    """Return a ring of the chips that exist.

    Raises:
        RuntimeError: There is none, in the vendor's words.
    """
    rings = SOPHGO_8.rings_of_size(size, limit=SOPHGO_8.num_chips**2)
    there = set(device.chips())
    for ring in rings:
        if there.issuperset(ring):
            return list(ring)
    message = f"no {size} of the chips form a ring, which SCCL needs"
    report(FOLDER, Finding(severity="error", message=message))
    raise RuntimeError(" TPUGetC2CRing failed! Error Code : #1")


def get_topology(matrix: list[list[int]]) -> None:
    """Fill a square matrix with the links of the published box.

    Args:
        matrix: Gets the port of a link, -1 where there is none.

    Raises:
        ValueError: It has another shape.
    """
    size = device.device_count()
    if len(matrix) != size or any(len(row) != size for row in matrix):
        raise ValueError(f"the topology of {size} chips needs {size} rows of {size}")
    for a, row in zip(sorted(device.chips()), matrix, strict=True):
        ports = SOPHGO_8.neighbours[a] if a < SOPHGO_8.num_chips else ()
        for column, b in enumerate(sorted(device.chips())):
            row[column] = ports.index(b) if b in ports else -1


def _export(chips: Sequence[int]) -> None:
    os.environ[VARIABLE] = ",".join(map(str, chips))


def _local_world_size() -> int:
    return int(os.environ.get("LOCAL_WORLD_SIZE", "1"))


def _first_rank() -> int:
    """Return the global rank of local rank 0 of this node."""
    return int(os.environ.get("RANK", "0")) - int(os.environ.get("LOCAL_RANK", "0"))


def _warn(message: str) -> None:
    if os.environ.get("LOCAL_RANK", "0") == "0":
        report(FOLDER, Finding(severity="warning", message=message))
