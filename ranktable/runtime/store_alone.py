"""Torch's store without the rest of torch.

``import torch`` takes one to two seconds of a core, reads thousands of files, and loads
the plugins of vendors, which may open chips. The store is in the extension that it
begins with, and the extension loads in a tenth of that.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

_FILLED_BY_EXTENSION = "torch.distributed"
"""The package in which the extension looks for the types of errors that it adds."""


def load_store() -> None:
    """Make ``torch._C._distributed_c10d`` ready to be imported.

    The process cannot import all of torch afterwards: the extension then ends it. So
    this is for a command that needs nothing else of torch. Nothing happens if torch is
    imported already, and all of it is imported if the extension does not load alone.

    Raises:
        ImportError: Torch is not installed, or has no store.
    """
    if "torch" in sys.modules:
        return
    spec = find_spec("torch")
    if spec is None or spec.submodule_search_locations is None:
        raise ImportError("torch")
    shell, within = ModuleType("torch"), ModuleType(_FILLED_BY_EXTENSION)
    shell.__path__ = list(spec.submodule_search_locations)
    sys.modules.update({"torch": shell, _FILLED_BY_EXTENSION: within})
    try:
        extension = import_module("torch._C")
    except (ImportError, OSError):
        # Some builds find their libraries only with the help of torch's own __init__.
        for name in [each for each in sys.modules if each.partition(".")[0] == "torch"]:
            del sys.modules[name]
        import_module("torch.distributed")
        return
    # Torch that was built without its distributed package lacks the function.
    if not hasattr(extension, "_c10d_init") or not extension._c10d_init():
        raise ImportError("torch._C._distributed_c10d")
