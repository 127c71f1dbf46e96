"""RT150 to RT156: shape of a cluster spec."""

from __future__ import annotations

from ranktable.schema.rules.rule import Rule

_SPEC = {"spec": "yaml"}

WRONG_TYPE = Rule(
    code="RT150",
    name="spec-wrong-type",
    summary="a value of a cluster spec is not of the kind that its key takes",
    why=(
        "nodes is a host list or a count, chips a count, a list of numbers or a "
        "mapping of hosts to either, racks a count or a mapping of names to hosts; "
        "the rest is text."
    ),
    fix="Write a value of the kind that is named.",
    bad=b"nodes: n[1-4]\nchips: eight\n",
    good=b"nodes: n[1-4]\nchips: 8\n",
    options=_SPEC,
)
UNKNOWN_KEY = Rule(
    code="RT151",
    name="spec-unknown-key",
    summary="a key that a cluster spec does not have",
    why="Often a misspelt key; nothing would read its value, so the table lacks it.",
    fix="Correct the spelling, or remove it.",
    bad=b"nodes: n[1-4]\nchips: 8\nspare: n4\n",
    good=b"nodes: n[1-4]\nchips: 8\nspares: n4\n",
    options=_SPEC,
)
MISSING_KEY = Rule(
    code="RT152",
    name="spec-missing-key",
    summary="a cluster spec lacks nodes or chips",
    why="A table says which chip of which node every rank has; neither is guessed.",
    fix="Add the key.",
    bad=b"nodes: n[1-4]\n",
    good=b"nodes: n[1-4]\nchips: 8\n",
    options=_SPEC,
)
BAD_HOSTS = Rule(
    code="RT153",
    name="spec-bad-host-list",
    summary="this is no host list",
    why=(
        "Hosts are written as Slurm writes them: names joined by commas, with ranges "
        "in brackets that count up; docs/hosts.md has the notation."
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
        "There is at least one node, a node has 1 to 1024 chips, a rack at least one "
        "host, and chips count from 0."
    ),
    fix="Write a number of the range that is named.",
    bad=b"nodes: n[1-4]\nchips: 0\n",
    good=b"nodes: n[1-4]\nchips: 8\n",
    options=_SPEC,
)
BAD_PATTERN = Rule(
    code="RT155",
    name="spec-bad-pattern",
    summary="braces in a pattern of addresses that mean nothing",
    why=(
        "{node} is the place of the host in nodes, from 0, {chip} the number of the "
        "chip, {host} the host. A number may be divided, or its remainder taken, and "
        "then be added to: {node/250}, {node%250+1}, {chip+10}."
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
        "as-listed is the order of nodes, by-rack goes through one rack after the "
        "other, across-racks takes one host of every rack in turn."
    ),
    fix="Write as-listed, by-rack or across-racks.",
    bad=b"nodes: n[1-4]\nchips: 8\nracks: 2\norder: rack\n",
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
)
