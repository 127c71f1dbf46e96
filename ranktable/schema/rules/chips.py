"""RT207 to RT209: every chip of a node once, and a chip that exists."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ranktable.schema.diagnostic import Severity
from ranktable.schema.messages import counted
from ranktable.schema.rules.rule import PAIR, Rule, chips, device, one_node

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ranktable.schema.columns import Columns
    from ranktable.schema.finding import Finding

MAX_SCCL_CHIPS = 16
"""Size of the array of chips in SCCL's 2024 source, written without a bound check."""

DUPLICATE_CHIP = Rule(
    code="RT207",
    name="duplicate-chip",
    summary="one chip of a node is given to two ranks",
    why=(
        "A chip serves one process. On another node the same number is another chip, "
        "so only repetitions within a node count."
    ),
    fix="Give the second rank a chip of its own.",
    readers={
        "torch_tpu": "accepts it; both processes open the chip",
        "SCCL": "no check for duplicates; fails or hangs at the first collective",
    },
    seen_as=("sccl comm init rank failed",),
    bad=one_node(device(0, 0), device(0, 1)),
    good=PAIR,
)
NO_SUCH_CHIP = Rule(
    code="RT208",
    name="no-such-chip",
    summary="a device_id is negative, or beyond the chips of the host",
    why=(
        "device_id is the index of the chip on its host, from 0. How many a host has "
        "is known from --chip or from --topology."
    ),
    fix="Use the number that tpu-smi shows; ids count chips, not cards.",
    readers={
        "torch_tpu": "accepts it; set_device fails",
        "SCCL": "sgSetDevice failed! Error Code",
    },
    seen_as=("sgSetDevice failed! Error Code", "Invalid tpu id"),
    bad=one_node(device(0, 0), device(-1, 1)),
    good=PAIR,
)
TOO_MANY_CHIPS = Rule(
    code="RT209",
    name="too-many-chips",
    severity=Severity.WARNING,
    summary="a node has more chips than SCCL's fixed array of 16",
    why=(
        "SCCL's 2024 source keeps the chips of a node in an array of 16 entries and "
        "does not check its bound; later releases are not public."
    ),
    fix="Ask the vendor before using more than 16 chips of a host in one job.",
    readers={"torch_tpu": "accepts it", "SCCL": "writes beyond its array (2024)"},
    bad=chips(*range(18)),
    good=chips(*range(16)),
)

RULES = (DUPLICATE_CHIP, NO_SUCH_CHIP, TOO_MANY_CHIPS)


def check_chips(columns: Columns, chips_per_node: int | None) -> Iterator[Finding]:
    """Yield RT207 for chips used twice in a node, RT208 and RT209.

    Args:
        columns: The table.
        chips_per_node: Number of chips of every host, None when unknown.
    """
    sound: set[tuple[int | None, ...]] = set()
    for node, start, end in columns.nodes():
        found = tuple(columns.device_ids[start:end])
        if found in sound:
            continue  # most nodes of a cluster use the same chips
        if _is_sound(found, chips_per_node):
            sound.add(found)
        else:
            yield from _node_chips(columns, node, start, found, chips_per_node)


def _is_sound(found: tuple[int | None, ...], chips_per_node: int | None) -> bool:
    chips = [chip for chip in found if chip is not None]
    return (
        len(set(chips)) == len(chips)
        and len(found) <= MAX_SCCL_CHIPS
        and min(chips, default=0) >= 0
        and (chips_per_node is None or max(chips, default=0) < chips_per_node)
    )


def _node_chips(
    columns: Columns,
    node: int,
    start: int,
    found: tuple[int | None, ...],
    chips_per_node: int | None,
) -> Iterator[Finding]:
    first_use: dict[int, int] = {}
    for index, chip in enumerate(found, start):
        if chip is None:
            continue
        beyond = chip < 0 or (chips_per_node is not None and chip >= chips_per_node)
        if beyond and not columns.quota.is_spent(NO_SUCH_CHIP):
            yield _no_such_chip(columns, index, chip, chips_per_node)
        if chip not in first_use:
            first_use[chip] = index
        elif not columns.quota.is_spent(DUPLICATE_CHIP):
            first = first_use[chip]
            yield DUPLICATE_CHIP.finding(
                columns.device_id_spot(index),
                f"chip {chip} of node {node} is assigned to {columns.name(first)} "
                f"and to {columns.name(index)}",
                hint="every process needs a chip of its own",
                related=(columns.device_id_spot(first, label="first use"),),
            )
    if len(found) > MAX_SCCL_CHIPS and not columns.quota.is_spent(TOO_MANY_CHIPS):
        yield TOO_MANY_CHIPS.finding(
            columns.device_id_spot(start + MAX_SCCL_CHIPS),
            f"node {node} has {len(found)} chips; SCCL's array holds {MAX_SCCL_CHIPS}",
        )


def _no_such_chip(
    columns: Columns, index: int, chip: int, chips_per_node: int | None
) -> Finding:
    if chips_per_node is None:
        message = f"chip {chip} of {columns.name(index)} is negative"
        hint = None
    else:
        message = (
            f"chip {chip} of {columns.name(index)} does not exist: the host has "
            f"{counted(chips_per_node, 'chip')}"
        )
        hint = f"chips are numbered 0 to {chips_per_node - 1}"
    return NO_SUCH_CHIP.finding(columns.device_id_spot(index), message, hint=hint)
