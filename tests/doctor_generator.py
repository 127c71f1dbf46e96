"""Draws jobs, failed and healthy ones, and the logs that they leave.

A job is what its processes, launchers and kernels say, in the order of time. How its
logs are written comes after that: a file for each rank or host or for all, and what a
launcher or collector puts around each line. Nothing of ``doctor`` is used, so that
texts and judgement do not share a mistake; the texts are those of libraries.
"""

# ruff: noqa: E501, ISC004 - lines of logs are long

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

Files = dict[str, str]
AGENT = "torch/distributed/elastic/multiprocessing/api.py"
FRAMES = (
    "frame #0: c10::Error::Error(c10::SourceLocation, std::string) + 0x9d (0x7f in x.so)",
    "frame #1: c10d::ProcessGroupNCCL::Watchdog::runLoop() + 0xa84 (0x7e in y.so)",
    "",
)
RAISED = (
    "ValueError: label 1003 is out of range", "KeyError: 'mask'",
    "AssertionError: loss is nan at step 40", "IndexError: list index out of range",
    "FileNotFoundError: [Errno 2] No such file or directory: '/d/9.pt'",
    "RuntimeError: The size of tensor a (4) must match the size of tensor b (8)",
    "ZeroDivisionError: division by zero", "json.decoder.JSONDecodeError: Expecting value",
    "TypeError: f() missing 1 required positional argument: 'x'",
    "PIL.UnidentifiedImageError: cannot identify image file '/d/3.jpg'",
)  # fmt: skip


def clock(at_s: float) -> str:
    """Return the time of day of a second of the job."""
    whole = int(at_s)
    return f"{14 + whole // 3600:02}:{whole // 60 % 60:02}:{whole % 60:02}"


@dataclass(frozen=True)
class Said:
    """A line: when it was said, by whom (``rank 3``, ``agent hx0``), and the text."""

    at_s: float
    who: str
    text: str


@dataclass
class Job:
    """A job and all that was said in it.

    Attributes:
        size: Number of ranks.
        per_host: Ranks on each host.
        kind: How it fails, or what goes well.
        launcher: What started it.
        culprits: The ranks that may be named; empty if it is healthy.
        codes: The codes of right answers; empty if it is healthy.
        is_named: Whether Python and torch write ``[rank3]: `` before errors.
        said: The lines, in the order in which they were drawn.
        base: The first process id.
        from_s: When it starts, in seconds after 14:00.
        culprit: The rank by which it fails.
        library: What its ranks communicate with.
        tp: Ranks of a group in which neighbours work on one operation; 1 without.
    """

    size: int
    per_host: int
    kind: str
    launcher: str
    random: Random
    culprits: frozenset[int] = frozenset()
    codes: frozenset[str] = frozenset()
    is_named: bool = True
    said: list[Said] = field(default_factory=list)
    base: int = 1000
    from_s: float = 1200
    culprit: int = -1
    library: str = "torch"
    tp: int = 1

    def host(self, rank: int) -> str:
        return f"hx{rank // self.per_host}"

    def pid(self, rank: int) -> int:
        return self.base + 7 * rank

    def group(self, rank: int) -> tuple[str, int, int]:
        """Return how torch calls the group in which a rank waits, the rank in it, and
        how many operations it had: neighbours of the culprit wait for it in theirs."""
        if self.tp == 1:
            return "PG ID 0 PG GUID 0(default_pg)", rank, 412
        if rank // self.tp == self.culprit // self.tp:
            return f"PG ID 2 PG GUID {30 + rank // self.tp}(tp)", rank % self.tp, 412
        return f"PG ID 1 PG GUID {10 + rank % self.tp}(dp)", rank // self.tp, 77

    def fill(self, text: str, rank: int, at_s: float) -> str:
        """Return a line of a library: ``{peer}`` is the culprit, ``{before}`` a link."""

        def of(one: int, end: str) -> dict[str, object]:
            host, chip = one // self.per_host + 1, one % self.per_host
            return {f"rank{end}": one, f"ip{end}": f"10.0.0.{host}", f"chip{end}": chip,
                    f"address{end}": f"192.168.{host}.{chip}"}  # fmt: skip

        return text.format(
            at=clock(at_s), size=self.size, pid=self.pid(rank),
            left=self.size - 1, before=(rank - 1) % self.size, **of(rank, ""),
            **of(self.culprit, "_of_culprit"),
        )  # fmt: skip

    def neighbours(self, rank: int) -> list[int]:
        first = rank - rank % self.per_host
        return list(range(first, min(first + self.per_host, self.size)))

    def others(self) -> list[int]:
        return [rank for rank in range(self.size) if rank != self.culprit]

    def say(self, at_s: float, who: int | str, *texts: str) -> None:
        name = f"rank {who}" if isinstance(who, int) else who
        self.said += [Said(at_s, name, text) for text in texts]

    def error(self, at_s: float, rank: int, *texts: str) -> None:
        """Let a rank write lines that torch 2.2 and later begin with the rank."""
        tag = f"[rank{rank}]: " if self.is_named else ""
        self.say(at_s, rank, *(f"{tag}{text}" for text in texts))

    def traceback(self, at_s: float, rank: int, *errors: str, site: str = "") -> None:
        frame = ('  File "/v/lib/torch/distributed/distributed_c10d.py", line 3068, in '
                 f"{site}", "    work = group.allreduce([tensor], opts)")  # fmt: skip
        self.error(
            at_s, rank, "Traceback (most recent call last):",
            '  File "/job/fit.py", line 77, in run', "    loss = step(batch)",
            *(frame if site else ()), *errors,
        )  # fmt: skip

    def library_says(self, what: str, rank: int, at_s: float) -> None:
        library = LIBRARIES[self.library]
        choices = library.says[what]
        for text in self.random.choice(choices).splitlines():
            who = "plog" if text.startswith("@") else "rank"  # a log of its own
            said = self.fill(text.removeprefix("@"), rank, at_s)
            self.say(at_s, f"{who} {rank}", said)

    def watchdog(self, at_s: float, rank: int, file: str, text: str) -> None:
        self.say(at_s, rank, f"[rank{rank}]:[E1105 {clock(at_s)}.431765560 "
                 f"ProcessGroupNCCL.cpp:{file}] {text}")  # fmt: skip

    def lines_of(self, without: frozenset[str] = frozenset()) -> list[Said]:
        kept = [one for one in self.said if one.who not in without]
        return sorted(kept, key=lambda one: one.at_s)


