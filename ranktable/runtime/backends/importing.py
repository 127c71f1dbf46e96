"""Whether torch can be imported, without a traceback when it cannot."""

from __future__ import annotations

import importlib


def why_no_torch() -> str | None:
    """Return why torch cannot be imported, None if it can."""
    try:
        importlib.import_module("torch")
        importlib.import_module("torch.distributed")
    except ModuleNotFoundError as error:
        if error.name == "torch":
            return "torch is not installed (pip install 'ranktable[torch]')"
        return f"torch cannot be imported: {error}"
    except (ImportError, OSError, RuntimeError) as error:
        return f"torch cannot be imported: {error}"  # a library that it needs
    return None
