"""RT130 to RT139: the shape of host files; RT220 to RT229: their meaning."""

from __future__ import annotations

from ranktable.schema.finding import Rule, Severity

BAD_LINE = Rule(
    code="RT130",
    name="bad-line",
    summary="a line does not belong in this kind of file",
    fix="Write the line as the hint shows; docs/hostfiles.md shows every kind.",
)
BAD_HOST = Rule(
    code="RT131",
    name="bad-host",
    summary="a host cannot have this name",
    fix="Write one host name or address, without a count, a user or a second name.",
)
BAD_COUNT = Rule(
    code="RT132",
    name="bad-count",
    summary="this is not a number of processes, nodes or ports",
    fix="Write a plain decimal number.",
)
NO_HOSTS = Rule(
    code="RT133",
    name="no-hosts",
    summary="the file names no host",
    fix="Write at least one host.",
)
IGNORED_TEXT = Rule(
    code="RT139",
    name="ignored-text",
    severity=Severity.WARNING,
    summary="text that the launcher ignores",
    fix="Remove the text, or put it in a comment on its own line.",
)


HOST_TWICE = Rule(
    code="RT220",
    name="host-twice",
    summary="a host is described twice",
    fix="Give the host one line with all of its slots.",
)
NO_SLOTS = Rule(
    code="RT222",
    name="no-slots",
    summary="a host has no slots",
    fix="Remove the host, or give it slots.",
)
RANK_TWICE = Rule(
    code="RT224",
    name="rank-placed-twice",
    summary="a rank is listed twice",
    fix="Give one of the two the rank that is missing.",
)
RANK_MISSING = Rule(
    code="RT225",
    name="rank-not-placed",
    summary="a rank is missing",
    fix="Add a line for the rank, or number the ranks anew.",
)
COUNTS_DISAGREE = Rule(
    code="RT227",
    name="counts-disagree",
    summary="two numbers or names of a file contradict each other",
    fix="Correct the wrong one.",
)
SLOT_TWICE = Rule(
    code="RT229",
    name="slot-twice",
    severity=Severity.WARNING,
    summary="a slot of a host is named twice",
    fix="Give every rank its own slot.",
)

RULES = (
    BAD_LINE,
    BAD_HOST,
    BAD_COUNT,
    NO_HOSTS,
    IGNORED_TEXT,
    HOST_TWICE,
    NO_SLOTS,
    RANK_TWICE,
    RANK_MISSING,
    COUNTS_DISAGREE,
    SLOT_TWICE,
)
