"""Which chip a local rank has: ``CHIP_MAP``, ``set_device`` and ``torch.device``.

The vendor replaces torch's class by its own. It maps the index of ``tpu:N``, of a bare
number, and of the form with two arguments, in the user's code and in torch's own:
``DistributedDataParallel(device_ids=[LOCAL_RANK])`` and DTensor pass a local rank. But
it also maps the index of ``cpu``, and the chip in ``torch.device("tpu:3")``, as if that
were a local rank. So it does here, with a warning where this surprises.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from ranktable.runtime import table
from ranktable.schema.topology import SOPHGO_8
from ranktable.simulate import device as simulated
from ranktable.simulate.simulated_run import RunFinding, report
from ranktable.simulate.simulation_error import repaired, warn_once
from torch_tpu._run import FOLDER

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch_tpu.sccl_options import ProcessGroupSCCLOptions


def is_rank_table_valid() -> bool:
    """Whether there is a usable rank table; the vendor's raises if there is no file."""
    name = os.environ.get(table.VARIABLE)
    if not name or not Path(name).exists():
        why = "RANK_TABLE_FILE not set" if name is None else "File not exist"
        what = f"is_rank_table_valid with {table.VARIABLE}={name}"
        repaired(FOLDER, what, f"AssertionError: {why}")
    return table.is_rank_table_valid()


def read_rank_table() -> list[int]:
    """Return the chip of every rank; the vendor's returns those of one node at most.

    Raises:
        RankTableError: There is no sound table.
    """
    chips = table.read_rank_table()
    try:
        vendors = _vendors_chips()
    except Exception as error:  # noqa: BLE001 - whatever the vendor's code raises
        vendors_error = f"{type(error).__name__}: {str(error).strip()}"
        repaired(FOLDER, "read_rank_table with this table", vendors_error)
        return chips
    if vendors != chips:
        what = (
            "chip_map[rank], as the manual has it, after a read_rank_table that knows "
        )
        repaired(
            FOLDER,
            what + "the chips of one node",
            "IndexError: list index out of range",
        )
    return chips


def _vendors_chips() -> list[int]:
    rank = int(os.environ.get("RANK"))  # type: ignore[arg-type]  # as the vendor's
    path: Any = os.environ.get(table.VARIABLE)
    with open(path, encoding="utf-8") as file:
        return _chips_of_node(json.load(file), rank)


def _chips_of_node(document: Any, rank: int) -> list[int]:
    """Return the chips of the last node that has a rank, in file order.

    Source: sophgo/torch-tpu, torch_tpu/tpu/utils.py, from bc46f06c (2024-08-23) on.
    """
    chips: list[int] = []
    for node in document["node_list"]:
        for each in node["device_list"]:
            if int(each["world_rank"]) == rank:
                chips = [int(each["device_id"]) for each in node["device_list"]]
    return chips


VARIABLE = "CHIP_MAP"
SHORT = "chip map size must be same with the nranks"
_PAIR = 2
"""Number of chips for which the vendor does not ask its library: chips 0 and 1."""


def mapped(index: object) -> object:
    """Return the chip of a local rank: by ``CHIP_MAP``, otherwise the local rank.

    A value that is not a number is returned as it is.

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


map_local_rank_to_device_idx = mapped  # the vendor's name


def set_chip_map(
    options: ProcessGroupSCCLOptions,
    use_rank_table: bool = False,
    chip_map: Sequence[int] | None = None,
) -> None:
    """Put a chip map into options, and export it.

    Args:
        options: The options.
        use_rank_table: Whether the map comes from the rank table.
        chip_map: The map if ``CHIP_MAP`` is not set.

    Raises:
        ValueError: The map has too few chips for this node.
        RuntimeError: There is no ring of this size.
    """
    if use_rank_table:
        # It assigns a list to an environment variable.
        error = "TypeError: str expected, not list"
        repaired(FOLDER, "set_chip_map with use_rank_table=True", error)
        chips, first = read_rank_table(), _first_rank()
        options.chip_map = chips
        _export(chips[first : first + _local_world_size()])
        return
    chips = _ring(_given(chip_map))
    options.chip_map = chips
    _export(chips)


def _given(chip_map: Sequence[int] | None) -> list[int] | None:
    """Return the user's map; the variable is stronger than the argument."""
    text = os.environ.get(VARIABLE)
    if not text:
        return None if chip_map is None else list(chip_map)
    chips = [int(part) for part in text.split(",")]
    if chip_map is not None and list(chip_map) != chips:
        warn_once(
            FOLDER,
            f"set_chip_map was given {list(chip_map)}, but takes {VARIABLE}={text}, "
            "which is set too",
        )
    return chips


def _ring(given: list[int] | None) -> list[int]:
    """Return a map whose chips are in the order of a ring, as the vendor does."""
    size = _local_world_size()
    if given is None and size <= _PAIR and {0, 1}.issubset(simulated.chips()):
        return [0, 1]
    if given is not None and len(given) < size:
        raise ValueError(f"Size mismatch: got {len(given)}, expected {size}")
    if given is not None and (size == 1 or not SOPHGO_8.broken_links(given[:size])):
        return given
    recommended = _recommended(size)
    if given is not None:
        warn_once(
            FOLDER,
            f"set_chip_map was given {given}, which is not in the order of a ring, "
            f"and took {recommended} in its place; so does torch_tpu, with an INFO "
            "line at most",
        )
    return recommended


