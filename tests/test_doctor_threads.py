"""``doctor`` on what people paste into threads, and on logs of healthy jobs.

The values are invented; the messages are those of libraries and launchers.
"""

from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING

import pytest

from ranktable.doctor.diagnose import diagnose

if TYPE_CHECKING:
    from pathlib import Path


def steps(number: int, start: int = 0, prefix: str = "") -> str:
    return "".join(
        f"{prefix}step {start + i} loss {3 - i / 100:.3f}\n" for i in range(number)
    )


def metrics(number: int) -> str:
    return "".join(
        f"{{'loss': {3 - i / 100}, 'learning_rate': 1e-05, 'epoch': {i / 100}}}\n"
        for i in range(number)
    )


def raised(rank: int | None, *errors: str, file: str = "/job/fit.py") -> str:
    prefix = "" if rank is None else f"[rank{rank}]: "
    lines = ("Traceback (most recent call last):", f'  File "{file}", line 7, in run',
             "    loss = step(batch)", *errors)  # fmt: skip
    return "".join(f"{prefix}{line}\n" for line in lines)


def waits(rank: int, seq: int = 41) -> str:
    return (
        f"[rank{rank}]:[E1105 14:20:0{rank}.1 ProcessGroupNCCL.cpp:632] [Rank {rank}] "
        f"Watchdog caught collective operation timeout: WorkNCCL(SeqNum={seq}, "
        "OpType=ALLREDUCE, NumelIn=64, NumelOut=64, Timeout(ms)=600000) ran for 600037 "
        "milliseconds before timing out.\n"
    )


def ended(rank: int, status: int, pid: int = 82, at: str = "14:20:01") -> str:
    return (
        f"  time      : 2026-11-05_{at}\n  host      : n1\n"
        f"  rank      : {rank} (local_rank: {rank})\n"
        f"  exitcode  : {status} (pid: {pid})\n"
    )


def barrier(rank: int, joined: int = 3) -> str:
    return (
        "INFO:root:Waiting in store based barrier to initialize process group for "
        f"rank: {rank}, key: store_based_barrier_key:1 (world_size=4, "
        f"num_workers_joined={joined}, timeout=0:30:00)\n"
    )


def nccl(text: str, *below: str) -> tuple[str, ...]:
    error = f"torch.distributed.DistBackendError: NCCL error in: /p/u.hpp:219, {text}"
    return f"{error}, NCCL version 2.28.9", *below


CUDA = "unhandled cuda error (run with NCCL_DEBUG=INFO for details)"
USAGE = "invalid usage (run with NCCL_DEBUG=WARN for details)"
INVALID = "ncclInvalidUsage: This usually reflects invalid usage of NCCL library."
NPU = (
    "[ERROR] 2026-11-05-14:20:00 (PID:8457, Device:5, RankID:5) ERR02200 DIST call "
    "hccl api failed.\n"
)
NFS = "[ 79.1] nfs: server store7 not responding, still trying\n"
LINK = "[ 80.1] ice 0000:98:00.0 eth2: NIC Link is {}\n"
SYSTEM = "unhandled system error (run with NCCL_DEBUG=INFO for details)"
REMOTE = "remote process exited or there was a network error"
LOST = raised(0, *nccl(REMOTE)) + raised(2, *nccl(REMOTE))
AGAIN = (
    "[rank3]: \n[rank3]: During handling of the above exception, another exception "
    "occurred:\n[rank3]: \n"
)
CHAIN = raised(1, "ConnectionResetError: [Errno 104] Connection reset by peer") + (
    "[rank1]: \n[rank1]: The above exception was the direct cause of the following "
    "exception:\n[rank1]: \n"
)

HANDLED = (
    raised(3, "PermissionError: [Errno 13] Permission denied: '/ck/7'")
    + "[rank3]: \n[rank3]: During handling of the above exception, another exception "
    "occurred:\n[rank3]: \n"
)
LEFT = nccl("remote process exited or there was a network error")

