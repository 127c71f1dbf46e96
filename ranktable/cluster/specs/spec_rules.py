"""RT150 to RT156: the shape of a cluster spec; RT240 to RT249: its meaning."""

from __future__ import annotations

from ranktable.schema.finding import Rule

WRONG_TYPE = Rule(
    code="RT150",
    name="spec-wrong-type",
    summary="a value of a cluster spec has the wrong type",
    fix="Write a value of the type that the message names.",
)
UNKNOWN_KEY = Rule(
    code="RT151",
    name="spec-unknown-key",
    summary="a key that a cluster spec does not have",
    fix="Correct the spelling, or remove the key.",
)
MISSING_KEY = Rule(
    code="RT152",
    name="spec-missing-key",
    summary="a cluster spec lacks nodes or chips",
    fix="Add the key.",
)
BAD_HOSTS = Rule(
    code="RT153",
    name="spec-bad-host-list",
    summary="this is not a host list",
    fix="Write, for example, n[001-128],login.",
)
BAD_NUMBER = Rule(
    code="RT154",
    name="spec-bad-number",
    summary="a number of a cluster spec is out of its range",
    fix="Write a number in the range that the message names.",
)
BAD_PATTERN = Rule(
    code="RT155",
    name="spec-bad-pattern",
    summary="braces with an unknown name in a pattern of addresses",
    fix="Write one of these in the braces.",
)
UNKNOWN_ORDER = Rule(
    code="RT156",
    name="spec-unknown-order",
    summary="an order of nodes that does not exist",
    fix="Write as-listed, by-rack or across-racks.",
)


HOST_TWICE = Rule(
    code="RT240",
    name="spec-host-twice",
    summary="a host is listed twice",
    fix="Remove one of the two.",
)
HOST_UNKNOWN = Rule(
    code="RT241",
    name="spec-host-unknown",
    summary="a host is named that nodes does not list",
    fix="Correct the name, or add the host to nodes.",
)
CHIP_TWICE = Rule(
    code="RT242",
    name="spec-chip-twice",
    summary="a chip is listed twice",
    fix="Remove one of the two, or correct its number.",
)
NO_RING = Rule(
    code="RT243",
    name="spec-no-ring",
    summary="the chips cannot be put in the order of a ring",
    fix="Use chips that form a ring, another topology, or no ring.",
)
BAD_ADDRESS = Rule(
    code="RT244",
    name="spec-bad-address",
    summary="the pattern gives a chip something that is not an IP address",
    fix="Spread the nodes with {node/250} and {node%250}, or widen the pattern.",
)
ADDRESS_TWICE = Rule(
    code="RT245",
    name="spec-address-twice",
    summary="the pattern gives two nodes one address",
    fix=(
        "Put {node} or {host} into the pattern, so that every node gets its own "
        "address."
    ),
)
HOST_LEFT_OUT = Rule(
    code="RT246",
    name="spec-host-left-out",
    summary="a host has no chips, or no rack",
    fix="Add the host to a group; to keep it out of the table, list it in spares.",
)
NO_NAMES = Rule(
    code="RT247",
    name="spec-no-names",
    summary="hosts are named, and nodes is a count",
    fix="List the hosts in nodes.",
)
NOTHING_LEFT = Rule(
    code="RT248",
    name="spec-nothing-left",
    summary="every host is a spare",
    fix="Leave at least one host for the job.",
)
NO_RACKS = Rule(
    code="RT249",
    name="spec-no-racks",
    summary="an order by racks, and no racks",
    fix="Add racks: names with their hosts, or the number of hosts in a rack.",
)

RULES = (
    WRONG_TYPE,
    UNKNOWN_KEY,
    MISSING_KEY,
    BAD_HOSTS,
    BAD_NUMBER,
    BAD_PATTERN,
    UNKNOWN_ORDER,
    HOST_TWICE,
    HOST_UNKNOWN,
    CHIP_TWICE,
    NO_RING,
    BAD_ADDRESS,
    ADDRESS_TWICE,
    HOST_LEFT_OUT,
    NO_NAMES,
    NOTHING_LEFT,
    NO_RACKS,
)
