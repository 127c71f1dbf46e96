"""RT601 to RT630: what the logs of a failed job say.

Each rule has an example log in which it is the cause, and a similar one without it.
Sources: ``docs/doctor.md``.
"""

from __future__ import annotations

from ranktable.schema.finding import Rule, Severity


def _log(*lines: str) -> bytes:
    return ("\n".join(lines) + "\n").encode()


def _traceback(rank: int, error: str, call: str = "all_reduce") -> tuple[str, ...]:
    lines = (
        "Traceback (most recent call last):",
        '  File "/job/train.py", line 31, in <module>',
        f"    dist.{call}(gradients)",
        f'  File "/venv/torch/distributed/distributed_c10d.py", line 9, in {call}',
        error,
    )
    return tuple(f"[rank{rank}]: {line}" for line in lines)


def _waits(rank: int, seq: int = 77, op: str = "ALLREDUCE", numel: int = 4) -> str:
    return (
        f"[rank{rank}]:[E105 06:15:0{rank % 10}.1 ProcessGroupNCCL.cpp:632] "
        f"[Rank {rank}] Watchdog caught collective operation timeout: "
        f"WorkNCCL(SeqNum={seq}, OpType={op}, NumelIn={numel}, NumelOut={numel}, "
        "Timeout(ms)=600000) ran for 600021 milliseconds before timing out."
    )


def _plog(pid: int, text: str) -> str:
    return (
        f"[ERROR] HCCL({pid},python3):2026-01-05-10:00:00.000.001 [hccl.cc:9] [7] "
        f"{text}"
    )


_CLOSED = (
    "RuntimeError: [pair.cc:553] Connection closed by peer [10.0.0.7]:41231. This is "
    "typically caused by a remote worker"
)
_QUIET = _log("[rank0]: step 1 loss 2.31", "[rank1]: step 1 loss 2.30")
"""A log in which nothing failed."""

_BY_FILE = (
    "[HCCL_TRACE]hcom init by file success,take time [9]us, rankTablePath"
    "[/job/hccl.json], rankNum[2], rank[{rank}],server[{server}], device[{device}]"
)
_TABLE = (
    b'{"status":"completed","version":"1.0","server_count":"2","server_list":[\n'
    b' {"server_id":"10.0.0.1","device":[{"device_id":"0","rank_id":"0",'
    b'"device_ip":"192.168.1.1"}]},\n'
    b' {"server_id":"10.0.0.2","device":[{"device_id":"0","rank_id":"1",'
    b'"device_ip":"192.168.1.2"}]}]}\n'
)

RUNS_ELSEWHERE = Rule(
    code="RT601",
    name="rank-runs-elsewhere",
    summary="a rank ran on another host or chip than the table says",
    why="Every other rank looks for it where the table says, and waits there in vain. "
    "The table is not the one that was used, or the launcher numbered the processes "
    "in another order.",
    fix="Compare the table that the line names with yours; `ranktable run` numbers the "
    "processes as the table does.",
    beside=_TABLE,
    bad=_log(_plog(812, _BY_FILE.format(rank=1, server="10.0.0.1", device=0))),
    good=_log(_plog(812, _BY_FILE.format(rank=1, server="10.0.0.2", device=0))),
    command="doctor",
)

LAUNCH = Rule(
    code="RT602",
    name="ranks-contradict-each-other",
    summary="processes claim one rank or chip, or differ in the size of the job",
    why="Two processes with one rank or chip, or a rank that is not below the size of "
    "the job, come from a launcher that was started twice or with other numbers on "
    "one node.",
    fix="Start every process once with the same WORLD_SIZE; `ranktable validate` finds "
    "doubled ranks and chips in the table, `ranktable check --live` in the job.",
    bad=_log(
        "n1:9:9 [0] NCCL WARN Bootstrap Root : rank 3 of 8 ranks has already checked in"
    ),
    good=_QUIET,
    command="doctor",
)