STALL = (
    "[1,0]<stderr>:[2026-11-05 14:20:01.1: W horovod/stall_inspector.cc:105] One or "
    "more tensors were submitted to be reduced, gathered or broadcasted by subset of "
    "ranks and are waiting for remainder of ranks for more than 60 seconds.\n"
)
RECEIVED = (
    "[rank1]:[W1105 14:20:09.1 TCPStore.cpp:125] [c10d] recvValue failed on SocketImpl("
    "fd=8, addr=[n1]:40001, remote=[n0]:29500): Failed to recv, got 0 bytes. "
    "Connection was likely closed. Did the remote server shutdown or crash?\n"
    "[rank1]:[W1105 14:20:09.2 ProcessGroupNCCL.cpp:1684] [PG ID 0 PG GUID 0 Rank 1] "
    'Failed to check the "should dump" flag on TCPStore, (maybe TCPStore server has '
    "shut down too early), with error: Failed to recv, got 0 bytes\n"
)
FAILED: dict[str, tuple[str, str, tuple[int, ...]]] = {
    "no memory in NCCL": (
        raised(3, *nccl(CUDA, "ncclUnhandledCudaError: Call to CUDA function failed.",
                        "Last error:", "Cuda failure 'out of memory'")),
        "RT613", (3,)),
    "fork": (
        raised(3, *nccl(CUDA, "Last error:", "Cuda failure 3 'initialization error'")),
        "RT606", (3,)),
    "shared memory": (
        raised(0, *nccl(SYSTEM, "Last error:", "Error while creating shared memory "
               "segment /dev/shm/nccl-7QxTo9 (size 96), error: No space left")),
        "RT617", (0,)),
    "peer refused": (
        raised(0, *nccl(SYSTEM, "Last error:", "socketPollConnect: connect to 10.0.0.7"
               "<45011> returned Connection refused, exceeded error retry count (35)")),
        "RT609", ()),
    "no GPU": (
        raised(0, "ValueError: ProcessGroupNCCL is only supported with GPUs, no GPUs "
               "found!"), "RT606", (0,)),
    "CANN without Python": (
        raised(1, "RuntimeError: [ERROR] HCCL error in: x.cpp:64",
               "[ERROR] 2026-11-05-14:20:01 (PID:82, Device:1, RankID:1) ERR02200 DIST "
               "call hccl api failed.", "EC0010: Failed to import Python module "
               "[ModuleNotFoundError: No module named 'tbe']."), "RT606", (1,)),
    "busy": (
        raised(2, "RuntimeError: CUDA error: all CUDA-capable devices are busy or "
               "unavailable"), "RT607", (2,)),
    "loader killed": (
        raised(2, "RuntimeError: DataLoader worker (pid 4711) is killed by signal: "
               "Bus error.") + waits(0), "RT617", (2,)),
    "disk": (
        raised(2, "OSError: [Errno 28] No space left on device: '/out/x'") + waits(0),
        "RT617", (2,)),
    "kernel of the NPU": (
        raised(3, "RuntimeError: x.cpp:372 NPU function error: AclrtSynchronize, error "
               "code is 507015") + waits(0), "RT610", (3,)),
    "peers of a crash": (
        raised(0, "EOFError") + raised(1, "BrokenPipeError: [Errno 32] Broken pipe")
        + ended(2, -11), "RT611", (2,)),
    "pod without a node": (
        ("Status:           Pending\nEvents:\n  Warning  FailedScheduling  3m  "
         "default-scheduler  0/8 nodes are available: 8 Insufficient memory.\n"),
        "RT604", ()),
    "pod without its image": (
        "    State:          Waiting\n      Reason:       ImagePullBackOff\n", "RT604",
        ()),
    "abort of MPI": (
        ("MPI_ABORT was invoked on rank 6 in communicator MPI_COMM_WORLD\nwith error"
         "code 2.\nmpirun noticed that process rank 0 with PID 22 on node u1 exited on "
         "signal 9 (Killed).\n"), "RT611", (6,)),
    "address with colons": (
        ("The client socket has timed out after 60s while trying to connect to "
         "(fd00:10:44::7, 29400).\n"), "RT609", ()),
    "checkpoint that tells of another rank": (
        raised(0, "AssertionError").replace("last):", "last): (RANK 4)"), "RT610",
        (4,)),
    "stall of two operations in one line": (
        "Stalled ops: loss_0 [ready ranks: 3], grads_0 [ready ranks: 2, 0, 1]\n",
        "RT621", (0, 1, 2, 3)),
    "numbers that differ": (waits(1, 42) + waits(2) + waits(3), "RT620", (2, 3)),
    "chain with a loss at its end": (
        raised(3, "ValueError: shard 17") + AGAIN + raised(3, *nccl(REMOTE)) + LOST,
        "RT610", (3,)),
    "a service that is gone": (
        raised(3, "requests.exceptions.ConnectionError: HTTPSConnectionPool("
               "host='hub', port=443): Max retries exceeded") + LOST, "RT610", (3,)),
    "a pipe to a child": (
        raised(3, "EOFError", file="/usr/lib/python3/multiprocessing/connection.py")
        + LOST, "RT610", (3,)),
    "a rank that is only quiet": (
        "".join(f"INFO rank {n} of 4 ready\n[rank{n}]: step 1 loss 2\n"
                for n in range(3)) + LOST, "RT630", ()),
    "a quiet rank of a job of unknown size": (steps(9, prefix="[rank1]: ") + LOST,
                                              "RT630", ()),
    "chain": (
        CHAIN + raised(1, "RuntimeError: step 7 failed") + ended(2, -9), "RT611", (2,)),
    "chain, a peer lost at last": (HANDLED + raised(3, *LEFT) + raised(0, *LEFT),
                                   "RT610", (3,)),
    "chain, cut below the first": (HANDLED, "RT610", (3,)),
    "chain, and another was killed": (
        HANDLED + raised(3, *LEFT) + raised(0, *LEFT) + ended(2, -9), "RT611", (2,)),
    "crash after the others had waited": (
        waits(0) + waits(1) + waits(3) + ended(2, -11, at="14:21:30"), "RT620", (2,)),
    "all alike": (waits(0) + waits(1) + waits(2), "RT630", ()),
    "child of Lightning": (
        ("[rank: 1] Child process with PID 652 terminated with code 1. Forcefully "
        "terminating all other processes to avoid zombies\nKilled\n"), "RT611", ()),
    "process that hydra ended after another": (
        "".join(f"=   RANK {rank} PID 2{rank} RUNNING AT c1\n=   KILLED BY SIGNAL: "
                f"{number}\n" for rank, number in ((8, 15), (3, 9))), "RT611", (3,)),
    "tags of mpirun with the time": (
        "".join(f"Thu Nov  5 10:00:14 2026[1,5]<stderr>:{line}\n"
                for line in raised(None, "OSError: truncated").splitlines())
        + "Thu Nov  5 10:00:15 2026[1,0]<stderr>:x.HorovodInternalError: x\n",
        "RT610", (5,)),
    "memory of a node of Ray": (
        raised(None, "ray.exceptions.OutOfMemoryError: Task was killed due to the node "
               "running low on memory.", "Memory on the node (IP: 10.0.0.7, ID: 2a) "
               "where the task (actor ID: 77, name=F.f, pid=82, memory used=1GB) was "
               "running was 27GB / 28GB (0.98), which exceeds the memory usage "
               "threshold of 0.95."), "RT612", ()),
    "a number of a chip that is not there": (
        raised(9, "RuntimeError: x.ts:217 NPU function error: aclrtSetDevice, error "
               "code is 107001", "[ERROR] 2026-11-05-11:10:02 (PID:2210, Device:9, "
               "RankID:-1) ERR00100 PTA call acl api failed",
               "EE1001: [PID: 2210] 2026-11-05-11:10:02.117.203 The argument is "
               "invalid.Reason: Set device failed, invalid device, set device=9"),
        "RT606", (9,)),
    "ECC of an NPU, told below a code": (
        ("[rank3]: [ERROR] 2026-11-05-10:00:01 (PID:82, Device:5, RankID:3) ERR00100 "
        "PTA call acl api failed\n[rank3]: [Error]: HBM MULTI BIT ECC ERROR.\n"),
        "RT614", (3,)),
    "InfiniBand that does not reach": (
        ("dgx-3:82:83 [0] misc/ibvwrap.cc:187 NCCL WARN Call to ibv_modify_qp failed "
        "with error Network is unreachable\ndgx-3:82:83 [0] proxy.cc:1143 NCCL WARN "
        "Connection closed by remote peer dgx-3<41109>\n"), "RT623", ()),
    "old message of InfiniBand": (
        ("bert-1:946:988 [0] transport/net_ib.cc:839 NCCL WARN NET/IB : Got completion "
        "with error 12, opcode 1, len 0, vendor err 129\n"), "RT623", ()),
    "network cards that differ": (
        "h1:82:83 [1] accept:49 NCCL WARN NET/OFI Unexpected number of remote rails "
        "for dev 3. Expected 4 but got 0\n" + raised(3, *nccl(
            SYSTEM, "Last error:", "NET/OFI Unexpected number of remote rails for dev "
            "3. Expected 4 but got 0")), "RT606", (3,)),
    "libfabric": (
        ("[1,7]<stdout>:ip-17-2:82:83 [7] create:459 NCCL WARN NET/OFI Couldn't open "
        "AV. RC: -22, ERROR: Invalid argument\n"), "RT606", (7,)),
    "a general error, and its meaning below": (
        (f"[rank3]: {nccl(CUDA)[0]}\n[rank3]: Last error:\n[rank3]: Cuda failure 802 "
        "'system not yet initialized'\n"), "RT606", (3,)),
    "a call that NCCL made": (
        ("h2:82:83 [2] transport/nvls.cc:254 NCCL WARN Cuda failure 1 'invalid "
        f"argument'\nh2: Test NCCL failure common.cu:1097 '{CUDA}'\n"),
        "RT606", ()),
    "memory that processes cannot share": (
        ("sun:82:83 [1] p2p.cc:220 NCCL WARN hipIpcGetMemHandle failed : invalid "
        f"argument\nsun: Test NCCL failure common.cpp:1291 '{CUDA} / '\n"),
        "RT606", ()),
    "a device that the driver lost": (
        raised(3, "RuntimeError: level_zero backend failed with error: 20 "
               "(UR_RESULT_ERROR_DEVICE_LOST)"), "RT614", (3,)),
    "a checkpoint that was cut": (
        raised(0, "RuntimeError: [enforce fail at inline_container.cc:778] . "
               "PytorchStreamWriter failed writing file data.pkl: file write failed"),
        "RT617", (0,)),
    "one address of two hosts": (
        "".join(f"{host}:7:7 [0] NCCL INFO Bootstrap: Using docker0:172.17.0.1<0>\n"
                for host in ("n1", "n2"))
        + "n2:7:8 [0] misc/socket.cc:484 NCCL WARN socketStartConnect: Connect to "
        "172.17.0.1<43011> failed : Connection refused\n", "RT608", ()),
    "loopback, version 6": (
        raised(1, "RuntimeError: Gloo connectFullMesh failed with [pair.cc:144] timed "
               "out connecting: SO_ERROR: Connection refused, remote=[::1]:51324, "
               "rank=1"), "RT608", (1,)),
    "a host that ssh does not reach": (
        ("gpu-b: ssh: connect to host gpu-b port 22: Connection timed out\n"
        "pdsh@gpu-a: gpu-b: ssh exited with exit code 255\n"), "RT618", ()),
    "launcher of ColossalAI": (
        ("Error: failed to run torchrun --nnodes=1 a.py on 127.0.0.1, is localhost: "
        "True, exception: Encountered a bad command exit code!\n"), "RT611", ()),
    "other operations, and a status below": (
        ("RuntimeError: Detected mismatch between collectives on ranks. Rank 1 is "
        "running collective: CollectiveFingerPrint(SequenceNumber=4, OpType=ALLREDUCE, "
        "TensorShape=[25]), but Rank 0 is running collective: CollectiveFingerPrint("
        "SequenceNumber=4, OpType=BROADCAST, TensorShape=[1])\nE1105 14:20:06.1 70 "
        "torch/api.py:882] failed (exitcode: 1) local_rank: 0 (pid: 82) of binary: "
        "/v/python\n"), "RT621", (0, 1)),
    "a status long before the others": (
        ended(3, 1, at="14:20:52") + ended(0, 1, at="14:20:52")
        + ended(4, 1, at="14:20:01"), "RT611", (4,)),
    "a task that hangs at a file server": (
        waits(0) + waits(1) + waits(3) + steps(9, 0, "[rank2]: ") + NFS
        + "[ 89.1] INFO: task python3:4411 blocked for more than 120 seconds.\n",
        "RT620", (2,)),
    "a watchdog below the exception of another rank": (
        raised(2, "RuntimeError: [pair.cc:553] Connection closed by peer [10.0.0.8]:40")
        + "[rank3]:[E1105 14:20:00.1 ProcessGroupNCCL.cpp:1515] [PG 0 (default_pg) "
        "Rank 3] Process group watchdog thread terminated with exception: CUDA error: "
        "uncorrectable ECC error encountered\n", "RT614", (3,)),
    "a kernel of an NPU that does not end": (
        ("[ERROR] 2025-12-12-12:10:10 (PID:285, Device:4, RankID:2) ERR00100 PTA call "
        "acl api failed\n[Error]: The aicore execution times out.\n"), "RT610", (2,)),
    "parameters that the loss does not need": (
        ("RuntimeErrorpred = model(imgs)\n: \nParameters which did not receive grad "
        "for rank 4: model.22.bias\nE1105 14:20:06.1 70 torch/api.py:882] failed "
        "(exitcode: 1) local_rank: 4 (pid: 315) of binary: /v/python\n"),
        "RT610", (4,)),
    "a container that Slurm did not start": (
        ("pyxis: failed to import docker image\n    [ERROR] URL https://x returned "
        "error code: 401 Unauthorized\nsrun: error: pyxis: container start failed with "
        "error code: 1\nsrun: error: gpu-14: task 8: Exited with exit code 1\n"),
        "RT618", ()),
    "a container without its chips": (
        ('docker: Error response from daemon: could not select device driver "" with '
        "capabilities: [[gpu]].\n"), "RT618", ()),
    "no algorithm of NCCL": (
        ("dc:82:82 [3] enqueue.cc:1182 NCCL WARN Error : no algorithm/protocol "
        "available\nFailed, NCCL error /x.cpp:88 'internal error'\n"), "RT606", ()),
    "a switch of chips": (
        ("[812.0] nvidia-nvswitch3: SXid (PCI:0000:07:00.0): 22013, Fatal, Link 44 "
        "Minion Link DLREQ interrupt\n"), "RT614", ()),
    "a pod that the kubelet evicted": (
        ("Nov 05 10:00:00 n1 kubelet[18]: I1105 10:00:00.1 1801 eviction_manager.go:6] "
        '"Eviction manager: pod is evicted successfully" pod="ml/fit-3"\n'),
        "RT616", ()),
    "chips that do not reach each other": (
        raised(2, "RuntimeError: CUDA error: peer access is not supported between "
               "these two devices"), "RT606", (2,)),
    "a message of MPI that is too long": (
        ("Abort(474302479) on node 3 (rank 1 in comm 496): Fatal error in "
        "PMPI_Allreduce: Message truncated, error stack:\n"), "RT621", (3,)),
    "an address that Open MPI does not reach": (
        ("  Local host: n1\n  PID:        162\n  Message:    connect() to "
        "192.168.122.1:1026 failed\n  Error:      No route to host (113)\n"),
        "RT609", ()),
    "a GPU that nvidia-smi does not reach": (
        ("Unable to determine the device handle for GPU0000:5D:00.0: GPU is lost. "
        "Reboot the system to recover this GPU\n"), "RT614", ()),
    "an error of GROMACS": (
        ("MPI rank:    5 (out of 16)\n\nFatal error:\nThere is no domain decomposition "
        "for 16 ranks\n"), "RT610", (5,)),
    "memory of MindSpore": (
        raised(2, "RuntimeError: Device(id:3) memory isn't enough and alloc failed, "
               "kernel name: x"), "RT613", (2,)),
    "one of SGLang that is ready, and others that are not": (
        "[2026-11-05 14:20:00 TP3] Scheduler hit an exception: " + raised(
            None, "ValueError: TP rank 3 could finish the model loading, but there are "
            "other ranks that didn't finish loading. It is likely a slow node."),
        "RT604", ()),
    "a barrier in which rank 0 was lost": (
        raised(None, "RuntimeError: Rank 2 successfully reached monitoredBarrier, but "
               "received errors while waiting for send/recv from rank 0. Please check "
               "rank 0 logs for faulty rank.", " Original exception: ",
               "[/p/gloo/pair.cc:553] Connection closed by peer [10.0.0.8]:40"),
        "RT620", (0,)),
    "a barrier that one did not reach": (
        raised(0, "RuntimeError: Ranks 3, 5 failed to pass monitoredBarrier in 90 ms")
        + raised(2, "RuntimeError: Rank 2 successfully reached monitoredBarrier, but "
                 "received errors while waiting for send/recv from rank 0."),
        "RT604", (3, 5)),
    "a task of HCCL that waits for a peer": (
        "2026-11-05 14:20:00,218 - lmdeploy - ERROR - agent.py:489 - Rank[5] failed.\n"
        + raised(None, "RuntimeError: ACL stream synchronize failed.", "EI9999: Inner "
                 "Error!", "EI9999: 2026-11-05-14:20:00.358.410  The error from device("
                 "chipId:1, dieId:0), serial number is 2, hccl fftsplus task timeout "
                 "occurred during task execution, stream_id:9, stuck notify num:1"),
        "RT630", ()),
    "a task of JAX that had started again": (
        ("jax.errors.JaxRuntimeError: ABORTED: /job:jax_worker/replica:0/task:5 "
        "unexpectedly tried to connect with a different incarnation. It has likely "
        "restarted.\n"), "RT624", (5,)),
    "another operation of one rank, one number ahead": (
        waits(0) + waits(1) + waits(2) + waits(3, 42).replace("ALLREDUCE", "BROADCAST"),
        "RT621", (3,)),
    "agents of two hosts whose processes have one id": (
        "".join(f"{host}: W1105 14:20:09.1 70 torch/api.py:897] Sending process {pid} "
                "closing signal SIGTERM\n"
                for host, pid in (("h-1", 81), ("h-1", 82), ("h-2", 81)))
        + "".join(f"h-2: {line}\n"
                  for line in ended(6, -11).replace("n1", "h-2").splitlines())
        + "".join(f"h-1: {line}\n" for line in LOST.splitlines()), "RT611", (6,)),
    "a log that ends within a traceback": (
        steps(9) + raised(2, "").rpartition("[rank2]")[0], "RT610", (2,)),
    "ranks that miss another": (
        raised(0, "RuntimeError: worker 2 is dead: heartbeat missed 3 times")
        + raised(1, "TimeoutError: rank 2 did not report its loss in 9 s"),
        "RT624", (2,)),
    "a task that is an agent": (
        "".join(f"{task}: [default{n}]:[rank{2 * task + n}]: step {i} loss 2\n"
                for i in range(3) for task in range(3) for n in range(2))
        + "srun: error: n3: task 2: Out Of Memory\n", "RT612", ()),
    "a request of EFA": (
        "n3:82:83 [0] nccl_net_ofi_rdma.cpp:8 NCCL WARN NET/OFI Request completed with "
        "error. RC: 4123. Error: unknown error.\n" + LOST, "RT623", ()),
    "nodes of MindSpore in the form of a vector": (
        raised(None, "RuntimeError: The total number of timed out node is 2. Timed out "
               "node list is: [const vector]{5, 6}, worker 0 is the first"),
        "RT604", ()),
    "a deadlock of Lightning": (
        "x.exceptions.DeadlockDetectedException: DeadLock detected from rank: 2 \n"
        + raised(None, "IndexError: list index out of range"), "RT610", (2,)),
    "shapes of accelerate": (
        raised(0, "accelerate.utils.operations.DistributedOperationException: Cannot "
               "apply desired operation due to shape mismatches.", "", "Input shapes:",
               *(f"  - Process {n}: [1, {5 + n // 2}]" for n in range(3))),
        "RT621", (2,)),
    "sections of ranks": (
        "".join(f"-----Begin global rank {n} STDERR-----\n" + raised(None, text)
                + f"-----End global rank {n} STDERR-----\n"
                for n, text in ((0, LEFT[0]), (3, "ValueError: bad shard"))),
        "RT610", (3,)),
    "a rank that is missing in an analysis of the recorder": (
        ("Not all ranks joining collective, sequence number: 9\ninternal record id: 8\n"
        "expected ranks: {0, 1, 2}\nmissing ranks: {1}\n"), "RT620", (1,)),
    "memory that cannot be locked": (
        raised(1, *nccl(SYSTEM, "Last error:", "Call to ibv_reg_mr failed with error "
               "Cannot allocate memory")), "RT606", (1,)),
    "no interface": (
        raised(1, *nccl("internal error", "Last error:", "Bootstrap : no socket "
               "interface found")), "RT606", (1,)),
    "a job that Lightning put into the queue again": (
        steps(9) + "[rank: 0] Received SIGTERM: 15\nRequeued SLURM job: 71\n",
        "RT616", ()),
    "a trainer of Paddle that others were ended with": (
        ("FatalError: `Termination signal` is detected by the operating system.\n"
        "worker rank 2 (pid 44, host n7) exited unexpectedly with code -11\n"),
        "RT611", (2,)),
    "a key-value store of oneCCL": (
        raised(2, "RuntimeError: oneCCL: internal_kvs.cpp:5 kvs_init: EXCEPTION: "
               "timeout"), "RT630", ()),
    "a command of SageMaker": (
        ("ExecuteUserScriptError:\nExitCode 137\nErrorMessage\nCommand 'torchrun t.py' "
        "on host algo-3\n"), "RT611", ()),
    "experts that wait for a rank": (
        raised(6, "RuntimeError: DeepEP error: timeout (dispatch CPU), waiting for "
               "rank 2"), "RT604", (2,)),
    "wrong values of a collective": (
        "# Out of bounds values : 12 FAILED\n# Avg bus bandwidth    : 75.1\n",
        "RT614", ()),
    "bytes that another rank did not ask for": (
        raised(2, *nccl("internal error", "Last error:", "Message truncated : received "
               "64 bytes instead of 16")), "RT621", (2,)),
    "a scheduler of SGLang": (
        "Rank 2 scheduler died during initialization (exit code: -9).\n" + raised(
            None, "RuntimeError: Initialization failed. Please see the error messages "
            "above."), "RT611", (2,)),
    "a proxy of NCCL": (
        raised(1, *nccl("internal error", "Last error:", "Proxy Call to rank 5 failed "
               "(Connect)")), "RT604", (5,)),
    "all that a watchdog says": (
        "".join(waits(n, 40 + n) + f"[rank{n}]:[E1105 14:20:07.1 ProcessGroupNCCL.cpp:"
                f"684] [Rank {n % 2}] Some NCCL operations have failed or timed out.\n"
                for n in (0, 1, 3)).replace("[Rank 3]", "[Rank 1]")
        + steps(3, prefix="[rank2]: "), "RT620", (2,)),
    "a process that aborts as it leaves": (
        "terminate called without an active exception\n"
        + raised(0, "RuntimeError: [pair.cc:5] Read error [10.0.0.1]:4: Connection "
                 "reset by peer") + ended(0, -15, 81) + ended(1, -6), "RT611", (1,)),
    "processes that abort together": (
        "terminate called without an active exception\n" + ended(0, -6) + ended(1, -6),
        "RT611", ()),
    "nodes on which the job was not started": (
        ("ranktable: gave up after 600 s: node 2 (n3), node 3 (n4) did not come; the "
        "ranks of this node are ended\n"), "RT604", ()),
    "a first node that does not answer": (
        ("ranktable: gave up after 600 s: node 0: n1, port 29500, does not answer: "
        "connection refused\n"), "RT609", ()),
    "mpirun": (
        ("prterun noticed that process rank 6 with PID 4413 on node f3 exited on\n"
        "signal 9 (Killed).\n"), "RT611", (6,)),
    "hydra": (
        ("=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES\n=   RANK 3 PID 12 "
        "RUNNING AT c1\n=   KILLED BY SIGNAL: 9 (Killed)\n"), "RT611", (3,)),
    "first process of mpirun": (
        ("The first process to do so was:\n\n  Process name: [[63821,1],2]\n"
        "  Exit code:    1\n"), "RT611", (2,)),
    "srun -l": (
        "".join(f"{rank}: step {i} loss 2\n" for i in range(3) for rank in range(8))
        + raised(None, "ValueError: x").replace("\n", "\n5: ").join(("5: ", "\n"))
        + "srun: error: n2: task 5: Exited with exit code 1\n", "RT610", (5,)),
    "program": (
        ("slurmstepd: error: execve(): pyton: No such file or directory\n"
        "srun: error: n2: task 1: Exited with exit code 2\n"), "RT618", ()),
    "JAX": (
        ("The following tasks are unhealthy (stopped sending heartbeats):\n"
        "   /job:jax_worker/replica:0/task:3\n"), "RT624", (3,)),
    "Ray": (
        ("The node with node id: 5ad7 and address: 10.0.0.7 and node name: a has been "
        "marked dead because the detector has missed too many heartbeats from it.\n"
        "ray.exceptions.ActorDiedError: The actor died unexpectedly\n"), "RT615", ()),
    "time": ("=>> PBS: job killed: walltime 3611 exceeded limit 3600\n", "RT616", ()),
    "bare": ("step 1 loss 3\nSegmentation fault (core dumped)\n", "RT611", ()),
    "not known": ("[rank1] 2026-11-05 14:20:00 ERROR the foo broke\n", "RT631", ()),
    "identifier of NCCL": (
        "".join(raised(rank, f"RuntimeError: [{rank}] is setting up NCCL communicator "
                "and retreiving ncclUniqueId from [0] via c10d key-value store by key "
                "'0', but store->get('0') got error: Timeout waiting for key: 0/0 "
                "after 1800000 ms") for rank in (1, 2)), "RT604", (0,)),
    "peer of MPI": (
        ("An MPI communication peer process has unexpectedly disconnected.  This\n"
        "\n  Local host: nc-13\n  Local PID:  7720\n  Peer host:  nc-16\n"),
        "RT624", ()),
    "cancelled behind a bar": (
        (" 46%|####   | 31/67 [29:02<35:12, 58.67s/it]slurmstepd: error: *** STEP "
        "6053.0 ON nd212 CANCELLED AT 2026-04-23T12:18:08 ***\n"
        "srun: error: nd212: task 0: Terminated\n"), "RT616", ()),
    "no route to a host without a log": (
        ("ne1:100:200 [0] NCCL INFO ncclCommInitRank comm 0x55 rank 0 nranks 2 cudaDev "
        "0 nvmlDev 0 busId 1000 commId 0xab - Init START\n"
        "[2026-11-05 10:00:00] ne1:100:210 [0] misc/socket.cc:588 NCCL WARN "
        "socketPollConnect: connect to 10.5.0.2<45011> returned No route to host(113)"
        "\n"), "RT609", ()),
    "ended by force after another failed": (
        raised(2, "RuntimeError: HcclReduce:build/ProcessGroupHCCL.cpp:2511 HCCL "
               "function error: HcclReduce, error code is 5")
        + "".join(f"W1105 14:20:0{n}.1 70 torch/api.py:908] Sending process {80 + n} "
                  "closing signal SIGTERM\n" for n in (0, 1))
        + "W1105 14:20:31.2 70 torch/api.py:925] Unable to shutdown process 80 via "
        "Signals.SIGTERM, forcefully exiting via Signals.SIGKILL\n"
        "E1105 14:20:32.1 70 torch/api.py:882] failed (exitcode: 1) local_rank: 2 "
        "(pid: 82) of binary: /v/python\n"
        + ended(0, -9, pid=80, at="14:20:32") + ended(1, -15, pid=81, at="14:20:32")
        + ended(2, 1), "RT630", ()),
    "old driver": (
        raised(0, "RuntimeError: The NVIDIA driver on your system is too old (found "
               "version 11040). Please update your GPU driver"), "RT606", (0,)),
    "printed late": (
        raised(1, "ValueError: x") + steps(9, 0, "[rank1]: ")
        + "E1105 14:20:06.1 70 torch/api.py:882] failed (exitcode: 1) local_rank: 1 "
        "(pid: 82) of binary: /v/python\n" + ended(1, 1), "RT610", (1,)),
    "stall of one operation": (
        STALL + "dense/kernel_0 [missing ranks: 0, 2, 3]\n\n\n" + STALL
        + "dense/kernel_0 [missing ranks: 2]\ndense/bias_0 [missing ranks: 2]\n",
        "RT620", (2,)),
    "stall, told by the ranks that are ready": (
        "Stalled ops: grads/w_0 [ready ranks: 4, 0, 1, 3]\n", "RT620", (2,)),
    "stall, told by rank": (
        STALL + "[1,0]<stderr>:Missing ranks:\n[1,0]<stderr>:1: [grads.w, grads.b ...]"
        "\n", "RT620", (1,)),
    "stall in two operations": (
        STALL + "[1,0]<stderr>:Stalled ranks:\n[1,0]<stderr>:0: [grads.w]\n"
        "[1,0]<stderr>:1!: [grads.b]\n", "RT621", (0, 1)),
    "a time-out over two lines": (
        waits(0)[:148] + "\n" + waits(0)[148:] + waits(1)[:150], "RT630", ()),
    "numbers of two communicators": (
        waits(0, 70_311) + waits(1, 9_025), "RT630", ()),
    "Ctrl-C": (
        raised(None, "KeyboardInterrupt") + "W1105 14:20:01.1 70 torch/api.py:719] "
        "Received 2 death signal, shutting down workers\n", "RT616", ()),
    "terminal closed": (
        "elastic.multiprocessing.api.SignalException: Process 7 got signal: 1\n",
        "RT616", ()),
    "told to end after a failure": (
        raised(1, "ConnectionResetError: [Errno 104] Connection reset by peer")
        + "W1105 14:20:01.1 70 torch/api.py:719] Received 2 death signal, shutting "
        "down workers\n", "RT630", ()),
    "traceback without its beginning": (
        raised(3, "IndexError: shard 9 of 8").partition("\n")[2], "RT610", (3,)),
    "quoted": (
        "> " + (raised(3, "KeyError: 'mask'") + waits(2)).replace("\n", "\n> "),
        "RT610", (3,)),
    "with an indent": (
        "    " + (raised(None, "KeyError: 'mask'")
                  + "E1105 14:20:06.1 70 torch/api.py:882] failed (exitcode: 1) "
                  "local_rank: 1 (pid: 82) of binary: /v/python\n").replace(
                      "\n", "\n    "), "RT610", ()),
    "an engine of which a worker failed": (
        raised(None, "Exception: WorkerProc initialization failed due to an exception "
               "in a background process. See stack trace for root cause.")
        + "RuntimeError: Engine core initialization failed. See root cause above.\n",
        "RT630", ()),
    "a batch script ends": (
        raised(None, "ValueError: x") + "Job finished at 14:20:00\n", "RT610", ()),
    "records in one line": (
        "Loading: 0%|   | 0/2 [00:00<?, ?it/s]WARNING:torch.distributed.elastic."
        "multiprocessing.api:Sending process 81 closing signal SIGTERM" + " " * 20
        + "ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: -9) "
        "local_rank: 2 (pid: 82) of binary: /v/python\n", "RT611", ()),
    "node of an actor": (
        ("ray.exceptions.RayActorError: The actor died unexpectedly before finishing "
        "this task.\n\tclass_name: Fit\n\tpid: 82\n\tip: 10.0.0.7\nThe actor is dead "
        "because its node has died. Node Id: 5ad7\n"), "RT615", ()),
    "worker of Ray": (
        ("(raylet) A worker died or was killed while executing a task by an unexpected "
        "system error. RayTask ID: ff Worker ID: 7c Node ID: 5a Worker IP address: "
        "10.0.0.7 Worker port: 10 Worker PID: 82 Worker exit type: SYSTEM_ERROR Worker "
        "exit detail: x\n"), "RT611", ()),
    "wrong call of MPI": (
        ("[n1:82] *** An error occurred in MPI_Recv\n[n1:82] *** MPI_ERR_TRUNCATE: "
        "message truncated\n"), "RT610", ()),
    "signal told by MVAPICH": (
        "[n7:mpi_rank_5][error_sighandler] Caught error: Bus error (signal 7)\n",
        "RT611", (5,)),
    "a task of JAX without heartbeats": (
        ("2026-11-05 14:20:01.1: E xla/coordination_service.cc:1170] /job:jax_worker/"
        "replica:0/task:3 has been set to ERROR in coordination service: UNAVAILABLE: "
        "Task /job:jax_worker/replica:0/task:3 heartbeat timeout.\n"), "RT624", (3,)),
    "list of pods": (
        ("NAME         READY   STATUS             RESTARTS   AGE\n"
        "fit-0        0/1     CrashLoopBackOff   8          2m\n"), "RT611", ()),
    "refused table, told below a line of torch_npu": (
        NPU + "EI0004: 2026-11-05-14:20:00.100.200 The ranktable is invalid,Reason:["
        "the ranktable has no device]\n", "RT603", (5,)),
    "left processes on every chip": (
        "".join(NPU.replace("5)", f"{rank})").replace("8457", f"845{rank}")
                + "EJ0001: 2026-11-05-14:20:00.100.200 Failed to initialize the HCCP "
                "process.\n" for rank in range(3)), "RT607", (0, 1, 2)),
    "two processes on one chip": (
        raised(0, *nccl(USAGE, INVALID, "Last error:", "Duplicate GPU detected : rank 0"
                        " and rank 3 both on CUDA device 1b000")), "RT602", (0, 3)),
    "a root that is not there": (
        raised(2, *nccl(USAGE, INVALID, "Last error:", "Reduce: invalid root 9")),
        "RT606", (2,)),
    "a barrier that one rank did not reach": (
        "".join(barrier(rank) for _ in range(6) for rank in (0, 1, 3)), "RT604", (2,)),
    "a barrier of which most logs are missing": (barrier(0) * 7, "RT604", ()),
    "a barrier until the time limit": (
        (barrier(0) * 9 + "slurmstepd: error: *** JOB 8 ON n1 CANCELLED AT "
         "2026-11-05T14:20:00 DUE TO TIME LIMIT ***\n"), "RT604", ()),
    "a barrier that too many reached": (barrier(0, joined=8) * 7, "RT602", ()),
    "a barrier of a part of the job": (
        "".join(barrier(rank) for _ in range(6) for rank in (4, 5, 6)), "RT604", ()),
    "a file server that does not answer": (waits(0) + waits(1) + NFS, "RT617", ()),
    "a link that is down": (
        waits(0) + waits(1) + LINK.format("Up") + LINK.format("Down"), "RT623", ()),
    "a file server that came back": (
        waits(0) + waits(1) + NFS + "[ 81.2] nfs: server store7 OK\n", "RT630", ()),
    "a link that was never up": (
        waits(0) + waits(1) + LINK.format("Down"), "RT630", ()),
    "tasks of JAX that did not reach a barrier": (
        raised(None, "jax.errors.JaxRuntimeError: DEADLINE_EXCEEDED: Barrier timed out."
               " Barrier_id: load_2. Timed out task names:")
        + "".join(f"/job:jax_worker/replica:0/task:{rank}\n" for rank in (4, 2)),
        "RT604", (2, 4)),
    "a task of JAX below the first that came": (
        raised(None, "jaxlib.XlaRuntimeError: DEADLINE_EXCEEDED: Barrier timed out. "
               "Id: sync::0.", "# of tasks that reached the barrier: 3/4.",
               "The first task at the barrier: /job:jax_worker/replica:0/task:2. Some "
               "timed out task names:", "/job:jax_worker/replica:0/task:1"),
        "RT604", (1,)),
    "tasks of JAX that did not register": (
        ("Stopping coordination service as cluster registration failed. This may be "
        "due to 1) x\n"), "RT604", ()),
    "other ranks of Horovod": (
        ("Horovod has been shut down. This was caused by an exception on one of the "
        "ranks or an attempt to allreduce a tensor\n"), "RT630", ()),
    "process of Paddle": (
        ("Container rank 3 status failed cmd ['/opt/python', 'fit.py'] code -9 log "
        "log/workerlog.3\n"), "RT611", ()),
    "trainers of Paddle": (
        ("ERROR 2026-11-05 14:20:00,6 launch_utils.py:604] ABORT!!! Out of all 8 "
        "trainers, the trainer process with rank=[2, 5] was aborted. Please check its "
        "log.\n"), "RT611", (2, 5)),
    "a trainer of Paddle that raised": (
        raised(2, "ValueError: x") + "ERROR 2026-11-05 14:20:00,6 launch_utils.py:604] "
        "ABORT!!! Out of all 8 trainers, the trainer process with rank=[2] was aborted."
        " Please check its log.\n", "RT610", (2,)),
    "worker of MindSpore": (
        ("[ERROR] ME(8:2,MainProcess):2026-11-05-14:20:00.1.2 [m/_api.py:268] Worker "
        "process 4711 exit with exception.\n"), "RT611", ()),
    "nodes of MindSpore": (
        ("[ERROR] ME(8:2,MainProcess):2026-11-05-14:20:00.1.2 [m/_api.py:431] Time out "
        "nodes are ['3', '5']\n"), "RT604", ()),
    "Slurm did not start a task": (
        ("srun: error: Task launch for StepId=8.0 failed on node n7: Job credential "
        "expired\n"), "RT618", ()),
    "a message of UCX, and an abort": (
        ("[n3:82:0:82] ib_mlx5_log.c:171  Transport retry count exceeded on mlx5_2:1/"
        "IB (synd 0x15 vend 0x81 hw_synd 0/0)\nprterun "
        "noticed that process rank 6 with "
        "PID 82 on node n3 exited on\nsignal 6 (Aborted).\n"), "RT623", ()),
    "an engine that ended its processes": (
        "".join(f"[2026-11-05 14:20:00 TP{n}] Watchdog timeout (self.watchdog_timeout="
                "300)\n" for n in range(4))
        + "[2026-11-05 14:20:05] Received sigquit from a child process. It usually "
        "means the child failed.\nKilled\n", "RT630", ()),
    "a code of the driver above a line of torch_npu": (
        raised(None, "RuntimeError: x.cpp:25 NPU function error: AclrtSynchronize, "
               "error code is 507035", "[ERROR] 2026-11-05-14:20:00 (PID:82, Device:1, "
               "RankID:-1) ERR00100 PTA call acl api failed",
               "[Error]: The vector core execution is abnormal."), "RT610", ()),
    "a wait of HCCL without the head of its traceback": (
        raised(2, "RuntimeError: x.cpp:363 NPU error, error code is 107020",
               file="/v/torch/distributed/distributed_c10d.py").partition("\n")[2],
        "RT630", ()),
    "a daemon of mpirun that did not start": (
        ("ssh: connect to host n4 port 22: Connection refused\nORTE was unable to "
        "reliably start one or more daemons.\n"), "RT618", ()),
    "a TPU that is in use": (
        raised(None, "RuntimeError: Unable to initialize backend 'tpu': ABORTED: The "
               "TPU is already in use by process with pid 82."), "RT607", ()),
    "a chip that did not start": (
        raised(None, "RuntimeError: x.ts:152 NPU function error: c10_npu::SetDevice("
               "device_id_), error code is 507033", "[ERROR] 2026-11-05-14:20:00 (PID:"
               "82, Device:0, RankID:-1) ERR00100 PTA call acl api failed",
               "[Error]: Failed to start the device."), "RT607", ()),
    "a thread that is left when a process raises": (
        raised(1, "ValueError: x") + "terminate called without an active exception\n"
        + raised(0, "EOFError") + ended(1, -6), "RT610", (1,)),
    "a crash at the end of a rank that raised": (
        raised(1, "RuntimeError: x") + "[rank1]: double free or corruption (!prev)\n"
        + raised(0, "EOFError"), "RT610", (1,)),
    "PALS": (
        steps(30) + "nid7.hsn: rank 12 died from signal 9\nnid6.hsn: rank 0 died from "
        "signal 15\n", "RT611", (12,)),
    "old client of a store": (
        raised(None, "RuntimeError: connect() timed out. Original timeout was 9 ms."),
        "RT630", ()),
    "a variable of a launcher that a program reads": (
        raised(None, "KeyError: 'LOCAL_RANK'", file="/usr/lib/python3/os.py"),
        "RT606", ()),
    "a number of a chip of Intel that is not there": (
        raised(6, "RuntimeError: The device index is out of range. It must be in "
               "[0, 4), but got 6."), "RT606", (6,)),
    "more processes than mpirun may start on a host": (
        ("Your job has requested more processes than the ppr for\nthis topology can "
        "support:\n\n  App: fit\n  Number of procs:  24\n  PPR: 8:node\n"), "RT618",
        ()),
    "no interface, as NCCL warns": (
        "n2:7:8 [0] NCCL WARN Bootstrap : no socket interface found\n", "RT606", ()),
    "a command that is quoted whole": (
        ('OCI runtime create failed: runc create failed: exec: "python fit.py --lr 1": '
        "executable file not found in $PATH: unknown\n"), "RT618", ()),
    "a script that is not in the container": (
        ('Error: failed to start containerd task: exec: "/w/go.sh": stat /w/go.sh: no '
        "such file or directory: unknown\n"), "RT618", ()),
    "a job that Slurm refused": (
        ("sbatch: error: Batch job submission failed: Invalid account or account/"
        "partition combination specified\n"), "RT618", ()),
    "a step that Slurm has no nodes for": (
        ("srun: error: Unable to allocate resources: Requested node configuration is "
        "not available\n"), "RT618", ()),
    "a table that HCCL refuses, with its stage": (
        ("[ERROR] HCCL(81,python):2026-11-05-14:20:00.1 [config.cpp:7] [RankTableInfo] "
        "[EI0004]: The ranktable is invalid, Reason:[The ranktable content is invalid]"
        ".\n"), "RT603", ()),
    "an actor of Ray that failed at its start": (
        raised(None, "ray.exceptions.ActorDiedError: The actor died because of an "
               "error raised in its creation task, ray::W.__init__() (pid=44, "
               "ip=10.0.0.7, actor_id=7, repr=<w.W object>)",
               '  File "/w/a.py", line 3, in use', "    use(0)",
               "RuntimeError: No CUDA GPUs are available"), "RT606", ()),
    "a signal that Paddle names": (
        ("FatalError: `Segmentation fault` is detected by the operating system.\n"
        '  [TimeInfo: *** Aborted at 1 (unix time) try "date -d @1" ***]\n'
        "  [SignalInfo: *** SIGSEGV (@0x0) received by PID 44 (TID 0x7) from PID 0 "
        "***]\n"), "RT611", ()),
    "a master that is the own host": (
        ("The client socket has timed out after 60000ms while trying to connect to "
        "(127.0.0.1, 29400).\n"), "RT609", ()),
    "an exception of the rank that did not come": (
        waits(0) + waits(1) + raised(2, "RuntimeError: sizes 4 and 5 do not match"),
        "RT620", (2,)),
    "a port that only root may have": (
        raised(0, "torch.distributed.DistNetworkError: The server socket has failed to "
               "listen on any local network address. The server socket has failed to "
               "bind to [::]:90 (errno: 13 - Permission denied)."), "RT606", (0,)),
    "a master that is another host": (
        raised(0, "torch.distributed.DistNetworkError: The server socket has failed to "
               "listen on any local network address. port: 29400, useIpv6: false, code:"
               " -99, name: EADDRNOTAVAIL, message: cannot assign requested address"),
        "RT606", (0,)),
    "an extension that one rank did not build for the others": (
        raised(0, "subprocess.CalledProcessError: Command '['ninja', '-v']' returned "
               "non-zero exit status 1.")
        + CHAIN.partition("by peer\n")[2].replace("rank1", "rank0")
        + raised(0, "RuntimeError: Error building extension 'cpu_adam'")
        + raised(1, "ImportError: /x/torch_extensions/cpu_adam.so: cannot open shared "
                 "object file: No such file or directory"), "RT610", (0,)),
    "no provider for MPICH": (
        ("Abort(2138767) on node 2 (rank 2 in comm 0): Fatal error in PMPI_Init: "
        "Unknown error class, error stack:\nMPIR_Init_thread(189)........: \n"
        "find_provider(2819)..........: OFI fi_getinfo() failed (ofi_init.c:2819:"
        "find_provider:No data available)\n"), "RT606", (2,)),
    "no provider for oneCCL": (
        raised(1, "RuntimeError: oneCCL: atl_ofi_comm.cpp:278 init: EXCEPTION: failed "
               "to initialize ATL"), "RT606", (1,)),
    "an image of Apptainer": (
        ("FATAL:   While checking container encryption: could not open image /w/a.sif: "
        "lstat /w/a.sif: no such file or directory\n"
        "srun: error: n3: task 1: Exited with exit code 255\n"), "RT618", ()),
    "a driver that is not loaded": (
        ("NVIDIA-SMI has failed because it couldn't communicate with the driver.\n"
        "srun: error: n3: task 1: Exited with exit code 9\n"), "RT606", ()),
    "no driver for torch": (
        raised(2, "RuntimeError: Found no NVIDIA driver on your system."), "RT606",
        (2,)),
    "memory for a queue of InfiniBand": (
        raised(1, *nccl(SYSTEM, "Last error:", "Call to ibv_create_cq failed with "
               "error Cannot allocate memory")), "RT606", (1,)),
    "an interpreter that env does not find": (
        ("/usr/bin/env: \u2018python3.13\u2019: No such file or directory\n"
        "srun: error: n3: task 1: Exited with exit code 127\n"), "RT618", ()),
    "an interpreter that a script does not find": (
        "/spool/slurm_script: line 9: /opt/py/bin/python: No such file or directory\n",
        "RT618", ()),
    "a program that the script did without": (
        "/w/go.sh: line 2: module: command not found\n" + steps(2)
        + raised(None, "ValueError: bad lr"), "RT610", ()),
    "an argument of an old launcher": (
        ("fit.py: error: unrecognized arguments: --local-rank=3\nE1105 14:20:01.1 70 "
        "torch/api.py:882] failed (exitcode: 2) local_rank: 3 (pid: 82) of binary: "
        "/v/python\n"), "RT606", ()),
    "a task that slurmd could not begin": (
        ("slurmstepd: error: common_file_write_uints: write value '81' to '/sys/fs/"
        "cgroup/x/cgroup.procs' failed: No space left on device\nslurmstepd: error: "
        "job_manager: exiting abnormally: Slurmd could not execve job\n"), "RT618", ()),
    "a plugin of Slurm": (
        "srun: error: task 3 launch failed: Plugin initialization failed\n", "RT618",
        ()),
    "a kind of PMI that Slurm does not have": (
        "srun: error: Invalid MPI type 'pmix', --mpi=list for acceptable types\n",
        "RT618", ()),
    "options of Slurm that exclude each other": (
        "srun: fatal: SLURM_MEM_PER_CPU and SLURM_MEM_PER_NODE exclude each other.\n",
        "RT618", ()),
    "a job of Slurm that is over": (
        ("srun: error: Unable to confirm allocation for job 71: Invalid job id "
        "specified\n"), "RT618", ()),
    "PMIx": (
        ("It looks like pmix_init failed for some reason; your parallel process is\n"
        "likely to abort.\n[n3:81] PMIX ERROR: NOT-FOUND in file server/pmix_server.c "
        "at line 9\n"), "RT618", ()),
    "a hook of a container, as Kubernetes tells it": (
        ("  Warning  Failed  9s  kubelet  Error: failed to create containerd task: OCI "
        "runtime create failed: error running prestart hook #0: exit status 1, stderr: "
        "nvidia-container-cli: initialization error: load library failed: libnvidia-ml."
        "so.1: cannot open shared object file: no such file or directory: unknown\n"),
        "RT618", ()),
    "a volume that is not there": (
        ("  Warning  FailedMount  9s (x9 over 8m)  kubelet  MountVolume.SetUp failed "
        'for volume "table" : configmap "ranks" not found\n'), "RT604", ()),
    "a network of pods that is not there": (
        ("2m   Warning   FailedCreatePodSandBox   pod/fit-1   Failed to create pod "
        'sandbox: cannot find network attachment "rdma"\n'), "RT604", ()),
    "a head of Ray that does not answer": (
        ("[2026-11-05 14:20:00,537 E 81 81] gcs_rpc_client.h:179: Failed to connect to "
        "GCS at address 10.0.0.9:6379 within 5 seconds.\n")
        + raised(None, "ray.exceptions.RpcError: Timed out while waiting for GCS to "
                 "become available."), "RT609", ()),
    "a task that did not register with JAX": (
        ("Additional GRPC error information from remote target coordination_service "
        "while calling /tensorflow.CoordinationService/RegisterTask:\n")
        + raised(None, "jaxlib.xla_extension.XlaRuntimeError: DEADLINE_EXCEEDED: "
                 "Deadline Exceeded"), "RT604", ()),
    "a chip that RCCL does not have": (
        "n2:81:95 [5] init.cc:1880 NCCL WARN HIP failure 'invalid device ordinal'\n",
        "RT606", ()),
    "a chip that tests of RCCL do not have": (
        "n2: Test HIP failure common.cu:1129 'hipErrorInvalidDevice'\n", "RT606", ()),
    "chips that Lightning does not see": (
        raised(None, "lightning.x.MisconfigurationException: You requested gpu: [0, 1]",
               " But your machine only has: [0]"), "RT606", ()),
    "a TPU that another process has open": (
        raised(None, "jaxlib._jax.XlaRuntimeError: UNKNOWN: TPU initialization failed: "
               "open(/dev/vfio/2): Device or resource busy"), "RT607", ()),
    "an interface that gloo does not find": (
        raised(3, "RuntimeError: [enforce fail at device.cc:208] ifa != nullptr. "
               "Unable to find interface for: [0.0.12.34]"), "RT606", (3,)),
    "a communicator that MindIE did not make": (
        ("[2026-11-05 14:20:00.1] [error] [36] [hccl_runner.cpp:132] AllGather:0 "
        "HcclCommInitRootInfo fail, error:2, rank:1, rankSize:4\n"), "RT630", ()),
    "memory that an older Slurm measured": (
        ("slurmstepd-n7: error: Step 81.0 exceeded memory limit (52917 > 20971), being "
        "killed\nslurmstepd-n7: error: *** STEP 81.0 ON n7 CANCELLED AT 2026-11-05T14:"
        "20:00 ***\nsrun: error: n7: task 0: Killed\n"), "RT612", ()),
    "NVSHMEM without a transport": (
        ("/w/transport.cpp:nvshmemi_transport_init:287: Unable to initialize any "
        "transports. returning error.\n"), "RT606", ()),
    "threads that may not be started": (
        ("OpenBLAS blas_thread_init: pthread_create failed for thread 31 of 64: "
        "Resource temporarily unavailable\n"), "RT606", ()),
    "files that may not be opened": (
        raised(3, "OSError: [Errno 24] Too many open files") + waits(0) + waits(1),
        "RT606", (3,)),
    "gloo, which fell back to loopback": (
        ("[rank1]:[W1105 14:20:00.1 ProcessGroupGloo.cpp:516] Warning: Unable to "
        "resolve hostname to a (local) address. Using the loopback address as "
        "fallback.\n")
        + raised(1, "RuntimeError: Gloo connectFullMesh failed with [pair.cc:144] no "
                 "error"), "RT608", (1,)),
    "hosts that mpirun was not given": (
        ("There are no allocated resources for the application:\n  fit\nthat match the "
        "requested mapping:\n  -host: h1:8\n"), "RT618", ()),
    "a mapping that mpirun cannot do": (
        "Your job failed to map. Either no mapper was available, or none\n", "RT618",
        ()),
    "mpirun as root": (
        "mpirun has detected an attempt to run as root.\n", "RT618", ()),
    "a launcher that hydra does not find": (
        ("[mpiexec@c1] HYDU_create_process (lib/launch.c:24): execvp error on file ssh "
        "(No such file or directory)\n"), "RT618", ()),
    "a proxy of hydra that is gone": (
        ("[proxy:0:1@c3] HYD_pmcd_pmip_control_cmd_cb (pmip_cb.c:490): assert "
        "(!closed) failed\n[mpiexec@c2] HYDT_bscu_wait_for_completion (b.c:109): one "
        "of the processes terminated badly; aborting\n"), "RT630", ()),
    "a host that NCCL polled": (
        ("n1:7:8 [0] misc/socket.cc:602 NCCL WARN socketPollConnect poll() failed, ret "
        "1, error Connection timed out, revents 8, connect to 10.0.0.9:39953\n"),
        "RT609", ()),
    "a host that an older NCCL did not reach": (
        ("n1:7:8 [0] include/socket.h:409 NCCL WARN Net : Connect to 10.0.0.9<54263> "
        "failed : No route to host\n"), "RT609", ()),
    "a quota of pods": (
        ("42s   Warning   FailedCreate   pytorchjob/fit   Error creating pod fit-3: "
        'pods "fit-3" is forbidden: exceeded quota: ml\n'), "RT604", ()),
    "a cloud without chips": (
        ("E 11-05 14:20:00 x.py:80] sky.exceptions.ResourcesUnavailableError: Failed "
        "to acquire resources in all zones\n"), "RT618", ()),
    "a TPU that another process uses": (
        ("I0000 00:00:1.1 82 f.cc:165] libtpu.so already in use by another process.\n")
        + raised(None, "RuntimeError: Unable to initialize backend 'tpu': UNAVAILABLE: "
                 "No TPU platform found."), "RT607", ()),
    "loopback between two hosts": (
        "".join(f"n{n}:8{n}:9 [0] NCCL INFO ncclCommInitRank comm 0x5{n} rank {n} "
                "nranks 2 cudaDev 0 nvmlDev 0 busId 1b000 commId 0x9 - Init START\n"
                for n in range(2))
        + raised(1, "RuntimeError: Gloo connectFullMesh failed with [pair.cc:144] no "
                 "error, remote=[127.0.0.1]:4242"), "RT608", (1,)),
}  # fmt: skip


