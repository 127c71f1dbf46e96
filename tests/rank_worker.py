"""A rank that calls what a test asks it to call, and answers; see ``tests.ranks``."""

from __future__ import annotations

import importlib
import os
import pickle
import sys
import traceback
import warnings
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed

from ranktable import dist
from ranktable.dist.group_state import group_state
from ranktable.runtime.job import current_job
from tests.ranks import Raised

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from torch.distributed import ProcessGroup

COLLECTIVE_TIMEOUT_S = 20.0
SOON_S = 15.0
"""Less than that: a call that took no longer has not waited for its time-out."""

_groups: dict[tuple[int, ...], ProcessGroup | None] = {}


def serve(backend: str) -> None:
    """Join the job, if there is one, and answer until the test has ended.

    Standard input is a pipe from the test.
    """
    env = dict(os.environ)
    pipe = Connection(os.dup(0))
    torch.set_num_threads(1)
    warnings.simplefilter("error")
    # Torch 2.4 warns of what its own checkpoints call.
    warnings.filterwarnings("ignore", r"`torch\.cpu\.amp\.autocast", FutureWarning)
    try:
        if backend:
            dist.init_dist(backend=backend, timeout=COLLECTIVE_TIMEOUT_S)
        answer: object = None
    except BaseException as error:  # noqa: BLE001 - the test gets it
        answer = _raised(error)
    pipe.send_bytes(pickle.dumps(answer))
    while True:
        try:
            asked = pipe.recv_bytes()
        except EOFError:
            break
        answered = _answer(asked, env)
        sys.stdout.flush()
        pipe.send_bytes(answered)
    # Other ranks may have ended too, so this one leaves without waiting.
    os._exit(0)


def _answer(asked: bytes, env: Mapping[str, str]) -> bytes:
    module, name, arguments, variables = pickle.loads(asked)  # noqa: S301 - our own
    os.environ.clear()
    os.environ.update({**env, **variables})
    _forget_known()
    try:
        function = getattr(importlib.import_module(module), name)
        return pickle.dumps(function(*arguments))
    except BaseException as error:  # noqa: BLE001 - the test gets it
        return pickle.dumps(_raised(error))


def _forget_known() -> None:
    """Let ranks compare again what an earlier test has called."""
    if dist.is_distributed():
        for group in (None, *_groups.values()):
            if group is None or isinstance(group, torch.distributed.ProcessGroup):
                members = group_state(group)
                assert members is not None
                members.known.clear()


def _raised(error: BaseException) -> Raised:
    trace = "".join(traceback.format_exception(error))
    return Raised(type(error).__name__, str(error), trace)


class Fully:
    """``ranktable.dist`` as it is on CPUs: exact, and with tensors of any shapes.

    On devices both have to be asked for.
    """

    def __getattr__(self, name: str) -> Any:
        found = getattr(dist, name)
        if name in ("all_gather", "gather", "shift", "all_to_all"):
            return _asking(found, "uneven")
        is_reducing = name.startswith(("all_reduce", "reduce"))
        return _asking(found, "exact") if is_reducing else found


def _asking(function: Callable[..., Any], more: str) -> Callable[..., Any]:
    def asking(*arguments: Any, **named: Any) -> Any:
        if more == "exact" or not named.get("even"):
            named.setdefault(more, True)
        return function(*arguments, **named)

    return asking


if TYPE_CHECKING:
    fully = dist
else:
    fully = Fully()


def device() -> torch.device:
    """Return the device of this rank."""
    job = current_job()
    return torch.device("cpu") if job is None else job.device


def tensor(values: object, dtype: torch.dtype | None = None) -> torch.Tensor:
    """Return a tensor on the device of this rank."""
    return torch.tensor(values, dtype=dtype).to(device())


def group_of(*ranks: int) -> Any:
    """Return the group of some ranks; all ranks ask for it, and it is made once."""
    if ranks not in _groups:
        _groups[ranks] = dist.new_group(ranks)
    return _groups[ranks]


def told(function: Any, *arguments: Any, **named: Any) -> tuple[str, str]:
    """Return the type and the message of what a call raises; ("", "") for nothing."""
    try:
        function(*arguments, **named)
    except Exception as error:  # noqa: BLE001 - the test looks at it
        return type(error).__name__, str(error)
    return "", ""
