"""RT601 to RT630: what the logs of a failed job say.

Each rule has an example log in which it is the cause, and a similar one without it.
Sources: ``docs/doctor.md``.
"""

from __future__ import annotations

from ranktable.schema.finding import Rule, Severity

RUNS_ELSEWHERE = Rule(
    code="RT601",
    name="rank-runs-elsewhere",
    summary="a rank ran on another host or chip than the table says",
    fix="Compare the table that the line names with yours; `ranktable run` numbers the "
    "processes as the table does.",
)

LAUNCH = Rule(
    code="RT602",
    name="ranks-contradict-each-other",
    summary="processes claim one rank or chip, or differ in the job's size",
    fix="Start every process once with the same WORLD_SIZE; `ranktable validate` finds "
    "doubled ranks and chips in the table, `ranktable check --live` in the job.",
)

TABLE = Rule(
    code="RT603",
    name="table-refused",
    summary="the library refused the table, or ranks used different tables",
    fix="Run `ranktable validate --for hccl` on the file that the line names, on the "
    "host of the rank; `ranktable explain EI0014` lists what can be wrong.",
)

NEVER_JOINED = Rule(
    code="RT604",
    name="rank-never-joined",
    summary="a rank did not join the job, and the others waited for it",
    fix="Read the first lines of the log of that rank; if it has none, see whether its "
    "node was started, and whether WORLD_SIZE is the same everywhere. `ranktable "
    "check` on its host compares it with the table.",
)

PORT = Rule(
    code="RT605",
    name="port-in-use",
    summary="a process could not listen on its port",
    fix="Find the owner with `ss -ltnp` on that host; end it, or give the job another "
    "port. For HCCL, HCCL_IF_BASE_PORT moves its ports. A longer time-out does not "
    "help.",
)

SETTING = Rule(
    code="RT606",
    name="settings-differ",
    summary="a setting is wrong, or ranks differ in versions or settings",
    fix="Use one image on all nodes, and set the variable that the line names alike; "
    "`ranktable check --live` compares versions and variables of all ranks.",
)

LEFTOVER = Rule(
    code="RT607",
    name="chip-in-use",
    summary="the chip is still used by another process, or it failed",
    fix="End what runs on the chip (`npu-smi info`); if nothing does, reset the chip.",
)

LOOPBACK = Rule(
    code="RT608",
    name="loopback-address",
    summary="a rank told others an address that only its own host reaches",
    fix="Set GLOO_SOCKET_IFNAME or NCCL_SOCKET_IFNAME to the interface of the network "
    "of the job, or take the name of the host out of the lines of loopback addresses "
    "in /etc/hosts.",
)

UNREACHABLE = Rule(
    code="RT609",
    name="host-unreachable",
    summary="a host was not reached",
    fix="See whether rank 0 runs on that host and listens on that port; `ranktable "
    "check` says whether the name resolves, the port refuses, or something else "
    "answers.",
)

EXCEPTION = Rule(
    code="RT610",
    name="exception",
    summary="a rank raised an exception of its own",
    fix="Read the traceback of this rank.",
)

ENDED = Rule(
    code="RT611",
    name="process-ended",
    summary="a process ended without saying why",
    fix="Look into the log of the kernel of that host (`dmesg`), of slurmstepd or of "
    "the "
    "pod at that time; SIGSEGV is a defect of a library, SIGBUS often a full /dev/shm.",
)

HOST_MEMORY = Rule(
    code="RT612",
    name="host-memory",
    summary="a process was ended because the memory of its host ran out",
    fix="Raise the memory limit, use fewer workers for loading data, or pin less "
    "memory.",
)

CHIP_MEMORY = Rule(
    code="RT613",
    name="chip-memory",
    summary="a chip has no memory left",
    fix="Use a smaller batch, shard more, or find what else uses the chip; if it is "
    "always the same rank, its share of the model is larger.",
)

FAULT = Rule(
    code="RT614",
    name="chip-fault",
    summary="a chip or its driver reported an error",
    fix="Drain the node if the chip is at fault, and take its node out of the "
    "table with `ranktable fit --lost NODE`; otherwise run the program with "
    "CUDA_LAUNCH_BLOCKING=1.",
)