TABLE = Rule(
    code="RT603",
    name="table-refused",
    summary="the library refused the rank table, or ranks used different tables",
    why="HCCL says EI0004, EI0014 or EI0017 for a table that it cannot use, and EI0005 "
    "with the parameter ranktable if two ranks have different ones.",
    fix="Run `ranktable validate --for hccl` on the file that the line names, on the "
    "host of the rank; `ranktable explain EI0014` lists what can be wrong.",
    seen_as=("Failed to parse the ranktable file",),
    bad=_log(
        "EI0014: [PID: 812] 2026-01-05-10:00:00.000.001 Value 8 for ranktable "
        "variable rank_id is invalid. Expected value: less than 8"
    ),
    good=_QUIET,
    command="doctor",
)

NEVER_JOINED = Rule(
    code="RT604",
    name="rank-never-joined",
    summary="a rank did not join the job, and the others waited for it",
    why="The process was not started, ended before it joined, or could not be reached. "
    "The time-outs of the others say only that they waited.",
    fix="Read the first lines of the log of that rank; if it has none, whether its "
    "node "
    "was started. `ranktable check` on its host compares it with the table.",
    seen_as=("clients joined", "unconnected ranks"),
    bad=_log(
        "[rank0]: torch.distributed.DistStoreError: wait timeout after 300000ms, "
        "keys: /default_pg/0//cpu//0/5"
    ),
    good=_QUIET,
    command="doctor",
)

PORT = Rule(
    code="RT605",
    name="port-in-use",
    summary="a process could not listen on its port",
    why="Another job, a process that was left over, or a second process with the same "
    "rank has the port.",
    fix="Find the owner with `ss -ltnp` on that host; end it, or give the job another "
    "port. For HCCL, HCCL_IF_BASE_PORT moves its ports. A longer time-out does not "
    "help.",
    seen_as=("EADDRINUSE", "address already in use"),
    bad=_log(
        "[rank0]: torch.distributed.DistNetworkError: The server socket has failed "
        "to listen on any local network address. port: 29500, useIpv6: false, "
        "code: -98, name: EADDRINUSE, message: address already in use"
    ),
    good=_QUIET,
    command="doctor",
)

SETTING = Rule(
    code="RT606",
    name="settings-differ",
    summary="a setting is wrong, or ranks have different versions or settings",
    why="Libraries of different versions, TLS on some ranks only (EI0016), or an "
    "interface that a host does not have end in time-outs elsewhere.",
    fix="Use one image on all nodes, and set the variable that the line names alike; "
    "`ranktable check --live` compares versions and variables of all ranks.",
    bad=_log(
        "n1:9:9 [0] NCCL WARN Mismatched NCCL version detected : rank 0 version "
        "22706 rank 5 version 22501"
    ),
    good=_QUIET,
    command="doctor",
)

LEFTOVER = Rule(
    code="RT607",
    name="chip-in-use",
    summary="the chip is still used by another process, or it failed",
    why="EJ0001 names the last training process; a chip with an error gives the same "
    "message.",
    fix="End what runs on the chip (`npu-smi info`); if nothing does, reset the chip.",
    seen_as=("Maybe the last training process is running",),
    bad=_log(
        "EJ0001: [PID: 812] 2026-01-05-10:00:00.000.001 Failed to initialize the "
        "HCCP process. Reason: Maybe the last training process is running"
    ),
    good=_QUIET,
    command="doctor",
)

LOOPBACK = Rule(
    code="RT608",
    name="loopback-address",
    summary="a rank told the others a loopback address",
    why="The name of its host resolves to 127.0.0.1 or 127.0.1.1 there, and gloo "
    "advertises what the name resolves to. Ranks of other hosts then connect to "
    "themselves.",
    fix="Set GLOO_SOCKET_IFNAME to the interface of the network of the job, or take "
    "the "
    "name of the host out of the 127 lines of /etc/hosts.",
    bad=_log(
        "[rank8]: RuntimeError: Gloo connectFullMesh failed with [pair.cc:152] "
        "timed out connecting: SO_ERROR: Connection refused, remote="
        "[127.0.0.1]:3321 (rank=8, size=16, local=[127.0.0.1])"
    ),
    good=_QUIET,
    command="doctor",
)