# What happens to the culprit. Each returns when, and the status of its process


def fails(
    codes: str, status: int | None, *, hangs: bool = False
) -> Callable[..., Kind]:
    """Register a way to fail: the right codes, the exit status, and if others wait."""

    def register(act: Callable[[Job, int, float], None]) -> Kind:
        kind = Kind(frozenset(codes.split()), status, hangs, act)
        KINDS[act.__name__.strip("_").replace("_", " ")] = kind
        return kind

    return register


@dataclass(frozen=True)
class Kind:
    """A way to fail."""

    codes: frozenset[str]
    status: int | None
    hangs: bool
    act: Callable[[Job, int, float], None]


KINDS: dict[str, Kind] = {}


@fails("RT610", 1)
def _raises(job: Job, rank: int, at_s: float) -> None:
    job.traceback(at_s, rank, job.random.choice(RAISED))


@fails("RT610", 1)
def _raises_in_a_chain(job: Job, rank: int, at_s: float) -> None:
    job.traceback(at_s, rank, "KeyError: 'label'")
    job.error(at_s, rank, "", "The above exception was the direct cause of the following "
              "exception:", "")  # fmt: skip
    job.traceback(at_s, rank, job.random.choice(RAISED))


@fails("RT610", 1)
def _raises_and_logs_it(job: Job, rank: int, at_s: float) -> None:
    error = job.random.choice(RAISED)
    job.say(at_s, rank, f"2026-11-05 {clock(at_s)},123 ERROR training failed")
    job.traceback(at_s, rank, error)
    job.traceback(at_s, rank, error)


@fails("RT610", 1)
def _raises_as_it_cleans_up(job: Job, rank: int, at_s: float) -> None:
    job.traceback(at_s, rank, job.random.choice(RAISED[3:]))
    job.error(at_s, rank, "", "During handling of the above exception, another exception "
              "occurred:", "")  # fmt: skip
    _loses_in_a_call(job, rank, at_s)


@fails("RT610", 1)
def _loses_a_service(job: Job, rank: int, at_s: float) -> None:
    job.traceback(at_s, rank, job.random.choice([
        "requests.exceptions.ConnectionError: HTTPSConnectionPool(host='hub', port=443): "
        "Max retries exceeded with url: /x", "TimeoutError: [Errno 110] Connection timed "
        "out", "BrokenPipeError: [Errno 32] Broken pipe", "EOFError"]))  # fmt: skip


@fails("RT611", -9)
def _killed(job: Job, rank: int, at_s: float) -> None:
    pass


@fails("RT611", -11)
def _crashes(job: Job, rank: int, at_s: float) -> None:
    if job.random.random() < 0.5:
        job.say(at_s, rank, "Fatal Python error: Segmentation fault", "",
                "Current thread 0x00007f (most recent call first):",
                '  File "/job/ops.py", line 9 in fused')  # fmt: skip


@fails("RT612", -9)
def _host_memory(job: Job, rank: int, at_s: float) -> None:
    host, pid = job.host(rank), job.pid(rank)
    job.say(at_s, f"kernel {host}", f"Nov  5 {clock(at_s)} {host} kernel: [99.1] "
            f"Memory cgroup out of memory: Killed process {pid} (python3) total-vm:9kB, "
            "anon-rss:8kB, file-rss:0kB, UID:0 pgtables:1kB oom_score_adj:0")  # fmt: skip


@fails("RT612 RT610", 1)
def _worker_of_data_killed(job: Job, rank: int, at_s: float) -> None:
    job.traceback(at_s, rank, "RuntimeError: DataLoader worker (pid 47114) is killed by "
                  "signal: Killed. ")  # fmt: skip


@fails("RT613", 1)
def _chip_memory(job: Job, rank: int, at_s: float) -> None:
    head = job.random.choice(["torch.OutOfMemoryError", "torch.cuda.OutOfMemoryError"])
    job.traceback(at_s, rank, f"{head}: CUDA out of memory. Tried to allocate 2.00 GiB. "
                  "GPU 0 has a total capacity of 79.11 GiB of which 1.02 GiB is free.")  # fmt: skip


