"""Asynchronous calls that need the shapes of other ranks, beside calls of torch."""

from __future__ import annotations

import os
import time
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch
import torch.distributed as plain
from torch._C._distributed_c10d import Store
from torch.distributed.distributed_c10d import _get_default_store

from ranktable import dist
from tests.rank_worker import SOON_S, group_of, told
from tests.ranks import finish, free_port, start_rank

if TYPE_CHECKING:
    from tests.commands import Outcome
    from tests.ranks import Pool

pytestmark = pytest.mark.torch

ROUNDS = 100
UNEVEN = ("all_gather", "gather", "scatter", "all_to_all", "shift")


def begin_with_torch(what: str, own: torch.Tensor) -> tuple[Any, list[torch.Tensor]]:
    """Begin what torch alone has; it is told all sizes, so they are the same."""
    rank, size = plain.get_rank(), plain.get_world_size()
    found = [torch.empty_like(own) for _ in range(size)]
    if what == "all_gather":
        return plain.all_gather(found, own, async_op=True), found
    if what == "gather":
        found = found if rank == 0 else []
        return plain.gather(own, found or None, async_op=True), found
    if what == "scatter":
        parts = [own] * size if rank == 0 else None
        return plain.scatter(found[0], parts, async_op=True), found[:1]
    if what == "all_to_all":
        arriving = torch.cat(found)
        return (
            plain.all_to_all_single(arriving, torch.cat([own] * size), async_op=True),
            [arriving],
        )
    sent: Any = plain.isend(own, (rank + 1) % size)
    arriving_work: Any = plain.irecv(found[0], (rank - 1) % size)
    arriving_work.wait()  # gloo needs both in time
    return sent, found[:1]


def begin_with_ours(what: str, own: torch.Tensor) -> tuple[Any, list[torch.Tensor]]:
    several = what in ("scatter", "all_to_all")
    given = [own] * plain.get_world_size() if several else own
    return getattr(dist, what)(given, async_op=True), []


def overtake(whose: str, what: str) -> list[str]:
    """Reduce with torch in the same group, early on one rank and late on the other."""
    rank, wrong = plain.get_rank(), []
    for turn in range(ROUNDS):
        own, reduced = torch.full((turn % 5 + 1,), 1.0 + rank), torch.full((4,), 10.0)
        begin = begin_with_torch if whose == "torch" else begin_with_ours
        work, found = begin(what, own)
        if rank == turn % 2:
            time.sleep(0.003)
        plain.all_reduce(reduced)
        waited = work.wait()
        if whose == "ours":
            found = waited if isinstance(waited, list) else [waited]
        values = {each for part in found for each in part.tolist()}
        if reduced.tolist() != [20.0] * 4 or not values <= {1.0, 2.0}:
            wrong.append(f"{turn}: {reduced.tolist()}, {values}")
    return wrong


@pytest.mark.parametrize("whose", ["torch", "ours"])
@pytest.mark.parametrize("what", UNEVEN)
def test_calls_of_torch_do_not_overtake_uneven_ones(
    fresh: Pool, what: str, whose: str
) -> None:
    assert fresh.returned(overtake, whose, what, timeout_s=40) == [[], []]


def wait_while_the_other_makes_a_group(whose: str) -> list[float]:
    """Wait on one rank before a group is made, on the other one after that.

    To make a group, torch keeps the connection to the store until all ranks do.
    """
    own = torch.full((3,), 1.0 + plain.get_rank())
    if plain.get_rank() == 0:
        time.sleep(1)
    begin = begin_with_torch if whose == "torch" else begin_with_ours
    work, found = begin("all_gather", own)
    if plain.get_rank() == 0:
        found = work.wait() if whose == "ours" else work.wait() and found
        plain.new_group([0, 1])
    else:
        plain.new_group([0, 1])
        found = work.wait() if whose == "ours" else work.wait() and found
    return [each[0].item() for each in found]


@pytest.mark.skipif(
    not hasattr(Store, "clone"), reason="needs a second connection, as in torch 2.8"
)
@pytest.mark.parametrize("whose", ["torch", "ours"])
def test_uneven_work_goes_on_while_torch_makes_a_group(fresh: Pool, whose: str) -> None:
    found = fresh.returned(wait_while_the_other_makes_a_group, whose, is_last=True)

    assert found == [[1.0, 2.0]] * 2