@pytest.mark.parametrize("name", FAILED)
def test_what_people_paste_is_told_as_what_it_is(name: str, tmp_path: Path) -> None:
    text, code, ranks = FAILED[name]
    (tmp_path / "job.log").write_text(text)

    found = diagnose([str(tmp_path)]).causes

    assert [(cause.rule.code, cause.ranks) for cause in found] == [(code, ranks)]


@pytest.mark.parametrize(
    ("above", "who"),
    [
        (
            "[2026-11-05 08:53:01 TP3] Scheduler hit an exception: ",
            'process "TP3" raised',
        ),
        (
            "Exception in device=TPU:5: Bad address in shard 12\n",
            'process "TPU:5" raised',
        ),
        ("\n-- Process 3 terminated with the following error:\n", "(local rank 3)"),
    ],
)
def test_who_raised_is_told_by_what_stands_before_a_traceback(
    above: str, who: str, tmp_path: Path
) -> None:
    (tmp_path / "job.log").write_text(above + raised(None, "ValueError: bad shard"))

    (cause,) = diagnose([str(tmp_path)]).causes

    assert who in cause.headline


MISSING = "ModuleNotFoundError: No module named 'apex'"
HEALTHY: dict[str, str] = {
    "retry": steps(5) + "2026-11-05 14:20:00 ERROR s3fs: GET failed\n" + steps(60, 5),
    "a node that came late": "ranktable: waiting for node 1 (n2); start ranktable run "
    "there too\n" + steps(2),
    "a first node that came late": "ranktable: waiting for node 0: n1, port 29500, "
    "does not answer: connection refused\n" + steps(2),
    "another try follows": steps(20) + "2026-11-05 14:20:00 ERROR s3: upload of ck-20 "
    "failed (attempt 1 of 4): Connection reset by peer\n" + steps(9, 20),
    "metrics": "".join(f"epoch {i} val_error: 0.1 failed=0\n" for i in range(30)),
    "learning rate": "".join(
        f" [2026-11-05 14:20:00] iteration {i:8}/ 100 | learning rate: 1.0E-04 | "
        "number of nan iterations: 0 |\n" for i in range(20)),
    "nothing found": "ERRORS: 0\n" + steps(30),
    "a worker of data at the end": steps(9) + "Training finished\nProcess Process-1:\n"
    + raised(None, "ConnectionResetError: [Errno 104] Connection reset by peer"),
    "optional": raised(None, MISSING) + steps(30),
    "optional on all": "".join(raised(rank, MISSING) for rank in range(4))
    + "".join(f"[rank{rank}]: step {i}\n" for i in range(9) for rank in range(4)),
    "rank 0 alone tells": "".join(raised(rank, MISSING) for rank in range(4))
    + steps(60, 0, "[rank0]: ") + "[rank0]: training finished\n",
    "store came later": "[W socket.cpp:697] [c10d] The client socket has failed to "
    "connect to [n0]:29500 (errno: 111 - Connection refused).\n" + steps(40),
    "other port": "[W socket.cpp:426] [c10d] The server socket has failed to bind to "
    "[::]:29500 (errno: 98 - Address already in use).\n[rank0]: training finished\n",
    "after the end": steps(9) + "training finished\nwandb: ERROR uploading failed\n",
    "another program": "Nov  5 14:20:00 n1 kernel: Out of memory: Killed process 99 "
    "(chrome) total-vm:9kB\n" + steps(9),
    "second attempt": raised(1, "ValueError: x")
    + "E1105 14:00:06.1 70 torch/api.py:882] failed (exitcode: 1) local_rank: 1 (pid: "
    "82) of binary: /v/python\n" + steps(30, 0, "[rank1]: ")
    + "I1105 14:20:00.1 70 torch/api.py:879] [default] worker group successfully "
    "finished. Waiting 300 seconds for other agents to finish.\n",
    "store ended first": steps(9, 0, "[rank1]: ") + RECEIVED,
    "refused once": "[W socket.cpp:697] [c10d] The client socket has failed to connect "
    "to [n0]:29500 (errno: 111 - Connection refused).\n" + steps(2),
    "stalled for a while": steps(2) + STALL + "[1,0]<stderr>:Missing ranks:\n"
    "[1,0]<stderr>:1: [grads.w]\n" + steps(1, 2),
    "end of a handled traceback": raised(None, "OSError: no cache").partition("\n")[2]
    + steps(2),
    "handled, and ended by one": steps(2) + raised(None, "ConnectionError: x")
    + steps(2, 2) + "[rank0]: training finished\n",
    "end of a rendezvous": steps(5) + "W1105 14:20:09.1 70 torch/dynamic_rendezvous.py"
    ":1267] The node 'n1_70_0' has failed to shutdown the rendezvous '7' due to an "
    "error of type RendezvousConnectionError.\n",
    "ranks that came late": barrier(0) * 9 + steps(2),
    "a group that was made": barrier(0) * 9
    + "INFO:root:Rank 0: Completed store-based barrier for key:store_based_barrier_key:"
    "1 with 4 nodes.\ntraining finished\n",
    "a file server that was away": steps(2) + NFS + LINK.format("Up")
    + LINK.format("Down") + "training finished\n",
    "preempted, and started again": steps(40) + "slurmstepd: error: *** JOB 8 ON n1 "
    "CANCELLED AT 2026-11-05T14:20:00 DUE TO PREEMPTION ***\n" + steps(30)
    + "training finished\n",
    "steps of a Trainer": metrics(9) + raised(None, "ValueError: no age") + metrics(40),
    "steps in JSON": "".join(f'{{"loss": 2.{i:02}, "epoch": 0.{i:02}}}\n'
                             for i in range(30)),
    "a request that a server refused": "".join(
        f"ERROR 11-05 14:20:00 [serving_chat.py:200] {line}\n"
        for line in raised(None, "ValueError: too long").splitlines())
    + 'INFO:  10.0.0.4:33 - "POST /v1/completions HTTP/1.1" 400 Bad\n' + "".join(
        f"INFO 11-05 14:20:{i:02} [loggers.py:127] Engine 000: Avg prompt throughput: "
        "9.5 tokens/s, Running: 3 reqs\n" for i in range(4)),
    "data with words of errors": "".join(
        f'[rank{i % 2}]: step {i} loss 1 sample="Traceback (most recent call last)"\n'
        for i in range(30)) + "[rank0]: Training complete\n",
    "a logger at the end": steps(9) + "{'train_runtime': 9.1}\n--- Logging error ---\n"
    + raised(None, "ValueError: I/O operation on closed file.") + "Call stack:\n",
    "a thread after the end": steps(9) + "{'train_runtime': 9.1}\nException in thread "
    "Feeder-3:\n" + raised(None, "ConnectionResetError: [Errno 104] reset by peer"),
    "a helper that the script ended": steps(9) + "Training completed.\n"
    "[1]+  Killed                  tensorboard --logdir runs\n",
    "preempted in the first line": "slurmstepd: error: *** JOB 8 ON n1 CANCELLED AT "
    "2026-11-05T14:20:00 DUE TO PREEMPTION ***\n[rank0]: Resuming from checkpoint step "
    "40\n" + steps(20, 40, "[rank0]: ") + "[rank0]: Training finished at step 60\n",
    "Paddle": "LAUNCH INFO 2026-11-05 14:20:00,401 Pod completed\n",
    "tasks": steps(40) + "srun: error: n2: tasks 0-7: Completed\n",
    "a handled traceback of the whole program": metrics(20)
    + raised(None, "ValueError: no age").replace("in run", "in <module>") + metrics(21)
    + "{'train_runtime': 9.1, 'epoch': 0.6}\n",
    "a helper without a name that the script ended": steps(9) + "Training completed.\n"
    "Terminated\n[1]+  Killed                  tensorboard --logdir runs\n",
    "pods that waited for nodes and volumes": "  Warning  FailedScheduling  9m  "
    "default-scheduler  0/8 nodes are available: 8 Insufficient cpu.\n  Warning  "
    'FailedMount  8m  kubelet  MountVolume.SetUp failed for volume "x"\n' + steps(9)
    + "training finished\n",
    "a head of Ray that came late": "[2026-11-05 14:20:00,537 W 81 81] gcs_rpc_client.h"
    ":179: Failed to connect to GCS at address 10.0.0.9:6379 within 5 seconds.\n"
    + steps(9),
    "a module that the shell does not have": "go.sh: line 2: module: command not found"
    "\ngo.sh: line 3: /opt/py/bin/activate: No such file or directory\n" + steps(30),
    "gloo on one host": "[rank1]:[W1105 14:20:00.1 ProcessGroupGloo.cpp:516] Warning: "
    "Unable to resolve hostname to a (local) address. Using the loopback address as "
    "fallback.\n" + steps(9),
    "NVSHMEM without one of its transports": "WARN: init failed for remote transport: "
    "ibrc\n" + steps(30),
    "memory that was swapped": steps(9) + "training finished\nslurmstepd: error: "
    "Exceeded step memory limit at some point.\n",
    "plugins that Slurm does without": "srun: error: spank: x11.so: Plugin file not "
    "found\nslurmstepd: error: task/cgroup: plugin not compiled with hwloc support\n"
    + "".join(f"{r}: step {i} loss 2\n" for i in range(30) for r in (0, 1)),
    "the next job, which Slurm refused": steps(9) + "training finished\nsbatch: error: "
    "Batch job submission failed: Job violates accounting/QOS policy\n",
    "a job that Slurm took at the second try": "srun: error: Unable to allocate "
    "resources: Requested nodes are busy\n" + steps(30),
    "bar": "Epoch 0: 100%|####| 9/9 [00:01<00:00]\n`Trainer.fit` stopped: `max_epochs"
    "=1` reached.\n",
}  # fmt: skip


