"""RT260 to RT262: values of files that are not lists of nodes with devices."""

from __future__ import annotations

from ranktable.schema.finding import Finding, Refusal, Rule
from ranktable.schema.rules.examples import hccl_server, hccl_table
from ranktable.schema.rules.hccl_2_0_examples import rank, table

OUT_OF_RANGE = Rule(
    code="RT260",
    name="out-of-range",
    summary="a number, a text or a list is smaller or larger than its reader allows",
    why=(
        "HCCL 2.0 allows local_id and device_id up to 64, layers 0 to 7, ports 1 to "
        "65535, 8 layers and 24 addresses a layer. Other tables have other limits."
    ),
    fix="Write a value within the limits that the message names.",
    readers={
        "HCCL": Refusal(
            "2.0: text of an exception, no code; negative numbers: EI0014 with "
            '"0 ~ UINT32_MAX"; 1.x: a line in the device log only'
        )
    },
    seen_as=("0 ~ UINT32_MAX",),
    bad=table(rank(0, device_id=65)),
    good=table(rank(0, device_id=64)),
)
UNKNOWN_WORD = Rule(
    code="RT261",
    name="unknown-word",
    summary="a word that its reader does not know",
    why=(
        "addr_type is EID, IPV4 or IPV6, in capitals, although a table of the manual "
        "writes IPv4. net_type and detour have other words."
    ),
    fix="Write one of the words that the message names.",
    readers={
        "HCCL": Refusal(
            "2.0: text of an exception, no code; 1.x: a line in the device log only"
        )
    },
    bad=table(rank(0, addr_type="IPv4")),
    good=table(rank(0)),
)
NO_GLOBAL_RANKS = Rule(
    code="RT262",
    name="no-global-ranks",
    summary="the file does not give ranks to the processes of a job",
    why=(
        "An operator writes a placeholder first, and the table later. A placeholder "
        "is sound, but a process cannot find its chip in it."
    ),
    fix="Wait for the table (ranktable wait), or name the rank table of the job.",
    readers={"HCCL": Refusal("waits 30 minutes without a message")},
    command="mesh",
    bad=b'{"status":"initializing"}\n',
    good=hccl_table(hccl_server("n1", (0, 0, "10.0.0.1"))),
)


def no_global_ranks(format_name: str) -> Finding:
    """Return RT262 for a file whose format has no ranks of a job."""
    return NO_GLOBAL_RANKS.finding(
        None,
        f"a file of the format {format_name} does not give ranks to the "
        "processes of a job",
        hint="it is not complete yet: ranktable wait FILE waits until it is",
    )


RULES = (OUT_OF_RANGE, UNKNOWN_WORD, NO_GLOBAL_RANKS)
