"""Programs that torch alone finishes: with checks they finish too, alike.

Each runs twice, with torch's own functions and with ours.
"""

from __future__ import annotations

import gc
import time
import weakref
from threading import Thread
from typing import TYPE_CHECKING, Any

import pytest
import torch
import torch.distributed as plain
from torch.distributed.distributed_c10d import _get_default_store
from torch.utils.checkpoint import checkpoint

from ranktable import dist
from tests.rank_worker import tensor, told
from tests.ranks import Pool, finish, free_port, start_rank

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from torch._C._distributed_c10d import Store

pytestmark = pytest.mark.torch

LATE_S = 1.6
"""Longer than anything that looks around waits."""

WHOSE = {"torch": plain, "ours": dist}


def numbers(data: torch.Tensor | None) -> list[float]:
    assert data is not None
    return [float(each) for each in data.detach().cpu()]


def groups(count: int) -> list[Any]:
    return [plain.new_group([0, 1]) for _ in range(count)]


def two_threads(whose: str) -> list[float]:
    """Reduce in the world group, and in a group of a thread that saves checkpoints."""
    of = WHOSE[whose]
    [saving] = groups(1)
    first, second = torch.ones(1), torch.ones(2)

    def save() -> None:
        time.sleep(LATE_S if plain.get_rank() == 0 else 0)
        of.all_reduce(second, group=saving)

    thread = Thread(target=save)
    thread.start()
    time.sleep(LATE_S if plain.get_rank() == 1 else 0)
    of.all_reduce(first)
    thread.join()
    return [first.item(), second.sum().item()]


def opposite_orders(whose: str) -> list[float]:
    """Begin in one group without waiting, then call in another; the peer vice versa."""
    of = WHOSE[whose]
    both = groups(2)
    order = both if plain.get_rank() == 0 else both[::-1]
    begun, waited = torch.ones(3), torch.ones(3)
    work = of.all_reduce(begun, group=order[0], async_op=True)
    time.sleep(LATE_S)
    of.all_reduce(waited, group=order[1])
    work.wait()
    return [begun.sum().item(), waited.sum().item()]


def begin_then_send(whose: str) -> list[float]:
    """Begin on one rank and send before waiting; the other waits, then receives."""
    of = WHOSE[whose]
    found = []
    for size in (4, 4, 5):
        reduced, sent = torch.ones(size), torch.ones(1 << 20)
        if plain.get_rank() == 0:
            work = of.all_reduce(reduced, async_op=True)
            of.send(sent, dst=1)
            work.wait()
        else:
            of.all_reduce(reduced)
            of.recv(sent.zero_(), src=0)
        found += [reduced.sum().item(), sent[-1].item()]
    return found


def wait_on_one_rank_only(whose: str) -> list[float]:
    """Begin what is new, and let only one rank wait before the next call of it."""
    of = WHOSE[whose]
    first, second = torch.ones(6), torch.ones(6)
    work = of.all_reduce(first, async_op=True)
    if plain.get_rank() == 0:
        work.wait()
    of.all_reduce(second)
    work.wait()
    return [first.sum().item(), second.sum().item()]


def begin_two_then_send(whose: str) -> list[float]:
    """Begin two new ones and send; the other needs that before it begins."""
    of = WHOSE[whose]
    first, second, sent = torch.ones(7), torch.ones(8), torch.ones(1)
    if plain.get_rank() == 1:
        of.recv(sent.zero_(), src=0)
    works = [of.all_reduce(each, async_op=True) for each in (first, second)]
    if plain.get_rank() == 0:
        of.send(sent, dst=1)
    for work in reversed(works):
        work.wait()
    return [first.sum().item(), second.sum().item(), sent.item()]


def gather_then_send(whose: str) -> list[float]:
    """Begin to gather and send; the other waits for what is gathered, then receives."""
    of = WHOSE[whose]
    own, sent = torch.full((2,), 1.0 + plain.get_rank()), torch.ones(1 << 20)
    parts = [torch.empty(2), torch.empty(2)]
    if whose == "torch":
        work = of.all_gather(parts, own, async_op=True)
    else:
        work = of.all_gather(own, async_op=True)
    if plain.get_rank() == 0:
        of.send(sent, dst=1)
        found = work.wait()
    else:
        found = work.wait()
        of.recv(sent.zero_(), src=0)
    found = parts if whose == "torch" else found
    return [each.sum().item() for each in found] + [sent[-1].item()]