@fails("RT614", -6)
def _ecc(job: Job, rank: int, at_s: float) -> None:
    text = (f"[PG ID 0 PG GUID 0(default_pg) Rank {rank}] Process group watchdog thread "
            "terminated with exception: CUDA error: uncorrectable ECC error encountered")  # fmt: skip
    job.watchdog(at_s, rank, "2057", text)
    job.say(at_s, rank, *FRAMES, "terminate called after throwing an instance of "
            "'c10::DistBackendError'", f"  what():  {text}")  # fmt: skip


@fails("RT614", 1)
def _xid(job: Job, rank: int, at_s: float) -> None:
    host, pid = job.host(rank), job.pid(rank)
    number, text = job.random.choice([
        (79, "GPU has fallen off the bus."), (119, "Timeout after 6s of waiting for RPC "
        "response from GPU3 GSP!"), (48, "DBE (double bit error) detected")])  # fmt: skip
    job.say(at_s, f"kernel {host}", f"Nov  5 {clock(at_s)} {host} kernel: NVRM: Xid "
            f"(PCI:0000:5d:00): {number}, pid={pid}, name=python3, {text}")  # fmt: skip
    job.traceback(at_s + 1, rank, "torch.AcceleratorError: CUDA error: unspecified launch "
                  "failure")  # fmt: skip


@fails("RT610", 1)
def _device_assert(job: Job, rank: int, at_s: float) -> None:
    if job.random.random() < 0.5:
        job.say(at_s, rank, "/pytorch/aten/src/ATen/native/cuda/Loss.cu:245: nll_loss: "
                "block: [0,0,0], thread: [2,0,0] Assertion `t >= 0` failed.")  # fmt: skip
    what = job.random.choice(["device-side assert triggered", "an illegal memory access "
                              "was encountered"])  # fmt: skip
    job.traceback(
        at_s, rank, f"torch.AcceleratorError: CUDA error: {what}",
        "CUDA kernel errors might be asynchronously reported at some other API call.",
        "Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.",
    )  # fmt: skip


@fails("RT617", 1)
def _disk_full(job: Job, rank: int, at_s: float) -> None:
    job.traceback(at_s, rank, "OSError: [Errno 28] No space left on device: '/o/9.pt'")


@fails("RT610", 1)
def _nan_of_megatron(job: Job, rank: int, at_s: float) -> None:
    job.traceback(at_s, rank, f"RuntimeError: Rank {rank}, node {job.host(rank)}, device "
                  f"{rank % job.per_host}, iteration 812: Unexpected result nan "
                  "(message='found NaN in local grad norm for bucket #0')")  # fmt: skip


@fails("RT620", 0, hangs=True)
def _hangs(job: Job, rank: int, at_s: float) -> None:
    job.say(at_s, rank, f"2026-11-05 {clock(at_s)},623 INFO saving checkpoint")


@fails("RT620", 0, hangs=True)
def _hangs_and_tells_where_it_is(job: Job, rank: int, at_s: float) -> None:
    late_s = at_s + 607
    group, place, number = job.group(rank)
    job.watchdog(late_s, rank, "1914", f"[{group} Rank {place}] "
                 "Received a dump signal due to a collective timeout from  rank "
                 f"{job.others()[0]} and we will try our best to dump the debug info. "
                 f"Last enqueued NCCL work: {number - 1}, last completed NCCL work: "
                 f"{number - 1}.")  # fmt: skip


@fails("RT620", 0)
def _leaves_early(job: Job, rank: int, at_s: float) -> None:
    job.say(at_s, rank, f"2026-11-05 {clock(at_s)},170 INFO data exhausted, leaving")


@fails("RT621", 0, hangs=True)
def _other_shape(job: Job, rank: int, at_s: float) -> None:
    waits(job, rank, at_s + 600, numel=1024)


@fails("RT621", 0, hangs=True)
def _other_operation(job: Job, rank: int, at_s: float) -> None:
    waits(job, rank, at_s + 600, op="BROADCAST")


@fails("RT612 RT610", 1)
def _bad_alloc(job: Job, rank: int, at_s: float) -> None:
    job.traceback(at_s, rank, "MemoryError")


@fails("RT605", 1)
def _port_taken(job: Job, rank: int, at_s: float) -> None:
    job.traceback(at_s, rank, "torch.distributed.DistNetworkError: The server socket has "
                  "failed to listen on any local network address. port: 29500, useIpv6: "
                  "false, code: -98, name: EADDRINUSE, message: address already in use")  # fmt: skip


@fails("RT606", 1)
def _no_such_chip(job: Job, rank: int, at_s: float) -> None:
    what = job.random.choice(
        ["invalid device ordinal", "no CUDA-capable device is detected"]
    )
    job.traceback(at_s, rank, f"RuntimeError: CUDA error: {what}")


@fails("RT610 RT606 RT614 RT613", 1)
def _fails_in_a_kernel(job: Job, rank: int, at_s: float) -> None:
    job.traceback(at_s, rank, "RuntimeError: CUDA error: " + job.random.choice([
        "no kernel image is available for execution on the device", "misaligned address",
        "CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasSgemm( handle)`",
        "uncorrectable NVLink error detected during the execution"]))  # fmt: skip


# What the others say


