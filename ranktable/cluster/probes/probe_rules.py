"""RT140 to RT145: lines of ``ranktable probe`` that do not describe a node."""

from __future__ import annotations

import json

from ranktable.schema.finding import Rule, Severity


def line(host: str, *chips: dict[str, object], **other: object) -> str:
    """Return an example: the line of one node."""
    head = {"probe": 1, "host": host, "vendor": "sophgo", "model": "BM1690"}
    return json.dumps({**head, **other, "chips": chips}, separators=(",", ":"))


def lines(*texts: str) -> bytes:
    """Return an example: the lines of several nodes."""
    return "".join(f"{text}\n" for text in texts).encode()


CHIPS: tuple[dict[str, object], ...] = ({"device_id": 0}, {"device_id": 1})
FIRST = line("n1", *CHIPS)
SECOND = line("n2", *CHIPS)
_TWO_NODES = lines(FIRST, SECOND)

NOT_A_PROBE_LINE = Rule(
    code="RT140",
    name="not-a-probe-line",
    summary="a line was not printed by ranktable probe",
    why=(
        "merge reads one JSON object per node, each on its own line. Another line may "
        "be the error message of a node that failed, so it is not ignored."
    ),
    fix="Keep messages out of standard output, or remove the line.",
    command="merge",
    bad=lines(FIRST, "Loading module tpu/1.9", SECOND),
    good=_TWO_NODES,
)
BAD_PROBE_LINE = Rule(
    code="RT141",
    name="bad-probe-line",
    summary="a line of ranktable probe lacks a key, or a value of it is wrong",
    why=(
        "Without a host, a node cannot be distinguished from the others. A device_id "
        "that is not a number, or occurs twice, does not give the process a chip."
    ),
    fix="Use the line as ranktable probe prints it; docs/discovery.md has every key.",
    command="merge",
    bad=lines(FIRST, line("n2", {"device_id": "0"}, {"device_id": 1})),
    good=_TWO_NODES,
)
UNKNOWN_PROBE_VERSION = Rule(
    code="RT142",
    name="unknown-probe-version",
    summary="a line of another version of ranktable probe",
    why=(
        "The value of probe is the version of the line. Another version may use other "
        "keys."
    ),
    fix="Install one version of ranktable on every node.",
    command="merge",
    bad=lines(FIRST, SECOND.replace('"probe":1', '"probe":2')),
    good=_TWO_NODES,
)
NO_CHIPS = Rule(
    code="RT143",
    name="node-without-chips",
    summary="no chips were found on a node",
    why=(
        "The driver is not loaded, the container was given no devices, or the node has "
        "no chips. The table would lack this node without a message."
    ),
    fix="Run ranktable probe --format text on the node: it says what it looked for.",
    command="merge",
    bad=lines(FIRST, line("n2", vendor=None, model=None)),
    good=_TWO_NODES,
)
MIXED_CHIPS = Rule(
    code="RT144",
    name="mixed-chips",
    severity=Severity.WARNING,
    summary="the nodes have chips of different vendors or models",
    why="A communication library connects the chips of one vendor only.",
    fix="Leave out the nodes that do not belong to the job.",
    command="merge",
    bad=lines(FIRST, line("n2", *CHIPS, vendor="ascend", model="Ascend 910B3")),
    good=_TWO_NODES,
)
UNHEALTHY_CHIP = Rule(
    code="RT145",
    name="unhealthy-chip",
    severity=Severity.WARNING,
    summary="the vendor's tool says that a chip is not active",
    why="A chip that does not answer makes the job wait until its time-out.",
    fix="Reset the chip, or leave out the node.",
    seen_as=("Invalid tpu id",),
    command="merge",
    bad=lines(
        FIRST,
        line(
            "n2",
            {"device_id": 0, "status": "Active"},
            {"device_id": 1, "status": "Fault"},
        ),
    ),
    good=lines(
        FIRST,
        line(
            "n2",
            {"device_id": 0, "status": "Active"},
            {"device_id": 1, "status": "Active"},
        ),
    ),
)

RULES = (
    NOT_A_PROBE_LINE,
    BAD_PROBE_LINE,
    UNKNOWN_PROBE_VERSION,
    NO_CHIPS,
    MIXED_CHIPS,
    UNHEALTHY_CHIP,
)