NODE = Rule(
    code="RT615",
    name="node-lost",
    summary="the scheduler lost a node",
    fix="Take the node out with `ranktable fit --lost NODE`, which puts a spare in its "
    "place if there is one, then start again.",
)

SCHEDULER = Rule(
    code="RT616",
    name="ended-by-the-scheduler",
    summary="the job was ended from outside",
    fix="Submit it again; save a checkpoint before the time limit.",
    severity=Severity.WARNING,
)

STORAGE = Rule(
    code="RT617",
    name="storage-failed",
    summary="a file system or shared memory is full or does not answer",
    fix="Look at the file system that the line names, on that host: space, inodes, "
    "quota, and whether it is mounted and answers; /dev/shm has a limit of its own in "
    "a container.",
)

NOT_STARTED = Rule(
    code="RT618",
    name="not-started",
    summary="a launcher could not start a process of the job",
    fix="The line says what was missing there: the program, a login, room on the "
    "hosts, or a launcher that speaks with the library of the program.",
)

SILENT = Rule(
    code="RT620",
    name="rank-stopped-answering",
    summary="the others waited in an operation that a rank never began",
    fix="Read the end of its log; `py-spy dump --pid` on its host shows where it "
    "stands. "
    "If it had ended, the ranks did not have the same number of steps.",
)

DIFFERENT = Rule(
    code="RT621",
    name="different-operations",
    summary="ranks were in different operations at the same time",
    fix="Run with TORCH_DISTRIBUTED_DEBUG=DETAIL on two ranks, or rehearse it with "
    "`ranktable simulate`, which compares every call.",
)

LATE = Rule(
    code="RT622",
    name="rank-late",
    summary="a rank came so late that the others had given up",
    fix="Find what it did meanwhile: a checkpoint, an evaluation, a slow disk. Raise "
    "the "
    "time-out only if that is meant.",
)

LINK = Rule(
    code="RT623",
    name="link-broke",
    summary="the link to a chip broke",
    fix="Look first whether the process of the peer had ended. Then `hccn_tool -i CHIP "
    "-link_stat -g`, `-optical -g`, or `ibstat`; NCCL_IB_GID_INDEX=3 for RoCE over "
    "switches.",
)

LOST = Rule(
    code="RT624",
    name="rank-lost",
    summary="others saw that a rank was lost or stuck",
    fix="Look into the log of that rank and into the kernel's log of its host; a stuck "
    "process shows where it stands with `py-spy dump`.",
)

CIRCLE = Rule(
    code="RT625",
    name="wait-in-a-circle",
    summary="ranks wait for each other in a circle",
    fix="Compare the order of calls of these ranks; test the links between them in "
    "both "
    "directions.",
)

FIRST = Rule(
    code="RT626",
    name="first-operation",
    summary="every rank timed out in the first operation",
    fix="Run `ranktable check` on the hosts and `ranktable check --links`, which names "
    "the pair that does not work.",
)

UNKNOWN = Rule(
    code="RT630",
    name="cause-not-in-these-logs",
    summary="only consequences are in these logs",
    fix="Collect the logs of all ranks, `dmesg` of all hosts and the log of the "
    "scheduler, and give them all to `ranktable doctor`.",
)

UNKNOWN_ERROR = Rule(
    code="RT631",
    name="errors-not-known-here",
    summary="errors that doctor does not know are all there is",
    fix="Read these lines first. If they are a message of a library, an entry in "
    "`patterns.toml` teaches it to doctor.",
)

RULES = (
    RUNS_ELSEWHERE, LAUNCH, TABLE, NEVER_JOINED, PORT, SETTING, LEFTOVER, LOOPBACK,
    UNREACHABLE, EXCEPTION, ENDED, HOST_MEMORY, CHIP_MEMORY, FAULT, NODE, SCHEDULER,
    STORAGE, NOT_STARTED, SILENT, DIFFERENT, LATE, LINK, LOST, CIRCLE, FIRST, UNKNOWN,
    UNKNOWN_ERROR,
)  # fmt: skip
