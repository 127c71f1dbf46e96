"""Logs are read in time in proportion to their size, whatever they hold."""

from __future__ import annotations

import io

import pytest

from ranktable.doctor.diagnose import judge_logs
from ranktable.doctor.lines import numbers_in, read_log
from ranktable.doctor.patterns import patterns, triggers
from tests.effort import within_cpu

FILLED = 64 << 10


@pytest.mark.parametrize("name", [pattern.name for pattern in patterns()])
def test_a_message_is_matched_in_linear_time(name: str) -> None:
    (pattern,) = [one for one in patterns() if one.name == name]
    texts = [
        example[:cut] + filler
        for example in (pattern.example,)
        for cut in range(len(example) + 1)
        for filler in ("", example[max(0, cut - 1) : cut] * 400)
    ]
    texts += [key * (FILLED // len(key)) for key in pattern.keys]
    texts += [f"{key} {'1' * FILLED}" for key in pattern.keys]
    texts += [key + "a,1 " * (FILLED // 4) for key in pattern.keys]

    within_cpu(10, lambda: [pattern.compiled.search(text) for text in texts])


@pytest.mark.parametrize("name", [pattern.name for pattern in patterns()])
def test_each_key_alone_passes_the_filter_in_front(name: str) -> None:
    (pattern,) = [one for one in patterns() if one.name == name]

    for key in pattern.keys:
        letters = "".join(filter(str.isalpha, key)).encode()
        assert len(letters) > 1  # without any, all lines are searched without end
        assert any(trigger in letters for trigger in triggers())


@pytest.mark.parametrize(
    "line",
    [
        "[rank7]: 2026-01-05 10:07:07,123 INFO step 7 loss 1.2345 tokens/s 991.2",
        "{'loss': 1.25, 'grad_norm': 0.5, 'learning_rate': 1e-05, 'epoch': 0.25}",
        "[INFO] HCCL(807,python3):2026-01-24-11:24:07.476 [a.cc:9] AllReduce tag[x]",
        "node58:946:988 [2] NCCL INFO Channel 12/0 : 58 -> 59 via P2P/CUMEM/read",
    ],
)
def test_an_ordinary_line_is_left_out_by_the_filter_in_front(line: str) -> None:
    letters = "".join(filter(str.isalpha, line)).encode()

    assert not [trigger for trigger in triggers() if trigger in letters]


def read(text: str) -> None:
    judge_logs([read_log(io.BytesIO(text.encode()), "job.log")])


TRACEBACK = [
    "Traceback (most recent call last):",
    *(f'  File "/w/t{at}.py", line {at}, in f\n    x()' for at in range(8)),
    "ValueError: sample 6",
]
LATE = (
    "[rank{0}]:[E709 17:05:38.16 ProcessGroupNCCL.cpp:632] [Rank {0}] Watchdog caught "
    "collective operation timeout: WorkNCCL(SeqNum=77, OpType=ALLREDUCE, NumelIn=4, "
    "NumelOut=4, Timeout(ms)=600000) ran for 600021 milliseconds before timing out.\n"
)
RAISED = (
    "[rank{0}]: {{'loss': 1.0, 'epoch': 1}}\n"
    "[rank{0}]: Traceback (most recent call last):\n"
    '[rank{0}]:   File "train.py", line 5, in <module>\n'
    "[rank{0}]: ValueError: bad shard {0}\n"
)
COLL = (
    "n1:{0}:2{0} [{0}] NCCL INFO AllReduce: opCount {1:x} sendbuff 0x7f00 recvbuff "
    "0x7f00 count 1024 datatype 7 op 0 root 0 comm 0x55{0} [nranks=8] stream 0x5566\n"
)


@pytest.mark.parametrize(
    "text",
    [
        "".join(f"[rank{at % 8}]: {line}\n" for at in range(6000)
                for line in "\n".join(TRACEBACK).split("\n")),
        "".join(LATE.format(rank) for rank in range(4000) if rank != 77),
        "".join(COLL.format(at % 8, at // 8) for at in range(60_000)),
        "".join(f"EI0004: [PID: {at}] 2026-11-05-14:20:00.1 The table is invalid\n"
                for at in range(50_000)),
        "srun: error: n1: task " + "9" * 5000 + ": Killed\n",
        "[Rank " + "1" * 5000 + "] Watchdog caught collective operation timeout: "
        "WorkNCCL(SeqNum=" + "7" * 5000 + ", OpType=ALLREDUCE, NumelIn=4)\n",
        "srun: error: n1: tasks "
        + ",".join(f"{at}000000-{at}99999999" for at in range(2000)) + ": Killed\n",
        "".join(RAISED.format(at) for at in range(8000)),
        "".join(LATE.replace("=77", "={0}").format(rank) for rank in range(8000)),
        "2026-11-05T14:20:00.1Z stdout P " + "x" * 30 + "\n"
        + "2026-11-05T14:20:00.1Z stdout P xxx\n" * 600_000,
    ],
    ids=["tracebacks", "4,000 ranks", "NCCL_DEBUG=COLL", "codes", "digits", "more",
         "ranges", "own words", "own operations", "parts of a line"],
)  # fmt: skip
def test_logs_of_one_kind_are_read_in_linear_time(text: str) -> None:
    within_cpu(60, lambda: read(text))


def test_a_list_of_numbers_is_bounded() -> None:
    assert numbers_in("0-3, 7 and 9") == [0, 1, 2, 3, 7, 9]
    assert len(numbers_in(",".join(["0-999999999"] * 100))) <= 1 << 19
