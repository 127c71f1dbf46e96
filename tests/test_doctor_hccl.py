"""``doctor`` on logs of HCCL: one process writes into two folders, no line has all."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ranktable.doctor.diagnose import diagnose
from tests.effort import law
from tests.file_cases import write_files

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

COMM = "10.0.0.1%eth0_60004_0_171"
TASK = "[TaskExecStage][Timeout][HOST_TS]Task run failed, "


def plog(pid: int, text: str, at: str = "10:00:00", level: str = "ERROR") -> str:
    return f"[{level}] HCCL({pid},py):2026-01-05-{at}.000.001 [a.cc:9] [7] {text}\n"


def place(rank: int) -> tuple[str, int, str]:
    """Return server, chip and address: two chips a server."""
    return f"10.0.0.{rank // 2 + 1}", rank % 2, f"192.168.{rank // 2 + 1}.{rank % 2}"


def says_rank(rank: int, pid: int, at: str = "09:00:00", size: int = 4) -> str:
    server, chip, address = place(rank)
    text = (
        f"[HCCL_TRACE]SetupAgent rankNum[{size}], rank[{rank}], rootInfo identifier["
        f"{COMM}], server[{server}%eth0], logicDevId[{chip}], phydevId[{chip}], "
        f"deviceIp[{address}]"
    )
    return plog(pid, text, at, "INFO")


def notify(
    rank: int, peer: int | str, tag: str = "AllReduce", index: int | None = None
) -> list[str]:
    number = "" if index is None else f", index[{index}]"
    return [
        (
            f"{TASK}base information is streamID:[3], taskID[7], taskType[Notify Wait],"
            f" tag[{tag}_{COMM}]{number}, AlgType(level 0-1-2):[ring]."
        ),
        f"{TASK}para information is notify id:[0x50], remote rank:[{peer}].",
        (
            f"{TASK}groupRank information is group:[{COMM}], user define information[],"
            f" rankSize[4], rankId[{rank}]."
        ),
    ]


def row(rank: int, peer: int, tls: str = "DISABLE") -> list[str]:
    return [
        (
            f"   |  {place(peer)[2]}({peer})   |  16666  |   {place(rank)[2]}({rank})"
            f"   |  0  |  client  | time out |   {tls}  | LinkInfo"
        )
    ]


def lost(rank: int, peer: int) -> list[str]:
    here, there = (
        f"server[{server}],deviceId[{chip}],deviceIp[{address}]"
        for server, chip, address in map(place, (rank, peer))
    )
    return [
        (
            f"[CQE ERROR]cqe error status[12], time:[x], localInfo{{{here}}}, "
            f"remoteIP{{{there}}}"
        )
    ]


def heartbeat(rank: int, peer: int, what: str) -> str:
    (server, chip, _), (there, peer_chip, _) = place(rank), place(peer)
    return (
        f"[HeartbeatAbnormal]Cluster Exception Location[IP/ID]:[{there}/{peer_chip}], "
        f"Arrival Time:[x], Discoverer:[{server}/{chip}], ExceptionType:[{what} "
        "Occurred], Possible Reason:1. x"
    )


def connected(*ranks: int) -> list[str]:
    listed = ",".join(f"[{rank:016}]" for rank in ranks)
    return [
        "[DisplayConnectedRank]need connect rankNum is [4]",
        f"[DisplayConnectedRank]connected rankinfo[LINE 0]: {listed};",
    ]


RING = {rank: notify(rank, (rank - 1) % 4) for rank in range(4)}
SOCKET = [("EI0006: [PID: 80{}] 2026-01-05-10:00:00.1 Getting socket times out. Reason:"
          " The cluster heartbeat detects no exception event.")]  # fmt: skip
TLS = (
    "EI0016: [PID: 9] 2026-01-05-10:00:00.1 Value x for config tls is invalid. rank"
    "List for enabled tls:[10.0.0.1/0,1]; rankList for disabled tls:[10.0.0.2/0]"
)
SRC_DST = (
    "EI0006: [PID: 9] 2026-01-05-10:00:00.1 Getting socket times out. Reason: This "
    "node (server 10.0.0.1, device ID 0) detects that srcRank (server 10.0.0.1, device "
    "ID 0) fails to connect to dstRank (server 10.0.0.2, device ID [0])."
)

CASES: Mapping[str, tuple[Mapping[int, Sequence[str]], str, tuple[int, ...]]] = {
    "no log of one rank": ({r: RING[r] for r in (0, 1, 3)}, "RT620", (2,)),
    "one rank reports nothing": ({**RING, 2: []}, "RT620", (2,)),
    "lowest index": (
        {r: notify(r, (r - 1) % 4, index=4 + (r != 2)) for r in range(4)},
        "RT620", (2,),
    ),
    "other tag": ({**RING, 2: notify(2, 1, "AllGather")}, "RT621", (2,)),
    "waits for itself": ({**RING, 2: notify(2, "local")}, "RT620", (2,)),
    "circle": (RING, "RT625", (0, 1, 2, 3)),
    "console only": (dict.fromkeys((0, 1, 3), SOCKET), "RT620", (2,)),
    "links to one": ({0: row(0, 3), 1: row(1, 3), 2: row(2, 3)}, "RT604", (3,)),
    "link both ways": ({0: row(0, 3), 1: [], 2: [], 3: row(3, 0)}, "RT625", (0, 3)),
    "TLS of rows": (
        {r: row(r, (r + 1) % 4, "DISABLE" if r == 2 else "ENABLE") for r in range(4)},
        "RT606", (2,),
    ),
    "TLS by the library": ({0: [TLS], 1: [], 2: [], 3: []}, "RT606", (2,)),
    "chip without a rank": ({0: [SRC_DST], 1: [], 3: []}, "RT604", (2,)),
    "many lose one": (
        {0: lost(0, 3), 1: lost(1, 3) + RING[1], 2: lost(2, 3), 3: []}, "RT623", (3,),
    ),
    "two lose each other": (
        {0: lost(0, 3), 1: [], 2: [], 3: lost(3, 0)}, "RT623", (0, 3),
    ),
    "lost heartbeat": (
        {r: [heartbeat(r, 3, "Heartbeat Lost")] for r in (0, 1, 2)}, "RT624", (3,),
    ),
    "stuck before lost": (
        {0: [heartbeat(0, 3, "Heartbeat Lost"), heartbeat(0, 2, "Stuck")],
         1: [heartbeat(1, 3, "Heartbeat Lost")], 2: []},
        "RT624", (2,),
    ),
    "connected ranks": ({0: connected(0, 1, 3)}, "RT604", (2,)),
}  # fmt: skip


def folder_of(folder: Path, said: Mapping[int, Sequence[str]]) -> str:
    """Write what ranks say: identity and errors in other files, pids on every host."""
    for rank, lines in said.items():
        pid, worker = 800 + rank % 2, folder / f"worker-{rank // 2}"
        told = "".join(plog(pid, line.replace("{}", str(rank % 2))) for line in lines)
        identity = {f"run/plog/plog-{pid}_1.log": says_rank(rank, pid)}
        write_files(worker, {**identity, f"debug/plog/plog-{pid}_2.log": told})
    return str(folder)


@pytest.mark.parametrize("name", CASES)
def test_the_cause_in_logs_of_hccl_is_found(name: str, tmp_path: Path) -> None:
    said, code, ranks = CASES[name]

    first = diagnose([folder_of(tmp_path, said)]).causes[0]

    assert (first.rule.code, first.ranks) == (code, ranks)


@pytest.mark.parametrize(
    ("setting", "code"), [("", "RT622"), ("EXEC_TIMEOUT", "RT625")]
)
def test_a_rank_is_late_if_it_reports_after_the_time_out(
    setting: str, code: str, tmp_path: Path
) -> None:
    folder = folder_of(tmp_path, RING)
    late = "".join(plog(800, line, "10:40:00") for line in RING[2])
    (tmp_path / "worker-1/debug/plog/plog-800_2.log").write_text(late)
    if setting:
        said = plog(800, f"[HCCL_ENV] HCCL_{setting} set by environment to [3600]s")
        (tmp_path / "worker-0/run/plog/plog-800_3.log").write_text(said)

    first = diagnose([folder]).causes[0]

    assert first.rule.code == code


def test_the_last_process_of_a_chip_counts(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, {**RING, 2: []})
    worker = tmp_path / "worker-0"
    (worker / "run/plog/plog-700_1.log").write_text(says_rank(0, 700, "08:00:00"))
    (worker / "debug/plog/plog-700_2.log").write_text(plog(700, lost(0, 3)[0]))

    first = diagnose([folder]).causes[0]

    assert (first.rule.code, first.ranks) == ("RT620", (2,))


def test_a_chip_without_a_known_rank_is_named_by_its_host(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, {0: [heartbeat(0, 3, "Stuck")]})

    (cause,) = diagnose([folder]).causes

    assert (cause.ranks, cause.host) == ((), "10.0.0.2")
    assert cause.headline == "10.0.0.2: Stuck Occurred on chip 1"


@pytest.mark.parametrize("form", ["row", "transport"])
@pytest.mark.parametrize("is_given", [True, False])
def test_numbers_in_a_group_are_no_ranks_where_a_line_tells_the_place(
    form: str, is_given: bool, tmp_path: Path
) -> None:
    for rank in range(4):
        if is_given or rank < 2:
            file = f"w{rank // 2}/run/plog/plog-{800 + rank}.log"
            write_files(tmp_path, {file: says_rank(rank, 800 + rank)})
    (here, _, own), (there, chip, address) = place(1), place(3)
    error = {  # ranks 1 and 3 are 0 and 1 of their group
        "row": [
            "wait socket establish timeout, role[1] rank[1] timeout[120 s]",
            f"  |  {address}(1)  |  16666  |  {own}(0)  |  0  |  client  | time out |",
        ],
        "transport": [
            (
                f"createLink para:rank[0]-localUserrank[0]-localIpAddr[{here}/1], "
                f"remoteRank[1]-remoteUserrank[1]-remoteIpAddr[{there}/{chip}]"
            )
        ],
    }[form]
    told = "".join(plog(801, one) for one in error)
    write_files(tmp_path, {"w0/debug/plog/plog-801.log": told})

    (cause,) = diagnose([str(tmp_path)]).causes

    assert cause.ranks == ((3,) if is_given else ())
    assert (form == "row") or "chip 1" in cause.headline


def unreached(members: Sequence[int], rank: int, peer: int, form: str) -> list[str]:
    """Return how a rank of a communicator says that it did not reach another."""
    number, other = members.index(rank), members.index(peer)
    (here, chip, own), (there, peer_chip, address) = place(rank), place(peer)
    if form == "row":
        row = (
            f"  |  {address}({other})  |  16666  |  {own}({number})  |  0  |  client  "
            "| time out |"
        )
        wait = f"wait socket establish timeout, role[1] rank[{other}] timeout[120 s]"
        return [wait, row]
    group = "hccl_world_group" if len(members) == NUM else "group_name_31"
    text = (
        f"createLink para:rank[{number}]-localUserrank[{number}]-localIpAddr[{here}/"
        f"{chip}], remoteRank[{other}]-remoteUserrank[{other}]-remoteIpAddr[{there}/"
        f"{peer_chip}], machineType[0], tag[AllGather_{group}]"
    )
    return [text]


NUM = 8
MEMBERS = st.sampled_from(
    [range(NUM), range(0, NUM, 2), range(1, NUM, 2), range(2), range(4, 8),
     (0, 3, 4, 7), (6, 1, 3)]
)  # fmt: skip


@law(300)
@given(
    members=MEMBERS, form=st.sampled_from(["row", "para"]), same_pids=st.booleans(),
    whose=st.sampled_from(["all", "all others", "other hosts", "waiters"]),
    data=st.data(),
)  # fmt: skip
def test_a_rank_that_a_link_of_any_group_does_not_reach_is_never_another_one(
    members: Sequence[int], form: str, same_pids: bool, whose: str, data: st.DataObject
) -> None:
    culprit = data.draw(st.sampled_from(members))
    waiters = data.draw(
        st.sets(st.sampled_from([r for r in members if r != culprit]), min_size=1)
    )
    with tempfile.TemporaryDirectory() as name:
        for rank in range(NUM):
            is_near = rank == culprit or rank // 2 == culprit // 2
            is_left_out = {
                "all": False, "all others": rank == culprit, "other hosts": is_near,
                "waiters": rank not in waiters,
            }[whose]  # fmt: skip
            if is_left_out:
                continue
            pid = 800 + (rank % 2 if same_pids else rank)
            for kind in ("run", "debug"):
                lines = (
                    unreached(members, rank, culprit, form) if rank in waiters else ()
                )
                text = "".join(plog(pid, line) for line in lines)
                text = says_rank(rank, pid, size=NUM) if kind == "run" else text
                file = f"w{rank // 2}/{kind}/plog/plog-{pid}_1.log"
                write_files(Path(name), {file: text})
        causes = diagnose([name]).causes

    named = {rank for cause in causes for rank in cause.ranks}
    if whose == "other hosts" and waiters <= {culprit ^ 1}:
        return  # no log says anything
    assert causes
    assert named <= {culprit}
    if whose in ("all", "all others"):
        assert named == {culprit}


def agent(rank: int, members: Sequence[int], name: str) -> str:
    """Return how a rank says its number in a group."""
    server, chip, address = place(rank)
    return (
        f"[HCCL_TRACE]SetupAgent rankNum[{len(members)}], rank[{members.index(rank)}], "
        f"rootInfo identifier[{name}], server[{server}%eth0], logicDevId[{chip}], "
        f"phydevId[{chip}], deviceIp[{address}]"
    )


def waits_in(rank: int, members: Sequence[int], name: str) -> list[str]:
    """Return how a rank says that it waits in a ring for the one before it."""
    number = members.index(rank)
    task = "streamID:[3], taskID[7], taskType[Notify Wait]"
    before = (number - 1) % len(members)
    return [
        f"{TASK}base information is {task}, tag[AllReduce_{name}], AlgType(ring).",
        f"{TASK}para information is notify id:[0x50], remote rank:[{before}].",
        (
            f"{TASK}groupRank information is group:[{name}], user define information[],"
            f" rankSize[{len(members)}], rankId[{number}]."
        ),
    ]


@law(120)
@given(
    culprit=st.integers(0, NUM - 1), are_told=st.booleans(), data=st.data(),
    lost=st.sampled_from(["nothing", "a log", "a plog", "both", "all plogs"]),
)  # fmt: skip
def test_numbers_in_several_groups_are_no_ranks_of_the_job(
    culprit: int, are_told: bool, data: st.DataObject, lost: str
) -> None:
    """Ranks of two groups train in pairs: one pair after the other waits."""
    world = tuple(range(NUM))
    victim = data.draw(st.sampled_from([rank for rank in world if rank != culprit]))
    with tempfile.TemporaryDirectory() as name:
        for rank in world:
            pair = (rank - rank % 2, rank - rank % 2 + 1)
            half = world[rank % 2 :: 2]
            named = [(world, "hccl_world_group"), (half, f"{COMM}{rank % 2}"),
                     (pair, f"{COMM}_{pair[0]}")]  # fmt: skip
            known = data.draw(st.permutations(named)) if are_told else named[:1]
            # The half of the culprit waits for it; the others wait for their partners.
            waits = [] if rank == culprit else waits_in(
                rank, *named[1 if rank % 2 == culprit % 2 else 2])  # fmt: skip
            told = (
                f"[ERROR] 2026-01-05-10:00:00 (PID:{800 + rank}, Device:{rank % 2}, "
                f"RankID:{rank}) ERR02200 DIST call hccl api failed.\n"
            )
            said = {
                f"rank_{rank}.log": f"INFO rank {rank} of {NUM} ready\nstep 1 loss 2\n"
                + told * bool(waits),
                f"w/run/plog/plog-{800 + rank}_1.log": "".join(
                    plog(800 + rank, agent(rank, *one), level="INFO") for one in known
                ),
                f"w/debug/plog/plog-{800 + rank}_1.log": "".join(
                    plog(800 + rank, line) for line in waits
                ),
            }
            for file, text in said.items():
                kind = "a plog" if "plog" in file else "a log"
                is_lost = rank == victim and lost in (kind, "both")
                if not is_lost and (lost, kind) != ("all plogs", "a plog"):
                    write_files(Path(name), {file: text})
        causes = diagnose([name]).causes

    named_ranks = {rank for cause in causes for rank in cause.ranks}
    assert causes
    assert named_ranks <= {culprit}
    assert named_ranks or lost not in ("nothing", "a log")