UNREACHABLE = Rule(
    code="RT609",
    name="host-unreachable",
    summary="a host was not reached",
    why="The process that listens there was not started or has ended, the name or port "
    "is wrong, or the network does not let it through.",
    fix="See whether rank 0 runs on that host and listens on that port; `ranktable "
    "check` says whether the name resolves, the port refuses, or something else "
    "answers.",
    bad=_log(
        "[rank1]: The client socket has timed out after 60000ms while trying to "
        "connect to (node1, 29500)."
    ),
    good=_QUIET,
    command="doctor",
)

EXCEPTION = Rule(
    code="RT610",
    name="exception",
    summary="a rank raised an exception of its own",
    why="The others lost it or waited for it; what they say follows from that.",
    fix="Read the traceback of this rank.",
    bad=_log(*_traceback(1, "ValueError: sample 17 is empty"), *_traceback(0, _CLOSED)),
    good=_QUIET,
    command="doctor",
)

ENDED = Rule(
    code="RT611",
    name="process-ended",
    summary="a process ended without saying why",
    why="A signal or an exit status is all that is known. SIGKILL alone does not prove "
    "that memory was short: the kernel, Slurm or the kubelet would say so.",
    fix="Look into the log of the kernel of that host (`dmesg`), of slurmstepd or of "
    "the "
    "pod at that time; SIGSEGV is a defect of a library, SIGBUS often a full /dev/shm.",
    seen_as=("exitcode -9", "exitcode  : -11"),
    bad=_log(
        "E0105 10:00:00.1 99 torch/distributed/elastic/multiprocessing/api.py:833] "
        "failed (exitcode: -9) local_rank: 1 (pid: 4321) of binary: /bin/python",
        "  time      : 2026-01-05_10:00:00",
        "  host      : n4",
        "  rank      : 1 (local_rank: 1)",
        "  exitcode  : -9 (pid: 4321)  (SIGKILL)",
    ),
    good=_QUIET,
    command="doctor",
)

HOST_MEMORY = Rule(
    code="RT612",
    name="host-memory",
    summary="the kernel killed a process because its memory ran out",
    why="The kernel, slurmstepd or the kubelet says so. CONSTRAINT_MEMCG is the limit "
    "of "
    "the container or the job, CONSTRAINT_NONE the whole host.",
    fix="Raise the memory limit, use fewer workers for loading data, or pin less "
    "memory.",
    seen_as=("OOMKilled", "oom-kill"),
    bad=_log(
        "Jan  5 10:00:00 n4 kernel: Memory cgroup out of memory: Killed process "
        "4321 (python3) total-vm:9kB"
    ),
    good=_QUIET,
    command="doctor",
)

CHIP_MEMORY = Rule(
    code="RT613",
    name="chip-memory",
    summary="a chip has no memory left",
    why="The rank could not allocate; the others then waited for it.",
    fix="Use a smaller batch, shard more, or find what else uses the chip; if it is "
    "always the same rank, its share of the model is larger.",
    bad=_log(
        *_traceback(
            2,
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB.",
        ),
        *_traceback(0, _CLOSED),
    ),
    good=_QUIET,
    command="doctor",
)

FAULT = Rule(
    code="RT614",
    name="chip-fault",
    summary="a chip or its driver reported an error",
    why="Xid 13 and 31 and illegal memory accesses mostly come from the program; Xid "
    "48, "
    "63, 74, 79, 94, 95 and 119 from the chip or its links.",
    fix="Drain the node if the chip is at fault, and take its node out of the "
    "table with `ranktable fit --lost NODE`; otherwise run the program with "
    "CUDA_LAUNCH_BLOCKING=1.",
    bad=_log(
        "Jan  5 10:00:00 n4 kernel: NVRM: Xid (PCI:0000:07:00): 79, pid=1234, "
        "name=python3, GPU has fallen off the bus."
    ),
    good=_QUIET,
    command="doctor",
)

NODE = Rule(
    code="RT615",
    name="node-lost",
    summary="the scheduler lost a node",
    why="Slurm or Kubernetes does not reach the node any more.",
    fix="Take the node out with `ranktable fit --lost NODE`, which puts a spare in its "
    "place if there is one, then start again.",
    bad=_log("srun: error: Node failure on node37"),
    good=_QUIET,
    command="doctor",
)