@pytest.mark.parametrize("whose", WHOSE)
@pytest.mark.parametrize(
    ("program", "expected"),
    [
        (two_threads, [2, 4]),
        (opposite_orders, [6, 6]),
        (begin_then_send, [8, 1, 8, 1, 10, 1]),
        (wait_on_one_rank_only, [12, 12]),
        (begin_two_then_send, [14, 16, 1]),
        (gather_then_send, [2, 4, 1]),
    ],
    ids=lambda each: getattr(each, "__name__", None),
)
def test_what_torch_finishes_is_finished(
    fresh: Pool, program: Callable[[str], object], expected: list[float], whose: str
) -> None:
    assert fresh.returned(program, whose, timeout_s=40) == [expected] * 2


def reduce_in_hooks(whose: str) -> list[list[float]]:
    """Reduce gradients while the backward pass goes on."""
    of, works = WHOSE[whose], list[Any]()
    weights = [torch.nn.Parameter(tensor([1.0, 2.0])) for _ in range(3)]

    def reduce(weight: torch.Tensor) -> None:
        works.append(of.all_reduce(weight.grad, async_op=True))

    for weight in weights:
        weight.register_post_accumulate_grad_hook(reduce)  # type: ignore[no-untyped-call]
    product = weights[0] * weights[1] * weights[2]
    loss = (product * (1 + plain.get_rank())).sum()
    loss.backward()  # type: ignore[no-untyped-call]
    for work in works:
        work.wait()
    return [numbers(weight.grad) for weight in weights]


def reduce_in_a_layer_that_is_computed_again(whose: str) -> list[float]:
    """Reduce in a forward, in the same forward again, and in its backward."""
    of = WHOSE[whose]

    class Summed(torch.autograd.Function):
        @staticmethod
        def forward(_context: object, data: torch.Tensor) -> torch.Tensor:
            summed = data.clone()
            of.all_reduce(summed)
            return summed

        @staticmethod
        def backward(_context: object, *gradients: torch.Tensor) -> torch.Tensor:
            summed = gradients[0].clone()
            of.all_reduce(summed)
            return summed

    def layer(data: torch.Tensor) -> Any:
        return Summed.apply(data * data) * data  # type: ignore[no-untyped-call]

    data = tensor([1.0 + plain.get_rank()]).requires_grad_()
    checkpoint(layer, data, use_reentrant=False).sum().backward()
    return numbers(data.grad)


def reduce_halves_of_one_tensor(whose: str) -> list[float]:
    """Begin both halves, and change each as soon as it was waited for."""
    of, whole = WHOSE[whose], tensor([1.0, 2.0, 3.0, 4.0])
    first = of.all_reduce(whole[:2], async_op=True)
    second = of.all_reduce(whole[2:], async_op=True)
    second.wait()
    whole[2:] *= 2
    first.wait()
    whole[:2] += 1
    return numbers(whole)


def reduce_a_parameter_itself(whose: str) -> list[float]:
    """Write to a leaf that requires a gradient, and use it in a backward pass."""
    of, weight = WHOSE[whose], torch.nn.Parameter(tensor([1.0]))
    with torch.no_grad():
        of.all_reduce(weight)
        of.broadcast(weight, 1)
        weight.add_(1)
    (weight * weight).sum().backward()  # type: ignore[no-untyped-call]
    return numbers(weight) + numbers(weight.grad)


def mix_with_torch_in_one_group(whose: str) -> list[float]:
    of, several = WHOSE[whose], [tensor([float(each)]) for each in range(1, 4)]
    works = [plain.all_reduce(several[0], async_op=True)]
    works.append(of.all_reduce(several[1], async_op=True))
    plain.all_reduce(several[2])
    for work in reversed(works):
        work.wait()
    return [each.item() for each in several]


def begin_new_shapes_before_calls_of_torch(whose: str) -> bool:
    of, wrong = WHOSE[whose], 0
    for size in range(1, 200):
        ours, theirs = tensor([1.0] * size), tensor([10.0] * size)
        work = of.all_reduce(ours, async_op=True)
        plain.all_reduce(theirs)
        work.wait()
        wrong += numbers(ours) + numbers(theirs) != [2.0] * size + [20.0] * size
    return wrong == 0


def send_objects_beside_a_default_device(whose: str) -> list[object]:
    """Send objects while new tensors are made without memory, as large models are."""
    rank, found = plain.get_rank(), list[object]([None, None])
    with torch.device("meta"):
        if whose == "torch":
            plain.all_gather_object(found, rank)
        else:
            found = dist.all_gather_object(rank)
        listed = [rank]
        WHOSE[whose].broadcast_object_list(listed, 1)
    return [found, listed]


