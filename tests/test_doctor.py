"""``ranktable doctor``: messages, causes, and the lines that prove them."""

from __future__ import annotations

import gzip
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ranktable.doctor.causes import Meaning, meaning_of, meanings
from ranktable.doctor.diagnose import Diagnosis, diagnose
from ranktable.doctor.lines import read_log, recognise
from ranktable.doctor.patterns import LogPattern, patterns, triggers
from ranktable.doctor.rules import RULES
from ranktable.report.rule_pages import page_of
from tests.file_cases import write_files
from tests.rule_examples import diagnose_example

if TYPE_CHECKING:
    from collections.abc import Callable

    from ranktable.schema.finding import Rule
    from tests.conftest import Outcome

    Run = Callable[..., Outcome]


def judged(folder: Path, logs: dict[str, str]) -> Diagnosis:
    write_files(folder, logs)
    return diagnose([str(folder)])


def waits(rank: int, seq: int, op: str = "ALLREDUCE", numel: int = 8) -> str:
    return (
        f"[rank{rank}]:[E105 06:15:00.1 ProcessGroupNCCL.cpp:632] [Rank {rank}] "
        f"Watchdog caught collective operation timeout: WorkNCCL(SeqNum={seq}, "
        f"OpType={op}, NumelIn={numel}, NumelOut={numel}, Timeout(ms)=600000) ran for "
        "600021 milliseconds before timing out.\n"
    )


@pytest.mark.parametrize("pattern", patterns(), ids=lambda pattern: pattern.name)
def test_a_message_is_known_by_its_example_alone(pattern: LogPattern) -> None:
    lines = pattern.example.splitlines()
    at = pattern.before if len(lines) > 1 else 0
    found = recognise(lines[at], lines[:at], lines[at + 1 :])
    letters = re.sub("[^A-Za-z]", "", lines[at]).encode()

    assert any(trigger in letters for trigger in triggers())
    assert found is not None
    assert found[0] is pattern
    others = [
        other.name
        for other in patterns()
        if other is not pattern
        # The code beside which other messages stand, and what is left.
        and other.name not in ("hccl-code", "unknown-error")
        and not other.is_form
        and other.fields(pattern.example) is not None
    ]
    assert others == []


@pytest.mark.parametrize(
    "pattern", [one for one in patterns() if one.counter], ids=lambda one: one.name
)
def test_a_message_does_not_take_a_similar_line(pattern: LogPattern) -> None:
    assert pattern.fields(pattern.counter) is None


@pytest.mark.parametrize("meaning", meanings(), ids=lambda one: one.example[:40])
def test_the_meaning_of_an_error_is_known_by_its_example_alone(
    meaning: Meaning,
) -> None:
    other = meaning_of(meaning.counter)

    assert meaning_of(meaning.example) is meaning
    assert other is None or other.of_class != meaning.of_class
    assert "rain the node" not in meaning.advice or meaning.of_class == "chip"


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_a_rule_is_the_cause_of_its_bad_log_only(rule: Rule) -> None:
    bad = diagnose_example(rule, page_of(rule).bad)
    good = diagnose_example(rule, page_of(rule).good)

    assert [cause.rule for cause in bad.causes] == [rule]
    assert rule not in [cause.rule for cause in good.causes]


def test_advice_is_no_failure(tmp_path: Path) -> None:
    advice = (
        "[rank1]: CUDA kernel errors might be asynchronously reported at some other "
        "API call.\n"
        "[rank1]: For debugging consider passing CUDA_LAUNCH_BLOCKING=1\n"
    )
    diagnosis = judged(tmp_path, {"job.log": f"[rank0]: start\n{advice}"})

    assert diagnosis.causes == ()
    assert diagnosis.is_judged


def test_a_bar_that_is_drawn_again_hides_no_rank(tmp_path: Path) -> None:
    bar = " 45%|####      | 45/100 [00:30<00:36,  1.5it/s]\r"
    log = "".join(bar + waits(rank, 77) for rank in (0, 1, 3))
    found = judged(tmp_path, {"job.log": log}).causes

    assert [(cause.rule.code, cause.ranks) for cause in found] == [("RT620", (2,))]


