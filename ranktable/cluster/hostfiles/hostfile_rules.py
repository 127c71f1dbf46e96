"""RT130 to RT139: the shape of host files; RT220 to RT229: their meaning."""

from __future__ import annotations

from typing import Any

from ranktable.schema.finding import Rule, Severity


def _read_as(name: str, **options: str) -> dict[str, Any]:
    """Return how the two files of a rule are read: as files of this format."""
    return {"command": "convert", "options": {"from": name, **options}}


BAD_LINE = Rule(
    code="RT130",
    name="bad-line",
    summary="a line does not belong in this kind of file",
    why=(
        "Launchers ignore words that they do not know, or stop with a message about a "
        "token."
    ),
    fix="Write the line as the hint shows; docs/hostfiles.md shows every kind.",
    readers={
        "Open MPI": "parse error in the hostfile, with a line and a token's number",
        "MPICH": "token ... not supported at this time",
        "DeepSpeed": "ValueError: Hostfile contains a bad entry: {line}",
    },
    seen_as=(
        "Open RTE detected a parse error in the hostfile",
        "not supported at this time",
        "Hostfile contains a bad entry",
        "invalid syntax in the rankfile",
    ),
    bad=b"n1 slots=8\nn2 gpus=8\n",
    good=b"n1 slots=8\nn2 slots=8\n",
    **_read_as("openmpi-hostfile"),
)
BAD_HOST = Rule(
    code="RT131",
    name="bad-host",
    summary="a host cannot have this name",
    why=(
        "A name has letters, digits, dots, hyphens and underscores, or is an IP "
        "address. Some files cannot hold some names: MPICH cuts an IPv6 address at its "
        "first colon, and Open MPI uses words such as slots itself."
    ),
    fix="Write one host name or address, without a count, a user or a second name.",
    readers={
        "Open MPI": "takes n1:8 and n1,n2 as names; ssh fails on them later",
        "MPICH": "takes what stands before the first colon",
    },
    bad=b"n1,n2 slots=8\n",
    good=b"n1 slots=8\nn2 slots=8\n",
    **_read_as("openmpi-hostfile"),
)
BAD_COUNT = Rule(
    code="RT132",
    name="bad-count",
    summary="this is not a number of processes, nodes or ports",
    why=(
        "Launchers read numbers with atoi or int: a letter becomes 0, text after the "
        "digits is ignored, and blanks, signs and underscores are accepted."
    ),
    fix="Write a plain decimal number.",
    readers={
        "Open MPI": "the slots parameter is less than 0: slots=-1",
        "MPICH": "atoi: 'x' is 0 and '8x' is 8; with 0 nothing is started there",
        "DeepSpeed": "takes the digits and ignores the rest",
    },
    seen_as=("The slots parameter is less than 0", "invalid literal for int()"),
    bad=b"n1:8\nn2:x\n",
    good=b"n1:8\nn2:8\n",
    **_read_as("mpich-machinefile"),
)
NO_HOSTS = Rule(
    code="RT133",
    name="no-hosts",
    summary="the file names no host",
    why="A job needs at least one node. Some launchers use this machine instead, "
    "without a message.",
    fix="Write at least one host.",
    readers={
        "Open MPI": "No nodes are available for this job",
        "MPICH": "starts everything on this machine",
        "DeepSpeed": "ValueError: Hostfile is empty or not formatted correctly",
    },
    seen_as=("No nodes are available for this job", "Hostfile is empty"),
    bad=b"# n1 slots=8\n",
    good=b"n1 slots=8\n",
    **_read_as("deepspeed-hostfile"),
)
IGNORED_TEXT = Rule(
    code="RT139",
    name="ignored-text",
    severity=Severity.WARNING,
    summary="text that the launcher ignores",
    why="The launcher ignores text after the number of slots.",
    fix="Remove the text, or put it in a comment on its own line.",
    readers={"DeepSpeed": "ignores everything after slots=N"},
    bad=b"n1 slots=8 max_slots=8\n",
    good=b"n1 slots=8\n",
    **_read_as("deepspeed-hostfile"),
)