TRAINING: dict[Callable[[str], object], object] = {
    reduce_in_hooks: [[[3.0, 12.0]] * 3] * 2,
    reduce_in_a_layer_that_is_computed_again: [[11.0], [17.0]],
    reduce_halves_of_one_tensor: [[3.0, 5.0, 12.0, 16.0]] * 2,
    reduce_a_parameter_itself: [[3.0, 6.0]] * 2,
    mix_with_torch_in_one_group: [[2.0, 4.0, 6.0]] * 2,
    begin_new_shapes_before_calls_of_torch: [True] * 2,
    send_objects_beside_a_default_device: [[[0, 1], [1]]] * 2,
}
"""What training scripts do, and what both ranks get."""


def test_torch_alone_does_what_training_scripts_do(fresh: Pool) -> None:
    for program, expected in TRAINING.items():
        assert fresh.returned(program, "torch") == expected


@pytest.mark.parametrize("program", TRAINING, ids=lambda each: each.__name__)
def test_what_training_scripts_do_gives_the_same(
    pair: Pool, program: Callable[[str], object]
) -> None:
    assert pair.returned(program, "ours") == TRAINING[program]


LEAVING = """
import torch
from ranktable import dist
job = dist.init_dist(backend="gloo")
if job.rank == 0:
    dist.all_reduce(torch.ones(3), async_op=True)
print("ended", flush=True)
"""


def test_script_ends_although_its_transfers_never_end(tmp_path: Path) -> None:
    script = tmp_path / "leave.py"
    script.write_text(LEAVING)
    port = free_port()
    ended = finish(
        [start_rank(rank, 2, port, script, LOCAL_RANK=str(rank)) for rank in range(2)]
    )

    assert [rank.status for rank in ended] == [0, 0], ended
    assert [rank.out for rank in ended] == ["ended\n"] * 2


def another_shape(whose: str, what: str) -> object:
    """Call twice from one line, the second time with another size on one rank."""
    of = WHOSE[whose]
    rank = plain.get_rank()
    for sizes in ((4, 4), (4, 8)):
        data = torch.full((sizes[rank],), float(rank))
        named: dict[str, object] = {"even": True} if what == "all_gather" else {}
        if what == "broadcast":
            named["src"] = 0
        found = told(getattr(of, what), data, **named)
    return [found, data.tolist()]


@pytest.mark.parametrize("what", ["broadcast", "all_reduce", "all_gather"])
def test_another_shape_from_the_same_line_is_told_and_changes_nothing(
    fresh: Pool, what: str
) -> None:
    first, second = fresh.returned(another_shape, "ours", what, is_last=True)

    (kind, said), values = second
    assert kind == "MismatchError" or "did not reach" in said
    assert values == [1.0] * 8
    if what != "broadcast":  # the source of a broadcast may have gone on
        assert first[0][0] == "MismatchError"
        assert "of shape (8,)" in first[0][1]


def another_type_at_first(what: str) -> object:
    """Begin without waiting, for the first time, with another type on one rank."""
    data = torch.ones(4, dtype=(torch.float32, torch.int32)[plain.get_rank()])
    named: dict[str, object] = {"even": True} if what == "all_gather" else {}
    work = getattr(dist, what)(data, async_op=True, **named)
    return [told(work.wait), told(dist.all_reduce, torch.ones(3))]


@pytest.mark.parametrize("what", ["broadcast", "all_reduce", "all_gather"])
def test_what_begins_with_another_type_is_told_and_ends_the_group(
    fresh: Pool, what: str
) -> None:
    for (kind, said), (_, again) in fresh.returned(
        another_type_at_first, what, is_last=True
    ):
        assert kind == "MismatchError"
        assert "(4,) float32" in said
        assert "(4,) int32" in said
        assert "(4,) int32" in again


def begin_before_others_come() -> list[bool]:
    """Return whether uneven collectives return at once while a peer is late."""
    own = torch.ones(1 + plain.get_rank())
    late: list[bool] = []
    for call in (dist.all_gather, dist.gather, dist.shift, dist.all_gather):
        plain.barrier()
        if plain.get_rank() == 1:
            time.sleep(1)
        begin = time.monotonic()
        work = call(own, async_op=True)
        late.append(time.monotonic() - begin > 0.6)
        work.wait()
    return late


@pytest.mark.deadline
def test_an_asynchronous_call_waits_for_no_shapes(fresh: Pool) -> None:
    assert fresh.returned(begin_before_others_come) == [[False] * 4] * 2


def test_torch_alone_leaves_half_of_a_broadcast(fresh: Pool) -> None:
    _, (found, values) = fresh.returned(
        another_shape, "torch", "broadcast", is_last=True
    )

    assert found == ("", "")
    assert values == [0.0] * 4 + [1.0] * 4


