"""What a check is told beside the file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ranktable.schema.files import DEFAULT_MAX_SIZE_BYTES
from ranktable.schema.formats import by_name
from ranktable.schema.rules.chips import MAX_SCCL_CHIPS
from ranktable.schema.table_readers import reader_by_name

if TYPE_CHECKING:
    from ranktable.schema.format import Format
    from ranktable.schema.table_readers import TableReader
    from ranktable.schema.topology import Topology

CHIPS_PER_HOST = {"bm1690": MAX_SCCL_CHIPS, "sg2260": MAX_SCCL_CHIPS}
"""Chips that SCCL drives in one host, by the name of the chip or its architecture."""

NPUS: dict[str, int | None] = {
    "910": 8,
    "A2": 16,
    "A3": 16,
    "310P": 32,
    "A5": None,
    "any": None,
}
"""Ascend's generations of chips, and how many device_id counts; ``any`` is no claim."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """What a check is told beside the file.

    Attributes:
        chips_per_node: Number of chips of every host, None when unknown.
        npu: Ascend's generation of the chips, a key of ``NPUS``, None when unknown.
        topology: Links between the chips of every host, None when unknown.
        tp: Size of the tensor parallel groups, None when unknown.
        format: Format the file must have, None to detect it.
        reader: The program that will read the file, None when unknown.
        max_size_bytes: Limit of the file.
        limit: Diagnostics of each code to place and show, None for all.
    """

    chips_per_node: int | None = None
    npu: str | None = None
    topology: Topology | None = None
    tp: int | None = None
    format: Format | None = None
    reader: TableReader | None = None
    max_size_bytes: int = DEFAULT_MAX_SIZE_BYTES
    limit: int | None = None


def make_options(  # noqa: PLR0913 - every one is an option of its own
    *,
    chip: str | int | None = None,
    topology: Topology | str | None = None,
    tp: int | None = None,
    format: str | None = None,  # noqa: A002 - a fixed name
    reader: str | None = None,
    limit: int | None = None,
    max_size_bytes: int = DEFAULT_MAX_SIZE_BYTES,
) -> Options:
    """Return the options of a check from what its caller gave; see ``check``.

    Raises:
        ValueError: An argument is wrong, such as an unknown chip or format.
        RankTableError: The file of links is wrong.
    """
    if tp is not None and tp < 1:
        raise ValueError(f"tp must be at least 1, and is {tp}")
    if isinstance(topology, str):
        from ranktable.schema.topology_file import find_topology  # noqa: PLC0415 - rare

        topology = find_topology(topology)
    return Options(
        chips_per_node=chips_per_host(chip),
        npu=str(chip) if chip != "any" and str(chip) in NPUS else None,
        topology=topology,
        tp=tp,
        format=by_name(format) if format is not None else None,
        reader=reader_by_name(reader) if reader is not None else None,
        max_size_bytes=max_size_bytes,
        limit=limit,
    )


def chips_per_host(chip: str | int | None) -> int | None:
    """Return the number of chips of a host that an option gives.

    Raises:
        ValueError: It is neither a positive number nor a chip we know.
    """
    if chip is None:
        return None
    if str(chip) in NPUS:
        return NPUS[str(chip)]
    if isinstance(chip, str) and chip in CHIPS_PER_HOST:
        return CHIPS_PER_HOST[chip]
    if str(chip).isascii() and str(chip).isdigit() and 0 < int(chip) < 10**6:
        return int(chip)
    known = ", ".join((*CHIPS_PER_HOST, *NPUS))
    raise ValueError(f"chip {chip!r} is neither a number of chips nor one of {known}")
