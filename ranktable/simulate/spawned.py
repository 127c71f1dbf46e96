"""A function that every rank of a simulated job runs, and its results.

The function is found by its name and its file, as with torch.multiprocessing, so its
module need not be importable by name.
"""

from __future__ import annotations

import pickle
import sys
from typing import TYPE_CHECKING, Any

import msgspec

from ranktable.simulate.requirements import SIMULATED

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

TASK, ARGUMENTS = "task.json", "arguments.pickle"


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """A function to call.

    Attributes:
        module: Name of the function's module.
        file: Its file.
        name: The function's name in it.
        path: Folders where modules are searched.
    """

    module: str
    file: str
    name: str
    path: list[str]


def task_of(function: Callable[..., object]) -> Task:
    """Return the task that calls a function.

    Raises:
        ValueError: Another process could not find it.
    """
    name = getattr(function, "__qualname__", repr(function))
    module = sys.modules.get(getattr(function, "__module__", ""))
    file = getattr(module, "__file__", None)
    if module is None or file is None or not name.isidentifier():
        raise ValueError(
            f"{name} cannot be called in another process; give a function that is at "
            "the top of a module"
        )
    path = [entry for entry in sys.path if not entry.startswith(str(SIMULATED))]
    return Task(module=module.__name__, file=file, name=name, path=path)


def command_of(task: Task, folder: Path, *arguments: object) -> tuple[str, str]:
    """Write a task into the folder of a run.

    Args:
        task: The task.
        folder: The folder.
        arguments: The arguments that follow the rank.

    Returns:
        The module that does the task in each rank, and its argument.
    """
    tasks = _tasks(folder)
    tasks.mkdir()
    (tasks / TASK).write_bytes(msgspec.json.encode(task))
    (tasks / ARGUMENTS).write_bytes(pickle.dumps(arguments))
    return f"{__package__}.spawned_rank", str(tasks)


def _tasks(folder: Path) -> Path:
    return folder / "tasks"


def returned(folder: Path) -> dict[int, Any]:
    """Return the results of the function, by rank, of the ranks that have one."""
    return {
        int(path.stem): pickle.loads(path.read_bytes())  # noqa: S301 - our own
        for path in _tasks(folder).glob("[0-9]*.pickle")
    }


def raised(folder: Path, rank: int) -> str | None:
    """Return the exception of a rank in one line, None if it raised none."""
    path = _tasks(folder) / f"{rank}.raised"
    return path.read_text() if path.exists() else None
