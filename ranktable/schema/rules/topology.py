"""RT120: a file of links that cannot be used."""

from __future__ import annotations

from ranktable.schema.rules.rule import Rule

BAD_TOPOLOGY = Rule(
    code="RT120",
    name="bad-topology",
    summary="a file of links is neither a matrix nor a list of pairs",
    why=(
        "--topology and --ring take sophgo-8 or a file, JSON or rows of numbers: a "
        "square matrix of port numbers with -1 for no link, as "
        "torch_tpu.tpu.get_topology fills it, or a list of linked pairs."
    ),
    fix="Write one pair of chips a line, for example: 0 4",
    readers={"torch_tpu": "reads the links from the driver", "SCCL": "likewise"},
)

RULES = (BAD_TOPOLOGY,)