@pytest.mark.parametrize("name", HEALTHY)
def test_a_healthy_job_has_no_failure(name: str, tmp_path: Path) -> None:
    (tmp_path / "job.log").write_text(HEALTHY[name])

    diagnosis = diagnose([str(tmp_path)])

    assert diagnosis.causes == ()
    assert diagnosis.has_ended_well


OPEN: dict[str, tuple[str, str]] = {
    "an error and a few steps": (
        steps(1) + "2026-11-05 14:20:00 ERROR gauge: lost\n" + steps(3, 1),
        "errors of unknown kind"),
    "a barrier for a moment": (barrier(0), "1 rank (0) waits in the barrier"),
    "a barrier of a job that was stopped in it": (
        barrier(0) + barrier(1), "2 ranks (0, 1) wait in the barrier of a new group"),
    "a file server alone": (NFS, "the file server store7 does not answer"),
    "a link alone": (
        LINK.format("Up") + LINK.format("Down"), "the link of eth2 is down"),
}  # fmt: skip


@pytest.mark.parametrize("name", OPEN)
def test_what_does_not_tell_how_the_job_ended_is_said_and_no_verdict(
    name: str, tmp_path: Path
) -> None:
    text, said = OPEN[name]
    (tmp_path / "job.log").write_text(text)

    diagnosis = diagnose([str(tmp_path)])

    assert (diagnosis.causes, diagnosis.has_ended_well) == ((), False)
    assert said in " ".join((*diagnosis.notes, diagnosis.unknown_text or ""))