def wait_on_some_ranks_only(what: str) -> list[object]:
    """Call on one rank without waiting, on the other one with it, and in turns."""
    rank, found = plain.get_rank(), list[object]()
    for turn in range(40):
        own = torch.full((rank + turn % 3,), 1.0 + rank)
        given = [own] * 2 if what in ("scatter", "all_to_all") else own
        is_async = turn % 4 < 2 if rank == 0 else turn % 2 == 0
        called = getattr(dist, what)(given, async_op=is_async)
        reduced = torch.full((4,), 10.0)
        plain.all_reduce(reduced)
        result = called.wait() if is_async else called
        several = result if isinstance(result, list) else [result]
        sums = [float(each.sum()) for each in several]
        found.append([sums, float(reduced.sum())])
    return found


@pytest.mark.parametrize("what", UNEVEN)
def test_ranks_may_wait_or_not_for_the_same_call(fresh: Pool, what: str) -> None:
    for rank, found in enumerate(fresh.returned(wait_on_some_ranks_only, what)):
        for turn, (sums, reduced) in enumerate(found):
            of_each = [float(turn % 3), 2.0 * (1 + turn % 3)]
            expected = {
                "scatter": of_each[:1],
                "shift": [of_each[1 - rank]],
                "gather": [] if rank else of_each,
            }.get(what, of_each)
            assert (sums, reduced) == (expected, 80.0)


def begin_in_groups_of_some() -> list[str]:
    """Begin in two groups that share a rank, in the opposite order on that rank."""
    rank, works = plain.get_rank(), list[Any]()
    groups = [group_of(0, 1), group_of(1, 2)]
    own = [each for each in groups if each is not plain.GroupMember.NON_GROUP_MEMBER]
    for turn in range(20):
        data = torch.full((rank + 1,), float(turn), dtype=torch.complex64)
        for group in own if turn % 2 else own[::-1]:
            works.append(dist.all_gather(data, group, async_op=True))
        plain.barrier()
    sizes = [[each.numel() for each in work.wait()] for work in works]
    return sorted({str(each) for each in sizes})


def test_groups_do_not_wait_for_each_other(gloo: Pool) -> None:
    assert gloo.returned(begin_in_groups_of_some) == [
        ["[1, 2]"],
        ["[1, 2]", "[2, 3]"],
        ["[2, 3]"],
    ]


def keep_a_receive_open_over_a_shift(how: str) -> list[float]:
    """Shift between the begin of a receive and the send that belongs to it."""
    rank, arrived = plain.get_rank(), torch.zeros(1)
    given = torch.tensor([5.0 + rank])
    if rank == 0:
        receiving = dist.irecv(arrived, src=1)
    if how == "uneven":
        shifted = dist.shift(given, async_op=True).wait()
    else:
        shifted = dist.shift(given, even=True)
    if rank == 0:
        receiving.wait()
    else:
        dist.send(torch.tensor([9.0]), dst=0)
    return [shifted.item(), arrived.item()]


@pytest.mark.parametrize("how", ["even", "uneven"])
def test_a_shift_is_not_taken_for_a_transfer_of_the_script(
    fresh: Pool, how: str
) -> None:
    found = fresh.returned(keep_a_receive_open_over_a_shift, how)

    assert found == [[6.0, 9.0], [5.0, 0.0]]


def begin_with_another_type() -> list[tuple[str, str]]:
    data = torch.ones(2, dtype=(torch.float32, torch.int32)[plain.get_rank()])
    work = dist.all_gather(data, async_op=True)
    return [told(work.wait), told(work.wait)]


def test_uneven_work_of_other_types_is_told_by_every_wait(fresh: Pool) -> None:
    first, second = fresh.returned(begin_with_another_type, is_last=True)

    assert first == second
    assert first[0] == first[1]
    assert first[0][0] == "MismatchError"
    assert "rank 1  all_gather int32" in first[0][1]


def begin_alone(check: str) -> tuple[str, str]:
    os.environ["RANKTABLE_DIST_CHECK"] = check
    group = dist.new_group([0, 1], timeout_s=3)
    if plain.get_rank() == 1:
        time.sleep(5)
        return "", ""
    return told(dist.all_gather(torch.ones(2), group, async_op=True).wait)