def waits(
    job: Job, rank: int, at_s: float, numel: int = 65536, op: str = "ALLREDUCE"
) -> None:
    if job.library != "torch":
        job.library_says("waits", rank, at_s + rank % 4)
        return
    late_s = at_s + rank % 4
    group, place, seq = job.group(rank)
    head = f"[{group} Rank {place}]" if job.tp > 1 else f"[Rank {rank}]"
    job.watchdog(late_s, rank, "689", f"{head} Watchdog caught collective "
                 f"operation timeout: WorkNCCL(SeqNum={seq}, OpType={op}, NumelIn={numel},"
                 f" NumelOut={numel}, Timeout(ms)=600000) ran for 600037 milliseconds "
                 "before timing out.")  # fmt: skip
    job.watchdog(late_s, rank, "2303", f"[{group} Rank {place}]  failure detected by "
                 f"watchdog at work sequence id: {seq} PG status: last enqueued work: "
                 f"{seq}, last completed work: {seq - 1}")  # fmt: skip


def _loses_nccl(job: Job, rank: int, at_s: float) -> None:
    group, place, seq = job.group(rank)
    head = f"[{group} Rank {place}]" if job.tp > 1 else f"[Rank {rank}]"
    job.watchdog(at_s, rank, "612", f"{head} Collective WorkNCCL(SeqNum={seq}, "
                 "OpType=ALLREDUCE, NumelIn=65536, NumelOut=65536, Timeout(ms)=600000) "
                 "raised the following async exception: NCCL error: remote process "
                 "exited or there was a network error, NCCL version 2.28.9")  # fmt: skip
    job.say(at_s, rank, "ncclRemoteError: A call failed possibly due to a network error "
            "or a remote process exiting prematurely.", "Last error:",
            "socketProgress: Connection closed by remote peer ", *FRAMES)  # fmt: skip


def _loses_in_a_call(job: Job, rank: int, at_s: float) -> None:
    job.traceback(
        at_s, rank, "torch.distributed.DistBackendError: NCCL error in: /p/NCCLUtils.cpp"
        ":93, remote process exited or there was a network error, NCCL version 2.28.9",
        "ncclRemoteError: A call failed possibly due to a network error or a remote "
        "process exiting prematurely.", "Last error:",
        "socketProgress: Connection closed by remote peer ", site="all_reduce",
    )  # fmt: skip


def _loses_gloo(job: Job, rank: int, at_s: float) -> None:
    job.traceback(at_s, rank, "RuntimeError: [../third_party/gloo/gloo/transport/tcp/"
                  "pair.cc:553] Connection closed by peer [10.0.0.8]:4011",
                  site="all_reduce")  # fmt: skip


def _loses_the_store(job: Job, rank: int, at_s: float) -> None:
    job.traceback(at_s, rank, "torch.distributed.DistNetworkError: failed to recv, got 0 "
                  "bytes", site="barrier")  # fmt: skip


def _is_reset(job: Job, rank: int, at_s: float) -> None:
    job.traceback(at_s, rank, "ConnectionResetError: [Errno 104] Connection reset by "
                  "peer", site="recv")  # fmt: skip


def _says_nothing(job: Job, rank: int, at_s: float) -> None:
    pass


def _aborts(job: Job, rank: int, at_s: float) -> None:
    _loses_nccl(job, rank, at_s)
    group, place, _ = job.group(rank)
    text = (f"[{group} Rank {place}] Process group watchdog thread "
            "terminated with exception: NCCL error: remote process exited or there was a "
            "network error, NCCL version 2.28.9")  # fmt: skip
    job.watchdog(at_s, rank, "2057", text)
    job.say(at_s, rank, "terminate called after throwing an instance of "
            "'c10::DistBackendError'", f"  what():  {text}", "ncclRemoteError: A call "
            "failed possibly due to a network error or a remote process exiting "
            "prematurely.", "Fatal Python error: Aborted", "")  # fmt: skip


def _waits_in_gloo(job: Job, rank: int, at_s: float) -> None:
    job.traceback(at_s + 600, rank, "RuntimeError: [../third_party/gloo/gloo/transport/"
                  "tcp/unbound_buffer.cc:81] Timed out waiting 600000ms for recv operation "
                  "to complete", site="all_reduce")  # fmt: skip


LOSSES = (_aborts, _waits_in_gloo, _loses_nccl, _loses_in_a_call, _loses_gloo, _loses_the_store, _is_reset,
          _says_nothing, waits)  # fmt: skip


@dataclass(frozen=True)
class Library:
    """What processes say that do not use torch with NCCL.

    Attributes:
        codes: Further right codes, as the library itself names who is gone.
        says: What a rank says as it starts, waits for somebody, or has lost it: one of
            several texts. Lines with ``@`` are in a log of the library's own.
    """

    codes: frozenset[str]
    says: dict[str, list[str]]


