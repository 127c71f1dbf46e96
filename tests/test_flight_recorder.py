"""Dumps of torch's flight recorder: who did not call, or called another operation."""

from __future__ import annotations

import json
import pickle
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ranktable.doctor.diagnose import diagnose
from ranktable.doctor.flight_recorder import read_dump
from tests.effort import law, within_cpu
from tests.test_doctor_cases import HERE

if TYPE_CHECKING:
    from pathlib import Path


Entry = dict[str, Any]


def entry(
    seq: int, op: str = "all_reduce", size: int = 8, **more: Any
) -> dict[str, Any]:
    """Return an operation that has ended."""
    return {
        "record_id": seq - 1,
        "process_group": ("0", "default_pg"),
        "collective_seq_id": seq,
        "profiling_name": f"nccl:{op}",
        "input_sizes": [[size]],
        "input_dtypes": ["Float"],
        "state": "completed",
        "retired": True,
        "is_p2p": False,
        "time_created_ns": seq * 10**9,
        "timeout_ms": 12_000,
        **more,
    }


OPEN: Entry = {"state": "scheduled", "retired": False}


def dump(entries: list[Entry], size: int) -> Entry:
    ranks = str(list(range(size)))
    return {
        "version": "2.10",
        "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": ranks}},
        "pg_status": {},
        "entries": entries,
    }


def answer(
    folder: Path,
    ranks: dict[int, list[dict[str, Any]]],
    size: int,
    form: str = "pickle",
) -> tuple[list[str], tuple[int, ...]]:
    """Return the codes of the answer to the dumps of some ranks, and who is accused."""
    folder.mkdir(exist_ok=True)
    for rank, entries in ranks.items():
        data = dump(entries, size)
        written = json.dumps(data).encode() if form == "json" else pickle.dumps(data, 2)
        (folder / f"nccl_trace_rank_{rank}").write_bytes(written)
    found = diagnose([str(folder)])
    accused = found.causes[0].ranks if found.causes else ()
    return [cause.rule.code for cause in found.causes], accused


@pytest.mark.parametrize(
    ("job", "code", "culprit"),
    [
        ("hang", "RT620", 1),
        ("python_hang", "RT620", 2),
        ("ddp_one_batch_fewer", "RT621", 1),
    ],
)
def test_dumps_of_real_jobs_alone_name_the_culprit(
    job: str, code: str, culprit: int
) -> None:
    found = diagnose(map(str, sorted((HERE / "nccl-h100" / job).glob("fr_*"))))

    assert (found.causes[0].rule.code, found.causes[0].ranks) == (code, (culprit,))


@pytest.mark.parametrize("job", ["early_exit", "exception_slow_exit"])
def test_dumps_without_that_of_the_culprit_accuse_nobody(job: str) -> None:
    found = diagnose(map(str, sorted((HERE / "nccl-h100" / job).glob("fr_*"))))

    assert [cause.ranks for cause in found.causes] == [()]


@law(40)
@given(
    size=st.integers(3, 8),
    done=st.integers(0, 5),
    culprit=st.integers(0, 7),
    kind=st.sampled_from(["absent", "op", "size", "late"]),
    form=st.sampled_from(["pickle", "json"]),
    lost=st.integers(0, 3),
)
def test_the_one_who_differs_is_named(
    tmp_path_factory: pytest.TempPathFactory,
    size: int,
    done: int,
    culprit: int,
    kind: str,
    form: str,
    lost: int,
) -> None:
    culprit %= size
    start = [entry(seq) for seq in range(1 + min(lost, done), done + 1)]
    usual = [*start, entry(done + 1, **OPEN)]
    late = entry(done + 1, **OPEN) | {"time_created_ns": (done + 60) * 10**9}
    own = {
        "absent": start,
        "op": [*start, entry(done + 1, "all_gather", **OPEN)],
        "size": [*start, entry(done + 1, size=9, **OPEN)],
        "late": [*start, late, entry(done + 2, **OPEN)],
    }[kind]
    if not own and kind == "absent":
        own = [entry(1)]
        usual = [entry(1), entry(2, **OPEN)]
    ranks = {rank: own if rank == culprit else usual for rank in range(size)}
    codes, accused = answer(tmp_path_factory.mktemp("d") / "d", ranks, size, form)

    assert accused == (culprit,)
    assert codes[0] in ("RT620", "RT621")


