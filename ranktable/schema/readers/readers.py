"""Every reader, ours first, and its result for one file.

Ascend's libraries cannot run here, so their results come from the rules: each rule says
what a reader does with the mistake.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ranktable.schema.check import check
from ranktable.schema.diagnostic import Refusal, Severity
from ranktable.schema.readers.reader import Reader, ReaderResult, raised
from ranktable.schema.readers.sccl import Sccl
from ranktable.schema.readers.torch_tpu import TorchTpu, TorchTpu2024
from ranktable.schema.rules.records import NO_GLOBAL_RANKS
from ranktable.schema.table_readers import READERS as TABLE_READERS
from ranktable.schema.vendor_codes import of_2025

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ranktable.schema.diagnostic import Report
    from ranktable.schema.table_readers import TableReader


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
"""The readers, in the order of a report."""


def readings(
    data: bytes | None, ranks: Sequence[int], report: Report | None = None
) -> list[ReaderResult]:
    """Return the result of every reader for a file; never raises because of the file.

    Args:
        data: Bytes of the file, None if it cannot be read: then only the readers of
            Ascend's tables have a result.
        ranks: Global ranks of the processes.
        report: The findings, for the readers of Ascend's tables; these readers are left
            out for a table of SCCL.
    """
    found = [
        ReaderResult(
            reader=reader.name,
            title=reader.title,
            outcomes=tuple(zip(ranks, reader.outcomes(data, ranks), strict=True)),
        )
        for reader in READERS
        if data is not None
    ]
    if report is not None and not (report.format or "").startswith("sccl"):
        found += [
            ReaderResult(
                reader=reader.name,
                title=reader.title,
                outcomes=tuple((rank, text) for rank in ranks),
            )
            for reader, text in verdicts(report)
        ]
    return found


NAMES = ("hccl-2025", "hccl-2026", "torch_npu", "mindspore", "mindie", "vllm", "xllm")
"""Readers whose results come from rules; SCCL and torch_tpu are simulated."""

LINKS = {
    "torch_npu": "accepted, but not read: the path is a link, so the ranks negotiate "
    "without a table, silently",
    "xllm": "refused: the path is a link",
}
UNREADABLE = {
    "hccl-2025": "refused: EI0004",
    "hccl-2026": "refused: EI0004",
    "mindspore": "refused: EI0004",
    "torch_npu": "not read: the ranks negotiate without a table, silently",
}
"""Their results if there is no file, or one that cannot be read."""

REFUSES = "refuses the table"
"""The effect if only the refusal is known; the finding's message is shown instead."""

MAX_EFFECTS = 3


def verdicts(report: Report) -> list[tuple[TableReader, str]]:
    """Return the result of each program for the file of a report."""
    readers = [reader for reader in TABLE_READERS if reader.name in NAMES]
    if report.data is None:
        nothing = "refused: it cannot read the file"
        return [(reader, UNREADABLE.get(reader.name, nothing)) for reader in readers]
    said = LINKS if Path(report.file).is_symlink() else {}
    return [
        (reader, said.get(reader.name) or verdict(reader, report)) for reader in readers
    ]


def verdict(reader: TableReader, report: Report) -> str:
    """Return ``accepted`` or ``refused``, with the reason if there is one."""
    if reader.name == "mindie":  # it has rules of its own
        assert report.data is not None
        report = check(report.data, reader=reader.name, limit=1)
    refused, wrong = _effects(reader, report)
    if not refused and report.format not in reader.formats:
        document = None if report.columns is None else report.columns.document.data
        refused = [reader.refusal_of(report.format or "", document)]
    if refused:
        return f"refused: {_listed(refused)}"
    return f"accepted, but {_listed(wrong)}" if wrong else "accepted"


def _effects(reader: TableReader, report: Report) -> tuple[list[str], list[str]]:
    """Return the effects of the findings: those that refuse the table, and others."""
    refused, wrong = [], []
    for finding in report.findings:
        effect = reader.effect(finding.rule)
        is_lighter = finding.weight not in (None, Severity.ERROR)
        if effect is None:
            continue
        if isinstance(effect, Refusal) and not is_lighter:
            said = finding.message if effect == REFUSES else effect
            refused.append(of_2025(said) if reader.name == "hccl-2025" else said)
        elif finding.severity is not Severity.NOTE:
            wrong.append(finding.message)
    return refused, wrong


def _listed(texts: list[str]) -> str:
    unique = list(dict.fromkeys(texts))
    more = len(unique) - MAX_EFFECTS
    return "; ".join(unique[:MAX_EFFECTS]) + (f"; and {more} more" if more > 0 else "")