_PLOG = "@[{}] HCCL({{pid}},python3):2026-11-05-{{at}}.100.200 [a.cc:9] [71]"
_ERROR, _INFO = _PLOG.format("ERROR"), _PLOG.format("INFO")
_RUN = _ERROR + "[TaskExecStage][Timeout][HOST_TS]Task run failed, "
_NOTIFY = (
    _RUN + "base information is streamID:[3], taskID[77], taskType[Notify Wait], "
    "tag[AllReduce_10.0.0.1%eth0_60000_0_17], AlgType(level 0-1-2):[ring].\n"
    + _RUN
    + "para information is notify id:[0x50], stage:[ffffffff], remote rank:"
    "[{before}].\n"
    + _RUN
    + "groupRank information is group:[10.0.0.1%eth0_60000_0_17], "
    "user define information[], rankSize[{size}], rankId[{rank}].\n"
)
_LOST_BEAT = (
    _ERROR + "[TaskExecStage][HeartbeatAbnormal]Cluster Exception Location[IP/ID]:"
    "[{ip_of_culprit}/{chip_of_culprit}], Arrival Time:[Thu Nov  5 {at} 2026], "
    "Discoverer:[{ip}/{chip}], ExceptionType:[Heartbeat Lost Occurred], Possible Reason:"
    "1. Process has exited. 2. Network is disconnected.\n"
)
_NPU = "[ERROR] 2026-11-05-{at} (PID:{pid}, Device:{chip}, RankID:{rank}) ERR02200 DIST call hccl api failed.\n"
_DIES = (
    "F1105 {at}.412000 77 client.h:77] Terminating process because the JAX distributed "
    "service detected fatal errors. This most likely indicates that another task died; "
    "see the other task logs for more details. absl::Status: "
)
_UNHEALTHY = (
    _DIES
    + "UNAVAILABLE: The following tasks are unhealthy (stopped sending heartbeats):\n"
    "/job:jax_worker/replica:0/task:{rank_of_culprit}\n"
    "The tasks have crashed. Check the task logs for an earlier error.\n"
)
_BARRIER = (
    "jax.errors.JaxRuntimeError: DEADLINE_EXCEEDED: Barrier timed out. Id: step_40::0. "
    "# of tasks that reached the barrier: {left}/{size}.\nThe first task at the barrier: "
    "/job:jax_worker/replica:0/task:{rank}. Some timed out task names:\n"
    "/job:jax_worker/replica:0/task:{rank_of_culprit}\n"
)
LIBRARIES = {
    "hccl": Library(frozenset({"RT620", "RT624"}), {
        "starts": [
            _INFO + "[HCCL_TRACE]SetupAgent rankNum[{size}], rank[{rank}], rootInfo "
            "identifier[10.0.0.1%eth0_60000_0_17], server[{ip}%eth0], logicDevId[{chip}], "
            "phydevId[{chip}], deviceIp[{address}]",
        ],
        "waits": [
            _NOTIFY + _NPU,
            _NOTIFY + "EI0002: [PID: {pid}] 2026-11-05-{at}.100.200 The wait execution of "
            "the Notify register times out. Reason: The Notify register has not received "
            "the Notify record from remote rank [{before}].",
        ],
        "loses": [_LOST_BEAT + _NPU, _LOST_BEAT + _NOTIFY],
    }),
    "jax": Library(frozenset({"RT624", "RT604", "RT620"}), {
        "starts": ["I1105 {at}.015000 77 distributed.py:125] Connecting to JAX distributed "
                   "service on 10.0.0.1:8476"],
        "waits": [_BARRIER],
        "loses": [_UNHEALTHY],
    }),
}  # fmt: skip
GENERAL = ("raises", "raises in a chain", "raises and logs it", "killed", "crashes", "host memory",
           "worker of data killed", "disk full", "bad alloc", "hangs", "leaves early")  # fmt: skip
"""What happens with any library."""


# What launchers say of the end


def _torchrun(job: Job, at_s: float, ends: dict[int, int]) -> None:
    """Let the agent of each host tell of the first of its ranks that failed.

    It ends those that run, and says nothing of one that has ended well.
    """
    has_left = {job.culprit} if job.kind == "leaves early" else set()
    for first in range(0, job.size, job.per_host):
        there = [rank for rank in job.neighbours(first) if rank not in has_left]
        bad = [rank for rank in there if rank in job.culprits and ends.get(rank)]
        bad += [rank for rank in there if ends.get(rank) and rank not in bad]
        if not bad:
            continue
        rank, who = bad[0], f"agent {job.host(first)}"
        late_s = at_s + (3 if rank in job.culprits else 9)
        job.say(late_s, who, *(
            f"W1105 {clock(late_s)}.323000 486 {AGENT}:1012] Sending process "
            f"{job.pid(other)} closing signal SIGTERM" for other in there if other != rank
        ))  # fmt: skip
        job.say(late_s, who, f"E1105 {clock(late_s)}.719000 486 {AGENT}:986] failed "
                f"(exitcode: {ends[rank]}) local_rank: {rank % job.per_host} (pid: "
                f"{job.pid(rank)}) of binary: /usr/bin/python3",
                "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ",
                "fit.py FAILED", "Failures:")  # fmt: skip
        block = [(other, -15) for other in there if other != rank]
        for number, (other, status) in enumerate(block, 1):
            job.say(late_s, who, *_block(job, number, other, status, late_s))
        job.say(late_s, who, "Root Cause (first observed failure):",
                *_block(job, 0, rank, ends[rank], late_s), "=" * 60)  # fmt: skip


