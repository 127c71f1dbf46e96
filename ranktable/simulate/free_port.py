"""A port where the torchruns of several simulated nodes meet."""

from __future__ import annotations

import random
import socket

from ranktable.runtime.launchers.slurm import PORT_BASE, PORT_COUNT

_TRIES = 100


def free_port() -> int:
    """Return a port of the loopback interface that nobody has.

    It is out of the range that the kernel gives to connections, so it stays free until
    torchrun has started, a second or more later.

    Raises:
        OSError: None is free.
    """
    for _ in range(_TRIES):
        port = PORT_BASE + random.randrange(PORT_COUNT)  # noqa: S311 - no secret
        with socket.socket() as listener:
            try:
                listener.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port
    raise OSError("no free port was found on the loopback interface")
