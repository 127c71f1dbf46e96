"""RT220 to RT229: meaning of a description of a cluster."""

from __future__ import annotations

from ranktable.schema.diagnostic import Severity
from ranktable.schema.rules.rule import Rule

HOST_TWICE = Rule(
    code="RT220",
    name="host-twice",
    summary="a host is described twice",
    why=(
        "Launchers differ: one adds the slots up, one stops, one starts a second group "
        "of processes whose local ranks begin at 0 again, on the same chips."
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
    command="convert",
    options={"from": "deepspeed-hostfile"},
)
ABOVE_MAXIMUM = Rule(
    code="RT221",
    name="slots-above-maximum",
    summary="a host has more slots than its maximum",
    why="max_slots is the limit that oversubscription may not pass.",
    fix="Raise max_slots, or lower slots.",
    readers={
        "Open MPI": "refuses it, or raises max_slots silently where that stands first"
    },
    seen_as=("The max_slots parameter is less than the slots parameter",),
    bad=b"n1 slots=8 max_slots=4\n",
    good=b"n1 slots=4 max_slots=8\n",
    command="convert",
    options={"from": "openmpi-hostfile"},
)
NO_SLOTS = Rule(
    code="RT222",
    name="no-slots",
    summary="a host has no slots",
    why="A node without processes has no place in a job and none in a rank table.",
    fix="Remove the host, or give it slots.",
    readers={
        "Open MPI": "leaves the host out",
        "MPICH": "starts nothing, and ends with status 0",
        "DeepSpeed": "starts its agent there, with no device",
    },
    bad=b"n1 slots=8\nn2 slots=0\n",
    good=b"n1 slots=8\nn2 slots=8\n",
    command="convert",
    options={"from": "openmpi-hostfile"},
)
NOT_IN_THE_FILE = Rule(
    code="RT223",
    name="not-in-the-file",
    summary="a filter names a host or a slot that the host file does not have",
    why="--include and --exclude choose among the slots 0 to slots - 1 of each host.",
    fix="Correct the name, or add the host to the file.",
    readers={
        "DeepSpeed": "ValueError: Hostname 'n2' not found in hostfile, "
        "or No slot '8' specified on host 'n1'"
    },
    seen_as=("not found in hostfile", "specified on host"),
    bad=b"n1 slots=8\n",
    good=b"n1 slots=8\nn2 slots=8\n",
    command="convert",
    options={"from": "deepspeed-hostfile", "include": "n2:0,1"},
)
RANK_TWICE = Rule(
    code="RT224",
    name="rank-placed-twice",
    summary="a rank is placed twice",
    why="A rank is one process, and so is an index of a node.",
    fix="Give one of the two the rank that is missing.",
    readers={
        "Open MPI": "Error, rank 0 is already assigned to ...",
        "torchrun": "the second node waits for a place until the time-out",
    },
    seen_as=("is already assigned to",),
    bad=b"rank 0=n1 slot=0\nrank 0=n1 slot=1\n",
    good=b"rank 0=n1 slot=0\nrank 1=n1 slot=1\n",
    command="convert",
    options={"from": "openmpi-rankfile"},
)
RANK_MISSING = Rule(
    code="RT225",
    name="rank-not-placed",
    summary="a rank is placed nowhere",
    why="Ranks count from 0 without a gap.",
    fix="Add a line for the rank, or number the ranks anew.",
    readers={"Open MPI": "A rank is missing its location specification"},
    seen_as=("A rank is missing its location specification",),
    bad=b"rank 0=n1 slot=0\nrank 2=n1 slot=1\n",
    good=b"rank 0=n1 slot=0\nrank 1=n1 slot=1\n",
    command="convert",
    options={"from": "openmpi-rankfile"},
)
UNEVEN = Rule(
    code="RT226",
    name="uneven-nodes",
    summary="the processes cannot be shared out evenly",
    why=(
        "accelerate's num_processes is the total, and every machine starts as many as "
        "every other; nodes of different size cannot be said."
    ),
    fix="Make num_processes a multiple of num_machines.",
    readers={"accelerate": "divides, drops the remainder, and the job lacks ranks"},
    bad=(
        b"num_machines: 2\nnum_processes: 13\ndistributed_type: MULTI_GPU\n"
        b"main_process_ip: n1\n"
    ),
    good=(
        b"num_machines: 2\nnum_processes: 12\ndistributed_type: MULTI_GPU\n"
        b"main_process_ip: n1\n"
    ),
    command="convert",
    options={"from": "accelerate"},
)
COUNTS_DISAGREE = Rule(
    code="RT227",
    name="counts-disagree",
    summary="two numbers or names in a description contradict each other",
    why="Counts beside a list, the index of a node, a Service and its Job.",
    fix="Correct the one that is wrong.",
    readers={
        "torchrun": "waits for the missing node until the time-out",
        "Kubernetes": "starts fewer pods at a time than the job needs; it hangs",
    },
    bad=b"n[1-2] 8(x3)\n",
    good=b"n[1-3] 8(x3)\n",
    command="convert",
    options={"from": "slurm-nodelist"},
)
NOT_FIXED = Rule(
    code="RT228",
    name="not-fixed",
    summary="the file leaves open which nodes the job has",
    why=(
        "A rank table says which chip every rank has; an elastic job, or a host "
        "that is a place in somebody's allocation, has that at run time only."
    ),
    fix="Write a fixed number of nodes, and hosts by their names.",
    readers={"torchrun": "starts with any number in the range, and numbers ranks anew"},
    bad=b"torchrun --nnodes 2:4 --nproc-per-node 8 --rdzv-backend c10d train.py\n",
    good=b"torchrun --nnodes 4 --nproc-per-node 8 --rdzv-backend c10d train.py\n",
    command="convert",
    options={"from": "torchrun"},
)
SLOT_TWICE = Rule(
    code="RT229",
    name="slot-twice",
    severity=Severity.WARNING,
    summary="a slot of a host is named twice",
    why=(
        "Two processes share it, or the launcher drops the repetition. The slots then "
        "say nothing about chips, since every process needs a chip of its own."
    ),
    fix="Give every rank a slot of its own.",
    readers={
        "Open MPI": "version 4 binds both processes to the same CPU",
        "PRRTE": "refuses it unless binding may overload",
        "DeepSpeed": "drops a repetition in --include",
    },
    bad=b"rank 0=n1 slot=0\nrank 1=n1 slot=0\n",
    good=b"rank 0=n1 slot=0\nrank 1=n1 slot=1\n",
    command="convert",
    options={"from": "openmpi-rankfile"},
)

RULES = (
    HOST_TWICE,
    ABOVE_MAXIMUM,
    NO_SLOTS,
    NOT_IN_THE_FILE,
    RANK_TWICE,
    RANK_MISSING,
    UNEVEN,
    COUNTS_DISAGREE,
    NOT_FIXED,
    SLOT_TWICE,
)
