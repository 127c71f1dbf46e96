"""Wrong arguments on one rank: all ranks get an error, and none waits."""

from __future__ import annotations

import time
import warnings
from typing import TYPE_CHECKING, Any, Final

import pytest
import torch
import torch.distributed

from ranktable import dist
from tests.rank_worker import SOON_S, tensor, told
from tests.ranks import named

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.ranks import Pool

pytestmark = pytest.mark.torch


def _nested() -> torch.Tensor:
    parts = [torch.ones(2), torch.ones(3)]
    layouts = {"layout": torch.jagged} if hasattr(torch, "jagged") else {}  # since 2.2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch 2.1 says that they are a prototype
        return torch.nested.nested_tensor(parts, **layouts)


_SUM: Any = torch.distributed.ReduceOp.SUM  # what scripts give to torch
_GIVEN: Final[dict[str, tuple[Callable[[Any], object], Any, Any]]] = {
    "tensor": (
        lambda kind: dist.all_reduce(_nested() if kind == "nested" else tensor([1.0])),
        "plain",
        "nested",
    ),
    "op of torch": (lambda op: dist.all_reduce(tensor([1.0]), op), "sum", _SUM),
    "op of a dictionary": (
        lambda op: dist.all_reduce_dict({"a": tensor([1.0])}, op),
        "sum",
        _SUM,
    ),
    "several ops": (
        lambda op: dist.reduce_scatter(tensor([1.0, 2.0]), op),
        "sum",
        ["sum", "max"],
    ),
    "splits of words": (
        lambda splits: dist.all_to_all(tensor([1.0, 2.0]), input_splits=splits),
        [1, 1],
        "11",
    ),
    "splits of floats": (
        lambda splits: dist.all_to_all(tensor([1.0, 2.0]), input_splits=splits),
        [1, 1],
        [1.0, 1.0],
    ),
    "number of results": (
        lambda size: dist.collect_results([1, 2], size=size),
        4,
        4.0,
    ),
    "folder": (lambda folder: dist.collect_results([1], tmpdir=folder), None, 3),
    "bucket": (
        lambda size: dist.all_reduce_params([tensor([1.0])], bucket_size_mb=size),
        1,
        "1",
    ),
    "time-out": (lambda time_s: dist.barrier(timeout_s=time_s), 3, 1e300),
}


def give(what: str, is_all: bool) -> object:
    call, right, wrong = _GIVEN[what]
    if wrong == "nested":
        _nested()  # the first one takes torch seconds
    begin = time.monotonic()
    found = told(call, wrong if is_all or dist.get_rank() else right)
    return found, time.monotonic() - begin < SOON_S, told(call, right)


@pytest.mark.parametrize("what", sorted(_GIVEN))
def test_error_of_one_rank_is_raised_on_all_ranks(pair: Pool, what: str) -> None:
    found = pair.returned(give, what, False)

    message = found[0][0][1]
    assert found == [(("MismatchError", message), True, ("", ""))] * 2
    assert "refused: " in message


@pytest.mark.parametrize("what", sorted(_GIVEN))
def test_what_no_rank_can_do_has_an_error_of_its_own(pair: Pool, what: str) -> None:
    found = pair.returned(give, what, True)

    (kind, message), *_ = found[0]
    assert found == [((kind, message), True, ("", ""))] * 2
    assert kind in ("TypeError", "ValueError", "UnsupportedError")
    assert any(said in message for said in ("not ", "there is no ", "has no "))


def make_no_group() -> object:
    wrong: list[Any] = [0, "01", [0.0, 1.0], [[0]], None]
    found = [told(dist.new_group, ranks) for ranks in wrong]
    time_s: Any = "5"
    one: Any = [1]
    return [
        *found,
        told(dist.new_group, [0], timeout_s=time_s),
        told(dist.batch_isend_irecv, one),
    ]


def test_groups_and_transfers_of_something_else_are_refused(pair: Pool) -> None:
    found = pair.returned(make_no_group)[1]

    assert [kind for kind, _ in found] == [
        *["TypeError"] * 5,
        "ValueError",
        "TypeError",
    ]
    assert all("not several ranks" in message for _, message in found[:5])
    assert "timeout_s is '5', not a positive number" in found[5][1]
    assert found[6][1] == "1 is not a transfer; give a P2POp for each"


class OnlyWritten:
    """What can be pickled, but not read again."""

    def __reduce__(self) -> tuple[object, ...]:
        return int, ("no number",)


def collect(where: object, tmpdir: str | None) -> object:
    result = OnlyWritten() if dist.get_rank() else 1
    begin = time.monotonic()
    if where == "means":  # where ranks have collected before
        folders = [None, tmpdir if dist.get_rank() else None]
        found = [told(dist.collect_results, [1], tmpdir=each) for each in folders][1]
    else:
        found = told(dist.collect_results, [result], tmpdir=where)
    return found, time.monotonic() - begin < SOON_S


def test_results_that_cannot_be_read_are_refused_alike(
    pair: Pool, tmp_path: Path
) -> None:
    found = pair.returned(collect, str(tmp_path), None)

    message = found[0][0][1]
    assert found == [(("DistError", message), True)] * 2
    assert message.startswith("rank 0 cannot read the results: invalid literal")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_is_refused_alike(pair: Pool) -> None:
    found = pair.returned(collect, "a\0b", None)

    message = "rank 0 cannot make a folder: embedded null byte"
    assert found == [(("DistError", message), True)] * 2


@pytest.mark.parametrize("mode", ["off", "first"])
def test_ranks_that_collect_in_different_ways_raise_an_error(
    pair: Pool, tmp_path: Path, mode: str
) -> None:
    env = {"RANKTABLE_DIST_CHECK": mode}
    found = pair.returned(collect, "means", str(tmp_path), env=env)

    message = found[0][0][1]
    assert found == [(("MismatchError", message), True)] * 2
    assert message.splitlines()[1:] == [
        "  rank 0  collect_results of size None by messages, interleave",
        "  rank 1  collect_results of size None by files, interleave",
    ]


def fail_in_the_backend() -> tuple[list[tuple[str, str]], float, float]:
    """Reduce twice where the backend refuses, on all ranks, then where it does not."""
    whole, began = torch.distributed.all_reduce, time.monotonic()

    def refuse(*_: object, **_named: object) -> None:
        raise RuntimeError("out of buffers")

    torch.distributed.all_reduce = refuse
    try:
        refused = [told(dist.all_reduce, tensor([1.0, 2.0])) for _ in range(2)]
    finally:
        torch.distributed.all_reduce = whole
    took_s, data = time.monotonic() - began, tensor([1.0])
    dist.all_reduce(data)
    return refused, took_s, data.item()


@pytest.mark.usefixtures("_rank_pools")
def test_what_a_device_refuses_is_told_at_once_in_its_own_words() -> None:
    ranks = named("sccl-2")

    for rank, (refused, took_s, data) in enumerate(ranks.returned(fail_in_the_backend)):
        text = f"failed on rank {rank} (sccl): out of buffers"
        assert [kind for kind, _ in refused] == ["DistError"] * 2
        assert all(message.endswith(text) for _, message in refused)
        assert took_s < SOON_S
        assert data == 2
