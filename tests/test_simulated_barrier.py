"""The rendezvous barrier of simulated ranks: real processes, without torch."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from ranktable.simulate.barrier import RendezvousBarrier, is_running
from ranktable.simulate.chip_assignments import ChipAssignment, judge
from ranktable.simulate.record_file import Records
from ranktable.simulate.simulated_run import (
    NotSimulatedError,
    RunFinding,
    current_run,
    findings,
)
from ranktable.simulate.simulation_error import rank_list
from tests.commands import start_process

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from tests.commands import Started

TIMEOUT_S = 30
# A member that does what its lines of standard input say, and answers each.
MEMBER = """
import json, sys, time
from pathlib import Path
from ranktable.simulate.simulation_error import SimulationError
from ranktable.simulate.barrier import RendezvousBarrier

folder, ranks, member, timeout_s = json.loads(sys.argv[1])
barrier = RendezvousBarrier(Path(folder), ranks=ranks, group_rank=member,
                            group="the group", timeout_s=timeout_s)
for line in sys.stdin:
    begin = time.monotonic()
    answer = None
    try:
        for action in json.loads(line):
            barrier.leave() if action == "leave" else barrier.wait(action)
    except SimulationError as error:
        answer = str(error)
    print(json.dumps([answer, time.monotonic() - begin]), flush=True)
