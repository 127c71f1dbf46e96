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
from ranktable.runtime.job import current_job
from tests.ranks import Raised

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch.distributed import ProcessGroup

COLLECTIVE_TIMEOUT_S = 20.0

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
    try:
        function = getattr(importlib.import_module(module), name)
        return pickle.dumps(function(*arguments))
    except BaseException as error:  # noqa: BLE001 - the test gets it
        return pickle.dumps(_raised(error))


def _raised(error: BaseException) -> Raised:
    trace = "".join(traceback.format_exception(error))
    return Raised(type(error).__name__, str(error), trace)


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