SCHEDULER = Rule(
    code="RT616",
    name="ended-by-the-scheduler",
    summary="the scheduler ended the job",
    why="A time limit, a preemption, an eviction or scancel; no rank failed.",
    fix="Submit it again; save a checkpoint before the time limit.",
    severity=Severity.WARNING,
    bad=_log(
        "slurmstepd: error: *** STEP 7.0 ON node1 CANCELLED AT "
        "2026-09-21T10:00:00 DUE TO TIME LIMIT ***"
    ),
    good=_QUIET,
    command="doctor",
)

STORAGE = Rule(
    code="RT617",
    name="storage-failed",
    summary="a file system or shared memory is full or does not answer",
    why="The rank could not write or map a file; the others then waited for it.",
    fix="Look at the file system that the line names, on that host: space, inodes, "
    "quota, and whether it is mounted and answers; /dev/shm has a limit of its own in "
    "a container.",
    seen_as=("No space left on device", "insufficient shared memory"),
    bad=_log(
        *_traceback(1, "OSError: [Errno 28] No space left on device: '/out/9.pt'"),
        *_traceback(0, _CLOSED),
    ),
    good=_QUIET,
    command="doctor",
)

SILENT = Rule(
    code="RT620",
    name="rank-stopped-answering",
    summary="the others waited in an operation that a rank never began",
    why="Who times out is the victim. The rank that reports nothing, or the one that "
    "is "
    "behind, has stopped: it had fewer batches, waits for a disk, is stuck in a "
    "driver, or was stopped.",
    fix="Read the end of its log; `py-spy dump --pid` on its host shows where it "
    "stands. "
    "If it had ended, the ranks did not have the same number of steps.",
    seen_as=("Watchdog caught collective operation timeout",),
    bad=_log(_waits(1), _waits(2), _waits(3)),
    good=_log(_waits(0), _waits(1, op="BROADCAST"), _waits(2)),
    command="doctor",
)

DIFFERENT = Rule(
    code="RT621",
    name="different-operations",
    summary="ranks were in different operations at the same time",
    why="A branch that only some ranks take, a batch that one rank lacks, or tensors "
    "of "
    "different sizes. Some libraries then hang, others abort.",
    fix="Run with TORCH_DISTRIBUTED_DEBUG=DETAIL on two ranks, or rehearse it with "
    "`ranktable simulate`, which compares every call.",
    seen_as=("Detected mismatch between collectives", "op.preamble.length"),
    bad=_log(_waits(0), _waits(1, op="BROADCAST"), _waits(2)),
    good=_log(_waits(1), _waits(2), _waits(3)),
    command="doctor",
)

LATE = Rule(
    code="RT622",
    name="rank-late",
    summary="a rank came so late that the others had given up",
    why="All ranks report the time-out, but one of them long after the others.",
    fix="Find what it did meanwhile: a checkpoint, an evaluation, a slow disk. Raise "
    "the "
    "time-out only if that is meant.",
    bad=_log(
        "[rank0]:[E105 06:15:00.1 g.cpp:1] RuntimeError: Timed out waiting 60000ms for "
        "recv operation to complete",
        "[rank1]:[E105 06:19:00.1 g.cpp:1] RuntimeError: Timed out waiting 60000ms for "
        "recv operation to complete",
    ),
    good=_QUIET,
    command="doctor",
)

LINK = Rule(
    code="RT623",
    name="link-broke",
    summary="the link to a chip broke",
    why="RDMA gave up sending (status 12). Many ranks that lose one chip mean that "
    "chip "
    "or its process; two that lose each other mean the link between them. At the "
    "first use it never worked: routing or GID; later the peer may have ended first.",
    fix="Look first whether the process of the peer had ended. Then `hccn_tool -i CHIP "
    "-link_stat -g`, `-optical -g`, or `ibstat`; NCCL_IB_GID_INDEX=3 for RoCE over "
    "switches.",
    seen_as=("Got completion from peer", "error CQE"),
    beside=_TABLE,
    bad=_log(
        _plog(
            812,
            "[CQE ERROR]cqe error status[12], time:[x], localInfo{server"
            "[10.0.0.1],deviceId[0],deviceIp[192.168.1.1]}, remoteIP{server"
            "[10.0.0.2],deviceId[0],deviceIp[192.168.1.2]}",
        )
    ),
    good=_QUIET,
    command="doctor",
)

