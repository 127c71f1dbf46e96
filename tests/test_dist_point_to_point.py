"""From one rank to one other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch

from ranktable import dist
from tests.rank_worker import device, tensor, told

if TYPE_CHECKING:
    from tests.ranks import Pool

pytestmark = pytest.mark.torch


def send_columns() -> object:
    rank = dist.get_rank()
    wide = (torch.arange(6.0).view(3, 2) * (1 - rank)).to(device())
    odd = torch.tensor([7 - rank], dtype=torch.int16).to(device())
    empty = torch.empty(0, 2).to(device())
    if rank == 0:
        dist.send(wide[:, 1], dst=1)
        dist.send(odd, dst=1, tag=3)
        dist.send(empty, dst=1)
    elif rank == 1:
        dist.recv(wide[:, 1], src=0)
        dist.recv(odd, src=0, tag=3)
        dist.recv(empty, src=0)
    return [wide.tolist(), odd.item()]


def test_tensors_with_gaps_are_sent_and_received(pair: Pool) -> None:
    first, second = pair.returned(send_columns)

    assert first == [[[0, 1], [2, 3], [4, 5]], 7]
    assert second == [[[0, 1], [0, 3], [0, 5]], 7]


def exchange_with_neighbours() -> object:
    rank, size = dist.get_rank(), dist.get_world_size()
    after, before = (rank + 1) % size, (rank - 1) % size
    sent = tensor([rank, rank])
    received = torch.zeros(2, 2, dtype=torch.int64).to(device())
    ops = [
        dist.P2POp("isend", sent, after),
        dist.P2POp("irecv", received[:, 0], before),
    ]
    works = dist.batch_isend_irecv(ops)
    found = [work.wait().tolist() for work in works]
    return [found, received.tolist(), all(work.is_completed() for work in works)]


def test_neighbours_exchange_at_once(ranks: Pool) -> None:
    size = ranks.world_size
    found = ranks.returned(exchange_with_neighbours)

    befores = [(rank - 1) % size for rank in range(size)]
    assert found == [
        [[[rank] * 2, [before] * 2], [[before, 0]] * 2, True]
        for rank, before in enumerate(befores)
    ]


def receive_into_what_is_shared() -> object:
    data = tensor([1.0])
    return [
        told(dist.recv, data.expand(3), 1 - dist.get_rank())[0],
        told(dist.send, [1.0], 1 - dist.get_rank())[0],
        told(dist.send, data)[0],
        dist.batch_isend_irecv([]),
    ]


def test_transfers_that_cannot_be_are_refused(pair: Pool) -> None:
    expected = ["UnsupportedError", "TypeError", "TypeError", []]
    assert pair.returned(receive_into_what_is_shared) == [expected] * 2


def shift_by_each() -> object:
    rank, size = dist.get_rank(), dist.get_world_size()
    return [dist.shift(tensor([rank]), by).item() for by in range(-size, size + 1)]


def test_shift_goes_around_the_ring(ranks: Pool) -> None:
    size = ranks.world_size
    assert ranks.returned(shift_by_each) == [
        [(rank - by) % size for by in range(-size, size + 1)] for rank in range(size)
    ]
