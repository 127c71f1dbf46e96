"""``collect_results``: the lists of results of all ranks as one list, on one rank."""

from __future__ import annotations

import os
import pickle
import shutil
import tempfile
from itertools import chain, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ranktable.dist.calls import table_of
from ranktable.dist.collective_errors import DistError, MismatchError
from ranktable.dist.group_state import group_state
from ranktable.dist.objects import all_gather_object, gather_object, gather_objects

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch.distributed import ProcessGroup

    from ranktable.dist.group_state import GroupState

_DEVICES = ("cpu", "gpu", "npu", "tpu")
_ORDERS = ("interleave", "concat")
_NOTHING = object()


def collect_results(
    results: list[Any],
    size: int | None = None,
    device: str = "cpu",
    tmpdir: str | os.PathLike[str] | None = None,
    *,
    order: Literal["interleave", "concat"] = "interleave",
    group: ProcessGroup | None = None,
) -> list[Any] | None:
    """Return the results of all ranks of a group, on its first rank.

    Args:
        results: The results of this rank, any number of them; None is a result.
        size: The number of samples; results that a sampler has repeated at the end are
            removed. None keeps all.
        device: Accepted because scripts pass it, but not used: the group decides from
            which device results are sent.
        tmpdir: A folder that all ranks share, for results that are too large to send;
            by default they are sent. A temporary folder in it is removed at the end.
        order: ``interleave`` takes the first result of every rank, then the second, as
            samplers distribute them; ``concat`` takes one rank after the other.
        group: A group; None for all ranks.

    Returns:
        A list; None on the other ranks. A single process gets its own, cut to the
        size.

    Raises:
        TypeError: The results are not a list.
        ValueError: The size, the device or the order is not possible.
        DistError: There are fewer results than the size; a result cannot be pickled; a
            file cannot be written.
        MismatchError: The ranks differ.
        NotMemberError: This rank is not in the group.
    """
    members = group_state(group)
    problem = _problem_of(results, size, device, tmpdir, order)
    means = "messages" if tmpdir is None else "files"
    spec = f"of size {size} by {means}, {order}"
    lengths = _gather_lengths(members, results, spec, problem)
    if size is not None and size > sum(lengths):  # the same on every rank
        raise DistError(
            f"size is {size}, but there are {sum(lengths)} results: "
            f"{', '.join(map(str, lengths))} on the ranks"
        )
    lists: list[list[Any]] | None = [results]
    if not members.is_single:
        if tmpdir is None:
            lists = _gather_by_messages(members, results)
        else:
            lists = _gather_by_files(members, results, Path(tmpdir))
    if lists is None:
        return None
    return _ordered(lists, order)[:size]


def _gather_lengths(
    members: GroupState, results: list[Any], spec: str, problem: Exception | None
) -> list[int]:
    """Return how many results each rank has.

    The ranks compare their arguments at every call, because ranks that use different
    ways to send would make different calls afterwards.

    Raises:
        Exception: The problem, if all ranks have it.
        MismatchError: The ranks ask for different things.
    """
    spec = spec if problem is None else f"- refused: {problem}"
    length = 0 if problem is not None else len(results)
    told = gather_objects(members, (length, spec), "collect_results")
    if len({each for _, each in told}) > 1:
        pairs = zip(members.ranks, told, strict=True)
        said = {rank: f"collect_results {each}" for rank, (_, each) in pairs}
        raise MismatchError(table_of(members, members.seq, said))
    if problem is not None:
        raise problem
    return [each for each, _ in told]


def _problem_of(
    results: object, size: object, device: object, tmpdir: object, order: object
) -> Exception | None:
    """Return why results cannot be collected, None if they can."""
    if not isinstance(results, list):
        return TypeError(f"results is {type(results).__name__}, not a list")
    if size is not None and (not isinstance(size, int) or size < 0):
        return ValueError(f"size is {size!r}, not a number of results")
    if device not in _DEVICES:
        return ValueError(f"device is {device!r}, not one of {', '.join(_DEVICES)}")
    if not isinstance(tmpdir, (str, os.PathLike, type(None))):
        return TypeError(f"tmpdir is {tmpdir!r}, not the path of a folder")
    if order not in _ORDERS:
        return ValueError(f"order is {order!r}, not one of {', '.join(_ORDERS)}")
    return None


def _ordered(lists: Sequence[list[Any]], order: str) -> list[Any]:
    if order == "concat":
        return list(chain.from_iterable(lists))
    rounds = zip_longest(*lists, fillvalue=_NOTHING)
    return [each for one in rounds for each in one if each is not _NOTHING]


def _gather_by_messages(
    members: GroupState, results: list[Any]
) -> list[list[Any]] | None:
    """Return the results of all ranks on the first rank, sent as messages."""
    is_first = members.group_rank == 0
    lists = gather_object(
        None if is_first else results, group=members.group, group_dst=0
    )
    return None if lists is None else [results, *lists[1:]]


def _gather_by_files(
    members: GroupState, results: list[Any], parent: Path
) -> list[list[Any]] | None:
    """Return the results of all ranks on the first rank, which they wrote to files."""
    is_first = members.group_rank == 0
    made = _tried(lambda: _make_folder(parent)) if is_first else (None, None)
    name, reason = all_gather_object(made, members.group)[0]
    if name is None:
        raise DistError(f"rank {members.ranks[0]} cannot make a folder: {reason}")
    file = Path(name) / f"{members.group_rank}.pickle"
    _, own = _tried(lambda: file.write_bytes(pickle.dumps(results)))
    failures = all_gather_object(own, members.group)
    lists, reason = None, None
    failed = [each for each in zip(members.ranks, failures, strict=True) if each[1]]
    if is_first:
        if not failed:
            lists, reason = _tried(lambda: _read_all(Path(name), members.size))
        shutil.rmtree(name, ignore_errors=True)
    if failed:
        rank, reason = failed[0]
        raise DistError(f"rank {rank} cannot write its results: {reason}")
    # This also means that no rank looks for the folder while it is removed.
    reason = all_gather_object(reason, members.group)[0]
    if reason is not None:
        raise DistError(f"rank {members.ranks[0]} cannot read the results: {reason}")
    return lists


def _tried(function: Callable[[], Any]) -> tuple[Any, str | None]:
    """Return the result of a function and None, or None and the text of its error."""
    try:
        return function(), None
    except Exception as error:  # noqa: BLE001 - a result's own code raises anything
        return None, str(error) or type(error).__name__


def _make_folder(parent: Path) -> str:
    parent.mkdir(parents=True, exist_ok=True)
    return tempfile.mkdtemp(prefix="ranktable-", dir=parent.resolve())


def _read_all(folder: Path, count: int) -> list[list[Any]]:
    files = [folder / f"{group_rank}.pickle" for group_rank in range(count)]
    return [pickle.loads(file.read_bytes()) for file in files]  # noqa: S301 - of the ranks of the same job
