"""Every reader, ours first, and what they make of one file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ranktable.schema.check import check
from ranktable.schema.diagnostic import Severity
from ranktable.schema.readers.reader import Reader, Reading, raised
from ranktable.schema.readers.sccl import Sccl
from ranktable.schema.readers.torch_tpu import TorchTpu, TorchTpu2024
from ranktable.schema.readers.verdicts import verdicts
from ranktable.schema.rules.records import NO_GLOBAL_RANKS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ranktable.schema.diagnostic import Report


class Ranktable:
    """ranktable itself."""

    name = "ranktable"
    title = "ranktable: read_rank_table()[rank]"

    def outcomes(self, data: bytes, ranks: Sequence[int]) -> list[str]:
        """Return the chip of each rank, or the code of the first error for all."""
        report = check(data, limit=1)
        if report.table is None:
            return [_first_error(report)] * len(ranks)
        if not report.table.has_global_ranks:
            return [NO_GLOBAL_RANKS.code] * len(ranks)
        chip_map = report.table.chip_map
        return [_chip(chip_map, rank) for rank in ranks]


def _first_error(report: Report) -> str:
    """Return the code of the first error in the order of the file."""
    return next(
        diagnostic.code
        for diagnostic in report.diagnostics
        if diagnostic.severity is Severity.ERROR
    )


def _chip(chip_map: list[int], rank: int) -> str:
    try:
        return str(chip_map[rank])
    except IndexError as error:
        return raised(error)


READERS: tuple[Reader, ...] = (Ranktable(), TorchTpu(), Sccl(), TorchTpu2024())
"""In the order of a report."""


def readings(
    data: bytes | None, ranks: Sequence[int], report: Report | None = None
) -> list[Reading]:
    """Return what every reader makes of a file; nothing is raised for any bytes.

    Args:
        data: Bytes of the file, None where it cannot be read: only the readers of
            Ascend's tables are known then.
        ranks: Global ranks of the processes to answer for.
        report: What was found in the file, for the readers of Ascend's tables; they
            are left out for a table of SCCL.
    """
    found = [
        Reading(
            reader=reader.name,
            title=reader.title,
            outcomes=tuple(zip(ranks, reader.outcomes(data, ranks), strict=True)),
        )
        for reader in READERS
        if data is not None
    ]
    if report is not None and not (report.format or "").startswith("sccl"):
        found += [
            Reading(
                reader=reader.name,
                title=reader.title,
                outcomes=tuple((rank, text) for rank in ranks),
            )
            for reader, text in verdicts(report)
        ]
    return found