def _block(job: Job, number: int, rank: int, status: int, at_s: float) -> list[str]:
    name = _NAMES.get(-status)
    told = f"Signal {-status} ({name}) received by PID {job.pid(rank)}"
    return [
        f"[{number}]:", f"  time      : 2026-11-05_{clock(at_s)}",
        f"  host      : {job.host(rank)}",
        f"  rank      : {rank} (local_rank: {rank % job.per_host})",
        f"  exitcode  : {status} (pid: {job.pid(rank)})", "  error_file: <N/A>",
        f"  traceback : {told if name else 'To enable traceback see: docs'}",
    ]  # fmt: skip


_NAMES = {6: "SIGABRT", 9: "SIGKILL", 11: "SIGSEGV", 15: "SIGTERM"}
_SLURM = {-6: "Aborted (core dumped)", -9: "Killed", -11: "Segmentation fault (core dumped)",
          1: "Exited with exit code 1"}  # fmt: skip


def _srun(job: Job, at_s: float, ends: dict[int, int]) -> None:
    for rank, status in sorted(
        ends.items(), key=lambda end: end[0] not in job.culprits
    ):
        if status:
            job.say(at_s + 2, "launcher", f"srun: error: {job.host(rank)}: task {rank}: "
                    f"{_SLURM[status]}")  # fmt: skip
    job.say(at_s + 2, "launcher", "srun: Job step aborted: Waiting up to 32 seconds for "
            "job step to finish.")  # fmt: skip


def _mpirun(job: Job, at_s: float, ends: dict[int, int]) -> None:
    for rank in sorted(job.culprits):
        status = ends[rank]
        if status < 0:
            job.say(at_s + 2, "launcher", f"mpirun noticed that process rank {rank} with "
                    f"PID {job.pid(rank)} on node {job.host(rank)} exited on signal "
                    f"{-status} ({_SLURM[status].partition(' (')[0]}).")  # fmt: skip
        elif status:
            job.say(at_s + 2, "launcher", "mpirun detected that one or more processes "
                    "exited with non-zero status, thus causing", "the job to be "
                    "terminated. The first process to do so was:", "",
                    f"  Process name: [[51234,1],{rank}]", f"  Exit code:    {status}")  # fmt: skip


def _horovod(job: Job, at_s: float, ends: dict[int, int]) -> None:
    for rank, status in sorted(
        ends.items(), key=lambda end: end[0] not in job.culprits
    ):
        code = status if status >= 0 else 128 - status
        if code:
            job.say(
                at_s + 2, "launcher", f"Process {rank} exit with status code {code}."
            )


def _ray(job: Job, at_s: float, ends: dict[int, int]) -> None:
    """Let the driver tell of the first worker whose task failed."""
    failed = [rank for rank in (job.culprit, *job.others()) if ends[rank]]
    if not failed:
        return
    rank = failed[0]
    texts: tuple[str, ...]
    if ends[rank] < 0:
        texts = (
            "ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing "
            "this task.", "\tclass_name: RayTrainWorker", "\tactor_id: 5a01",
            "\tpid: {pid}", "\tnamespace: 9a2e", "\tip: {ip}", "The actor is dead because "
            "its worker process has died. Worker exit type: SYSTEM_ERROR Worker exit "
            "detail: Worker unexpectedly exits with a connection error code 2. End of "
            "file.")  # fmt: skip
    else:
        texts = ("2026-11-05 {at},001 ERROR trainer.py:88 -- a worker failed",
                 "ray.exceptions.RayTaskError(RuntimeError): ray::RayTrainWorker.execute() "
                 "(pid={pid}, ip={ip}, actor_id=5a01)")  # fmt: skip
    job.say(at_s, "launcher", *(job.fill(text, rank, at_s) for text in texts))


def _none(job: Job, at_s: float, ends: dict[int, int]) -> None:
    pass


LAUNCHERS = {"torchrun": _torchrun, "srun": _srun, "mpirun": _mpirun,
             "horovod": _horovod, "ray": _ray, "none": _none}  # fmt: skip
NEED_A_LAUNCHER = ("killed", "crashes")


def draw(
    random: Random,
    kind: str | None = None,
    launcher: str | None = None,
    before: Job | None = None,
) -> Job:
    """Return a job that fails; the attempt after another one if that is given."""
    kind = kind or random.choice(sorted(KINDS))
    size = before.size if before else random.choice([2, 3, 4, 8, 16])
    names = [
        name for name in LAUNCHERS if name != "none" or kind not in NEED_A_LAUNCHER
    ]
    libraries = (*LIBRARIES, *["torch"] * 3) if kind in GENERAL else ("torch",)
    culprit = random.randrange(size)
    job = Job(
        size=size, per_host=min(size, random.choice([2, 4, 8])), kind=kind,
        launcher=launcher or random.choice(names), random=random, culprits=frozenset({culprit}),
        culprit=culprit, codes=KINDS[kind].codes, is_named=random.random() < 0.7,
        base=random.randrange(1000, 9000), library=random.choice(libraries),
    )  # fmt: skip
    if job.library == "torch" and size >= 8:
        job.tp = random.choice([1, 2, 4])
    elif job.library != "torch":
        job.codes |= LIBRARIES[job.library].codes
        job.is_named &= job.library == "hccl"
    if before:
        job.per_host, job.launcher = before.per_host, before.launcher
        job.is_named, job.from_s = before.is_named, before.from_s + 1200
    if size == 2 and KINDS[kind].codes == {"RT621"}:  # a tie names both
        job.culprits = frozenset({0, 1})
    if job.tp == 2 and KINDS[kind].codes == {"RT621"}:
        job.culprits = frozenset({culprit, culprit ^ 1})
    _starts(job)
    at_s = job.from_s + 60.0 + random.randrange(30)
    KINDS[kind].act(job, culprit, at_s)
    ends = {rank: _loses(job, rank, at_s) for rank in job.others()}
    ends[culprit] = KINDS[kind].status or 0
    LAUNCHERS[job.launcher](job, at_s + 10 + 610 * KINDS[kind].hangs, ends)
    return job