def test_ranks_that_were_killed_together_are_told_in_the_plural(tmp_path: Path) -> None:
    (tmp_path / "job.log").write_text(ended(0, -9, pid=81) + ended(3, -9))

    (found,) = diagnose([str(tmp_path)]).causes

    assert found.headline == "ranks 0, 3 (n1) were ended by SIGKILL"


def test_a_barrier_that_one_rank_has_left_is_no_failure(tmp_path: Path) -> None:
    (tmp_path / "rank0.log").write_text(barrier(0) * 9 + steps(3))
    (tmp_path / "rank1.log").write_text(barrier(1) * 9)

    diagnosis = diagnose([str(tmp_path)])

    assert (diagnosis.causes, diagnosis.notes) == ((), ())
    assert diagnosis.has_ended_well


def test_a_barrier_that_others_do_not_name_is_told_and_no_verdict(
    tmp_path: Path,
) -> None:
    (tmp_path / "rank0.log").write_text(steps(3))
    (tmp_path / "rank1.log").write_text(barrier(1) * 9)

    diagnosis = diagnose([str(tmp_path)])

    assert (diagnosis.causes, len(diagnosis.notes)) == ((), 1)
    assert not diagnosis.has_ended_well


OLD_XID = "[Fri Jan 29 23:42:34 2021] NVRM: Xid (PCI:0000:db:00): 31, pid=136, Ch 8\n"
OTHER_OOM = "[12.5] Out of memory: Killed process 771 (java) total-vm:9kB\n"
IGNORED = "Exception ignored in: <function It.__del__ at 0x7f>\n" + raised(
    None, "AssertionError: can only test a child process"
)


