"""The two lists of Ascend's npu-smi that are no drawn tables.

Source: Huawei, npu-smi command reference; outputs of 910B and 910C hosts.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ranktable.cluster.discovery.source import refuse_repetition
from ranktable.cluster.discovery.unseen import UnseenError
from ranktable.schema.messages import quoted

_PAIR = re.compile(r"\s*([A-Za-z ]+?)\s*:\s*([0-9]{1,6})\s*")
_HEAD = re.compile(
    r"NPU ID\s+Chip ID\s+Chip Logic ID(?P<physical>\s+Chip Phy-ID)?\s+Chip Name"
)

_ROW = re.compile(r"([0-9]{1,6})\s+([0-9]{1,6})\s+([0-9]{1,6}|-)\s+(.+)")
_PHYSICAL = re.compile(r"([0-9]{1,6}|-)\s+(.+)")


@dataclass(frozen=True, slots=True)
class MappedChip:
    """A row of ``npu-smi info -m``.

    Attributes:
        logic_id: Its place among the chips that can be seen.
        physical_id: Its number in the host, None where the list has no such column.
        name: Its model.
    """

    logic_id: int
    physical_id: int | None
    name: str


def parse_list(text: str) -> int:
    """Return the number of chips that ``npu-smi info -l`` counts.

    Raises:
        UnseenError: It says something else.
    """
    pairs = [_PAIR.fullmatch(line) for line in text.splitlines() if line.strip()]
    if not pairs or not all(pairs):
        raise UnseenError("npu-smi info -l prints something else than keys and numbers")
    values = [(pair[1], int(pair[2])) for pair in pairs if pair]
    key, total = values[0]
    boards = [value for name, value in values if name == "NPU ID"]
    refuse_repetition(boards, "NPU")
    if key != "Total Count" or total != len(boards):
        raise UnseenError(
            f"npu-smi info -l: {key} is {total}, and it lists {len(boards)}"
        )
    return sum(value for name, value in values if name == "Chip Count")


def parse_mapping(text: str) -> list[MappedChip]:
    """Return the chips that ``npu-smi info -m`` lists, without the controllers.

    Raises:
        UnseenError: It is something else.
    """
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    head = _HEAD.fullmatch(lines[0]) if lines else None
    if head is None:
        raise UnseenError(
            "npu-smi info -m begins with "
            f"{quoted(lines[0]) if lines else 'nothing'}, not with its head line"
        )
    has_physical = head["physical"] is not None
    rows = [_row(line, has_physical=has_physical) for line in lines[1:]]
    chips = [row for row in rows if row is not None]
    refuse_repetition((chip.logic_id for chip in chips), "logic id")
    return chips


def _row(line: str, *, has_physical: bool) -> MappedChip | None:
    match = _ROW.fullmatch(line)
    if match is None:
        raise UnseenError(f"npu-smi info -m: {quoted(line)} is no row of it")
    logic_id, name, physical_id = match[3], match[4], None
    if has_physical:
        rest = _PHYSICAL.fullmatch(name)
        if rest is None:
            raise UnseenError(f"npu-smi info -m: {quoted(line)} lacks a column")
        name = rest[2]
        physical_id = None if rest[1] == "-" else int(rest[1])
    if logic_id == "-":
        return None
    return MappedChip(int(logic_id), physical_id, name)
