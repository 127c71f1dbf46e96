"""Python runs this at the start of each process of a simulated run.

In processes that a rank starts, it looks at the groups that they make; see
``ranktable.simulate.child_groups``. The machine's own ``sitecustomize`` runs too.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder

_JOINS = "torch.distributed.distributed_c10d"


class _Finder(MetaPathFinder):
    """Changes torch's module when it is imported, and does nothing before that."""

    def find_spec(
        self, fullname: str, _path: object, _target: object = None
    ) -> ModuleSpec | None:
        if fullname != _JOINS:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            loader = spec.loader
            execute = loader.exec_module

            def execute_and_install(module: object) -> None:
                execute(module)  # type: ignore[arg-type]
                from ranktable.simulate import child_groups

                child_groups.install()

            loader.exec_module = execute_and_install  # type: ignore[method-assign]
        return spec


def _run_the_machines_own() -> None:
    folder = os.path.dirname(__file__)
    others = [entry for entry in sys.path if entry != folder]
    spec = PathFinder.find_spec("sitecustomize", others)
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


if "RANKTABLE_SIMULATE_RANK" in os.environ:
    sys.meta_path.insert(0, _Finder())
_run_the_machines_own()
