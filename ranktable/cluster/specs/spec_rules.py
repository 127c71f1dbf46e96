"""RT150 to RT156: the shape of a cluster spec; RT240 to RT249: its meaning."""

from __future__ import annotations

from ranktable.schema.finding import Rule

_SPEC = {"spec": "yaml"}

WRONG_TYPE = Rule(
    code="RT150",
    name="spec-wrong-type",
    summary="a value of a cluster spec has the wrong type",
    why=(
        "nodes is a host list or a count. chips is a count, a list of numbers, or a "
        "mapping of hosts to counts or lists. racks is a count or a mapping of names "
        "to hosts. The other keys are text."
    ),
    fix="Write a value of the type that the message names.",
    bad=b"nodes: n[1-4]\nchips: eight\n",
    good=b"nodes: n[1-4]\nchips: 8\n",
    options=_SPEC,
)
UNKNOWN_KEY = Rule(
    code="RT151",
    name="spec-unknown-key",
    summary="a key that a cluster spec does not have",
    why="The value of a misspelt key would be ignored, so the table would not be as "
    "intended.",
    fix="Correct the spelling, or remove the key.",
    bad=b"nodes: n[1-4]\nchips: 8\nspare: n4\n",
    good=b"nodes: n[1-4]\nchips: 8\nspares: n4\n",
    options=_SPEC,
)
MISSING_KEY = Rule(
    code="RT152",
    name="spec-missing-key",
    summary="a cluster spec lacks nodes or chips",
    why="A table says which chip of which node each rank has. Neither is guessed.",
    fix="Add the key.",
    bad=b"nodes: n[1-4]\n",
    good=b"nodes: n[1-4]\nchips: 8\n",
    options=_SPEC,
)
BAD_HOSTS = Rule(
    code="RT153",
    name="spec-bad-host-list",
    summary="this is not a host list",
    why=(
        "A host list has Slurm's notation: names joined by commas, with ranges in "
        "brackets that count up. docs/hosts.md describes it."
    ),
    fix="Write, for example, n[001-128],login.",
    bad=b"nodes: n[4-1]\nchips: 8\n",
    good=b"nodes: n[1-4]\nchips: 8\n",
    options=_SPEC,
)
BAD_NUMBER = Rule(
    code="RT154",
    name="spec-bad-number",
    summary="a number of a cluster spec is out of its range",
    why=(
        "A cluster has at least one node, a node has 1 to 1024 chips, and a rack has "
        "at least one host. Chips count from 0."
    ),
    fix="Write a number in the range that the message names.",
    bad=b"nodes: n[1-4]\nchips: 0\n",
    good=b"nodes: n[1-4]\nchips: 8\n",
    options=_SPEC,
)
BAD_PATTERN = Rule(
    code="RT155",
    name="spec-bad-pattern",
    summary="braces with an unknown name in a pattern of addresses",
    why=(
        "{node} is the index of the host in nodes, from 0, {chip} is the number of the "
        "chip, and {host} is the host. Arithmetic is possible: {node/250}, "
        "{node%250+1}, {chip+10}."
    ),
    fix="Write one of these in the braces.",
    bad=b"nodes: n[1-4]\nchips: 8\naddresses: 10.0.{rank}.{chip}\n",
    good=b"nodes: n[1-4]\nchips: 8\naddresses: 10.0.{node}.{chip}\n",
    options=_SPEC,
)
UNKNOWN_ORDER = Rule(
    code="RT156",
    name="spec-unknown-order",
    summary="an order of nodes that does not exist",
    why=(
        "as-listed is the order of nodes, by-rack takes one rack after the other, and "
        "across-racks takes one host of every rack in turn."
    ),
    fix="Write as-listed, by-rack or across-racks.",
    bad=b"nodes: n[1-4]\nchips: 8\nracks: 2\norder: rack\n",
    good=b"nodes: n[1-4]\nchips: 8\nracks: 2\norder: by-rack\n",
    options=_SPEC,
)


