"""The examples of other libraries' documentation, with the results that they print.

Those of ScaleTorch's ``dist``, of a notebook on NCCL's operations and of one on torch's
communication: written for two ranks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch
from torch import nn

from ranktable import dist
from tests.rank_worker import device, group_of, tensor

if TYPE_CHECKING:
    from tests.ranks import Pool

pytestmark = pytest.mark.torch


def pick(values: list[object]) -> torch.Tensor:
    """Return the tensor that an example gives this rank."""
    return tensor(values[dist.get_rank()])


def listed(tensors: list[torch.Tensor]) -> list[object]:
    return [each.tolist() for each in tensors]


def reduce_as_the_interface_says() -> object:
    data = pick([[1, 2], [3, 4]])
    dist.all_reduce(data, op="sum")
    return data.tolist()


def test_all_reduce(pair: Pool) -> None:
    assert pair.returned(reduce_as_the_interface_says) == [[4, 6]] * 2


def reduce_as_the_tutorial_says() -> object:
    total = tensor([1.0, 2.0, 3.0])
    dist.all_reduce(total, op="sum")
    mean = tensor([1.0, 2.0, 3.0])
    dist.all_reduce(mean, op="mean")
    return [total.tolist(), mean.tolist()]


def test_all_reduce_of_equal_tensors(pair: Pool) -> None:
    assert pair.returned(reduce_as_the_tutorial_says) == [[[2, 4, 6], [1, 2, 3]]] * 2


def gather_as_the_interface_says() -> object:
    data = pick([[1, 2], [3, 4]])
    return [listed(dist.all_gather(data)), listed(dist.gather(data, dst=0))]


def test_all_gather_and_gather(pair: Pool) -> None:
    both = [[1, 2], [3, 4]]
    assert pair.returned(gather_as_the_interface_says) == [[both, both], [both, []]]


def gather_as_the_tutorial_says() -> object:
    data = tensor([dist.get_rank() * 10 + i for i in range(3)])
    return [listed(dist.all_gather(data)), listed(dist.gather(data, dst=0))]


def test_all_gather_and_gather_of_any_world(ranks: Pool) -> None:
    found = ranks.returned(gather_as_the_tutorial_says)

    everything = [[r * 10, r * 10 + 1, r * 10 + 2] for r in range(ranks.world_size)]
    others = [[everything, []]] * (ranks.world_size - 1)
    assert found == [[everything, everything], *others]


def broadcast_as_both_say() -> object:
    data = pick([[1, 2], [0, 0]])
    dist.broadcast(data, src=0)
    longer = pick([[1.0, 2.0, 3.0, 4.0], [0.0] * 4])
    dist.broadcast(longer, src=0)
    return [data.tolist(), longer.tolist()]


def test_broadcast(pair: Pool) -> None:
    assert pair.returned(broadcast_as_both_say) == [[[1, 2], [1, 2, 3, 4]]] * 2


def exchange_as_both_say() -> object:
    data = torch.arange(4, dtype=torch.int64).to(device()) + dist.get_rank() * 4
    return dist.all_to_all(data).tolist()


def test_all_to_all(pair: Pool) -> None:
    assert pair.returned(exchange_as_both_say) == [[0, 1, 4, 5], [2, 3, 6, 7]]


def draw_a_seed() -> int:
    return dist.sync_random_seed()


def test_sync_random_seed(ranks: Pool) -> None:
    found = ranks.returned(draw_a_seed)

    assert len(set(found)) == 1
    assert 0 <= found[0] < 2**31


def broadcast_objects() -> object:
    is_first = dist.get_rank() == 0
    first: list[object] = ["foo", 12, {1: 2}] if is_first else [None] * 3
    dist.broadcast_object_list(first, src=0)
    second: list[object] = [{"loss": 0.5}, ["accuracy", 0.95], 100]
    second = second if is_first else [None] * 3
    dist.broadcast_object_list(second, src=0)
    return [first, second]


def test_broadcast_object_list(ranks: Pool) -> None:
    found = ranks.returned(broadcast_objects)

    expected = [["foo", 12, {1: 2}], [{"loss": 0.5}, ["accuracy", 0.95], 100]]
    assert found == [expected] * ranks.world_size


def reduce_a_dictionary() -> object:
    data = [{"loss": 0.5, "acc": 0.8}, {"loss": 0.3, "acc": 0.9}][dist.get_rank()]
    tensors = {name: tensor(value) for name, value in data.items()}
    dist.all_reduce_dict(tensors, op="sum")
    return [str(each.cpu()) for each in tensors.values()]


def test_all_reduce_dict(pair: Pool) -> None:
    expected = ["tensor(0.8000)", "tensor(1.7000)"]
    assert pair.returned(reduce_a_dictionary) == [expected] * 2


def gather_objects() -> object:
    rank = dist.get_rank()
    return [
        dist.all_gather_object([{"a": 1}, {"b": 2}][rank]),
        dist.all_gather_object({"rank": rank, "value": rank * 10}),
        dist.gather_object(f"data{rank}", dst=0),
    ]


def test_all_gather_object_and_gather_object(pair: Pool) -> None:
    found = pair.returned(gather_objects)

    ranked = [{"rank": 0, "value": 0}, {"rank": 1, "value": 10}]
    both = [[{"a": 1}, {"b": 2}], ranked]
    assert found == [[*both, ["data0", "data1"]], [*both, None]]


def collect() -> object:
    results = [["res0_1", "res0_2"], ["res1_1", "res1_2"]][dist.get_rank()]
    return dist.collect_results(results, size=4, device="cpu")


def test_collect_results(pair: Pool) -> None:
    expected = ["res0_1", "res1_1", "res0_2", "res1_2"]
    assert pair.returned(collect) == [expected, None]


def collect_twelve() -> object:
    results = [f"result_{dist.get_rank()}_{i}" for i in range(3)]
    return dist.collect_results(results, size=12, device="cpu")


def test_collect_results_of_four(quartet: Pool) -> None:
    found = quartet.returned(collect_twelve)

    expected = [f"result_{rank}_{i}" for i in range(3) for rank in range(4)]
    assert found == [expected, None, None, None]


def reduce_parameters() -> object:
    params = [[[1, 2], [3, 4]], [[2, 3], [4, 5]]][dist.get_rank()]
    tensors = [tensor(each) for each in params]
    dist.all_reduce_params(tensors, op="sum")
    return listed(tensors)


def test_all_reduce_params(pair: Pool) -> None:
    assert pair.returned(reduce_parameters) == [[[3, 5], [7, 9]]] * 2


def average_a_model() -> object:
    model = nn.Linear(10, 5)
    with torch.no_grad():
        model.weight.fill_(dist.get_rank())
        model.bias.fill_(2 * dist.get_rank())
    model = model.to(device())
    dist.all_reduce_params(model.parameters(), op="mean")
    return [sorted(set(each.flatten().tolist())) for each in model.parameters()]


def test_all_reduce_params_of_a_model(pair: Pool) -> None:
    assert pair.returned(average_a_model) == [[[0.5], [1.0]]] * 2


def scatter_ones_and_fives() -> object:
    size = dist.get_world_size()
    parts = [torch.ones(size).to(device()), (torch.ones(size) * 5).to(device())]
    return dist.scatter(parts if dist.get_rank() == 0 else None, src=0).tolist()


def test_scatter(pair: Pool) -> None:
    assert pair.returned(scatter_ones_and_fives) == [[1, 1], [5, 5]]


def gather_odd_numbers() -> object:
    data = tensor([dist.get_rank() * 2 + 1], torch.float32)
    gathered = listed(dist.gather(data, dst=0))
    dist.reduce(data, op="sum", dst=0)
    return [gathered, data.tolist()]


def test_gather_and_reduce(pair: Pool) -> None:
    found = pair.returned(gather_odd_numbers)

    assert found == [[[[1], [3]], [4]], [[], [3]]]


def broadcast_the_world_size() -> object:
    is_first = dist.get_rank() == 0
    data = tensor(dist.get_world_size() if is_first else 0)
    dist.broadcast(data, src=0)
    return data.tolist()


def test_broadcast_of_no_dimensions(pair: Pool) -> None:
    assert pair.returned(broadcast_the_world_size) == [2, 2]


def reduce_two_floats() -> object:
    data = pick([[1.0, 2.0], [2.0, 3.0]])
    dist.all_reduce(data)
    return data.tolist()


def test_all_reduce_of_floats(pair: Pool) -> None:
    assert pair.returned(reduce_two_floats) == [[3, 5]] * 2


def gather_and_reduce_numbers() -> object:
    rank = dist.get_rank()
    gathered = listed(dist.all_gather(tensor(rank)))
    parts = [tensor(rank * 2 + 1), tensor(rank * 2 + 2)]
    return [gathered, dist.reduce_scatter(parts, op="sum").tolist()]


def test_all_gather_and_reduce_scatter_of_no_dimensions(pair: Pool) -> None:
    assert pair.returned(gather_and_reduce_numbers) == [[[0, 1], 4], [[0, 1], 6]]


def send_one() -> object:
    data = torch.zeros(1).to(device())
    if dist.get_rank() == 0:
        data += 1
        dist.send(data, dst=1)
    else:
        dist.recv(data, src=0)
    return data.tolist()


def test_send_and_recv(pair: Pool) -> None:
    assert pair.returned(send_one) == [[1], [1]]


def reduce_in_a_group() -> object:
    group = group_of(0, 1)
    data = pick([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    dist.all_reduce(data, op="sum", group=group)
    return data.tolist()


def test_all_reduce_in_a_group(pair: Pool) -> None:
    assert pair.returned(reduce_in_a_group) == [[5, 7, 9]] * 2


def ask_who_i_am() -> object:
    rank, world_size = dist.get_dist_info()
    dist.barrier()
    local = dist.get_local_rank(), dist.get_local_size()
    found = dist.is_distributed(), dist.is_main_process(), dist.get_backend()
    return [rank, world_size, *local, *found, dist.master_only(lambda: "called")()]


def test_ranks_know_who_they_are(pair: Pool) -> None:
    name = pair.backend
    assert pair.returned(ask_who_i_am) == [
        [0, 2, 0, 2, True, True, name, "called"],
        [1, 2, 1, 2, True, False, name, None],
    ]
