"""Checking mode: ranks that differ, or leave, are told so on all ranks."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from ranktable import dist
from tests.rank_worker import tensor, told
from tests.ranks import Pool, finish, free_port, run_code, start_code

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.torch

SOON_S = 15.0
"""Less than the time-out of the group."""


def differ(what: str) -> object:
    """Call two things that all ranks call, then one in which they differ."""
    is_first = dist.get_rank() == 0
    two, three = tensor([1.0, 2.0]), tensor([1.0, 2.0, 3.0])
    either: dict[str, tuple[Any, Any]] = {
        "keys": ({"a": two, "b": two}, {"a": two, "c": two}),
        "shapes": ({"a": two, "b": three}, {"a": three, "b": two}),
    }
    calls = {
        "type": lambda: dist.all_reduce(two if is_first else two.int()),
        "swapped": lambda: dist.all_reduce(two if is_first else three),
        "broadcast": lambda: dist.broadcast(two if is_first else three),
        "gathered": lambda: dist.all_gather(three if is_first else two),
        "reduction": lambda: dist.all_reduce(two, "max" if is_first else "sum"),
        "root": lambda: dist.broadcast(two, dist.get_rank()),
        "function": lambda: dist.barrier() if is_first else dist.all_reduce(two),
        "objects": lambda: dist.broadcast_object_list([None] * (1 + is_first)),
        "way": lambda: dist.collect_results([], tmpdir=None if is_first else "/tmp"),  # noqa: S108 - not written to
        "refused": lambda: dist.all_reduce([1.0] if is_first else two),  # type: ignore[arg-type]
        "splits": lambda: dist.reduce_scatter([two, three if is_first else two]),
        "keys": lambda: dist.all_reduce_dict(either["keys"][not is_first]),
        "shapes": lambda: dist.all_reduce_dict(either["shapes"][not is_first]),
        "together": lambda: dist.all_reduce_params([two, three], coalesce=is_first),
        "buckets": lambda: dist.all_reduce_params(
            [two, three], bucket_size_mb=1 + is_first
        ),
        "objects of": lambda: dist.scatter_object_list([1, 2], src=dist.get_rank()),
    }
    for data in (two, three):
        dist.all_reduce(data)
    begin = time.monotonic()
    found = told(calls[what])
    later = told(dist.all_reduce, two), told(dist.all_reduce, two, async_op=True)
    return found, later, time.monotonic() - begin < SOON_S


@pytest.mark.parametrize(
    "what",
    [
        *("type", "swapped", "broadcast", "gathered", "reduction", "root", "function"),
        *("objects", "way", "refused", "splits", "keys", "shapes"),
        *("together", "buckets", "objects of"),
    ],
)
def test_ranks_that_differ_raise_the_same_error_and_the_group_ends(
    checking: Pool, what: str
) -> None:
    first, second = checking.returned(differ, what, is_last=True)

    assert first == second
    (kind, message), later, is_soon = first
    assert kind == "MismatchError"
    assert message.startswith("the ranks differ in call 3 of this group:\n  rank 0  ")
    assert "\n  rank 1  " in message
    assert later == (("DistError", f"this group has ended, because {message}"),) * 2
    assert is_soon


def refuse_alike_and_go_on() -> object:
    """Call what no rank can do, then what is right, asynchronous too."""
    found = told(dist.all_reduce, tensor([1]), "mean")[0]
    data = tensor([1.0])
    dist.all_reduce(data)
    dist.all_reduce(data, async_op=True).wait()
    return [found, data.item(), dist.all_gather_object(dist.get_rank())]


def test_what_all_ranks_do_alike_goes_on(checking: Pool) -> None:
    found = checking.returned(refuse_alike_and_go_on)

    assert found == [["UnsupportedError", 4, [0, 1]]] * 2


def wait_for_the_other() -> object:
    return told(dist.barrier, timeout_s=1) if dist.get_rank() == 0 else None


def test_a_barrier_with_a_time_out_names_who_is_missing(pair: Pool) -> None:
    [kind, message], _ = pair.returned(wait_for_the_other, is_last=True)

    assert kind == "DistError"
    assert message.startswith("rank 1 did not reach call ")
    assert "within 1 s; the others call barrier with a time-out" in message


CHECKED = """
from ranktable import dist as ours
def tell(function, *given, **named):
    try:
        function(*given, **named)
    except Exception as error:
        say(type(error).__name__, str(error))