def _recommended(size: int) -> list[int]:
    """Return a ring of the chips that exist.

    Raises:
        RuntimeError: There is no such ring; the message is the vendor's.
    """
    rings = SOPHGO_8.rings_of_size(size, limit=SOPHGO_8.num_chips**2)
    there = set(simulated.chips())
    for ring in rings:
        if there.issuperset(ring):
            return list(ring)
    message = f"no {size} of the chips form a ring, which SCCL needs"
    report(FOLDER, RunFinding(severity="error", message=message))
    raise RuntimeError(" TPUGetC2CRing failed! Error Code : #1")


def get_topology(matrix: list[list[int]]) -> None:
    """Fill a square matrix with the links of the published box.

    Args:
        matrix: It gets the port of each link, -1 for no link.

    Raises:
        ValueError: The matrix has another shape.
    """
    size = simulated.device_count()
    if len(matrix) != size or any(len(row) != size for row in matrix):
        raise ValueError(f"the topology of {size} chips needs {size} rows of {size}")
    for a, row in zip(sorted(simulated.chips()), matrix, strict=True):
        ports = SOPHGO_8.neighbours[a] if a < SOPHGO_8.num_chips else ()
        for column, b in enumerate(sorted(simulated.chips())):
            row[column] = ports.index(b) if b in ports else -1


def _export(chips: Sequence[int]) -> None:
    os.environ[VARIABLE] = ",".join(map(str, chips))


def _local_world_size() -> int:
    return int(os.environ.get("LOCAL_WORLD_SIZE", "1"))


def _first_rank() -> int:
    """Return the global rank of local rank 0 of this node."""
    return int(os.environ.get("RANK", "0")) - int(os.environ.get("LOCAL_RANK", "0"))


REAL = torch.device
_NAME = "tpu"
_NAMED = re.compile(rf"{_NAME}:(\d+)", re.IGNORECASE)


class _DeviceClass(type):
    """Makes instances of torch's class also instances of this class."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, REAL)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return subclass is MappedDevice or issubclass(subclass, REAL)

    def __eq__(cls, other: object) -> bool:
        return other is REAL or other is MappedDevice

    def __hash__(cls) -> int:
        return hash(REAL)

    def __getattr__(cls, name: str) -> object:
        return getattr(REAL, name)


class MappedDevice(metaclass=_DeviceClass):
    """torch.device."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """Return a device of torch's own class."""
        if args:
            args = _mapped_arguments(*args)
        elif "device" in kwargs:
            kwargs["device"] = _mapped_argument(kwargs["device"])
        return REAL(*args, **kwargs)


def _mapped_arguments(first: object, *rest: object) -> tuple[object, ...]:
    if not rest:
        return (_mapped_argument(first),)
    return (first, _chip(rest[0], first), *rest[1:])


def _mapped_argument(argument: object) -> object:
    if isinstance(argument, int):
        return f"{_NAME}:{_chip(argument)}"
    if isinstance(argument, str) and (named := _NAMED.fullmatch(argument)):
        return f"{_NAME}:{_chip(int(named[1]))}"
    return argument


def _chip(index: object, kind: object = _NAME) -> object:
    """Return the index that torch_tpu makes of that of a device."""
    text = os.environ.get(VARIABLE)
    if not text or not isinstance(index, int) or index < 0:
        return mapped(index)
    # For a larger index the vendor starts from 0 again (e793a3f5, 2025-10-29).
    chips = [int(part) for part in text.split(",")]
    chip = chips[index % len(chips)]
    how = ""
    if kind != _NAME and chip != index:
        how = "maps the index of every kind"
    elif index >= len(chips):
        how = f"counts an index from 0 again after {len(chips)} chips"
    elif chip != index == selected_chip():
        own = chips.index(index) if index in chips else index
        how = f"takes {index} for a local rank; chip {index} is tpu:{own}"
    if how:
        warn_once(
            FOLDER,
            f"torch.device('{kind}:{index}') is {kind}:{chip}, as with torch_tpu, "
            f"which, with {VARIABLE}={text}, {how}",
        )
    return chip


torch.device = MappedDevice  # type: ignore[misc]

_selected = False


def set_device(device: int | str | torch.device) -> None:
    """Make a chip current: the one of a local rank if ``CHIP_MAP`` is set.

    Args:
        device: A local rank, or a chip without ``CHIP_MAP``; a ``torch.device`` has its
            chip already.

    Raises:
        RuntimeError: There is no such chip.
        TypeError: It is not a number.
    """
    global _selected  # noqa: PLW0603 - one chip a process is current
    if isinstance(device, REAL):
        _repair_type("torch.device")
        index: object = device.index
    elif isinstance(device, str) and device.startswith("tpu:"):
        _repair_type("str")
        index = mapped(device.removeprefix("tpu:"))
    else:
        index = mapped(device)
    if isinstance(index, str) and index.isdecimal():
        index = int(index)
    if index >= 0:  # type: ignore[operator]  # the TypeError is the vendor's answer
        simulated.set_device(index)  # type: ignore[arg-type]
        _selected = True


def _repair_type(kind: str) -> None:
    error = f"'>=' not supported between instances of '{kind}' and 'int'"
    repaired(FOLDER, f"set_device with a {kind}", f"TypeError: {error}")


def selected_chip() -> int | None:
    """Return the current chip, None if the script has selected none."""
    return simulated.current_device() if _selected else None
