"""Draws jobs of MindSpore that msrun starts: logs of workers, scheduler and HCCL."""

# ruff: noqa: E501, ISC004 - lines of logs are long

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.doctor_generator import RAISED, Job, clock

if TYPE_CHECKING:
    from random import Random

    from tests.doctor_generator import Files

CODES = {
    "raises": "RT610", "data": "RT610", "killed": "RT611", "hangs": "RT620",
    "chip memory": "RT613", "chip": "RT614",
}  # fmt: skip
"""How a rank fails, and the code of the answer."""
LOST = (
    "RuntimeError: Sync stream error!",
    "RuntimeError: Launch kernel failed, name:Default/AllReduce-op123",
    "RuntimeError: SyncStream failed for op aclnnMul, detail: Sync default stream failed.",
)
GROUP = "10.0.0.1%eth0_60000_0_17"
TASK = "[TaskExecStage][Timeout][HOST_TS]Task run failed, "


def draw(random: Random) -> Job:
    """Return a job in which one rank fails, and the others wait for it."""
    kind, size = random.choice(sorted(CODES)), random.choice([2, 4, 8])
    job = Job(size, min(size, random.choice([2, 4])), kind, "msrun", random,
              codes=frozenset(CODES[kind].split()), base=random.randrange(1000, 9000),
              culprit=random.randrange(size), library="mindspore")  # fmt: skip
    job.culprits = frozenset({job.culprit})
    for rank in range(size):
        _starts(job, rank)
    at_s = job.from_s + 50
    _fails(job, at_s)
    late_s = at_s + (1836 if kind == "hangs" else random.choice([40, 1836]))
    for rank in job.others():
        _loses(job, rank, late_s)
    first = random.choice(job.others()) if kind == "hangs" else job.culprit
    _ends(job, first, (late_s if kind == "hangs" else at_s) + 10)
    return job


def _line(job: Job, rank: int, at_s: float, level: str, module: str, text: str) -> str:
    return (f"[{level}] {module}({job.pid(rank)},ffff8a1c,python):2026-11-05-{clock(at_s)}"
            f".412.215 [mindspore/ccsrc/{module.lower()}/x.cc:244] {text}")  # fmt: skip


def _plog(job: Job, rank: int, at_s: float, level: str, *texts: str) -> None:
    head = f"[{level}] HCCL({job.pid(rank)},python):2026-11-05-{clock(at_s)}.100.200 [a.cc:9] [71]"
    job.say(at_s, f"plog {rank}", *(head + text for text in texts))


def _starts(job: Job, rank: int) -> None:
    at_s = job.from_s
    host, chip = rank // job.per_host + 1, rank % job.per_host
    job.say(
        at_s,
        "msrun",
        f"Start worker process with rank id:{rank}, log file:/job/log/worker_{rank}.log. Environment variable [RANK_ID={rank}] is exported.",
    )
    for text in (
        "Topology build timed out., retry(1/14400).",
        "Cluster is successfully initialized.",
    ):
        job.say(
            at_s,
            rank,
            _line(job, rank, at_s, "WARNING", "DISTRIBUTED", f"BuildCluster] {text}"),
        )
    job.say(
        at_s + 9,
        rank,
        *(f"epoch: 1 step: {step}, loss is {4 - step / 3:.4f}" for step in (1, 2, 3)),
    )
    _plog(job, rank, at_s, "INFO",
          f"[HCCL_TRACE]SetupAgent rankNum[{job.size}], rank[{rank}], rootInfo identifier[{GROUP}], "
          f"server[10.0.0.{host}%eth0], logicDevId[{chip}], phydevId[{chip}], deviceIp[192.168.{host}.{chip}]")  # fmt: skip


def _raises(job: Job, rank: int, at_s: float, *texts: str) -> None:
    rule = "-" * 52
    job.say(at_s, rank, "Traceback (most recent call last):",
            '  File "/job/fit.py", line 61, in <module>', "    model.train(2, ds)", *texts, "",
            rule, "- C++ Call Stack: (For framework developers)", rule,
            "mindspore/ccsrc/runtime/graph_scheduler/graph_scheduler.cc:1124 Run")  # fmt: skip


def _titled(title: str, *texts: str) -> tuple[str, ...]:
    return "", "-" * 52, f"- {title}", "-" * 52, *texts


