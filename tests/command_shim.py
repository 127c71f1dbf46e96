"""Asks the server of commands for the program that this file is named after.

It is copied, below lines that start an interpreter, to the folder of the server's
socket, which a shell then finds first. It imports next to nothing, on purpose: the
module ``signal`` alone would take 12 ms more at each start.
"""

import _signal  # type: ignore[import-not-found]  # mypy knows only signal
import _socket
import os
import sys

FOLDER, PROGRAM = os.path.split(__file__)


def main() -> None:
    """End as the program ends."""
    status = asked()
    if status is None:
        # Of an environment an interpreter knows by the name that it is started with.
        real = f"{os.readlink(f'{FOLDER}/real')}/{PROGRAM}"
        os.execv(real, [real, *sys.argv[1:]])  # noqa: S606 - no shell is wanted
    elif status < 0:
        if -status != _signal.SIGKILL:  # nobody can have changed what it does
            _signal.signal(-status, _signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    os._exit(status or 0)


def asked() -> "int | None":
    """Return the exit status, or None where the program itself has to be run."""
    try:
        for number in range(3):
            os.fstat(number)
    except OSError:
        return None  # a stream that is closed cannot be handed on
    folder = os.open(".", os.O_RDONLY)
    umask = os.umask(0)
    os.umask(umask)
    env = [name + b"=" + value for name, value in os.environb.items()]
    arguments = [os.fsencode(argument) for argument in sys.argv[1:]]
    head = [os.fsencode(PROGRAM), b"%d" % umask, b"%d" % len(arguments)]
    server = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
    server.connect(f"{FOLDER}/server")
    for number in (_signal.SIGTERM, _signal.SIGINT, _signal.SIGHUP, _signal.SIGUSR1):
        _signal.signal(number, lambda sent, _: server.send(b"%d" % sent))
    rights = b"".join(n.to_bytes(4, sys.byteorder) for n in (0, 1, 2, folder))
    server.sendmsg(
        [b"\0".join([*head, *arguments, *env])],
        [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, rights)],
    )
    answer = server.recv(16)
    return int(answer) if answer else None


main()
