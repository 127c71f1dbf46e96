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

NOT_A_PROBE_LINE = Rule(
    code="RT140",
    name="not-a-probe-line",
    summary="a line was not printed by ranktable probe",
    fix="Keep messages out of standard output, or remove the line.",
)
BAD_PROBE_LINE = Rule(
    code="RT141",
    name="bad-probe-line",
    summary="a line of ranktable probe lacks a key, or a value is wrong",
    fix="Use the line as ranktable probe prints it; docs/discovery.md has every key.",
)
UNKNOWN_PROBE_VERSION = Rule(
    code="RT142",
    name="unknown-probe-version",
    summary="a line of another version of ranktable probe",
    fix="Install one version of ranktable on every node.",
)
NO_CHIPS = Rule(
    code="RT143",
    name="node-without-chips",
    summary="no chips were found on a node",
    fix="Run ranktable probe --format text on the node: it says what it looked for.",
)
MIXED_CHIPS = Rule(
    code="RT144",
    name="mixed-chips",
    severity=Severity.WARNING,
    summary="the nodes have chips of different vendors or models",
    fix="Leave out the nodes that do not belong to the job.",
)
UNHEALTHY_CHIP = Rule(
    code="RT145",
    name="unhealthy-chip",
    severity=Severity.WARNING,
    summary="the vendor's tool says that a chip is not active",
    fix="Reset the chip, or leave out the node.",
)

RULES = (
    NOT_A_PROBE_LINE,
    BAD_PROBE_LINE,
    UNKNOWN_PROBE_VERSION,
    NO_CHIPS,
    MIXED_CHIPS,
    UNHEALTHY_CHIP,
)
