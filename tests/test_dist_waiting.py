"""Ranks that wait: for one that is late, for each other, for what never comes."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

import pytest
import torch

from ranktable import dist
from ranktable.dist.calls import _LOOK
from tests.rank_worker import SOON_S, group_of, tensor, told

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.ranks import Pool

pytestmark = pytest.mark.torch


def shift_late() -> list[object]:
    """Shift where one rank comes late, and go on."""
    found = []
    for late_s in (0.0, 1.0):
        if dist.get_rank() == 1:
            time.sleep(late_s)
        found.append(dist.shift(tensor([float(dist.get_rank())]), even=True).tolist())
    data = tensor([1.0])
    dist.all_reduce(data)
    return [*found, data.item()]


def test_shift_waits_for_a_late_rank(ranks: Pool) -> None:
    found = ranks.returned(shift_late)

    size = ranks.world_size
    for rank, answer in enumerate(found):
        before = [float((rank - 1) % size)]
        assert answer == [before, before, float(size)]


def reduce_by_either_way() -> list[object]:
    """Reduce what needs no preparation on some ranks only."""
    found: list[object] = []
    for turn in range(3):
        for op in ("sum", "mean", "max"):
            value = float(dist.get_rank() + turn)
            data = tensor([value, 7.0, value, 7.0])[::2]
            if dist.get_rank() != 1:
                data = data.clone()
            if dist.get_rank() == 0 and turn == 1:
                dist.all_reduce(data, op, async_op=True).wait()
            else:
                dist.all_reduce(data, op)
            found.append(data.tolist())
    return found


@pytest.mark.parametrize("mode", ["off", "first", "always"])
def test_ranks_may_take_the_short_way_and_the_long_one(ranks: Pool, mode: str) -> None:
    found = ranks.returned(reduce_by_either_way, env={"RANKTABLE_DIST_CHECK": mode})

    size = ranks.world_size
    expected = []
    for turn in range(3):
        total = float(sum(rank + turn for rank in range(size)))
        values = [total, total / size, float(size - 1 + turn)]
        expected += [[value, value] for value in values]
    assert found == [expected] * size


def reduce_from_two_places() -> object:
    """Begin from a seen place on one rank, from a new one elsewhere; wait later."""

    def seen(data: torch.Tensor) -> dist.Work[torch.Tensor]:
        return dist.all_reduce(data, async_op=True)

    seen(tensor([0.0])).wait()
    data = tensor([1.0])
    begin = time.monotonic()
    is_seen = dist.get_rank() == 0
    work = seen(data) if is_seen else dist.all_reduce(data, async_op=True)
    dist.barrier()
    return [work.wait().item(), time.monotonic() - begin < SOON_S]


def test_rank_with_an_asynchronous_call_is_not_reported_as_missing(ranks: Pool) -> None:
    found = ranks.returned(reduce_from_two_places)

    assert found == [[float(ranks.world_size), True]] * ranks.world_size


def take_turns_at_two_places() -> object:
    """Send from a place of its own, as scripts do, and say how long it took."""
    begin = time.monotonic()
    for src in range(dist.get_world_size()):
        if dist.get_rank() == src:
            dist.broadcast(tensor([1.0]), src)
        else:
            dist.broadcast(tensor([0.0]), src)
    return time.monotonic() - begin


@pytest.mark.deadline
def test_source_locations_of_other_ranks_count_as_compared(trio: Pool) -> None:
    trio.returned(take_turns_at_two_places)
    found = trio.returned(take_turns_at_two_places)

    assert max(found) < _LOOK.total_seconds()  # nobody had to look around


def ask_early() -> object:
    """Ask whether a composed collective has ended before the others have begun."""
    parts = [tensor([1.0])] * dist.get_world_size()
    for late_s in (0.0, 0.5):  # the first time ranks compare, and begin together
        dist.barrier()
        if dist.get_rank() > 0:
            time.sleep(late_s)
        work = dist.reduce_scatter(parts, async_op=True)
        is_early = work.is_completed()
        found = [is_early, work.wait().item(), work.is_completed()]
    return found


def test_composed_collective_does_not_end_before_the_others_begin(
    gloo: Pool,
) -> None:
    found = gloo.returned(ask_early)

    assert found[0] == [False, 3.0, True]


TURNS: Final = 24


def come_when_others_look() -> list[float]:
    """Come to a collective just when those who wait look around."""
    found = []
    data = tensor([0.0])
    for turn in range(TURNS):
        dist.barrier()
        if dist.get_rank() > 0:
            time.sleep(_LOOK.total_seconds() + 0.0001 * (turn - TURNS))
        data.fill_(1.0)
        found.append(dist.all_reduce(data, async_op=True).wait().item())
    return found


def test_rank_that_arrives_during_a_poll_is_not_late(gloo: Pool) -> None:
    assert gloo.returned(come_when_others_look) == [[3.0] * TURNS] * 3


def tie() -> list[object]:
    """Reduce one memory under two names, together and alone."""
    answers: list[object] = []
    for coalesce in (True, False):
        data = tensor([1.0, 2.0])
        same = [data.detach(), data.detach()]
        dist.all_reduce_params(same, coalesce=coalesce)
        answers.append(data.tolist())
    return answers


def test_tied_parameters_are_reduced_once_by_whatever_name(ranks: Pool) -> None:
    found = ranks.returned(tie)

    size = float(ranks.world_size)
    assert found == [[[size, 2 * size]] * 2] * ranks.world_size


def coalesce_on_one() -> object:
    data = [tensor([1.0]), tensor([2.0])]
    return told(dist.all_reduce_params, data, coalesce=dist.get_rank() == 0)


def add_other_names() -> object:
    """Reduce other names than the other rank, after names that were the same."""
    dist.all_reduce_dict({"a": tensor([1.0]), "d": tensor([1.0])})
    name = "b" if dist.get_rank() == 0 else "c"
    return told(dist.all_reduce_dict, {"a": tensor([1.0]), name: tensor([1.0])})


def meet_in_two_ways() -> object:
    timeout_s = 5.0 if dist.get_rank() == 0 else None
    return told(dist.barrier, timeout_s=timeout_s)


@pytest.mark.parametrize(
    "call",
    [coalesce_on_one, add_other_names, meet_in_two_ways],
    ids=lambda f: f.__name__,
)
def test_every_part_of_a_call_is_compared(
    pair: Pool, call: Callable[[], object]
) -> None:
    first, second = pair.returned(call)

    assert first == second
    assert first[0] == "MismatchError"


def change_the_type() -> object:
    """Call from one place, the second time with other types."""
    dtypes = [torch.float32, torch.float32, torch.float64]
    for turn in range(2):
        dtype = dtypes[dist.get_rank() + turn]
        found = told(dist.all_reduce, torch.ones(2, dtype=dtype).to("cpu"))
    return found


@pytest.mark.parametrize("backend", ["gloo"])
def test_another_dtype_at_a_known_location_is_reported_to_all_ranks(
    pair: Pool, backend: str
) -> None:
    if pair.backend != backend:
        pytest.skip("only gloo lets a rank look around while it waits")
    first, second = pair.returned(change_the_type, is_last=True)

    assert first == second
    assert first[0] == "MismatchError"


def write_where_nothing_can_be() -> list[object]:
    with torch.inference_mode():
        frozen = torch.ones(2)
    return [told(dist.all_reduce, frozen, "mean"), told(dist.barrier, timeout_s="5")]


def test_what_cannot_be_done_is_refused_before_it_begins(pair: Pool) -> None:
    for inference, time_out in pair.returned(write_where_nothing_can_be):
        assert inference[0] == "UnsupportedError"
        assert "inference mode" in inference[1]
        assert time_out[0] == "ValueError"


def give_up() -> list[object]:
    """Go different ways at seen places, then try again."""
    data = tensor([1.0])

    def reduce() -> None:
        dist.all_reduce(data)

    def send() -> None:
        dist.broadcast(data)

    reduce()
    send()
    first = told(reduce if dist.get_rank() == 0 else send)
    return [first, told(reduce)]


def test_group_whose_ranks_differed_is_unusable(pair: Pool) -> None:
    if pair.backend != "gloo":
        pytest.skip("only gloo lets a rank look around while it waits")
    found = pair.returned(give_up, is_last=True)

    for first, again in found:
        assert first == found[0][0]
        assert first[0] == "MismatchError"
        assert again[0] == "DistError"
        assert "cannot be used any more" in again[1]


def unpickle() -> object:
    return told(dist.all_gather_object, Broken())


class Broken:
    """What can be pickled, and not unpickled."""

    def __reduce__(self) -> tuple[object, ...]:
        return int, ("no number",)


def test_what_cannot_be_unpickled_names_the_rank_it_came_from(pair: Pool) -> None:
    for kind, said in pair.returned(unpickle):
        assert kind == "DistError"
        assert said.startswith("the object of rank 0 cannot be unpickled here: ")


def test_groups_have_the_time_out_of_the_job(pair: Pool) -> None:
    found = pair.returned(time_out_of_a_group)

    assert found == [[20.0, 20.0]] * 2 if pair.backend == "gloo" else found


def time_out_of_a_group() -> list[float]:
    from ranktable.dist.group_state import group_state

    groups = [None, group_of(0, 1)]
    members = [group_state(group) for group in groups]
    return [each.timeout.total_seconds() for each in members]