def _loses(job: Job, rank: int, at_s: float) -> int:
    """Let a survivor tell of it in its way; return how its process ends."""
    kind = KINDS[job.kind]
    if kind.hangs:
        waits(job, rank, at_s + 600)
        return -6
    if job.library != "torch":
        job.library_says("loses", rank, at_s + 40)
        return 1 if job.library == "hccl" else -6
    tells = kind.status == 0 or job.kind == "loses a service"  # or nobody can know
    ways = [way for way in LOSSES if way is not _says_nothing or not tells]
    way = job.random.choice(ways)
    way(job, rank, at_s + (600 if way is waits else 1))
    return (
        -6
        if way in (waits, _loses_nccl, _aborts)
        else (0 if way is _says_nothing else 1)
    )


def _starts(job: Job) -> None:
    """Let all ranks start and train."""
    number = job.random.randrange(2, 6)
    for rank in range(job.size):
        job.say(job.from_s, rank, f"2026-11-05 {clock(job.from_s)},367 INFO rank {rank} of {job.size} "
                f"ready on cuda:{rank % job.per_host}")  # fmt: skip
        if job.library != "torch":
            job.library_says("starts", rank, job.from_s)
        for step in range(number):
            at_s = job.from_s + 1 + 10 * step
            job.say(at_s, rank, f"2026-11-05 {clock(at_s)},015 INFO step {step} loss "
                    f"{4 - step / 2:.3f}")  # fmt: skip


# Healthy jobs


def draw_healthy(random: Random) -> Job:
    """Return a job that ends well, whatever it met on its way."""
    size = random.choice([2, 4, 8])
    job = Job(size, min(size, random.choice([2, 4])), "healthy", "none", random,
              is_named=random.random() < 0.7)  # fmt: skip
    _starts(job)
    last = random.randrange(16, 40)
    for rank in range(size):
        for trouble in random.sample(TROUBLES, random.randrange(3)):
            trouble(job, rank)
        for step in range(6, last):
            at_s = 1300 + 10 * step
            job.say(
                at_s, rank, f"2026-11-05 {clock(at_s)},015 INFO step {step} loss 0.9"
            )
    if random.random() < 0.8:
        job.say(1800, 0, f"2026-11-05 {clock(1800)},015 INFO training finished")
    return job


def _handled(job: Job, rank: int) -> None:
    job.say(1270, rank, "2026-11-05 14:21:10,015 WARNING sample 9 skipped:")
    job.traceback(1270, rank, job.random.choice(RAISED))


def _tries_again(job: Job, rank: int) -> None:
    text = job.random.choice([
        "ERROR upload of metrics failed (503 Service Unavailable), retry 1 of 5",
        "ERROR GET https://s3/x failed: Connection reset by peer, trying again in 2 s",
        "ERROR wandb: Network error (ConnectionError), entering retry loop."])  # fmt: skip
    job.say(1271, rank, f"2026-11-05 14:21:11,015 {text}")


def _warns(job: Job, rank: int) -> None:
    job.say(1272, rank, *job.random.choice([
        ["/v/lib/torch/autograd/graph.py:824: UserWarning: c10d::allreduce_: an autograd "
         "kernel was not registered", "  return Variable._execution_engine.run_backward("],
        [f"[rank{rank}]:[W1105 14:21:12.512639384 Utils.hpp:137] Warning: Environment "
         "variable NCCL_ASYNC_ERROR_HANDLING is deprecated (function operator())"],
        ["FutureWarning: `torch.cuda.amp.autocast(args...)` is deprecated."],
        ["E0000 00:00:1730816472.1 77 cuda_dnn.cc:8310] Unable to register cuDNN factory: "
         "Attempting to register factory for plugin cuDNN when one has already been "
         "registered"],
        ["hx0:77:99 [0] NCCL INFO NET/Plugin: Could not find: libnccl-net.so."],
    ]))  # fmt: skip


def _goes_without_memory(job: Job, rank: int) -> None:
    job.say(1273, rank, "2026-11-05 14:21:13,015 WARNING CUDA out of memory, batch size "
            "halved to 8")  # fmt: skip


TROUBLES: list[Callable[[Job, int], None]] = [
    _handled, _tries_again, _warns, _goes_without_memory,
]  # fmt: skip


# How logs are written

LAYOUTS = ("rank", "host", "job")


def _local(job: Job, rank: int) -> int:
    return rank % job.per_host