"""

LEAVING = (
    CHECKED
    + """
with ours.init_dist(backend="gloo", check=True, timeout=60) as job:
    ours.all_reduce(torch.ones(1))
    if job.rank == int(os.environ["LEAVER"]):
        1 / int(os.environ["DIVISOR"])
        sys.exit(0)
    tell(ours.all_reduce, torch.ones(1))
"""
)


@pytest.mark.parametrize("leaver", [0, 1])
@pytest.mark.parametrize(
    ("divisor", "why"), [("0", ": ZeroDivisionError: division by zero"), ("1", "")]
)
def test_a_rank_that_leaves_says_so_at_once(
    leaver: int, divisor: str, why: str
) -> None:
    begin = time.monotonic()
    env = {"LEAVER": str(leaver), "DIVISOR": divisor}
    ended = run_code(LEAVING, 2, env=env)

    said = ended[1 - leaver].out
    lost = "lost the connection to the store"  # what ends with rank 0 is the store
    assert f"rank {leaver} has left the job{why}" in said or (
        leaver == 0 and not why and lost in said
    )
    assert time.monotonic() - begin < 40


ENDING = (
    CHECKED
    + """
job = ours.init_dist(backend="gloo", check=True, timeout=60)
ours.all_reduce(torch.ones(1))
time.sleep(job.rank)
"""
)


def test_a_rank_that_ends_after_the_store_says_nothing() -> None:
    for ended in run_code(ENDING, 2):
        assert (ended.status, ended.err) == (0, "")


FORKING = (
    CHECKED
    + """
import contextlib, signal
job = ours.init_dist(backend="gloo", check=True, timeout=60)
ours.all_reduce(torch.ones(1))
child = os.fork() if job.rank == 0 else None
if child == 0:
    signal.alarm(20)
    with job if os.environ["HOW"] == "with" else contextlib.nullcontext():
        sys.exit(0)
status = 0 if child is None else os.waitpid(child, 0)[1]
ours.all_reduce(torch.ones(1))
say(status)
"""
)


@pytest.mark.parametrize("how", ["exit", "with"])
def test_a_fork_of_a_rank_ends_and_says_nothing(how: str) -> None:
    for ended in run_code(FORKING, 2, env={"HOW": how}):
        assert (ended.status, ended.out, ended.err) == (0, "[0]\n", "")


LAST_CALL = (
    CHECKED
    + """
job = ours.init_dist(backend="gloo", check=True, timeout=60)
if job.rank == 0:
    time.sleep(1.5)  # the other one looks about once a second by then
ours.barrier(timeout_s=60)
say("right")
sys.stdout.flush()
os._exit(0)  # as a process ends that was forked
"""
)


def test_a_last_barrier_is_right_though_rank_0_serves_the_store_and_ends() -> None:
    for ended in run_code(LAST_CALL, 2):
        assert (ended.status, ended.out, ended.err) == (0, '["right"]\n', "")


LEAVING_A_GROUP = (
    CHECKED
    + """
job = ours.init_dist(backend="gloo", check=True, timeout=60)
group = ours.new_group([0, 1])
if job.rank == 1:
    raise ValueError