@pytest.mark.parametrize(
    "kernel",
    [
        OLD_XID,
        OLD_XID.replace("31", "43"),
        OTHER_OOM,
        OLD_XID.replace("31, pid=136", "63, pid='<unknown>', name=<unknown>"),
    ],
)
def test_the_kernel_says_nothing_of_a_job_that_ended_well(
    kernel: str, tmp_path: Path
) -> None:
    (tmp_path / "n1-dmesg.log").write_text(kernel)
    (tmp_path / "n1.log").write_text(steps(20) + "[rank0]: training finished\n")

    found = diagnose([str(tmp_path)])

    assert (found.causes, found.has_ended_well) == ((), True)


KILL = "[8811.2] Memory cgroup out of memory: Killed process 4411 ({}) total-vm:9kB\n"
OF_CHILD = "RuntimeError: DataLoader worker (pid(s) 4411) exited unexpectedly"
OF_POOL = "BrokenProcessPool: A process in the process pool was terminated abruptly"


@pytest.mark.parametrize(
    ("log", "code", "ranks"),
    [
        (raised(0, "ValueError: bad label"), "RT610", (0,)),
        (raised(0, "ValueError: x") + ended(0, 1, pid=901), "RT610", (0,)),
        (raised(0, "ValueError: x") + ended(1, -9, pid=902), "RT612", (1,)),
        (raised(0, OF_CHILD), "RT612", (0,)),
        (raised(0, f"concurrent.futures.process.{OF_POOL}"), "RT612", ()),
        ("[rank0]: RuntimeError: x\n", "RT612", ()),
    ],
)
def test_a_kill_counts_before_an_exception_only_if_more_tells_of_the_process(
    log: str, code: str, ranks: tuple[int, ...], tmp_path: Path
) -> None:
    (tmp_path / "n1-dmesg.log").write_text(KILL.format("python3"))
    (tmp_path / "n1.log").write_text(log)

    found = diagnose([str(tmp_path)])

    (cause,) = found.causes
    assert (cause.rule.code, cause.ranks) == (code, ranks)
    told = "the kernel of n1 killed process 4411 (python3) for memory"
    assert any(told in note for note in found.notes) == (code == "RT610")