WRAPS: dict[str, Callable[[Job, int, str], str]] = {
    "none": lambda job, rank, text: text,
    "torchrun tee": lambda job, rank, text: f"[default{_local(job, rank)}]:{text}",
    "srun -l": lambda job, rank, text: f"{rank:>{len(str(job.size - 1))}}: {text}",
    "Open MPI 4": lambda job, rank, text: f"[1,{rank}]<stderr>:{text}",
    "Open MPI 5": lambda job, rank, text: (
        f"[prterun-n1-88@1,{rank}][{job.host(rank)}:{job.pid(rank)}]<stderr>: {text}"),
    "Horovod": lambda job, rank, text: f"[{rank}]<stderr>:{text}",
    "kubectl": lambda job, rank, text: f"[pod/fit-worker-{rank}/main] {text}",
    "Ray": lambda job, rank, text: (
        f"(RayTrainWorker pid={job.pid(rank)}, ip=10.0.0.{rank // job.per_host + 1}) {text}"),
    "JSON": lambda job, rank, text: json.dumps(
        {"level": "info", "rank": rank, "host": job.host(rank), "message": text}),
}  # fmt: skip
WRAPS["JSON of kubectl"] = lambda job, rank, text: WRAPS["kubectl"](
    job, rank, WRAPS["JSON"](job, rank, text)
)
TELL_THE_RANK = (
    "srun -l",
    "Open MPI 4",
    "Open MPI 5",
    "Horovod",
    "JSON",
    "JSON of kubectl",
)


SILENT = ("hangs", "leaves early")


def can_be_known(job: Job, layout: str, wrap: str) -> bool:
    """Whether the ranks of the lines are written anywhere."""
    if (wrap == "Ray") != (job.launcher == "ray"):
        return False
    is_one_host = job.per_host == job.size
    if wrap in TELL_THE_RANK or layout == "rank":
        return True
    silent = (*SILENT, *NEED_A_LAUNCHER) if wrap == "Ray" else SILENT
    if job.kind in silent and not (wrap == "torchrun tee" and is_one_host):
        return False  # the culprit never says its rank
    return job.is_named and (wrap != "torchrun tee" or layout == "host" or is_one_host)


def files(
    job: Job,
    layout: str = "rank",
    wrap: str = "none",
    without: frozenset[str] = frozenset(),
) -> Files:
    """Return the logs of a job; ``without`` leaves out speakers, such as ``rank 3``."""
    found: dict[str, list[str]] = {}
    for said in job.lines_of(without):
        kind, _, name = said.who.partition(" ")
        text = said.text
        if kind == "rank":
            rank = int(name)
            text = WRAPS[wrap](job, rank, text)
            file = {"rank": f"rank_{rank}.log", "host": f"{job.host(rank)}.log"}
            found.setdefault(file.get(layout, "job.log"), []).append(text)
        else:
            file_name = {"kernel": f"{name}-dmesg.log", "agent": f"{name}-agent.log"}
            if kind == "plog":
                of_host = f"{job.host(int(name))}/debug/plog"
                file_name["plog"] = f"{of_host}/plog-{job.pid(int(name))}_1.log"
            found.setdefault(file_name.get(kind, "launcher.log"), []).append(text)
    return {name: "\n".join(lines) + "\n" for name, lines in found.items()}


def draw_form(random: Random, job: Job) -> tuple[str, str]:
    """Return a layout and a wrapping from which the ranks can be known."""
    forms = [(layout, wrap) for layout in LAYOUTS for wrap in WRAPS
             if can_be_known(job, layout, wrap)]  # fmt: skip
    return random.choice(forms)


_CLOCK = re.compile(r"2026-11-05[ T]\d\d:\d\d:\d\d(?:[.,]\d+)? |(?<=[EWI])1105 \S+ ")


def renamed(logs: Files) -> Files:
    """Return logs of ranks under names that say nothing."""
    return {re.sub(r"rank_(\d+)", lambda one: f"{1000 - int(one[1])}", name): text
            for name, text in logs.items()}  # fmt: skip


def joined(logs: Files) -> Files:
    """Return logs of ranks as one file, one below the other."""
    of_ranks = [name for name in sorted(logs) if name.startswith("rank_")]
    rest = {name: text for name, text in logs.items() if name not in of_ranks}
    return {**rest, "all.log": "".join(logs[name] for name in of_ranks)}


def without_clocks(logs: Files) -> Files:
    """Return logs of which no line of a process or launcher has a time."""
    return {name: text if "dmesg" in name else _CLOCK.sub("", text)
            for name, text in logs.items()}  # fmt: skip


def restarted(first: Job, second: Job, wrap: str, layout: str = "job") -> Files:
    """Return logs of two attempts; torchrun's agents tell of the second one.

    In the layout ``job`` all is in one log; otherwise the agents have files of their
    own, and the others do not say that the job was started again.
    """
    found: dict[str, str] = {}
    for job in (first, second):
        logs = files(job, layout, wrap)
        for name in sorted(logs, reverse=True):
            if "dmesg" not in name:
                file = "job.log" if layout == "job" else name
                found[file] = found.get(file, "") + logs[name]
        if job is first:
            file = "job.log" if layout == "job" else f"{job.host(0)}-agent.log"
            found[file] = found.get(file, "") + (
                f"I1105 {clock(second.from_s - 9)}.1 486 torch/distributed/elastic/agent/"
                "server/api.py:937] [default] Worker group FAILED. 2/3 attempts left; "
                "will restart worker group\n"
            )
    return found