tell(ours.all_reduce, torch.ones(1), group=group)
"""
)


def test_a_rank_that_leaves_says_so_in_each_of_its_groups() -> None:
    begin = time.monotonic()
    ended = run_code(LEAVING_A_GROUP, 2)

    assert "rank 1 has left the job: ValueError" in ended[0].out
    assert time.monotonic() - begin < 40


JOINING = (
    CHECKED
    + "tell(ours.init_dist, backend='gloo', timeout=60, **eval(os.environ['HOW']))"
)


@pytest.mark.parametrize(
    ("first", "second", "said"),
    [
        ({"HOW": "{'check': True}"}, {"HOW": "{}"}, "init_dist(check=True)"),
        (
            {"HOW": "{}", "RANKTABLE_DIST_CHECK": "first"},
            {"HOW": "{}"},
            "RANKTABLE_DIST_CHECK='first'",
        ),
        (
            {"HOW": "{}", "RANKTABLE_DIST_CHECK": "1"},
            {"HOW": "{}", "RANKTABLE_DIST_CHECK": "0"},
            "init_dist(check=True)",
        ),
    ],
)
def test_ranks_that_differ_in_checking_are_refused_when_they_join(
    first: dict[str, str], second: dict[str, str], said: str
) -> None:
    port = free_port()
    started = [
        start_code(JOINING, rank, 2, port, **env)
        for rank, env in enumerate((first, second))
    ]
    ended = finish(started)

    assert ended[0].out == ended[1].out != ""
    assert said in ended[0].out
    assert "MismatchError" in ended[0].out


def test_a_value_that_is_none_is_refused_on_all_ranks() -> None:
    env = {"HOW": "{}", "RANKTABLE_DIST_CHECK": "always"}
    ended = run_code(JOINING, 2, env=env)

    said = '["ValueError", "RANKTABLE_DIST_CHECK is \'always\', not 0 or 1"]\n'
    assert [each.out for each in ended] == [said] * 2


FILES = (
    CHECKED
    + """
store = dist.FileStore(os.environ["FILE"], 2)
rank = int(os.environ["RANK"])
dist.init_process_group("gloo", store=store, rank=rank, world_size=2)
ours.all_reduce(torch.ones(1))
tell(ours.all_reduce, torch.ones(1), "max" if rank else "sum")
"""
)


def test_any_store_will_do(tmp_path: Path) -> None:
    env = {"FILE": str(tmp_path / "store"), "RANKTABLE_DIST_CHECK": "1"}
    ended = run_code(FILES, 2, env=env)

    assert ended[0].out == ended[1].out
    assert ended[0].out.startswith('["MismatchError", "the ranks differ in call 2')


STOPPED_STORE = (
    CHECKED
    + """
import signal
job = ours.init_dist(backend="gloo", check=True, timeout=3)
ours.all_reduce(torch.ones(1))
if job.rank == 0:
    signal.raise_signal(signal.SIGSTOP)
if os.environ["HOW"] == "call":
    tell(ours.all_reduce, torch.ones(1))
"""
)


@pytest.mark.deadline
@pytest.mark.parametrize("how", ["call", "exit"])
def test_a_store_that_does_not_answer_holds_no_rank_beyond_its_time_out(
    how: str,
) -> None:
    port = free_port()
    first, second = (start_code(STOPPED_STORE, r, 2, port, HOW=how) for r in range(2))
    status = second.wait(20)
    first.end()

    assert status == 0
    (ended,) = finish([second])
    assert ("did not answer within 3 s" in ended.out) is (how == "call")


STALE = (
    CHECKED
    + """
sys.last_value = ValueError("of an earlier cell")
job = ours.init_dist(backend="gloo", check=True, timeout=30)
from ranktable.runtime.job import is_failing
say(is_failing())
if job.rank == 0:
    tell(ours.all_reduce, torch.ones(1))
"""
)


def test_an_error_from_before_the_job_is_not_why_a_rank_leaves() -> None:
    first, second = run_code(STALE, 2)

    assert second.out == "[false]\n"
    assert "rank 1 has left the job" in first.out
    assert "earlier cell" not in first.out
