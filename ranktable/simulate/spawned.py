"""A rank that runs one function: ``python -m ranktable.simulate.spawned FOLDER``.

The function is found by its name and its file, as with torch.multiprocessing, so its
module need not be importable by name.
"""

from __future__ import annotations

import importlib.util
import os
import pickle
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from ranktable.simulate.requirements import SIMULATED

if TYPE_CHECKING:
    from collections.abc import Callable

_TASK, _ARGUMENTS = "task.json", "arguments.pickle"


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


def write_task(folder: Path, task: Task, arguments: tuple[object, ...]) -> None:
    """Write a task and the arguments that follow the rank."""
    (folder / _TASK).write_bytes(msgspec.json.encode(task))
    (folder / _ARGUMENTS).write_bytes(pickle.dumps(arguments))


def returned(folder: Path, world_size: int) -> list[object]:
    """Return the result of the function on each rank."""
    return [
        pickle.loads((folder / f"{rank}.pickle").read_bytes())  # noqa: S301 - our own
        for rank in range(world_size)
    ]


def raised(folder: Path, rank: int) -> str | None:
    """Return the exception of a rank in one line, None if it raised none."""
    path = folder / f"{rank}.raised"
    return path.read_text() if path.exists() else None


def main() -> None:
    """Call the function with the rank, and store its result."""
    folder = Path(sys.argv[1])
    task = msgspec.json.decode((folder / _TASK).read_bytes(), type=Task)
    simulated = [entry for entry in sys.path if entry.startswith(str(SIMULATED))]
    sys.path[:] = [*simulated, *task.path]
    rank = int(os.environ["RANK"])
    try:
        function = getattr(_module(task), task.name)
        arguments = pickle.loads((folder / _ARGUMENTS).read_bytes())  # noqa: S301 - our own
        result = pickle.dumps(function(rank, *arguments))
    except BaseException as error:
        said = " ".join(str(error).split())
        (folder / f"{rank}.raised").write_text(f"{type(error).__name__}: {said}")
        raise
    (folder / f"{rank}.pickle").write_bytes(result)


def _module(task: Task) -> object:
    """Return the module of the function, from the same file."""
    spec = importlib.util.spec_from_file_location(task.module, task.file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{task.file} is not a module")
    if "." in task.module:  # its package must be imported for relative imports
        importlib.import_module(task.module.rpartition(".")[0])
    module = importlib.util.module_from_spec(spec)
    sys.modules[task.module] = module
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    main()
