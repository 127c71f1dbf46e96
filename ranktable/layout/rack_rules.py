"""What files of racks and topologies report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ranktable.cluster.host_lists import MAX_HOSTS
from ranktable.cluster.hostfiles.slurm import expand_token
from ranktable.schema.finding import Rule
from ranktable.schema.rules.syntax import TOO_MANY

if TYPE_CHECKING:
    from ranktable.cluster.source_text import SourceText, Token

MAX_LEVELS = 16

BAD_RACKS_LINE = Rule(
    code="RT146",
    name="bad-racks-line",
    summary="a line does not belong in a file of racks",
    fix="Write n1 rack1 on a line for each host, or SwitchName=s1 Nodes=n[1-8].",
)
RACKS_DISAGREE = Rule(
    code="RT147",
    name="racks-disagree",
    summary="a host, a rack or a switch is in two places",
    fix="Correct the wrong one of the two lines.",
)
TOPOLOGY_SIZE = Rule(
    code="RT148",
    name="topology-size",
    summary="Slurm does not start with the size of a block or a ring",
    fix="Write the base size, then powers of two times it: BlockSizes=4,8.",
)
RULES = (BAD_RACKS_LINE, RACKS_DISAGREE, TOPOLOGY_SIZE)


def known_hosts(source: SourceText, word: Token, known: int) -> list[str]:
    """Return the names in a word; a short list such as n[1-9999999] means many."""
    names = expand_token(source, word)
    if known + len(names) <= MAX_HOSTS:
        return names
    source.report(TOO_MANY, word, f"this is more than {MAX_HOSTS} hosts")
    return []