HOST_TWICE = Rule(
    code="RT220",
    name="host-twice",
    summary="a host is described twice",
    why=(
        "Launchers differ: one adds the slots, one stops, and one starts a second "
        "group of processes on the same chips, whose local ranks begin at 0 again."
    ),
    fix="Give the host one line with all of its slots.",
    readers={
        "Open MPI": "counts a slot for each bare line; with slots= it stops or adds up",
        "MPICH": "adds up neighbours; elsewhere local ranks begin at 0 again",
        "DeepSpeed": "ValueError: Hostfile contains multiple entries for n1",
    },
    seen_as=(
        "multiple definitions of the slot count",
        "Hostfile contains multiple entries",
    ),
    bad=b"n1 slots=4\nn2 slots=8\nn1 slots=4\n",
    good=b"n1 slots=8\nn2 slots=8\n",
    **_read_as("deepspeed-hostfile"),
)
NO_SLOTS = Rule(
    code="RT222",
    name="no-slots",
    summary="a host has no slots",
    why="A node without processes is not part of the job.",
    fix="Remove the host, or give it slots.",
    readers={
        "Open MPI": "leaves the host out",
        "MPICH": "starts nothing, and ends with status 0",
        "DeepSpeed": "starts its agent there, with no device",
    },
    bad=b"n1 slots=8\nn2 slots=0\n",
    good=b"n1 slots=8\nn2 slots=8\n",
    **_read_as("openmpi-hostfile"),
)
RANK_TWICE = Rule(
    code="RT224",
    name="rank-placed-twice",
    summary="a rank is listed twice",
    why="A rank is one process.",
    fix="Give one of the two the rank that is missing.",
    readers={
        "Open MPI": "Error, rank 0 is already assigned to ...",
    },
    seen_as=("is already assigned to",),
    bad=b"rank 0=n1 slot=0\nrank 0=n1 slot=1\n",
    good=b"rank 0=n1 slot=0\nrank 1=n1 slot=1\n",
    **_read_as("openmpi-rankfile"),
)
RANK_MISSING = Rule(
    code="RT225",
    name="rank-not-placed",
    summary="a rank is missing",
    why="Ranks count from 0 without a gap.",
    fix="Add a line for the rank, or number the ranks anew.",
    readers={"Open MPI": "A rank is missing its location specification"},
    seen_as=("A rank is missing its location specification",),
    bad=b"rank 0=n1 slot=0\nrank 2=n1 slot=1\n",
    good=b"rank 0=n1 slot=0\nrank 1=n1 slot=1\n",
    **_read_as("openmpi-rankfile"),
)
COUNTS_DISAGREE = Rule(
    code="RT227",
    name="counts-disagree",
    summary="two numbers or names of a file contradict each other",
    why="For example, the number of counts and that of the hosts beside them.",
    fix="Correct the wrong one.",
    bad=b"n[1-2] 8(x3)\n",
    good=b"n[1-3] 8(x3)\n",
    **_read_as("slurm-nodelist"),
)
SLOT_TWICE = Rule(
    code="RT229",
    name="slot-twice",
    severity=Severity.WARNING,
    summary="a slot of a host is named twice",
    why=(
        "Two processes share the slot, or the launcher ignores the repetition. Every "
        "process needs its own chip, so these slots are not read as chips."
    ),
    fix="Give every rank its own slot.",
    readers={
        "Open MPI": "version 4 binds both processes to the same CPU",
        "PRRTE": "refuses it unless binding may overload",
    },
    bad=b"rank 0=n1 slot=0\nrank 1=n1 slot=0\n",
    good=b"rank 0=n1 slot=0\nrank 1=n1 slot=1\n",
    **_read_as("openmpi-rankfile"),
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