def ask_whether_it_is_written() -> object:
    """Look at the values as soon as the work says that it is done."""
    found = []
    for op in ("mean", "max"):
        for dtype in (torch.float32, torch.bfloat16):
            data = torch.full((1000,), 1.0 + plain.get_rank(), dtype=dtype)
            work = dist.all_reduce(data, op, async_op=True)
            while not work.is_completed():
                time.sleep(0.001)
            found.append(data[-1].item())
    return found


def test_work_is_completed_once_values_are_written(fresh: Pool) -> None:
    assert fresh.returned(ask_whether_it_is_written) == [[1.5, 1.5, 2.0, 2.0]] * 2


def keys_left(store: Any, before: int) -> int:
    """Return how many keys are left beyond those before, given time to go."""
    end = time.monotonic() + 10
    left: int = store.num_keys() - before
    while left > 0 and time.monotonic() < end:
        time.sleep(0.05)
        left = store.num_keys() - before
    return left


def leave_keys(steps: int) -> object:
    """Return how many keys collectives leave, slow on all ranks or on one."""
    dist.all_reduce(torch.ones(1))
    plain.barrier()
    store = _get_default_store()
    before = store.num_keys()
    for step in range(steps):
        data = torch.ones(step % 3 + 2)
        work = dist.all_reduce(data, async_op=True)
        if plain.get_rank() == step % 2:
            time.sleep(0.4)
        work.wait()
    plain.barrier()
    return keys_left(store, before)


def test_collectives_leave_no_keys(fresh: Pool) -> None:
    assert fresh.returned(leave_keys, 6)[0] <= 0


def settled_keys(store: Store) -> int:
    """Return the number of keys when it has stayed the same for a moment."""
    found: int = store.num_keys()
    for _ in range(20):
        time.sleep(0.3)
        before, found = found, store.num_keys()
        if found == before:
            break
    return found


def drop_begun(shapes: int) -> tuple[bool, int]:
    """Return whether there were keys, and how many are left."""
    store = _get_default_store()
    dist.all_reduce(torch.ones(1).to("tpu"))
    dist.barrier()
    before = settled_keys(store)
    dist.barrier()
    most = 0
    for step in range(shapes):
        dist.all_reduce(torch.ones(step + 2).to("tpu"), async_op=True)
        # The keys of earlier ones may be cleared away meanwhile.
        most = max(most, store.num_keys() - before)
    dist.barrier()
    time.sleep(0.6)
    for _ in range(2):
        dist.all_reduce(torch.ones(1).to("tpu"))
    dist.barrier()
    return most > 0, keys_left(store, before)


def test_what_begins_on_a_chip_and_is_not_waited_for_leaves_no_keys() -> None:
    chips = Pool("sccl", 2)

    for has_begun, left in chips.returned(drop_begun, 60, is_last=True):
        assert has_begun
        assert left <= 0  # what ran before may be cleared away in between


def refuse_then_go_on() -> object:
    """Let a call on chips fail at its start, and go on with right ones."""
    dist.all_reduce(torch.ones(1).to("tpu"))
    data = torch.ones(3 + plain.get_rank()).to("tpu")
    with pytest.raises(dist.DistError):
        dist.all_reduce(data, async_op=True)
    for _ in range(3):
        time.sleep(0.4)
        dist.all_reduce(torch.ones(2).to("tpu"))
    return True


def test_what_was_refused_at_its_start_is_not_told_again() -> None:
    assert Pool("sccl", 2).returned(refuse_then_go_on, is_last=True) == [True] * 2


def drop_sent(count: int) -> int:
    """Send without waiting, and return how many of the tensors are kept."""
    sent = []
    for value in range(count):
        if plain.get_rank() == 0:
            data = torch.full((1000,), float(value))
            sent.append(weakref.ref(data))
            dist.isend(data, dst=1)
            del data
        else:
            data = torch.zeros(1000)
            dist.recv(data, src=0)
            assert data[-1] == value
    gc.collect()
    return sum(each() is not None for each in sent)


def test_what_was_sent_is_released_without_waiting(fresh: Pool) -> None:
    kept, _ = fresh.returned(drop_sent, 500)

    assert kept <= 20


def make_groups_in_another_order() -> object:
    begin = time.monotonic()
    orders = [[0, 1], [0]] if plain.get_rank() == 0 else [[0], [0, 1]]
    for ranks in orders:
        found = told(dist.new_group, ranks, timeout_s=5)
        if found[0]:
            break
    return [*found, time.monotonic() - begin < 3]


@pytest.mark.deadline
def test_groups_made_in_another_order_are_told_at_once(fresh: Pool) -> None:
    first, second = fresh.returned(make_groups_in_another_order, is_last=True)

    assert (first[0], first[2]) == ("BootstrapError", True)
    assert first == second
    assert (
        "RT405 rank 1 asks for the group of rank 0 with timeout_s 5, rank 0 for"
        in first[1]
    )