@pytest.mark.parametrize(("last", "ranks"), [("n2.log", (2,)), ("n7.log", ())])
def test_a_file_without_a_rank_has_that_of_its_place_in_a_row(
    last: str, ranks: tuple[int, ...], tmp_path: Path
) -> None:
    traceback = 'Traceback (most recent call last):\n  File "/job/a.py", line 3, in f\n'
    told = {f"n{rank}.log": f"[rank{rank}]: epoch 1, loss 0.5\n" for rank in (0, 1)}
    answer = judged(tmp_path, {**told, last: f"{traceback}    x()\nValueError: bad\n"})

    (cause,) = answer.causes
    assert cause.ranks == ranks


def test_logs_of_any_form_are_read(tmp_path: Path) -> None:
    long = b"x" * (3 << 20)
    data = long + b"\n\xff\xfe\x00 45%|###| [00:30<00:36]\r" + waits(1, 7).encode()
    (tmp_path / "a.log.gz").write_bytes(gzip.compress(data))
    (tmp_path / "cut.gz").write_bytes(gzip.compress(data)[:-20])
    (tmp_path / "link").symlink_to("/etc/hostname")

    diagnosis = diagnose([str(tmp_path), str(tmp_path / "none")])

    read = {
        Path(log.file).name: (len(log.events), log.problem) for log in diagnosis.logs
    }
    assert read["a.log.gz"] == (1, None)
    assert read["cut.gz"][1] is not None
    assert read["none"] == (0, "No such file or directory")
    assert "link" not in read
    assert diagnosis.logs[0].events[0].line == 2
    assert diagnosis.causes[0].rule.code == "RT630"


def test_what_is_kept_of_a_log_is_bounded() -> None:
    class Endless:
        left = 40

        def read(self, size: int) -> bytes:
            self.left -= 1
            return waits(1, 7).encode() * (size // 250) if self.left > 0 else b""

    log = read_log(Endless(), "endless")  # type: ignore[arg-type]

    assert len(log.events) <= 48
    assert sum(event.count for event in log.events) == log.num_lines


def test_the_command_names_the_culprit_and_exits_with_1(
    run: Run, tmp_path: Path
) -> None:
    (tmp_path / "job.log").write_text(waits(1, 7) + waits(2, 7) + waits(3, 7))

    done = run("ranktable", "doctor", str(tmp_path / "job.log"))

    assert done.status == 1
    assert done.out.splitlines()[:2] == [
        "job failed: rank 0 reported nothing, although its neighbours did",
        "  3 ranks (1-3) wait for it in ALLREDUCE 7",
    ]


def test_a_log_without_a_failure_exits_with_0_and_one_without_a_job_with_2(
    run: Run, tmp_path: Path
) -> None:
    (tmp_path / "fine.log").write_text("[rank0]: step 1\n[rank1]: step 1\n")
    (tmp_path / "other.log").write_text("hello\n")

    fine = run("ranktable", "doctor", str(tmp_path / "fine.log"))
    other = run(
        "ranktable", "doctor", str(tmp_path / "other.log"), str(tmp_path / "missing")
    )

    assert (fine.status, fine.out) == (
        0, "no failure found in 1 log, 2 lines, 0 of them recognised\n",
    )  # fmt: skip
    assert other.status == 2
    assert "missing: No such file or directory" in other.err


def test_numbers_that_no_job_has_are_not_taken_for_ranks_or_sizes(
    tmp_path: Path,
) -> None:
    many = "9" * 20
    log = (
        waits(1, 7)
        + waits(2, 7).replace("[rank2]", "[rank999999999]")
        + f"Timed out after 601 seconds waiting for clients. 1/{many} clients joined.\n"
        + f"[{'9' * 5000}] finished collective #7, but didn't join collective #8\n"
    )

    diagnosis = judged(tmp_path, {"job.log": log})

    assert diagnosis.ranks.size == 3  # the line says [Rank 2] too


@pytest.mark.parametrize(
    ("given", "status"),
    [("RT6", 1), ("RT612,RT613", 1), ("RT612", 0), ("RT6130", 2), ("memory", 2)],
)
def test_selected_codes_are_a_list(
    given: str, status: int, run: Run, tmp_path: Path
) -> None:
    text = (
        "[rank0]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB\n"
    )
    (tmp_path / "job.log").write_text(text)
    done = run("ranktable", "doctor", "job.log", "--select", given)

    assert (done.status, "no memory left" in done.out) == (status, status == 1)
    if status == 0:  # not "no failure found"
        assert done.out.startswith("no cause with these codes; 1 cause ignored\n")