def test_dumps_of_processes_tell_where_they_stand(tmp_path: Path) -> None:
    for rank in range(3):
        frames = ["collate (data.py:9)", "step (train.py:7)"] if rank == 1 else [
            "all_reduce (torch/distributed/distributed_c10d.py:2501)",
            "step (train.py:8)"]  # fmt: skip
        (tmp_path / f"rank{rank}.txt").write_text(
            f'Process 4{rank}: python3 train.py\nThread 4{rank} (idle): "MainThread"\n'
            + "".join(f"    {frame}\n" for frame in frames)
        )

    found = diagnose([str(tmp_path)])

    assert (found.causes, found.has_ended_well, found.is_judged) == ((), False, True)
    told = [note.partition(" (py-spy")[0] for note in found.notes]
    assert sorted(told) == [
        "rank 1 stands in collate (data.py:9)",
        f"ranks 0, 2 stand in {frames[0]} below {frames[1]}",
    ]


def test_what_one_rank_handled_as_it_lost_the_others_is_told(tmp_path: Path) -> None:
    text = raised(3, "KeyError: 'mask'") + AGAIN + raised(3, *LEFT) + raised(0, *LEFT)
    (tmp_path / "job.log").write_text(text)

    (cause,) = diagnose([str(tmp_path)]).causes

    assert (cause.rule.code, cause.ranks) == ("RT630", ())
    assert "rank 3 was handling KeyError: 'mask' then" in cause.headline


@pytest.mark.parametrize(("at", "code"), [("11:40", "RT610"), ("16:40", "RT630")])
def test_an_error_counts_if_its_rank_soon_waited_in_vain(
    at: str, code: str, tmp_path: Path
) -> None:
    (tmp_path / "job.log").write_text(
        "[rank2]: 2026-11-05 14:00:00,000 WARNING a batch is skipped\n"
        + raised(2, "ValueError: x") + waits(2).replace("14:20:02.1", f"14:{at}.1")
    )  # fmt: skip

    (cause,) = diagnose([str(tmp_path)]).causes

    assert cause.rule.code == code


def agent(host: str, prefix: str, status: int, *, first: int, pid: int = 81) -> str:
    """Return what an agent of two ranks says of their end."""
    text = (
        f"W1105 14:20:09.1 70 torch/api.py:897] Sending process {pid + 1} closing "
        f"signal SIGTERM\nE1105 14:20:10.1 70 torch/api.py:869] failed (exitcode: "
        f"{status}) local_rank: 0 (pid: {pid}) of binary: /v/python\n"
        + ended(first, status, pid).replace("n1", host).replace(
            f"local_rank: {first}", "local_rank: 0")
    )  # fmt: skip
    return "".join(f"{prefix}{line}\n" for line in text.splitlines())


@pytest.mark.parametrize(
    "form", ["[pod/fit-{}/main] ", "tr-a4{}: ", "node-{}  | ", "{}: "]
)
@pytest.mark.parametrize("is_mixed", [False, True])
def test_processes_of_two_agents_with_one_id_are_two(
    form: str, is_mixed: bool, tmp_path: Path
) -> None:
    logs = [
        [*raised(0, *LEFT).splitlines(), *agent("n0", "", 1, first=0).splitlines()],
        [*raised(3, *LEFT).splitlines(), *agent("n1", "", -11, first=2).splitlines()],
    ]
    lines = [(number, f"{form.format(number)}{line}\n")
             for number, log in enumerate(logs) for line in log]  # fmt: skip
    if is_mixed:  # line by line, as they come
        half = len(logs[0])
        both = itertools.zip_longest(lines[:half], lines[half:], fillvalue=(0, ""))
        lines = [line for pair in both for line in pair]
    (tmp_path / "job.log").write_text("".join(line for _, line in lines))

    (cause,) = diagnose([str(tmp_path)]).causes

    assert (cause.rule.code, cause.ranks) == ("RT611", (2,))


@pytest.mark.parametrize("status", [1, -6])
def test_who_its_agent_ended_is_not_the_one_that_others_lost(
    status: int, tmp_path: Path
) -> None:
    for node in (0, 2):
        quiet = steps(3, prefix=f"[rank{2 * node + 1}]: ")
        lost = raised(2 * node, *LEFT)
        end = agent(f"n{node}", "", status, first=2 * node)
        (tmp_path / f"n{node}.log").write_text(quiet + lost + end)

    (cause,) = diagnose([str(tmp_path)]).causes

    assert (cause.rule.code, cause.ranks) == ("RT630", ())


@pytest.mark.parametrize("peer", ["n0", "n9"])
def test_plain_status_is_no_cause_where_a_host_without_a_log_was_lost(
    peer: str, tmp_path: Path
) -> None:
    lost = f"socketProgress: Connection closed by remote peer {peer}.x<4411>"
    log = steps(3, prefix="[rank0]: ") + raised(1, *LEFT, lost)
    (tmp_path / "n0.log").write_text(log + agent("n0", "", 1, first=0))

    (cause,) = diagnose([str(tmp_path)]).causes

    named = ("RT611", (0,)) if peer == "n0" else ("RT630", ())
    assert (cause.rule.code, cause.ranks) == named


def test_restarts_of_containers_are_counted_in_each_pod(tmp_path: Path) -> None:
    for pod, rank in enumerate((0, 1)):
        folder = tmp_path / "pods" / f"ml_fit-{pod}_u{pod}" / "main"
        folder.mkdir(parents=True)
        (folder / "0.log").write_text(raised(rank, "ValueError: x"))
        (folder / "1.log").write_text(steps(9, 0, f"[rank{rank}]: ") + "all done\n")

    found = diagnose([str(tmp_path)])

    assert (found.causes, found.has_ended_well) == ((), True)


def test_a_kill_of_a_data_worker_of_which_its_program_does_not_tell_is_a_note(
    tmp_path: Path,
) -> None:
    (tmp_path / "n1-dmesg.log").write_text(KILL.format("pt_data_worker"))
    (tmp_path / "n1.log").write_text(steps(30))

    found = diagnose([str(tmp_path)])

    assert (found.causes, len(found.notes), found.has_ended_well) == ((), 1, True)


@pytest.mark.parametrize("head", ["", "Error in atexit._run_exitfuncs:\n"])
@pytest.mark.parametrize("end", [steps(9, 9), "Training finished\n"])
def test_what_python_ignored_is_no_failure(end: str, head: str, tmp_path: Path) -> None:
    error = head + raised(None, "ValueError: x") if head else IGNORED
    (tmp_path / "job.log").write_text(steps(9) + error + end)
    (tmp_path / "other.log").write_text(steps(9) + end + error)

    assert diagnose([str(tmp_path)]).causes == ()


def test_a_host_that_a_launcher_names_of_one_rank_is_not_that_of_another(
    tmp_path: Path,
) -> None:
    text = raised(0, "ValueError: x") + (
        "mpirun noticed that process rank 2 with PID 12 on node n2 exited on signal "
        "15 (Terminated)\n"
    )
    (tmp_path / "job.log").write_text(text)

    (cause, *_) = diagnose([str(tmp_path)]).causes

    assert cause.headline == "rank 0 raised ValueError: x"