def test_dumps_of_a_job_in_which_all_wait_together_accuse_nobody(
    tmp_path: Path,
) -> None:
    usual = [entry(1), entry(2, **OPEN)]
    further = [*usual, entry(3, **OPEN)]  # called before the second has ended

    _, accused = answer(tmp_path / "d", {0: usual, 1: further, 2: usual}, 3)

    assert accused == ()


def test_two_of_a_tie_are_both_named(tmp_path: Path) -> None:
    ranks = {0: [entry(1, **OPEN)], 1: [entry(1, "broadcast", **OPEN)]}
    codes, accused = answer(tmp_path / "d", ranks, 2)

    assert (codes[0], accused) == ("RT621", (0, 1))


def test_the_later_of_two_is_named(tmp_path: Path) -> None:
    late = entry(1, **OPEN) | {"time_created_ns": 60 * 10**9}

    assert answer(tmp_path / "d", {0: [entry(1, **OPEN)], 1: [late]}, 2) == (
        ["RT620"],
        (1,),
    )


def test_only_a_transfer_that_has_not_ended_names_its_peer() -> None:
    sent = entry(1, "send 0->1", is_p2p=True)
    open_ = entry(2, "recv 0<-2", is_p2p=True, **OPEN)
    log = read_dump(pickle.dumps(dump([sent, open_], 3), 2), "fr_0")

    assert log is not None
    assert [event.fields["peers"] for event in log.events] == ["2"]


@pytest.mark.parametrize(
    ("peers", "headline"),
    [
        ((2,), "rank 2 is waited for; no log of it was given"),
        ((2, 3), "ranks 2, 3 are waited for; no log of them was given"),
    ],
)
def test_peers_without_a_dump_are_waited_for(
    peers: tuple[int, ...], headline: str, tmp_path: Path
) -> None:
    for rank, peer in enumerate(peers):
        waits = [entry(1, f"recv {rank}<-{peer}", is_p2p=True, **OPEN)]
        data = pickle.dumps(dump(waits, 4), 2)
        (tmp_path / f"nccl_trace_rank_{rank}").write_bytes(data)
    (cause,) = diagnose([str(tmp_path)]).causes

    assert cause.headline == headline


class Attack:
    """What a pickle would run if it were read as one."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (print, ("read",))


@pytest.mark.parametrize(
    "data",
    [
        pickle.dumps({"entries": [Attack()], "pg_config": {}}, 2),
        pickle.dumps(Attack()),
        b"\x80\x02}q\x00r\xff\xff\xff\x7f.",
        b"\x80\x02" + b"]" * 100_000 + b".",
        b"\x80\x04" + b"(" * 100_000,
        b"\x80\x02cos\nsystem\n.",
        b"\x80\x02X\xff\xff\xff\x7fabc.",
    ],
)
def test_a_hostile_dump_is_not_read(
    data: bytes, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "fr_0").write_bytes(data)

    assert read_dump(data, "fr_0") is None
    diagnose([str(tmp_path)])
    assert capsys.readouterr().out == ""


@law(300)
@given(st.binary(max_size=300).map(lambda data: b"\x80\x02" + data))
def test_any_bytes_end_in_an_answer(data: bytes) -> None:
    read_dump(data, "fr_0")


@law(100)
@given(st.data())
def test_a_damaged_dump_ends_in_an_answer(data: st.DataObject) -> None:
    whole = bytearray(pickle.dumps(dump([entry(1), entry(2, **OPEN)], 2), 2))
    for _ in range(data.draw(st.integers(1, 5))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(
            st.integers(0, 255)
        )

    read_dump(bytes(whole), "fr_0")


def test_a_dump_of_many_entries_is_read_in_linear_time() -> None:
    entries = [entry(seq) for seq in range(1, 20_000)]
    data = pickle.dumps(dump(entries, 4096), 2)

    within_cpu(60, lambda: read_dump(data, "fr_0"))