LOST = Rule(
    code="RT624",
    name="rank-lost",
    summary="others saw that a rank was lost or stuck",
    why="HCCL's heartbeat names host and chip of a process that is gone or does not go "
    "on; torchrun and the watchdog of torch name processes that do not react.",
    fix="Look into the log of that rank and into the kernel's log of its host; a stuck "
    "process shows where it stands with `py-spy dump`.",
    beside=_TABLE,
    bad=_log(
        _plog(
            812,
            "[TaskExecStage][HeartbeatAbnormal]Cluster Exception Location"
            "[IP/ID]:[10.0.0.2/0], Arrival Time:[x], Discoverer:"
            "[10.0.0.1/0], ExceptionType:[Heartbeat Lost Occurred], "
            "Possible Reason:1. Process has exited",
        )
    ),
    good=_QUIET,
    command="doctor",
)

CIRCLE = Rule(
    code="RT625",
    name="wait-in-a-circle",
    summary="ranks wait for each other in a circle",
    why="Nobody in the circle can go on: the ranks call sends, receives or groups in "
    "different orders, or a link works in one direction only.",
    fix="Compare the order of calls of these ranks; test the links between them in "
    "both "
    "directions.",
    beside=_TABLE,
    bad=_log(
        _plog(
            8,
            "srcRank (server 10.0.0.1, device ID 0) fails to connect to dstRank "
            "(server 10.0.0.2, device ID 0)",
        ),
        _plog(
            9,
            "srcRank (server 10.0.0.2, device ID 0) fails to connect to dstRank "
            "(server 10.0.0.1, device ID 0)",
        ),
    ),
    good=_QUIET,
    command="doctor",
)

FIRST = Rule(
    code="RT626",
    name="first-operation",
    summary="every rank timed out in the first operation",
    why="No rank is behind: the network between them never worked. Wrong interfaces, a "
    "firewall, GID, P2P or TLS, or too few CPUs for the processes.",
    fix="Run `ranktable check` on the hosts and `ranktable check --links`, which names "
    "the pair that does not work.",
    bad=_log(_waits(0, 1), _waits(1, 1)),
    good=_log(_waits(1), _waits(2), _waits(3)),
    command="doctor",
)

UNKNOWN = Rule(
    code="RT630",
    name="cause-not-in-these-logs",
    summary="only consequences are in these logs",
    why="Every line follows from something that another process or host logged.",
    fix="Collect the logs of all ranks, `dmesg` of all hosts and the log of the "
    "scheduler, and give them all to `ranktable doctor`.",
    bad=_log(*_traceback(0, _CLOSED)),
    good=_QUIET,
    command="doctor",
)

UNKNOWN_ERROR = Rule(
    code="RT631",
    name="errors-not-known-here",
    summary="errors that doctor does not know are all there is",
    why="Lines of the level of an error were found, and no line says that the job went "
    "on or ended well.",
    fix="Read these lines first. If they are a message of a library, an entry in "
    "`patterns.toml` teaches it to doctor.",
    bad=_log(
        "2026-01-05 10:00:00 INFO [rank1] step 1 loss 2.3",
        "2026-01-05 10:00:01 ERROR [rank1] the shard index is broken",
    ),
    good=_QUIET,
    command="doctor",
)

RULES = (
    RUNS_ELSEWHERE, LAUNCH, TABLE, NEVER_JOINED, PORT, SETTING, LEFTOVER, LOOPBACK,
    UNREACHABLE, EXCEPTION, ENDED, HOST_MEMORY, CHIP_MEMORY, FAULT, NODE, SCHEDULER,
    STORAGE, SILENT, DIFFERENT, LATE, LINK, LOST, CIRCLE, FIRST, UNKNOWN,
    UNKNOWN_ERROR,
)  # fmt: skip
