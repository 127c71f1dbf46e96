"""Run one function in a rank: ``python -m ranktable.simulate.spawned_rank FOLDER``."""

from __future__ import annotations

import importlib.util
import os
import pickle
import sys
from pathlib import Path

import msgspec

from ranktable.simulate.requirements import SIMULATED
from ranktable.simulate.spawned import ARGUMENTS, TASK, Task


def main() -> None:
    """Call the function with the rank, and store its result."""
    folder = Path(sys.argv[1])
    task = msgspec.json.decode((folder / TASK).read_bytes(), type=Task)
    simulated = [entry for entry in sys.path if entry.startswith(str(SIMULATED))]
    sys.path[:] = [*simulated, *task.path]
    rank = int(os.environ["RANK"])
    try:
        function = getattr(_module(task), task.name)
        arguments = pickle.loads((folder / ARGUMENTS).read_bytes())  # noqa: S301 - our own
        result = pickle.dumps(function(rank, *arguments))
    except BaseException as error:
        said = " ".join(str(error).split())
        (folder / f"{rank}.raised").write_text(f"{type(error).__name__}: {said}")
        raise
    draft = folder / f"{rank}.draft"
    draft.write_bytes(result)
    draft.rename(draft.with_suffix(".pickle"))  # whole, also if the job ends now


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
