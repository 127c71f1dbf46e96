"""RT207 to RT209: every chip of a node once, and a chip that exists."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ranktable.schema.diagnostic import Refusal, Rule, Severity
from ranktable.schema.messages import counted
from ranktable.schema.rules.examples import (
    PAIR,
    chips,
    device,
    one_node,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ranktable.schema.columns import Columns
    from ranktable.schema.diagnostic import Finding, Options

    Chips = tuple[int | None, ...]

MAX_SCCL_CHIPS = 16
"""Size of the array of chips in SCCL's 2024 source, written without a bound check."""


def _duplicates(columns: Columns, _: Options) -> Iterator[Finding]:
    for node, start, chips_of_node in _odd_nodes(columns, _are_distinct):
        first_use: dict[int, int] = {}
        for index, chip in enumerate(chips_of_node, start):
            if chip is None or first_use.setdefault(chip, index) == index:
                continue
            if columns.quota.is_spent(DUPLICATE_CHIP):
                continue
            first = first_use[chip]
            yield DUPLICATE_CHIP.finding(
                columns.device_id_span(index),
                f"chip {chip} of node {node} is assigned to {columns.name(first)} "
                f"and to {columns.name(index)}",
                hint="every process needs a chip of its own",
                related=(columns.device_id_span(first, label="first use"),),
            )


def _absent(columns: Columns, options: Options) -> Iterator[Finding]:
    count = options.chips_per_node
    if count is None and options.topology is not None:
        count = options.topology.num_chips

    def exists(chip: int | None) -> bool:
        return chip is None or (chip >= 0 and (count is None or chip < count))

    for _, start, found in _odd_nodes(columns, lambda found: all(map(exists, found))):
        for index, chip in enumerate(found, start):
            if chip is not None and not exists(chip):
                if columns.quota.is_spent(NO_SUCH_CHIP):
                    continue
                yield _no_such_chip(columns, index, chip, count)


def _too_many(columns: Columns, _: Options) -> Iterator[Finding]:
    for node, start, found in _odd_nodes(
        columns, lambda found: len(found) <= MAX_SCCL_CHIPS
    ):
        if not columns.quota.is_spent(TOO_MANY_CHIPS):
            yield TOO_MANY_CHIPS.finding(
                columns.device_id_span(start + MAX_SCCL_CHIPS),
                f"node {node} has {len(found)} chips; SCCL's array holds "
                f"{MAX_SCCL_CHIPS}",
            )


def _are_distinct(found: Chips) -> bool:
    return len(set(found)) == len(found) - max(0, found.count(None) - 1)


def _odd_nodes(
    columns: Columns, is_sound: Callable[[Chips], bool]
) -> Iterator[tuple[int, int, Chips]]:
    """Yield each node whose chips are not sound, its first device and its chips."""
    sound: set[Chips] = set()
    for node, start, end in columns.nodes():
        found = tuple(columns.device_ids[start:end])
        if found in sound:
            continue  # most nodes of a cluster use the same chips
        if is_sound(found):
            sound.add(found)
        else:
            yield node, start, found


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
    return NO_SUCH_CHIP.finding(columns.device_id_span(index), message, hint=hint)


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
        "HCCL": Refusal("EI0014 device_id"),
    },
    seen_as=("sccl comm init rank failed",),
    bad=one_node(device(0, 0), device(0, 1)),
    good=PAIR,
    check=_duplicates,
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
        "HCCL": Refusal("a line in the device log only"),
    },
    seen_as=("sgSetDevice failed! Error Code", "Invalid tpu id"),
    bad=one_node(device(0, 0), device(-1, 1)),
    good=PAIR,
    check=_absent,
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
    check=_too_many,
)

RULES = (DUPLICATE_CHIP, NO_SUCH_CHIP, TOO_MANY_CHIPS)