@pytest.mark.parametrize(
    ("check", "said"),
    [
        (
            "first",
            "rank 1 did not reach collective 1 of the group of ranks 0, 1 within",
        ),
        ("off", "all_gather float32, collective 1 of the group of ranks 0, 1, failed"),
    ],
)
def test_uneven_work_names_who_does_not_come(
    fresh: Pool, check: str, said: str
) -> None:
    (kind, message), _ = fresh.returned(begin_alone, check, is_last=True)

    assert kind == "DistError"
    assert said in message


def what_is_there() -> list[int]:
    """Return the number of keys in the store, and of threads of this process."""
    return [
        _get_default_store().num_keys(),
        len(list(Path("/proc/self/task").iterdir())),
    ]


def leave_nothing(steps: int) -> list[int]:
    """Return how many keys, threads and tensors are left, given time to go."""
    size, held, before = plain.get_world_size(), [], [0, 0]
    for step in range(steps):
        own = torch.ones(step % 7 + plain.get_rank())
        held.append(weakref.ref(own))
        dist.all_gather(own, async_op=True).wait()
        dist.scatter([own] * size, async_op=True).wait()
        del own
        if step == 10:
            plain.barrier()
            time.sleep(0.5)
            before = what_is_there()
    plain.barrier()
    end = time.monotonic() + 10
    while True:
        found = zip(what_is_there(), before, strict=True)
        more = [max(0, now - then) for now, then in found]
        more.append(max(0, sum(each() is not None for each in held) - 1))
        if not any(more) or time.monotonic() > end:
            return more
        time.sleep(0.05)


def test_uneven_work_leaves_nothing_behind(fresh: Pool) -> None:
    assert fresh.returned(leave_nothing, 200) == [[0, 0, 0]] * 2


HEAD = """
import threading, time
import torch
import torch.distributed as plain
from ranktable import dist
job = dist.init_dist(backend="gloo", timeout=60)
rank = job.rank
own = torch.full((rank + 1,), 1.0 + rank)
begin = time.monotonic()
"""

ENDING = {
    "late": """
if rank == 1:
    time.sleep(2)
work = dist.all_gather(own, async_op=True)
print([each.sum().item() for each in work.wait()] if rank == 1 else "ended")
""",
    "late, after the group was destroyed": """
if rank == 1:
    time.sleep(2)
work = dist.all_gather(own, async_op=True)
if rank == 0:
    plain.destroy_process_group()
print([each.sum().item() for each in work.wait()] if rank == 1 else "ended")
""",
    "late in another thread": """
def train():
    if rank == 1:
        time.sleep(2)
    found = dist.all_gather(own)
    total = torch.ones(3)
    dist.all_reduce(total)
    print([each.sum().item() for each in found] if rank == 1 else "ended")

threading.Thread(target=train).start()
""",
}
"""Scripts that torch alone ends, in which rank 1 comes late."""


def run_ending(folder: Path, script: str) -> list[Outcome]:
    file = folder / "ending.py"
    file.write_text(HEAD + script)
    port = free_port()
    return finish(
        [start_rank(rank, 2, port, file, LOCAL_RANK=str(rank)) for rank in range(2)]
    )


def last_line(rank: Outcome) -> str:
    """Return what the script printed; gloo of torch 2.8 prints more before."""
    return rank.out.splitlines()[-1]


@pytest.mark.parametrize("script", ENDING.values(), ids=ENDING)
def test_a_script_may_end_while_others_are_late(tmp_path: Path, script: str) -> None:
    first, second = run_ending(tmp_path, script)

    assert (first.status, last_line(first)) == (0, "ended"), first
    assert (second.status, last_line(second)) == (0, "[1.0, 4.0]"), second


NEVER = """
if rank == 0:
    dist.all_gather(own, async_op=True)
else:
    time.sleep(3)
print("ended")
"""


def test_a_script_ends_although_others_never_come(tmp_path: Path) -> None:
    begin = time.monotonic()

    for rank in run_ending(tmp_path, NEVER):
        assert (rank.status, last_line(rank)) == (0, "ended"), rank
    assert time.monotonic() - begin < SOON_S
