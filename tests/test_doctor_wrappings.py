"""What launchers and collectors wrap lines in changes nothing that ``doctor`` says."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ranktable.doctor.diagnose import diagnose
from ranktable.doctor.lines import read_log
from ranktable.doctor.unwrap import _find_all, _peeled

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

JOBS = Path(__file__).parent / "cases" / "nccl-h100"
RIGHT = {
    "kill9": ("RT611", (2,)),
    "hang": ("RT620", (1,)),
    "exception": ("RT610", (1,)),
    "other_shape_detail": ("RT621", (1,)),
}


def of_ranks(form: str, agent: str = "") -> Callable[[Sequence[str]], list[str]]:
    """Return how a launcher prefixes the lines of ranks, and its own."""

    def wrap(lines: Sequence[str]) -> list[str]:
        wrapped = []
        for line in lines:
            found = re.match(r"\[default(\d)\]:", line)
            rest = line[found.end() :] if found else line
            wrapped.append((form.format(found[1]) if found else agent) + rest)
        return wrapped

    return wrap


def of_all(form: str) -> Callable[[Sequence[str]], list[str]]:
    return lambda lines: [form.format(n % 60) + line for n, line in enumerate(lines)]


WRAPPINGS: dict[str, Callable[[Sequence[str]], list[str]]] = {
    "kubectl": of_all("[pod/fit-a/main] "),
    "kubectl of pods": of_ranks("[pod/fit-worker-{}/main] ", "[pod/fit-0/main] "),
    "stern": of_ranks("fit-worker-{} main ", "fit-launcher-0 main "),
    "compose": of_ranks("worker-{}  | ", "agent-0  | "),
    "journald": of_all("Nov 05 14:20:{:02} n0 train[77]: "),
    "journald in ISO": of_all("2026-11-05T14:20:{:02}+0000 n0 train[77]: "),
    "horovod": of_ranks("[{}]<stderr>:", "[0]<stdout>:"),
    "Open MPI 4": of_ranks("[1,{}]<stderr>: ", "[1,0]<stdout>: "),
    "Open MPI 5": of_ranks("[prterun-n1-88@1,{}]<stderr>: "),
    "hydra": of_ranks("[{}] "),
    "srun -l": of_ranks("  {}: "),
    "CRI": of_all("2026-11-05T14:20:{:02}.123456789Z stderr F "),
    "Ray": of_ranks("(RayTrainWorker pid=4{}, ip=10.0.0.7) ", "(driver pid=7) "),
    "pdsh": of_all("node1: "),
    "invented": of_ranks("<< proc {} >> ", "<< proc a >> "),
    "invented with a counter": of_all("alpha|{}|"),
    "a logger": of_ranks("2026-11-05 14:20:00,123 INFO worker-{} : "),
    "two of them": of_all("2026-11-05T14:20:{:02}.1Z [pod/fit-a/main] "),
    "colours": lambda lines: [f"\x1b[36m{line}\x1b[0m" for line in lines],
    "JSON": lambda lines: [json.dumps({"n": n, "log": f"{line}\n"})
                           for n, line in enumerate(lines)],
    "CRLF": lambda lines: [f"{line}\r" for line in lines],
    "a healthy log above": lambda lines: [
        *(f"INFO other job step {n}" for n in range(40)), *lines],
}  # fmt: skip


@pytest.mark.parametrize("wrapping", WRAPPINGS)
@pytest.mark.parametrize("name", RIGHT)
def test_what_lines_are_wrapped_in_changes_nothing(
    name: str, wrapping: str, tmp_path: Path
) -> None:
    lines = (JOBS / name / "torchrun.out").read_text().splitlines()
    wrapped = "\n".join(WRAPPINGS[wrapping](lines)) + "\n"
    (tmp_path / "job.log").write_bytes(
        wrapped.encode("utf-16") if wrapping == "CRLF" else wrapped.encode()
    )

    (cause,) = diagnose([str(tmp_path)]).causes

    assert (cause.rule.code, cause.ranks) == RIGHT[name]


FORMS = {  # of launchers, collectors and loggers: {r} speaks, {t} is what it says
    "kubectl": ("[pod/fit-worker-{r}/main] {t}", "pod fit-worker-2"),
    "stern": ("fit-worker-{r} main {t}", 'process "fit-worker-2"'),
    "stern with colours": ("\x1b[36mfit-worker-{r}\x1b[0m \x1b[32mmain\x1b[0m {t}",
                           'process "fit-worker-2"'),
    "compose": ("worker-{r}  | {t}", 'process "worker-2"'),
    "Determined, with times": ("[2026-11-05T14:20:0{s}.9Z] fa88a9df [rank={r}] || {t}",
                               "rank 2"),
    "Google Cloud": (('{{"textPayload": {j}, "resource": {{"labels": {{"pod_name": '
                      '"fit-{r}", "node_name": "n{r}"}}}}, "severity": "ERROR"}}'),
                     "pod fit-2 on n2"),
    "Open MPI 4 with times": ("Thu Nov  5 14:20:0{s} 2026[1,{r}]<stderr>:{t}",
                              "rank 2"),
    "Horovod": ("Thu Nov  5 14:20:0{s} 2026[{r}]<stderr>:{t}", "rank 2"),
    "Open MPI 4": ("[1,{r}]<stderr>:{t}", "rank 2"),
    "Open MPI 5": ("[prterun-n1-88@1,{r}][n1:9{r}1]<stderr>:{t}", "rank 2 (n1)"),
    "hydra": ("[{r}] {t}", 'process "2"'),
    "srun": ("  {r}: {t}", "rank 2"),
    "torchrun": ("[default{r}]:{t}", "a rank"),
    "Determined": ("[rank={r}] || {t}", "rank 2"),
    "journald": ("Nov 05 14:20:0{s} n{r} python3[9{r}1]: {t}", "n2"),
    "journald in ISO": ("2026-11-05T14:20:0{s}+0000 n{r} train[77{r}]: {t}", "n2"),
    "logging": ("2026-11-05 14:20:0{s},123 INFO [rank {r}] {t}", "rank 2"),
    "loguru": ("2026-11-05 14:20:0{s}.123 | ERROR    | fit:run:77 - rank{r} {t}",
               "rank 2"),
    "vLLM": ("(Worker_TP{r} pid=88{r}) ERROR 11-05 14:20:0{s} [exec.py:559] {t}",
             'process "Worker_TP2"'),
    "SGLang": ("[2026-11-05 14:20:0{s} TP{r}] {t}", 'process "TP2"'),
    "Ray": ("(Trainer pid=88{r}, ip=10.0.0.{r}) {t}",
            'process "Trainer" on 10.0.0.2'),
    "absl": ("E1105 14:20:0{s}.123456 {r} fit.py:77] {t}", 'process "2"'),
    "JSON": ('{{"time": "14:20:0{s}", "node": "hd", "rank": {r}, "msg": {j}}}',
             "rank 2 (hd)"),
    "Docker": ('{{"log": {j}, "attrs": {{"tag": "w{r}"}}, "time": "14:20:0{s}"}}',
               'process "w2"'),
    "invented": ("<<{s}9:node-{r}::x>> {t}", 'process "node-2"'),
}  # fmt: skip


def said(is_mixed: bool) -> list[tuple[int, str]]:
    """Return the lines of four ranks: rank 2 fails, the others lose it."""
    lost = "RuntimeError: Connection closed by peer [10.0.0.8]:40112"
    of_rank = {
        rank: ["iter 0 loss 3.0", "iter 1 loss 2.9",
               "Traceback (most recent call last):",
               '  File "/w/fit.py", line 77, in run', "    loss = step(batch)",
               "IndexError: shard list is empty" if rank == 2 else lost]
        for rank in (2, 0, 1, 3)
    }  # fmt: skip
    rows = [(rank, text) for rank, texts in of_rank.items() for text in texts]
    if is_mixed:
        rows = [(rank, texts[at]) for at in range(6) for rank, texts in of_rank.items()]
    return rows


@pytest.mark.parametrize("is_mixed", [False, True], ids=["one by one", "mixed"])
@pytest.mark.parametrize("form", FORMS)
def test_who_speaks_is_known_by_the_prefix_alone(
    form: str, is_mixed: bool, tmp_path: Path
) -> None:
    text, who = FORMS[form]
    (tmp_path / "job.log").write_text("".join(
        text.format(r=rank, s=at % 10, t=line, j=json.dumps(line)) + "\n"
        for at, (rank, line) in enumerate(said(is_mixed))))  # fmt: skip

    (cause,) = diagnose([str(tmp_path)]).causes

    assert cause.headline.startswith(f"{who} raised IndexError: shard list is empty")


@pytest.mark.parametrize(
    "form",
    [
        '{{"rank": {r}, "message": "x", "exception": {{"stacktrace": {j}}}}}',
        "level=error rank={r} msg={j}",
    ],
)
def test_a_traceback_in_one_field_of_a_record_is_read(
    form: str, tmp_path: Path
) -> None:
    of_rank: dict[int, list[str]] = {}
    for rank, line in said(is_mixed=False):
        of_rank.setdefault(rank, []).append(line)
    (tmp_path / "job.log").write_text("".join(
        form.format(r=rank, j=json.dumps("\n".join(lines))) + "\n"
        for rank, lines in of_rank.items()))  # fmt: skip

    (cause,) = diagnose([str(tmp_path)]).causes

    assert cause.headline == "rank 2 raised IndexError: shard list is empty"


@pytest.mark.parametrize(
    "form",
    [
        "2026-11-05 14:20:{s:02} INFO trainer ",
        "[14:{s:02}] main ",
        "Nov 5 9:8:{s:02} x ",
    ],
)
def test_seconds_are_no_speaker(form: str) -> None:
    lines = [f"{form.format(s=n % 60)}step {n} loss 2.5" for n in range(600)]

    log = read_log(io.BytesIO("\n".join(lines).encode()), "job.log")

    assert log.events
    assert all("voice" not in event.fields for event in log.events)


def test_the_day_of_glog_is_no_speaker(tmp_path: Path) -> None:
    for name, at in (
        ("a", "I1105 14:20:00.1 77 run.cc:9] "),
        ("b", "F1105 14:20:00.1 78 run.cc:9] "),
    ):
        lines = [f"{at}step {n} loss 2.5" for n in range(9)]
        lines += [f"E{at[1:]}{line}" for line in (
            "Traceback (most recent call last):", '  File "fit.py", line 7, in run',
            "    loss = step(batch)", f"KeyError: {name!r}")]  # fmt: skip
        (tmp_path / f"{name}.log").write_text("\n".join(lines))

    causes = diagnose([str(tmp_path)]).causes

    assert [cause.rule.code for cause in causes] == ["RT610", "RT610"]
    assert all("1105" not in cause.headline for cause in causes)


@pytest.mark.parametrize("form", ["<< proc {r} >> {t}", "x|worker{r}|{t}"])
def test_the_fast_way_takes_the_same_prefixes_away(form: str) -> None:
    lines = [form.format(r=rank, t=text) for rank, text in said(is_mixed=True)]
    data = "".join(f"{line}\n" for line in lines).encode()
    forms = _find_all(lines, lambda _: 0)

    fast, slow = (
        b"".join(_peeled(io.BytesIO(data), forms, lambda _: 0, is_bare=is_bare))
        for is_bare in (True, False)
    )

    assert b"voice=" in fast
    assert fast == slow


def entry(rank: int, second: int, raised: str) -> str:
    """Return one failed process in the block of torchrun on n7, with 8 ranks before."""
    return f"""\