HOST_TWICE = Rule(
    code="RT240",
    name="spec-host-twice",
    summary="a host is listed twice",
    why=(
        "A host is one node, in one rack, with one set of chips; a second entry is "
        "usually a mistake in a range."
    ),
    fix="Remove one of the two.",
    bad=b"nodes: n[1-4],n4\nchips: 8\n",
    good=b"nodes: n[1-4],n5\nchips: 8\n",
    options=_SPEC,
)
HOST_UNKNOWN = Rule(
    code="RT241",
    name="spec-host-unknown",
    summary="a host is named that nodes does not list",
    why="The hosts of racks, spares and chips must be in nodes.",
    fix="Correct the name, or add the host to nodes.",
    bad=b"nodes: n[1-4]\nchips: 8\nspares: n5\n",
    good=b"nodes: n[1-4]\nchips: 8\nspares: n4\n",
    options=_SPEC,
)
CHIP_TWICE = Rule(
    code="RT242",
    name="spec-chip-twice",
    summary="a chip is listed twice",
    why="Each chip of a host serves one rank.",
    fix="Remove one of the two, or correct its number.",
    bad=b"nodes: n[1-4]\nchips: [0, 1, 1]\n",
    good=b"nodes: n[1-4]\nchips: [0, 1, 2]\n",
    options=_SPEC,
)
NO_RING = Rule(
    code="RT243",
    name="spec-no-ring",
    summary="the chips cannot be put in the order of a ring",
    why=(
        "A ring uses direct links and ends where it begins. Not every set of chips has "
        "one. The topology is sophgo-8 or a file of links beside the spec."
    ),
    fix="Use chips that form a ring, another topology, or no ring.",
    bad=b"nodes: n[1-4]\nchips: [0, 1, 2]\nring: sophgo-8\n",
    good=b"nodes: n[1-4]\nchips: [0, 1, 2, 3]\nring: sophgo-8\n",
    options=_SPEC,
)
BAD_ADDRESS = Rule(
    code="RT244",
    name="spec-bad-address",
    summary="the pattern gives a chip something that is not an IP address",
    why="The parts of an IPv4 address are at most 255, and a host name is not an "
    "address.",
    fix="Spread the nodes with {node/250} and {node%250}, or widen the pattern.",
    bad=b"nodes: 300\nchips: 8\naddresses: 10.0.{node}.{chip}\n",
    good=b"nodes: 300\nchips: 8\naddresses: 10.{node/250}.{node%250}.{chip}\n",
    options=_SPEC,
)
ADDRESS_TWICE = Rule(
    code="RT245",
    name="spec-address-twice",
    summary="the pattern gives two nodes one address",
    why="An address belongs to one host; the other host could not be reached.",
    fix=(
        "Put {node} or {host} into the pattern, so that every node gets its own "
        "address."
    ),
    bad=b"nodes: n[1-4]\nchips: 8\naddresses: 10.0.0.{chip}\n",
    good=b"nodes: n[1-4]\nchips: 8\naddresses: 10.0.{node}.{chip}\n",
    options=_SPEC,
)
HOST_LEFT_OUT = Rule(
    code="RT246",
    name="spec-host-left-out",
    summary="a host has no chips, or no rack",
    why=(
        "If chips or racks name hosts, they must name all hosts of nodes, spares too. "
        "A host that was forgotten would have no ranks or no place in the order."
    ),
    fix="Add the host to a group; to keep it out of the table, list it in spares.",
    bad=b"nodes: n[1-4]\nchips:\n  n[1-2]: 8\n  n3: 4\n",
    good=b"nodes: n[1-4]\nchips:\n  n[1-2]: 8\n  n[3-4]: 4\n",
    options=_SPEC,
)
NO_NAMES = Rule(
    code="RT247",
    name="spec-no-names",
    summary="hosts are named, and nodes is a count",
    why="A count says only how many nodes there are, not which node has which name.",
    fix="List the hosts in nodes.",
    bad=b"nodes: 4\nchips: 8\nspares: n4\n",
    good=b"nodes: n[1-4]\nchips: 8\nspares: n4\n",
    options=_SPEC,
)
NOTHING_LEFT = Rule(
    code="RT248",
    name="spec-nothing-left",
    summary="every host is a spare",
    why="Spares are not written to the table, so it would have no node.",
    fix="Leave at least one host for the job.",
    bad=b"nodes: n[1-4]\nchips: 8\nspares: n[1-4]\n",
    good=b"nodes: n[1-4]\nchips: 8\nspares: n4\n",
    options=_SPEC,
)
NO_RACKS = Rule(
    code="RT249",
    name="spec-no-racks",
    summary="an order by racks, and no racks",
    why="by-rack and across-racks need the rack of every host.",
    fix="Add racks: names with their hosts, or the number of hosts in a rack.",
    bad=b"nodes: n[1-4]\nchips: 8\norder: by-rack\n",
    good=b"nodes: n[1-4]\nchips: 8\nracks: 2\norder: by-rack\n",
    options=_SPEC,
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
