"""``collect_results``: the lists of results of all ranks as one list, on one rank."""

from __future__ import annotations

import os
import pickle
import shutil
import tempfile
from itertools import chain, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ranktable.dist.errors import DistError
from ranktable.dist.members import Members, begin, members_of
from ranktable.dist.objects import exchanged
from ranktable.dist.work import public

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch.distributed import ProcessGroup

__all__ = ["collect_results"]

_DEVICES = ("cpu", "gpu", "npu", "tpu")
_NOTHING = object()


@public
def collect_results(
    results: list[Any],
    size: int | None = None,
    device: str = "cpu",
    tmpdir: str | os.PathLike[str] | None = None,
    *,
    group: ProcessGroup | None = None,
) -> list[Any] | None:
    """Return the results of all ranks of a group, on its first rank.

    Args:
        results: The results of this rank, any number of them; None is a result.
        size: The number of samples; results that a sampler has repeated at the end are
            removed. None keeps all.
        device: ``cpu``, ``gpu``, ``npu`` or ``tpu``, as scripts give it. The group
            decides from which device results are sent.
        tmpdir: A folder that all ranks share, for results that are too large to send;
            by default they are sent. A temporary folder in it is removed at the end.
        group: A group; None for all ranks.

    Returns:
        The first result of every rank, then the second of every rank, and so on, as
        samplers distribute them; None on the other ranks. A single process gets its
        own.

    Raises:
        DistError: There are fewer results than the size; a result cannot be pickled; a
            file cannot be written.
    """
    members = members_of(group)
    problem = _problem_of(results, size, device, tmpdir)
    how = "messages" if tmpdir is None else "files"
    words = (f"of size {size} by {how}",)
    begin(members, "collect_results", problem, None, *words)
    if members.is_single:
        _refuse_fewer([len(results)], size)
        return results[:size]
    _refuse_fewer(exchanged(members, len(results)), size)
    if tmpdir is None:
        lists = exchanged(members, results, members.ranks[0])
    else:
        lists = _by_files(members, results, Path(tmpdir))
    if members.group_rank:
        return None
    rounds = zip_longest(*lists, fillvalue=_NOTHING)
    joined = chain.from_iterable(rounds)  # one round after the other, which none keeps
    return [each for each in joined if each is not _NOTHING][:size]


def _refuse_fewer(counts: list[int], size: int | None) -> None:
    if size is not None and size > sum(counts):
        on_ranks = ", ".join(map(str, counts))
        raise DistError(
            f"size is {size}, but there are {sum(counts)} results: {on_ranks} on the "
            "ranks"
        )


def _problem_of(
    results: object, size: object, device: object, tmpdir: object
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
    return None


def _by_files(members: Members, results: list[Any], parent: Path) -> list[list[Any]]:
    """Return the results of all ranks on the first rank, which they wrote to files."""
    is_first = members.group_rank == 0
    made = _on_all(members, lambda: _make_folder(parent) if is_first else None)
    folder = Path(made[0])
    file = folder / str(members.group_rank)
    try:
        _on_all(members, lambda: file.write_bytes(pickle.dumps(results)))
        read = range(members.size) if is_first else ()
        lists: list[list[Any]] = []
        _on_all(members, lambda: lists.extend(_read(folder / str(i)) for i in read))
    finally:
        if is_first:
            shutil.rmtree(folder, ignore_errors=True)
    return lists


def _on_all(members: Members, step: Callable[[], object]) -> list[Any]:
    """Return what a step returns on each rank.

    Raises:
        DistError: It failed on one of them.
    """
    found, reason = None, None
    try:
        found = step()
    except Exception as error:  # noqa: BLE001 - a result's own code raises anything
        reason = str(error) or type(error).__name__
    answers = exchanged(members, (found, reason))
    for rank, (_, why) in zip(members.ranks, answers, strict=True):
        if why is not None:
            raise DistError(f"rank {rank} cannot collect results by files: {why}")
    return [each for each, _ in answers]


def _make_folder(parent: Path) -> str:
    parent.mkdir(parents=True, exist_ok=True)
    return tempfile.mkdtemp(prefix="ranktable-", dir=parent.resolve())


def _read(file: Path) -> Any:
    return pickle.loads(file.read_bytes())  # noqa: S301 - of the ranks of the same job
