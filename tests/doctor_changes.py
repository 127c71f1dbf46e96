"""Changes of drawn jobs that must not alter the answer: more that their ranks say."""

# ruff: noqa: E501, ISC004 - lines of logs are long

from __future__ import annotations

from dataclasses import replace

from tests.doctor_generator import Job, Said, clock

START = (
    "Bootstrap : Using eth0:10.0.0.{node}<0>",
    "NET/Plugin: No plugin found (libnccl-net.so)",
    "ncclCommInitRankConfig comm 0x55d0 rank {rank} nranks {size} cudaDev {chip} nvmlDev "
    "{chip} busId 5d000 commId 0x9f21c - Init START",
    "comm 0x55d0 rank {rank} nRanks {size} nNodes 1 localRanks 1 localRank {chip} MNNVL 0",
    "Channel 00/0 : {rank}[{chip}] -> 0[0] via P2P/CUMEM",
    "Connected all rings",
    "ncclCommInitRankConfig comm 0x55d0 rank {rank} nranks {size} cudaDev {chip} nvmlDev "
    "{chip} busId 5d000 commId 0x9f21c - Init COMPLETE",
    "AllReduce: opCount 0 sendbuff 0x7f recvbuff 0x7f count 65536 datatype 7 op 0 root 0 "
    "comm 0x55d0 [nranks={size}] stream 0x5581",
)


def told_by_nccl(job: Job) -> Job:
    """Return a job whose ranks run with NCCL_DEBUG=INFO, and tell their calls."""
    said = [*job.said]
    for rank in range(job.size):
        chip, pid = rank % job.per_host, job.pid(rank)
        head = f"{job.host(rank)}:{pid}:{pid + 1} [{chip}] NCCL INFO "
        node = rank // job.per_host + 1
        for number, text in enumerate(START):
            line = text.format(rank=rank, size=job.size, chip=chip, node=node)
            at_s = job.from_s + 0.1 + number / 50
            said.append(Said(at_s, f"rank {rank}", head + line))
    return replace(job, said=said)


def trained_for_long(job: Job, number: int = 40) -> Job:
    """Return a job in which each rank tells more steps before anything happens."""
    said = [*job.said]
    for rank in range(job.size):
        for step in range(number):
            at_s = job.from_s + 51 + 8.5 * step / number
            text = (
                f"2026-11-05 {clock(at_s)},{100 + step} INFO step {6 + step} loss 1.2"
            )
            said.append(Said(at_s, f"rank {rank}", text))
    return replace(job, said=said)
