"""Backward passes on the thread that asks for them.

Torch's engine makes one thread for each device that the guard counts, and the guard of
a Python device counts one: a backward pass on index 1 ends in an internal assertion.
With multi-threading off the engine needs no such thread. The switch is per thread, so
it is set around each entry to the engine, from whichever thread it comes.
"""

from __future__ import annotations

from typing import Any

import torch
from torch._C import _ImperativeEngine
from torch.autograd import Variable


class _OneThreadEngine(_ImperativeEngine):
    def run_backward(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - passed on
        with torch.autograd.set_multithreading_enabled(False):
            return super().run_backward(*args, **kwargs)


def register() -> None:
    """Let every backward pass go through the engine above."""
    Variable._execution_engine = _OneThreadEngine()  # noqa: SLF001 - no public way
