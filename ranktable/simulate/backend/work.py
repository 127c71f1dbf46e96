"""What an operation returns: done already, or waiting for one other rank."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch._C._distributed_c10d import Work

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import timedelta


class Done(Work):
    """Work that was done before it was returned, as all of SCCL's is."""

    def __init__(self, outputs: Sequence[torch.Tensor]) -> None:
        """Keep the outputs, for a future."""
        super().__init__()
        self._outputs = list(outputs)

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Return True: it is done."""
        del timeout
        return True

    def is_completed(self) -> bool:
        """Return True: it is done."""
        return True

    def is_success(self) -> bool:
        """Return True: what fails raises at once."""
        return True

    def result(self) -> list[torch.Tensor]:
        """Return the outputs."""
        return self._outputs

    def get_future(self) -> torch.futures.Future[list[torch.Tensor]]:
        """Return a future that has the outputs."""
        future: torch.futures.Future[list[torch.Tensor]] = torch.futures.Future()
        future.set_result(self._outputs)
        return future


class Pending(Work):
    """Work of two ranks, one of which may not have come yet.

    SCCL's own work is never waited for: the chip does one thing after the other, so a
    tensor that was received is there when it is read. A script that drops this object
    relies on that, so it is then waited for.
    """

    def __init__(
        self, finish: Callable[[], None], drop: Callable[[], None], tensor: torch.Tensor
    ) -> None:
        """Describe it.

        Args:
            finish: Waits for it; raises what went wrong.
            drop: What to do when nobody is going to wait for it.
            tensor: What is sent or received.
        """
        super().__init__()
        self._finish = finish
        self._drop = drop
        self._tensor = tensor
        self._is_done = False

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Wait for the other rank."""
        del timeout
        if not self._is_done:
            self._is_done = True
            self._finish()
        return True

    def is_completed(self) -> bool:
        """Whether it was waited for."""
        return self._is_done

    def result(self) -> list[torch.Tensor]:
        """Return the tensor."""
        return [self._tensor]

    def get_future(self) -> torch.futures.Future[list[torch.Tensor]]:
        """Return a future that has the tensor, after waiting for it."""
        self.wait()
        return Done([self._tensor]).get_future()

    def __del__(self) -> None:
        """Do what the script relies on, if it has not waited."""
        if not self._is_done:
            self._is_done = True
            self._drop()