[{rank}]:
  time      : 2026-11-05_04:30:{second}
  host      : n7
  rank      : {rank} (local_rank: {rank - 8})
  exitcode  : 1 (pid: 90{rank:02})
  error_file: /tmp/e/attempt_0/{rank - 8}/error.json
  traceback : Traceback (most recent call last):
    File "/t/m.py", line 55, in main
      step()
  {raised}
"""


LOST = (
    "torch.distributed.DistBackendError: NCCL error in: a.cpp:1, remote process exited"
)
BLOCK = f"""\
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
{"=" * 60}
m.py FAILED
{"-" * 60}
Failures:
{entry(12, 41, LOST)}{entry(10, 35, "IndexError: list index out of range")}
{"-" * 60}
Root Cause (first observed failure):
{entry(8, 40, LOST)}{"=" * 60}
"""


@pytest.mark.parametrize(
    "wrap",
    [
        of_all(""),
        of_all("[pod/fit-launcher-0/main] "),
        of_all("2026-11-05T04:30:45.0{:02}Z "),
        of_all("Nov 05 04:30:45 login-1 run.sh[441]: "),
        lambda lines: [
            json.dumps(
                {"time": "2026-11-05T04:30:45Z", "host": "login-1", "message": e}
            )
            for e in lines
        ],
    ],
)
def test_a_traceback_belongs_to_its_entry_of_the_block(
    wrap: Callable[[Sequence[str]], list[str]], tmp_path: Path
) -> None:
    log = tmp_path / "driver.log"
    log.write_text("\n".join(wrap(BLOCK.splitlines())) + "\n")

    (cause,) = diagnose([str(log)]).causes

    assert (cause.ranks, cause.host, cause.rule.code) == ((10,), "n7", "RT610")
    assert "IndexError" in cause.headline
    assert "pod" not in cause.headline


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("srun: error: Node failure on n16", "n16 was lost by the scheduler"),
        ("srun: error: n12: task 6: Out Of Memory", "rank 6 (n12) was killed"),
        (
            "slurmstepd: error: Detected 3 oom_kill events in StepId=8.0.",
            "a process was",
        ),
        (
            "worker-3: ['python3', 'fit.py'] exits with return code = -6",
            "a process on worker-3 was ended by SIGABRT",
        ),
        ("  Remote daemon: [[43015,0],20] on node fit-w-19", "fit-w-19 was lost"),
        (
            "The client socket has failed to connect to [ft-0]:29500",
            "ft-0 was not reached",
        ),
    ],
)
@pytest.mark.parametrize(
    "prefix",
    [
        "[pod/fit-launcher-0/main] ",
        "Nov 05 14:20:01 login-1 run.sh[4411]: ",
    ],
)
def test_a_sentence_about_another_is_not_about_its_speaker(
    prefix: str, line: str, said: str, tmp_path: Path
) -> None:
    log = tmp_path / "launcher.log"
    above = "ORTE has lost communication with a remote daemon.\n"
    lines = [above, "  HNP daemon   : [[43015,0],0] on node login-1\n"]
    log.write_text(
        "".join(prefix + each for each in lines * ("Remote" in line)) + prefix + line
    )

    (cause,) = diagnose([str(log)]).causes

    assert cause.headline.startswith(said)
    assert "4411" not in cause.headline


def test_the_host_of_one_rank_is_not_that_of_others(tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    log.write_text(
        "[rank0]: Traceback (most recent call last):\n"
        '[rank0]:   File "/w/train.py", line 92, in <module>\n'
        "[rank0]: ValueError: negative dimension -3\n"
        "mpirun noticed that process rank 2 with PID 81 on node n2 exited on signal 6 "
        "(Aborted).\n"
    )

    (cause,) = diagnose([str(log)]).causes

    assert (cause.ranks, cause.host) == ((0,), None)


DESCRIBED = """\
Name:             bert-worker-1
Namespace:        ml
Node:             gke-a100-7f2c/10.128.0.44
Status:           Running
Containers:
  pytorch:
    Last State:     Terminated
      Reason:       OOMKilled
      Exit Code:    137