def _fails(job: Job, at_s: float) -> None:
    rank = job.culprit
    device = rank % job.per_host
    full = f"Device(id:{device}) memory isn't enough and alloc failed, kernel name: Default/Add-op7, alloc size: 8589934592B."
    if job.kind == "raises":
        _raises(job, rank, at_s, job.random.choice(RAISED))
    elif job.kind == "data":
        _raises(job, rank, at_s, "RuntimeError: Exception thrown from dataset pipeline. Refer to 'Dataset Pipeline Error Message'. ",
                *_titled("Dataset Pipeline Error Message: ", "[ERROR] map operation: [Decode] failed."))  # fmt: skip
    elif job.kind == "chip memory":
        job.say(
            at_s, rank, _line(job, rank, at_s, "ERROR", "PRE_ACT", f"Alloc] {full}")
        )
        _raises(job, rank, at_s, f"RuntimeError: {full}")
    elif job.kind == "chip":
        job.say(
            at_s,
            rank,
            _line(
                job,
                rank,
                at_s,
                "ERROR",
                "DEVICE",
                f"DumpTaskExceptionInfo] Task fail infos task_id: 2, stream_id: 1060, tid: 9, device_id: {device}, retcode: 507054 ( HBM ecc error)",
            ),
        )
        _raises(job, rank, at_s, LOST[0])


def _loses(job: Job, rank: int, at_s: float) -> None:
    before = (rank - 1) % job.size
    _plog(job, rank, at_s, "ERROR",
          f"{TASK}base information is streamID:[3], taskID[77], taskType[Notify Wait], tag[AllReduce_{GROUP}], AlgType(level 0-1-2):[ring].",
          f"{TASK}para information is notify id:[0x50], stage:[ffffffff], remote rank:[{before}].",
          f"{TASK}groupRank information is group:[{GROUP}], user define information[], rankSize[{job.size}], rankId[{rank}].")  # fmt: skip
    said = [f"EI0002: [PID: {job.pid(rank)}] 2026-11-05-{clock(at_s)}.100.200 The wait execution of the Notify register "
            f"times out. Reason: The Notify register has not received the Notify record from remote rank [{before}]."]  # fmt: skip
    if job.random.random() < 0.3:
        said = ["EE9999: Inner Error!", "EE9999 The error from device(chipId:3, dieId:0), serial number is 1, event wait "
                "timeout occurred during task execution, stream_id:122, timeout=1980."]  # fmt: skip
    _raises(
        job,
        rank,
        at_s,
        job.random.choice(LOST),
        *_titled("Ascend Error Message:", *said),
    )


def _ends(job: Job, first: int, at_s: float) -> None:
    """Let msrun tell of the first worker that ended, and the scheduler of it too."""
    head = f"ME(700:281473,MainProcess):2026-11-05-{clock(at_s)}.412.000 [mindspore/parallel/cluster/process_entity/_api.py"
    job.say(at_s, "msrun", f"[ERROR] {head}:268] Worker process {job.pid(first)} exit with exception.",
            f"[WARNING] {head}:318] There's worker exits with exception, kill all other workers.")  # fmt: skip
    if job.random.random() < 0.6:
        job.say(at_s + 9, "scheduler", "Traceback (most recent call last):", '  File "/job/fit.py", line 12, in <module>', "    init()",
                f"RuntimeError: The total number of timed out node is 1. Timed out node list is: [const vector]{{{first}}}, "
                f"worker {first} is the first one timed out, please check its log.")  # fmt: skip
        job.say(at_s + 9, "msrun", f"[ERROR] {head}:431] Time out nodes are ['{first}']",
                "Traceback (most recent call last):", '  File "/v/bin/msrun", line 8, in <module>', "    sys.exit(main())",
                "RuntimeError: Distributed job exited with exception. Please check logs in directory: /job/log.")  # fmt: skip


def files(job: Job) -> Files:
    """Return the logs as msrun and HCCL write them."""
    found: dict[str, list[str]] = {}
    for said in job.lines_of():
        kind, _, name = said.who.partition(" ")
        file = f"{kind}.log"
        if kind == "rank":
            file = f"worker_{name}.log"
        elif kind == "plog":
            file = f"{job.host(int(name))}/debug/plog/plog-{job.pid(int(name))}_1.log"
        found.setdefault(file, []).append(said.text)
    return {name: "\n".join(texts) + "\n" for name, texts in found.items()}
