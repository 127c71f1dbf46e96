"""Dumps of torch's flight recorder: who did not call, or called another operation."""

from __future__ import annotations

import json
import pickle
from random import Random
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

    from ranktable.doctor.headlines import Cause


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


def test_numbers_may_be_texts() -> None:
    def events(spell: type[int | str]) -> object:
        entries = [entry(seq) | OPEN for seq in (1, 2, 3)]
        for each in entries:
            each["collective_seq_id"] = spell(each["collective_seq_id"])
        data = dump(entries, 2)
        data["pg_status"] = {"0": {"last_completed_collective": spell(1)}}
        log = read_dump(json.dumps(data).encode(), "nccl_trace_rank_0")
        return log and [(event.fields, event.text) for event in log.events]

    assert events(str) == events(int)


def test_only_a_transfer_that_has_not_ended_names_its_peer() -> None:
    sent = entry(1, "send 0->1", is_p2p=True)
    open_ = entry(2, "recv 0<-2", is_p2p=True, **OPEN)
    log = read_dump(pickle.dumps(dump([sent, open_], 3), 2), "fr_0")

    assert log is not None
    assert [event.fields["peers"] for event in log.events] == ["2"]


Dumps = dict[int, Entry]
Group = tuple[str, list[int]]


def groups_of(tensor: int, data: int, pipeline: int) -> list[Group]:
    """Return the groups of a job, each with its kind."""
    stage, size = tensor * data, tensor * data * pipeline
    found = [
        ("TP", [*range(first, first + tensor)]) for first in range(0, size, tensor)
    ]
    firsts = [first for first in range(size) if first % stage < tensor]
    found += [("DP", [*range(first, first + stage, tensor)]) for first in firsts]
    found += [("PP", [*range(first, size, stage)]) for first in range(stage)]
    return [(kind, ranks) for kind, ranks in found if len(ranks) > 1]


def job_of_groups(random: Random, kind: str) -> tuple[int, Dumps, list[int]]:
    """Draw a job in which one rank keeps the others waiting, each in some group.

    Returns:
        The rank, the dumps, and the group in which the rank called something else.
    """
    sizes = random.choice([(2, 2, 1), (4, 2, 1), (2, 3, 1), (2, 2, 2), (1, 4, 2)])
    groups, size = groups_of(*sizes), sizes[0] * sizes[1] * sizes[2]
    culprit, ended = random.randrange(size), [random.randrange(1, 9) for _ in groups]
    waits: dict[int, int] = {}
    while len(waits) < size - 1:
        rank = random.choice(
            [r for r in range(size) if r not in waits and r != culprit]
        )
        near = [number for number, (_, ranks) in enumerate(groups) if rank in ranks
                and ((waits.keys() | {culprit}) & set(ranks))]  # fmt: skip
        waits.update({rank: random.choice(near)} if near else {})
    own = random.choice([n for n in waits.values() if culprit in groups[n][1]])
    if kind != "absent":
        waits[culprit] = own
    odd: dict[str, Entry] = {
        "op": {"op": "broadcast"},
        "size": {"size": 9},
        "late": {"time_created_ns": 60 * 10**9},
    }
    dumps: Dumps = {}
    for rank in range(size):
        mine = [n for n, (_, ranks) in enumerate(groups) if rank in ranks]
        entries = [
            entry(seq, process_group=(f"{n}", groups[n][0]))
            for n in mine for seq in range(1, ended[n] + 1)
        ]  # fmt: skip
        if rank in waits:
            of_group = f"{waits[rank]}", groups[waits[rank]][0]
            more: Entry = {
                "process_group": of_group,
                **(odd.get(kind, {}) if rank == culprit else {}),
            }
            entries.append(entry(ended[waits[rank]] + 1, **{**more, **OPEN}))
        dumps[rank] = dump(entries, size) | {
            "pg_config": {f"{n}": {"ranks": f"{groups[n][1]}"} for n in mine}
        }
    return culprit, dumps, groups[own][1] if kind in ("op", "size") else []


def judged(folder: Path, dumps: Dumps) -> Cause:
    for rank, data in dumps.items():
        (folder / f"nccl_trace_rank_{rank}").write_bytes(pickle.dumps(data, 2))
    return diagnose([str(folder)]).causes[0]


@law(60)
@given(
    seed=st.integers(0, 1 << 32), kind=st.sampled_from(["absent", "op", "size", "late"])
)
def test_who_waits_in_another_group_is_not_accused(
    tmp_path_factory: pytest.TempPathFactory, seed: int, kind: str
) -> None:
    random = Random(seed)  # noqa: S311 - a job is drawn
    culprit, dumps, group = job_of_groups(random, kind)
    lost = random.sample(sorted(dumps), random.randrange(1, len(dumps)))
    given_ = {rank: data for rank, data in dumps.items() if rank not in lost}
    alone = {rank: data for rank, data in dumps.items() if rank != culprit}
    victim = random.choice([rank for rank in dumps if rank != culprit])
    near = {rank: data for rank, data in dumps.items() if rank != victim}
    # Of two that call different things, nothing tells which one is right.

    whole = judged(tmp_path_factory.mktemp("d"), dumps)
    without = judged(tmp_path_factory.mktemp("d"), alone)
    some = judged(tmp_path_factory.mktemp("d"), given_)
    most = judged(tmp_path_factory.mktemp("d"), near)

    assert culprit in whole.ranks
    assert set(whole.ranks) <= {culprit, *group}
    assert without.ranks == (culprit,)
    assert "no log of it was given" in without.headline
    assert culprit in some.ranks or set(some.ranks) <= {*group} & {*lost}
    assert set(some.ranks) <= {culprit, *group}
    assert set(most.ranks) <= {culprit, *group}


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