"""


@dataclass
class Members:
    """The processes of a group."""

    processes: list[Started]
    run_folder: Path

    def tell(self, member: int, *actions: str) -> None:
        stdin = self.processes[member].stdin
        assert stdin is not None
        stdin.write(json.dumps(actions) + "\n")
        stdin.flush()

    def answer(self, member: int) -> tuple[str | None, float]:
        stdout = self.processes[member].stdout
        assert stdout is not None
        said, time_s = json.loads(stdout.readline())
        return said, time_s

    def all(self, *actions: str) -> list[str | None]:
        """Tell all of them the same, and return what they answer."""
        for member in range(len(self.processes)):
            self.tell(member, *actions)
        return [self.answer(member)[0] for member in range(len(self.processes))]

    def end(self) -> None:
        for process in self.processes:
            process.kill()
            process.communicate()


@pytest.fixture
def gather(tmp_path: Path, request: pytest.FixtureRequest) -> Callable[..., Members]:
    """Start the members of a group, and end them."""

    def start(*ranks: int, timeout_s: float = TIMEOUT_S) -> Members:
        folder = tmp_path / "group"
        folder.mkdir()
        processes = [
            start_process(
                [sys.executable, "-c", MEMBER, json.dumps(told)],
                pipes=["stdin", "stdout"],
            )
            for told in (
                [str(folder), ranks, member, timeout_s] for member in range(len(ranks))
            )
        ]
        members = Members(processes, tmp_path)
        request.addfinalizer(members.end)
        return members

    return start


def test_ranks_with_the_same_calls_pass_many_times(
    gather: Callable[..., Members],
) -> None:
    members = gather(0, 1, 2, 3)

    assert members.all(*["all_reduce of 4 float32 (SUM)"] * 300) == [None] * 4
    assert findings(members.run_folder) == []


def test_rank_with_another_call_is_named_to_all_other_ranks(
    gather: Callable[..., Members],
) -> None:
    members = gather(0, 2, 5)
    members.all("barrier")
    for member, action in enumerate(["reduce of 4", "all_reduce of 4", "reduce of 4"]):
        members.tell(member, action)
    said = [members.answer(member)[0] for member in range(3)]

    sentence = (
        "in collective 2 of the group rank 2 calls all_reduce of 4, ranks 0 and 5 call "
        "reduce of 4"
    )
    assert said == [sentence] * 3
    assert findings(members.run_folder) == [
        RunFinding(severity="error", rank=2, message=sentence)
    ]
    assert members.all("barrier") == [None] * 3


def test_rank_whose_process_has_ended_is_named_at_once(
    gather: Callable[..., Members],
) -> None:
    members = gather(0, 1, 2)
    members.all("barrier")
    # Nobody asks for its status, so it is a zombie meanwhile.
    members.processes[1].send_signal(signal.SIGKILL)
    for member in (0, 2):
        members.tell(member, "broadcast of 2 int8 from rank 0")
    answers = [members.answer(member) for member in (0, 2)]

    sentence = (
        "rank 1 ended before broadcast of 2 int8 from rank 0, collective 2 of the group"
    )
    assert [said for said, _ in answers] == [sentence] * 2
    assert max(time_s for _, time_s in answers) < TIMEOUT_S / 2
    assert findings(members.run_folder) == [
        RunFinding(severity="error", rank=1, message=sentence)
    ]


def test_rank_that_does_not_arrive_is_named_and_is_told_when_it_arrives(
    gather: Callable[..., Members],
) -> None:
    members = gather(0, 1, 2, timeout_s=8)
    members.all()
    for member in (0, 1):
        members.tell(member, "barrier")
    answers = [members.answer(member) for member in (0, 1)]
    members.tell(2, "barrier")

    sentence = "rank 2 did not reach barrier, collective 1 of the group, within 8 s"
    assert [said for said, _ in answers] == [sentence] * 2
    assert 8 <= max(time_s for _, time_s in answers) < TIMEOUT_S
    assert members.answer(2)[0] == sentence
    assert members.all("barrier") == [sentence] * 3


def test_rank_that_has_left_is_named_at_once(gather: Callable[..., Members]) -> None:
    members = gather(0, 1)
    members.all()
    members.tell(1, "leave")
    members.answer(1)
    members.tell(0, "barrier")

    sentence = "rank 1 left the group before barrier, collective 1 of the group"
    assert members.answer(0)[0] == sentence


def test_first_outcome_stands_when_more_ranks_end(
    gather: Callable[..., Members],
) -> None:
    members = gather(0, 1, 2, 3)
    members.all()
    members.processes[3].kill()
    members.tell(0, "barrier")
    first = members.answer(0)[0]
    members.processes[2].kill()
    members.tell(1, "barrier")

    assert first == "rank 3 ended before barrier, collective 1 of the group"
    assert members.answer(1)[0] == first


def test_process_that_has_ended_does_not_run_even_before_its_parent_asks() -> None:
    with start_process([sys.executable, "-c", ""]) as process:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        is_zombie_running = is_running(process.pid)

    assert [is_zombie_running, is_running(process.pid)] == [False, False]
    assert is_running(os.getpid())


def test_record_is_read_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "records"
    Records(path, 64).write(1, 7, "all_reduce of 4 float32")
    records = Records(path, 64)
    seen = records.read(0, 3)
    with path.open("r+b") as file:
        file.seek(64 + 20)
        file.write(b"?")

    assert seen == [(0, ""), (7, "all_reduce of 4 float32"), (0, "")]
    assert records.read(1) == [(0, "")]


def test_single_member_passes_alone(tmp_path: Path) -> None:
    barrier = RendezvousBarrier(
        tmp_path, ranks=[0], group_rank=0, group="the group", timeout_s=TIMEOUT_S
    )
    begin = time.monotonic()
    barrier.wait("barrier")

    assert time.monotonic() - begin < TIMEOUT_S / 2


def claims(*maps: Sequence[int], nodes: Sequence[int] = ()) -> list[ChipAssignment]:
    return [
        ChipAssignment(
            rank=rank,
            node=nodes[rank] if nodes else 0,
            chip=chip_map[rank],
            chip_map=tuple(chip_map),
        )
        for rank, chip_map in enumerate(maps)
    ]


def judged(
    held: Sequence[ChipAssignment],
    chips: Sequence[Sequence[int]] = (range(8),),
    right_map: Sequence[int] | None = None,
) -> list[tuple[str, int | None, str]]:
    found = judge(held, chips=chips, right_map=right_map)
    return [(finding.severity, finding.rank, finding.message) for finding in found]


def test_chip_maps_that_agree_give_no_finding() -> None:
    assert judged(claims(*[[3, 1, 0, 2]] * 4)) == []
    assert judged(claims(*[[1, 0, 0, 1]] * 4, nodes=[0, 0, 1, 1]), [[0, 1]] * 2) == []


def test_rank_with_another_map_is_named() -> None:
    right, other = [3, 1, 0, 2], [2, 0, 1, 3]
    sentence = (
        f"the chip maps differ: rank 2 holds {other}, ranks 0, 1 and 3 hold {right}"
    )

    assert judged(claims(right, right, other, right)) == [("error", 2, sentence)]


def test_with_two_different_maps_no_rank_is_called_wrong() -> None:
    assert judged(claims([0, 1], [1, 0])) == [
        (
            "error",
            None,
            "the chip maps differ: rank 0 holds [0, 1], rank 1 holds [1, 0]",
        )
    ]


def test_ranks_that_share_a_chip_are_named_on_their_node_only() -> None:
    shared = "ranks 0 and 1 use the same chip, 4 of node 0"

    assert judged(claims([4, 4], [4, 4]), [range(8)]) == [("error", None, shared)]
    assert judged(claims([4, 4], [4, 4], nodes=[0, 1]), [range(8)] * 2) == []


def test_chip_that_the_node_does_not_have_is_named() -> None:
    assert judged(claims([0, 9], [0, 9]), [[0, 1]]) == [
        ("error", 1, "rank 1 uses chip 9, which node 0 does not have; it has 0, 1")
    ]


def test_selected_chip_must_be_that_of_the_map() -> None:
    held = [
        ChipAssignment(rank=rank, node=0, chip=chip, chip_map=(0, 1))
        for rank, chip in enumerate([0, 0])
    ]
    unselected = [ChipAssignment(rank=0, node=0, chip=None, chip_map=(0,))]

    assert judged(held) == [
        ("error", 1, "rank 1 selected chip 0, but the chip map gives it chip 1")
    ]
    assert judged(unselected) == []


def test_sub_group_with_the_chips_of_others_is_told_the_right_map() -> None:
    held = [
        ChipAssignment(rank=rank, node=0, chip=chip, chip_map=(3, 1, 0, 2))
        for rank, chip in ((2, 0), (3, 2))
    ]

    sentence = (
        "the group of ranks 2 and 3 has the chip map [3, 1], so SCCL would use the "
        "wrong chips; theirs are [0, 2]: pass options with this map to new_group()"
    )

    assert judged(held, right_map=[0, 2]) == [("error", None, sentence)]


def test_order_that_is_no_ring_is_a_warning_on_the_published_box_only() -> None:
    held = claims(*[[0, 1, 2, 3]] * 4)

    sentence = (
        "the chips 0, 1, 2, 3 of node 0 are not in the order of a ring, which SCCL "
        "needs: on the published box there is no link between 1 and 2, 3 and 0"
    )

    assert judged(held) == [("warning", None, sentence)]
    assert judged(held, [range(16)]) == []


@pytest.mark.parametrize("value", ["", "/nowhere"])
def test_process_in_no_run_is_told_so(value: str) -> None:
    with pytest.raises(
        NotSimulatedError, match="only in a run of `ranktable simulate`"
    ):
        current_run({"RANKTABLE_SIMULATE": value})


def test_ranks_are_listed_as_words() -> None:
    assert [rank_list(ranks) for ranks in ([4], [0, 2], [1, 2, 3])] == [
        "rank 4",
        "ranks 0 and 2",
        "ranks 1, 2 and 3",
    ]
