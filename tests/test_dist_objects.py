"""Objects, dictionaries, parameters and results."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch

from ranktable import dist
from tests.rank_worker import device, tensor, told

if TYPE_CHECKING:
    from pathlib import Path

    from tests.ranks import Pool

pytestmark = pytest.mark.torch


class NotPickled:
    """What says no in its own words."""

    def __reduce__(self) -> tuple[object, ...]:
        raise ValueError("not me")


def move_objects() -> list[object]:
    rank, size = dist.get_rank(), dist.get_world_size()
    own: object = None if rank == 0 else {"rank": rank, "long": "x" * 1000 * rank}
    every = [f"for {to}" if to else None for to in range(size)]
    listed: list[object] = [None, rank, torch.tensor([rank])]
    dist.broadcast_object_list(listed, src=size - 1)
    return [
        dist.all_gather_object(own),
        dist.gather_object(own, dst=1),
        dist.scatter_object_list(every if rank == 1 else 5, src=1),  # type: ignore[arg-type]
        [str(each) for each in listed],
    ]


def test_objects_of_any_length_arrive(ranks: Pool) -> None:
    size = ranks.world_size
    owns = [
        None if rank == 0 else {"rank": rank, "long": "x" * 1000 * rank}
        for rank in range(size)
    ]
    sent = ["None", str(size - 1), f"tensor([{size - 1}])"]
    assert ranks.returned(move_objects) == [
        [owns, owns if rank == 1 else None, f"for {rank}" if rank else None, sent]
        for rank in range(size)
    ]


def send_what_cannot_be_pickled(what: str) -> object:
    rank, size = dist.get_rank(), dist.get_world_size()
    own = NotPickled() if rank == 1 else rank
    calls = {
        "all_gather": lambda: dist.all_gather_object(own),
        "gather": lambda: dist.gather_object(own),
        "broadcast": lambda: dist.broadcast_object_list([own], src=1),
        "scatter": lambda: dist.scatter_object_list(
            [own] * size if rank == 1 else None, src=1
        ),
        "collect": lambda: dist.collect_results([own]),
    }
    return [told(calls[what]), dist.all_gather_object(rank)]


@pytest.mark.parametrize(
    "what", ["all_gather", "gather", "broadcast", "scatter", "collect"]
)
def test_an_object_that_cannot_be_pickled_is_refused_alike(
    ranks: Pool, what: str
) -> None:
    found = ranks.returned(send_what_cannot_be_pickled, what)

    assert len({said for said, _ in found}) == 1
    assert found[0][0][0] == "DistError"
    assert "on rank 1 cannot be pickled" in found[0][0][1]
    assert [again for _, again in found] == [list(range(ranks.world_size))] * len(found)


def collect_all_ways(folder: str) -> list[object]:
    rank, size = dist.get_rank(), dist.get_world_size()
    results = [None if i == 0 else (rank, i) for i in range(rank + 1)]
    total = size * (size + 1) // 2
    found: list[object] = [
        dist.collect_results(results),
        dist.collect_results(results, total - 1, tmpdir=folder),
        dist.collect_results([], 0),
        told(dist.collect_results, results, total + 1),
        told(dist.collect_results, results, total + 1, tmpdir=folder),
        told(dist.collect_results, results, tmpdir="/proc/none")[0],
    ]
    return found


def test_results_are_collected_in_order(ranks: Pool, tmp_path: Path) -> None:
    size = ranks.world_size
    (tmp_path / "foreign").write_text("kept")

    first, *others = ranks.returned(collect_all_ways, str(tmp_path))

    lists = [[None, *((rank, i) for i in range(1, rank + 1))] for rank in range(size)]
    mixed = [each[i] for i in range(size) for each in lists if i < len(each)]
    refused = first[3]
    assert first[:3] == [mixed, mixed[:-1], []]
    assert refused[0] == "DistError"
    assert refused[1].startswith(
        f"size is {len(mixed) + 1}, but there are {len(mixed)}"
    )
    assert first[4:] == [refused, "DistError"]
    assert others == [[None] * 3 + [refused, refused, "DistError"]] * (size - 1)
    assert [each.name for each in tmp_path.iterdir()] == ["foreign"]


def reduce_together() -> list[object]:
    rank, size = dist.get_rank(), dist.get_world_size()
    wide = torch.zeros(4, 2).to(device())
    wide[:, 0] = rank + 1
    data = {
        "b": wide[:, 0],
        "a": tensor([rank]),
        "d": tensor(rank, torch.int16),
        "c": torch.empty(0).to(device()),
        "e": tensor([rank == 0, True]),
    }
    shuffled = dict(sorted(data.items(), reverse=rank % 2 == 0))
    dist.all_reduce_dict(shuffled)
    params = [torch.full((each,), float(rank)).to(device()) for each in (300000, 3, 5)]
    dist.all_reduce_params(params, bucket_size_mb=1, op="max")
    generated = (each for each in params)
    dist.all_reduce_params(generated, coalesce=False)
    refused = told(dist.all_reduce_dict, {"n": tensor([1]), "x": tensor(1.0)}, "mean")
    return [
        {name: each.tolist() for name, each in data.items()},
        wide[:, 1].tolist(),
        [each[0].item() == (size - 1) * size for each in params],
        refused,
    ]


def test_dictionaries_and_parameters_are_reduced_in_place(ranks: Pool) -> None:
    size = ranks.world_size
    total = size * (size - 1) // 2
    reduced = {
        "b": [size * (size + 1) / 2] * 4,
        "a": [total],
        "d": total,
        "c": [],
        "e": [True, True],
    }
    for found in ranks.returned(reduce_together):
        assert found[:3] == [reduced, [0] * 4, [True] * 3]
        assert found[3][0] == "UnsupportedError"
        assert found[3][1].startswith("n: the mean of int64 values")