"""


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("prefix", ["", "[pod/ci-0/main] ", "2026-11-05T08:00:01Z "])
def test_a_described_pod_is_not_the_one_that_prints_it(
    prefix: str, end: str, tmp_path: Path
) -> None:
    log = tmp_path / "job.log"
    lines = (f"{prefix}{line}{end}" for line in DESCRIBED.splitlines())
    log.write_bytes("".join(lines).encode())

    (cause,) = diagnose([str(log)]).causes

    assert cause.headline.startswith("pod bert-worker-1 on gke-a100-7f2c was killed")


def test_a_part_of_a_model_is_no_host(tmp_path: Path) -> None:
    log = tmp_path / "job.ndjson"
    lines = ["Traceback (most recent call last):", '  File "/a.py", line 1, in main',
             "ValueError: bad"]  # fmt: skip
    log.write_text("".join(
        json.dumps({"host": "n7", "rank": 3, "message": f"stage-1: {line}"}) + "\n"
        for line in lines))  # fmt: skip

    (cause,) = diagnose([str(log)]).causes

    assert (cause.ranks, cause.host) == ((3,), "n7")


def test_a_file_is_of_the_rank_that_it_tells(tmp_path: Path) -> None:
    for rank in range(4):
        lines = [f"INFO rank {rank} of 4 ready on cuda:{rank % 2}"]
        lines += ["[rank1]: step 1"] * (rank == 1)
        lines += ["Traceback (most recent call last):", '  File "/a.py", line 1, in f',
                  "ValueError: bad"] * (rank == 2)  # fmt: skip
        text = "".join(f"[default{rank % 2}]:{line}\n" for line in lines)
        (tmp_path / f"{'whim'[rank]}.txt").write_text(text)

    (cause,) = diagnose([str(tmp_path)]).causes

    assert cause.ranks == (2,)


def test_a_host_on_which_one_process_tells_its_rank_is_not_all_of_that_rank(
    tmp_path: Path,
) -> None:
    for host in range(2):
        text = f"INFO rank {4 * host} of 8 ready\n" + (
            'Traceback (most recent call last):\n  File "/a.py", line 1, in f\n'
            "ValueError: bad\n" * host
        )
        (tmp_path / f"{'xy'[host]}.txt").write_text(text)

    (cause,) = diagnose([str(tmp_path)]).causes

    assert cause.ranks == ()
