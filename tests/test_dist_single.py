"""``ranktable.dist`` in a process that has no process group."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
import torch

from ranktable import dist
from tests.rank_worker import told
from tests.ranks import ROOT

if TYPE_CHECKING:
    from tests.ranks import Pool

pytestmark = pytest.mark.torch


def test_every_public_name_is_documented() -> None:
    text = (ROOT / "docs" / "dist.md").read_text(encoding="utf-8")

    assert [
        name for name in dist.__all__ if not re.search(rf"`[^`]*\b{name}\b", text)
    ] == []
    assert len(set(dist.__all__)) == len(dist.__all__) == 41


def ask_who_i_am() -> dict[str, object]:
    return {
        "world_size": dist.get_world_size(),
        "rank": dist.get_rank(),
        "backend": dist.get_backend(),
        "local_rank": dist.get_local_rank(),
        "local_size": dist.get_local_size(),
        "info": dist.get_dist_info(),
        "is_main": dist.is_main_process(),
        "is_distributed": dist.is_distributed(),
        "master_only": dist.master_only(lambda: "called")(),
    }


def test_a_single_process_is_rank_0_of_1(alone: Pool) -> None:
    [found] = alone.returned(ask_who_i_am)

    assert found == {
        "world_size": 1,
        "rank": 0,
        "backend": None,
        "local_rank": 0,
        "local_size": 0,
        "info": (0, 1),
        "is_main": True,
        "is_distributed": False,
        "master_only": "called",
    }


def call_what_works_in_place(op: dist.Reduction) -> list[object]:
    data = torch.tensor([3, 5])
    flags = torch.tensor([True, False])
    parameter = torch.tensor([1.0, 2.0])
    named = {"loss": torch.tensor(4.0)}
    integers = {"n": torch.tensor(4)}
    op_of_floats: dist.Reduction = "sum" if op in ("band", "bor", "bxor") else op
    op_of_integers: dist.Reduction = "sum" if op == "mean" else op
    dist.all_reduce(data, op_of_integers)
    dist.all_reduce(flags, op_of_integers)
    dist.reduce(data, 0, op_of_integers)
    dist.broadcast(data)
    dist.all_reduce_dict(named, op_of_floats)
    dist.all_reduce_dict(integers, op_of_integers)
    dist.all_reduce_dict({})
    dist.all_reduce_params([parameter], op=op_of_floats)
    dist.all_reduce_params(iter([parameter]))
    dist.all_reduce_params([])
    objects = ["foo", 12, {1: 2}]
    dist.broadcast_object_list(objects)
    dist.barrier()
    dist.barrier(timeout_s=1)
    return [
        data.tolist(),
        flags.tolist(),
        parameter.tolist(),
        named["loss"].item(),
        integers["n"].item(),
        objects,
        dist.new_group([0]),
    ]


@pytest.mark.parametrize(
    "op", ["sum", "mean", "product", "min", "max", "band", "bor", "bxor"]
)
def test_a_single_process_keeps_its_values(alone: Pool, op: dist.Reduction) -> None:
    [found] = alone.returned(call_what_works_in_place, op)

    objects = ["foo", 12, {1: 2}]
    assert found == [[3, 5], [True, False], [1, 2], 4, 4, objects, None]


def call_what_returns() -> dict[str, object]:
    data = torch.tensor([[1, 2], [3, 4]]).t()
    many = {
        "all_gather": dist.all_gather(data),
        "gather": dist.gather(data, dst=7),
        "all_to_all of a list": dist.all_to_all([data]),
    }
    one = {
        "scatter": dist.scatter([data]),
        "reduce_scatter of a list": dist.reduce_scatter([data]),
        "reduce_scatter": dist.reduce_scatter(data),
        "all_to_all": dist.all_to_all(data),
        "shift": dist.shift(data, 3),
    }
    alike = {**{name: each[0] for name, each in many.items()}, **one}
    return {
        "values": {name: each.tolist() for name, each in alike.items()},
        "copies": [each.data_ptr() != data.data_ptr() for each in alike.values()],
        "lengths": [len(each) for each in many.values()],
        "objects": [
            dist.all_gather_object(None),
            dist.gather_object({"a": 1}),
            dist.scatter_object_list(["x"]),
            dist.collect_results([1, None, 3], 2),
            dist.collect_results([1, None, 3]),
            dist.collect_results([], 0),
        ],
        "seed": 0 <= dist.sync_random_seed() < 2**31,
    }


def test_a_single_process_gets_copies_of_what_it_has(alone: Pool) -> None:
    [found] = alone.returned(call_what_returns)

    assert set(map(str, found["values"].values())) == {"[[1, 3], [2, 4]]"}
    assert all(found["copies"])
    assert found["lengths"] == [1, 1, 1]
    assert found["objects"] == [[None], [{"a": 1}], "x", [1, None], [1, None, 3], []]
    assert found["seed"]


def start_without_waiting() -> list[object]:
    data = torch.tensor([1.0])
    works: list[dist.Work[object]] = [
        dist.all_reduce(data, async_op=True),
        dist.reduce(data, async_op=True),
        dist.broadcast(data, async_op=True),
        dist.scatter([data], async_op=True),
        dist.reduce_scatter([data], async_op=True),
        dist.all_to_all(data, async_op=True),
        dist.shift(data, async_op=True),
        dist.all_gather(data, async_op=True),
        dist.gather(data, async_op=True),
        dist.all_to_all([data], async_op=True),
    ]
    are_done = all(work.is_completed() for work in works)
    found = [work.wait() for work in works]
    is_same = all(
        again.wait() is value for again, value in zip(works, found, strict=True)
    )
    return [are_done, is_same, str(found)]


def test_work_of_a_single_process_is_done_at_once(alone: Pool) -> None:
    [found] = alone.returned(start_without_waiting)

    one, many = "tensor([1.])", "[tensor([1.])]"
    assert found == [True, True, f"[{', '.join([one] * 7 + [many] * 3)}]"]


def make_mistakes() -> dict[str, tuple[str, str]]:
    integers, floats = torch.tensor([1]), torch.tensor([1.0])
    repeated = floats.expand(3)
    return {
        "all_reduce xor": told(dist.all_reduce, integers, "xor"),
        "reduce xor": told(dist.reduce, integers, 0, "xor"),
        "reduce_scatter xor": told(dist.reduce_scatter, [integers], "xor"),
        "all_reduce_dict xor": told(dist.all_reduce_dict, {"a": integers}, "xor"),
        "all_reduce_dict {} xor": told(dist.all_reduce_dict, {}, "xor"),
        "all_reduce_params xor": told(dist.all_reduce_params, [integers], op="xor"),
        "all_reduce_params [] xor": told(dist.all_reduce_params, [], op="xor"),
        "all_reduce mean": told(dist.all_reduce, integers, "mean"),
        "reduce mean": told(dist.reduce, integers, 0, "mean"),
        "reduce_scatter mean": told(dist.reduce_scatter, [integers], "mean"),
        "all_reduce_dict mean": told(dist.all_reduce_dict, {"n": integers}, "mean"),
        "all_reduce_params mean": told(dist.all_reduce_params, [integers], op="mean"),
        "band of floats": told(dist.all_reduce, floats, "band"),
        "max of complex": told(dist.all_reduce, floats.to(torch.complex64), "max"),
        "expanded": told(dist.all_reduce, repeated),
        "expanded broadcast": told(dist.broadcast, repeated),
        "list": told(dist.all_reduce, [1.0]),
        "sparse": told(dist.all_gather, floats.to_sparse()),
        "meta": told(dist.all_gather, floats.to("meta")),
        "two of one": told(dist.scatter, [floats, floats]),
        "no list": told(dist.scatter, None),
        "two parts": told(dist.reduce_scatter, [floats, floats]),
        "no part": told(dist.reduce_scatter, floats[0]),
        "by": told(dist.shift, floats, "1"),
        "key": told(dist.all_reduce_dict, {1: floats}),
        "value": told(dist.all_reduce_dict, {"a": 1.0}),
        "no dictionary": told(dist.all_reduce_dict, [floats]),
        "one parameter": told(dist.all_reduce_params, floats),
        "parameter": told(dist.all_reduce_params, [1.0]),
        "sparse parameter": told(dist.all_reduce_params, [floats.to_sparse()]),
        "bucket": told(dist.all_reduce_params, [floats], bucket_size_mb=0),
        "results": told(dist.collect_results, (1,), 1),
        "size": told(dist.collect_results, [1], 2),
        "negative size": told(dist.collect_results, [1], -1),
        "device": told(dist.collect_results, [1], 1, "cuda:0"),
        "objects": told(dist.scatter_object_list, ["a", "b"]),
        "no objects": told(dist.broadcast_object_list, "ab"),
        "timeout": told(dist.barrier, timeout_s=0),
        "send": told(dist.send, floats, 1),
        "recv": told(dist.recv, floats, 1),
        "batch": told(dist.batch_isend_irecv, [dist.P2POp("isend", floats, 1)]),
        "empty batch": told(dist.batch_isend_irecv, []),
        "transfer": told(
            dist.batch_isend_irecv,
            [dist.P2POp("send", floats, 1)],  # type: ignore[arg-type]
        ),
    }


def test_a_single_process_is_refused_what_many_would_be(alone: Pool) -> None:
    [found] = alone.returned(make_mistakes)

    bad_op = [name for name in found if name.endswith("xor")]
    assert {found[name][0] for name in bad_op} == {"ValueError"}
    assert all("there is no reduction 'xor'" in found[name][1] for name in bad_op)
    means = [name for name in found if name.endswith("mean")]
    assert {found[name][0] for name in means} == {"UnsupportedError"}
    assert all("torch.float64" in found[name][1] for name in means)
    kinds = {name: kind for name, (kind, _) in found.items()}
    others = {name: kinds[name] for name in kinds if name not in {*bad_op, *means}}
    assert others == {
        "band of floats": "UnsupportedError",
        "max of complex": "UnsupportedError",
        "expanded": "UnsupportedError",
        "expanded broadcast": "UnsupportedError",
        "list": "TypeError",
        "sparse": "UnsupportedError",
        "meta": "UnsupportedError",
        "two of one": "ValueError",
        "no list": "TypeError",
        "two parts": "ValueError",
        "no part": "ValueError",
        "by": "TypeError",
        "key": "TypeError",
        "value": "TypeError",
        "no dictionary": "TypeError",
        "one parameter": "TypeError",
        "parameter": "TypeError",
        "sparse parameter": "UnsupportedError",
        "bucket": "ValueError",
        "results": "TypeError",
        "size": "DistError",
        "negative size": "ValueError",
        "device": "ValueError",
        "objects": "ValueError",
        "no objects": "TypeError",
        "timeout": "ValueError",
        "send": "DistError",
        "recv": "DistError",
        "batch": "DistError",
        "empty batch": "",
        "transfer": "ValueError",
    }