@pytest.mark.parametrize("prefix", ["", "[pod/moe-launcher-0/main] "])
def test_a_traceback_in_a_block_is_of_the_entry_above_it(
    prefix: str, tmp_path: Path
) -> None:
    block = "".join(
        f"[{n}]:\n{ended(rank, 1, pid=90 + rank)}  error_file: /t/e.json\n"
        "  traceback : Traceback (most recent call last):\n"
        '    File "/w/t.py", line 3, in main\n      f()\n'
        f"  {what}\n"
        for n, (rank, what) in enumerate([(12, "EOFError"), (10, "IndexError: out")])
    )
    lines = (prefix + line for line in block.splitlines(keepends=True))
    (tmp_path / "driver.log").write_text("".join(lines))

    (cause, *_) = diagnose([str(tmp_path)]).causes

    assert cause.ranks == (10,)


PORT = "n1:9:9 [0] NCCL WARN NET/IB : mlx5_2:1 Got async event : port error\n"
SERVER = "".join(
    "INFO 11-05 14:20:01 [loggers.py:116] Engine 000: Avg prompt throughput: 5.1 "
    f"tokens/s, Avg generation throughput: {n}.8 tokens/s, Running: 1 reqs\n"
    for n in range(9)
)  # fmt: skip
REQUEST = 'INFO:     10.0.0.1:4001 - "POST /v1/chat/completions HTTP/1.1" 200 OK\n'


@pytest.mark.parametrize(
    "text", [steps(9) + PORT + steps(9, 9), SERVER, REQUEST * 9, SERVER + REQUEST]
)
def test_a_job_or_server_that_goes_on_has_not_failed(text: str, tmp_path: Path) -> None:
    (tmp_path / "job.log").write_text(text)

    found = diagnose([str(tmp_path)])

    assert (found.causes, found.has_ended_well) == ((), True)


def test_a_port_that_failed_at_the_end_of_a_job_is_told(tmp_path: Path) -> None:
    (tmp_path / "job.log").write_text(steps(9) + PORT)

    assert diagnose([str(tmp_path)]).causes[0].rule.code == "RT623"


@pytest.mark.parametrize(
    ("who", "end"),
    [
        ("", "training completed"),
        ("[rank1]: ", "[rank0]: Training finished"),
    ],
)
def test_a_sentence_of_a_script_does_not_end_an_uncaught_exception_well(
    who: str, end: str, tmp_path: Path
) -> None:
    lines = [f"[rank0]: step {n} loss 2.5" for n in range(30)]
    lines += [
        f"{who}Traceback (most recent call last):",
        f'{who}  File "/w/train.py", line 92, in <module>',
        f"{who}    main()",
        f"{who}OSError: [Errno 28] No space left on device: '/out/a.pt'",
        end,
    ]
    log = tmp_path / "job.log"
    log.write_text("\n".join(lines) + "\n")

    assert [cause.rule.code for cause in diagnose([str(log)]).causes] == ["RT617"]
    lines[-1:] = [f"[rank{n % 2}]: step {n} loss 2.5" for n in range(30, 80)]
    log.write_text("\n".join([*lines, end]) + "\n")
    assert diagnose([str(log)]).causes == ()


@pytest.mark.parametrize(
    "end",
    [
        "{'train_runtime': 811.2, 'train_loss': 1.2, 'epoch': 3.0}",
        "[after training is done] datetime: 2026-11-05 12:00:00",
        "exiting program after 5000 iterations at 2026-11-05 12:00:00",
        "# Avg bus bandwidth    : 187.3",
        "Job 'raysubmit_x1' succeeded",
    ],
)
def test_an_error_in_a_job_that_a_framework_ended_is_a_note(
    end: str, tmp_path: Path
) -> None:
    lines = [f"step {n} loss 2.5" for n in range(30)]
    lines += ["2026-11-05 11:59:58 ERROR metrics: push failed", end]
    log = tmp_path / "job.log"
    log.write_text("\n".join(lines) + "\n")

    said = diagnose([str(log)])

    assert said.causes == ()
    assert "1 line" in (said.unknown_text or "")


@pytest.mark.parametrize(
    "below",
    [
        "[Rank 2] watchdog thread terminated with exception: driver shutting down",
        "[rank2]: CUDA error: context is destroyed",
    ],
)
def test_what_a_thread_gets_as_its_process_ends_is_no_cause(
    below: str, tmp_path: Path
) -> None:
    log = tmp_path / "job.log"
    log.write_text(
        "[rank0]: Traceback (most recent call last):\n"
        '[rank0]:   File "/w/train.py", line 92, in main\n'
        f"[rank0]: ValueError: bad\n{below}\n"
    )

    assert [cause.ranks for cause in diagnose([str(log)]).causes] == [(0,)]


def test_a_checkpoint_tells_the_exception_of_another_rank(tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    told = "torch.distributed.checkpoint.api.CheckpointException: CheckpointException"
    log.write_text(
        f"[rank0]: {told} ranks:dict_keys([4])\n"
        "[rank0]: Traceback (most recent call last): (RANK 4)\n"
        '[rank0]:   File "/w/load.py", line 250, in local_step\n'
        "[rank0]:     assert metadata is not None\n"
        "[rank0]: AssertionError\n"
    )

    assert [cause.ranks for cause in diagnose([str(log)]).causes] == [(4,)]


@pytest.mark.parametrize("same_pids", [True, False])
@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("Memory cgroup out of memory: Killed process {} (python3) anon-rss:8kB", 612),
        ("python3[{}]: segfault at 28 ip 7f sp 7f error 4 in libcuda.so.1", 611),
        ("traps: python3[{}] general protection fault ip:7f sp:7f error:0", 611),
        ("NVRM: Xid (PCI:0000:1b:00): 48, pid={}, name=python3, DBE (double bit)", 614),
    ],
)
@pytest.mark.parametrize("culprit", range(4))
def test_a_line_of_the_kernel_is_of_the_rank_with_its_process_id_on_its_host(
    culprit: int, line: str, code: int, *, same_pids: bool, tmp_path: Path
) -> None:
    pids = [300 + (rank % 2 if same_pids else rank) for rank in range(4)]
    for rank in range(4):
        start = f"n{rank // 2}:{pids[rank]}:9 [{rank % 2}] NCCL INFO ncclCommInitRank"
        (tmp_path / f"rank{rank}.log").write_text(
            f"{start} comm 0x5{rank} rank {rank} nranks 4 cudaDev {rank % 2} nvmlDev "
            f"{rank % 2} busId {rank % 2}b000 commId 0x9 - Init COMPLETE\n"
        )
    host = f"n{culprit // 2}"
    said = line.format(pids[culprit])
    (tmp_path / f"{host}-messages.log").write_text(
        f"Dec  3 04:05:10 {host} kernel: {said}\n"
        f"Dec  3 04:05:11 {host} kernel: {said.replace(str(pids[culprit]), '77')}\n"
    )

    first, *others = diagnose([str(tmp_path)]).causes

    assert (first.rule.code, first.ranks) == (f"RT{code}", (culprit,))
    assert all(not other.ranks for other in others)


def told(tmp_path: Path, **logs: str) -> list[str]:
    for name, text in logs.items():
        file = tmp_path / name.replace("__", "/").replace("_log", ".log")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return [cause.headline for cause in diagnose([str(tmp_path)]).causes]


def test_hosts_that_look_for_the_master_at_home_are_told_before_those_missing(
    tmp_path: Path,
) -> None:
    clients = "DistStoreError: Timed out after 9 seconds waiting for clients. 4/8 "
    unreached = "The client socket has timed out after 9s while trying to connect to "

    (told_at_home,) = told(
        tmp_path,
        n0_log=raised(0, f"torch.distributed.{clients}clients joined."),
        n1_log=f"[c10d] {unreached}(localhost, 29400).\n",
    )

    assert "localhost" in told_at_home


def test_an_exception_of_a_rank_that_others_waited_for_is_told(tmp_path: Path) -> None:
    error = raised(2, "RuntimeError: sizes 4 and 5 do not match")

    (headline,) = told(tmp_path, job_log=waits(0) + waits(1) + error)

    assert headline.startswith("rank 2 stopped answering")
    assert "sizes 4 and 5" in headline


def test_who_alone_did_not_time_out_is_told(tmp_path: Path) -> None:
    text = steps(2, prefix="[rank0]: ") + waits(1) + waits(2) + raised(0, *LEFT)

    (headline,) = told(tmp_path, job_log=text)

    assert "rank 0 alone" in headline


def test_a_program_that_mpirun_does_not_find_is_told_with_its_host(
    tmp_path: Path,
) -> None:
    (headline,) = told(
        tmp_path,
        job_log="mpirun was unable to find the specified executable file, and therefore"
        "\ndid not launch the job.\nprocess\nrank 12\n\nNOTE: A\ncommon cause\n\n"
        "Node:       n4\nExecutable: /opt/py/bin/pyton\n",
    )

    assert headline.startswith("n4: ")
    assert "/opt/py/bin/pyton" in headline


@pytest.mark.parametrize(
    ("name", "who"),
    [
        ("a__attempt_0__3__stderr_log", "local rank 3"),
        ("log__workerlog.1", "local rank 1"),
        ("worker_2_log", "worker 2"),
    ],
)
def test_a_file_of_one_process_tells_which_it_was(
    name: str, who: str, tmp_path: Path
) -> None:
    (headline,) = told(tmp_path, **{name: raised(None, "ValueError: x")})

    assert headline.endswith(f"({who})")


@pytest.mark.parametrize("name", ["a__attempt_0__2__error_json", "a__attempt_0__2_log"])
def test_a_folder_of_torchrun_tells_whose_an_exception_is(
    name: str, tmp_path: Path
) -> None:
    error = raised(None, "ZeroDivisionError: division by zero")
    if "json" in name:
        error = json.dumps({"message": {"message": "x", "extraInfo": {
            "py_callstack": error}}})  # fmt: skip
    name = name.replace("_json", ".json").replace("2_log", "2__stderr_log")

    (headline,) = told(tmp_path, launcher_log=ended(2, 1), **{name: error})

    assert headline.startswith("rank 2 ")


def test_of_two_jobs_of_slurm_the_last_one_is_judged(tmp_path: Path) -> None:
    def at(hour: int, text: str) -> str:
        return f"[rank0]: 2026-11-05 0{hour}:00:00,1 INFO step 1 loss 2\n{text}"

    (tmp_path / "slurm-99.out").write_text(at(3, raised(0, "ValueError: bad lr")))
    (tmp_path / "slurm-100.out").write_text(at(4, "[rank0]: Training finished\n"))

    found = diagnose([str(tmp_path)])

    assert (found.causes, found.has_ended_well) == ((), True)
    assert "slurm-99.out" in " ".join(found.notes)
    (tmp_path / "slurm-100.out").write_text(at(3, "[rank0]: Training finished\n"))
    assert diagnose([str(tmp_path)]).causes


@pytest.mark.parametrize(("is_told", "found"), [(True, [(2,)]), (False, [])])
def test_calls_of_ranks_that_lost_another_are_compared_if_all_tell_theirs(
    tmp_path: Path, *, is_told: bool, found: list[tuple[int, ...]]
) -> None:
    lost = "torch.distributed.DistNetworkError: failed to recv, got 0 bytes"
    for rank, name in enumerate(["", "all_reduce", "barrier", "all_reduce"]):
        call = f'  File "/v/torch/distributed/distributed_c10d.py", line 3, in {name}'
        calls = (call, "    work = group.allreduce([tensor], opts)", lost)
        said = raised(rank, *(calls if rank != 1 or is_told else ["EOFError"]))
        text = said if name else waits(0).replace("1105 14:20:00.1 ", " ")
        log = f"rank {rank} of 4\n{steps(5, prefix='INFO ')}{text}"
        (tmp_path / f"rank_{rank}.log").write_text(log)
    causes = diagnose([str(tmp_path)]).causes

    assert [cause.ranks for cause in causes if cause.rule.code == "RT621"] == found
