"""Whether hosts reach each other on the ports that a job will use, before it connects.

Every process listens on a port that the kernel chooses, as gloo and NCCL do. The first
process of each host connects to the hosts 1, 2, 4, ... places further: few attempts
each, and every host is tried by several others.
"""

from __future__ import annotations

import errno
import fcntl
import os
import selectors
import socket
import struct
import time
from collections import Counter, defaultdict
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from ranktable.preflight import rules
from ranktable.preflight.socket_interfaces import interfaces_of, takes_loopback
from ranktable.schema.text import MAX_NAMED
from ranktable.schema.values import is_loopback

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ranktable.schema.finding import Finding

ATTEMPT_S = 3.0
"""For a connection between two hosts of a job, which takes milliseconds."""

_SIOCGIFADDR = 0x8915
_INTERFACES = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME")


class Attempt(NamedTuple):
    """One host that tried to connect to another one.

    Attributes:
        source: Place of the host that tried.
        target: Place of the other one.
        where: Address and port.
        why: Why it failed, empty if it did not.
    """

    source: int
    target: int
    where: str
    why: str


def listen(address: str) -> socket.socket | None:
    """Return a socket that listens on any port; the kernel accepts connections."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    server = socket.socket(family, socket.SOCK_STREAM)
    try:
        server.bind((address, 0))
        server.listen(64)
    except OSError:
        server.close()
        return None
    return server


def own_address(env: Mapping[str, str], master: str) -> str:
    """Return the address that other hosts use for this process, empty if unknown.

    That of the interface that a variable names, else that towards rank 0.
    """
    there = [name for _, name in socket.if_nameindex()]
    for name in _INTERFACES:
        for interface in interfaces_of(name, env.get(name, ""), there):
            with suppress(OSError):  # it may have no address
                address = _address_of(interface)
                return "" if is_loopback(address) else address
    with suppress(OSError):
        family, kind, _, _, where = socket.getaddrinfo(
            master, 9, type=socket.SOCK_DGRAM
        )[0]
        with socket.socket(family, kind) as probe:
            probe.connect(where)  # it sends nothing
            address = str(probe.getsockname()[0])
            # A link-local address says nothing without its interface.
            return "" if address.lower().startswith("fe80") else address
    return ""


def _address_of(interface: str) -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        request = struct.pack("256s", interface.encode())
        answer = fcntl.ioctl(probe.fileno(), _SIOCGIFADDR, request)
    return socket.inet_ntoa(answer[20:24])


def told_address(env: Mapping[str, str]) -> str:
    """Return the loopback address that gloo would tell other hosts, else nothing."""
    interface = env.get(_INTERFACES[0])
    with suppress(OSError):
        if interface:
            address = _address_of(interface.split(",")[0])
            return address if is_loopback(address) else ""
        found = socket.getaddrinfo(socket.gethostname(), None, type=socket.SOCK_STREAM)
        addresses = [str(each[4][0]) for each in found]
        if addresses and all(map(is_loopback, addresses)):
            return addresses[0]
    return ""


def loopback_setting(env: Mapping[str, str]) -> str:
    """Return the variable by which NCCL or HCCL takes lo, empty if none does."""
    there = [name for _, name in socket.if_nameindex()]
    for name in ("NCCL_SOCKET_IFNAME", "HCCL_SOCKET_IFNAME"):
        if takes_loopback(name, env.get(name, ""), there):
            return f"{name}={env[name]}"
    return ""


def peers_of(place: int, count: int) -> list[int]:
    """Return the hosts that one host tries.

    >>> peers_of(0, 2), peers_of(3, 4), peers_of(0, 10)
    ([1], [0, 1], [1, 2, 4, 8])
    """
    steps = [1 << n for n in range(count.bit_length()) if 1 << n < count]
    return [(place + step) % count for step in steps]


def try_to_reach(
    addresses: Sequence[tuple[str, int]], time_s: float = ATTEMPT_S
) -> list[str]:
    """Return why each address does not answer, empty for those that do."""
    reasons = ["timed out"] * len(addresses)
    end = time.monotonic() + time_s
    with selectors.DefaultSelector() as waiting:
        for place, (address, port) in enumerate(addresses):
            family = socket.AF_INET6 if ":" in address else socket.AF_INET
            client = socket.socket(family, socket.SOCK_STREAM)
            client.setblocking(False)
            code = client.connect_ex((address, port))
            if code in (0, errno.EINPROGRESS):
                waiting.register(client, selectors.EVENT_WRITE, place)
            else:
                reasons[place] = os.strerror(code).lower()
                client.close()
        while waiting.get_map() and time.monotonic() < end:
            for key, _ in waiting.select(max(end - time.monotonic(), 0)):
                client = key.fileobj  # type: ignore[assignment]
                code = client.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
                reasons[key.data] = os.strerror(code).lower() if code else ""
                waiting.unregister(client)
                client.close()
        for key in list(waiting.get_map().values()):
            key.fileobj.close()  # type: ignore[union-attr]
    return reasons


class Unreached(NamedTuple):
    """The hosts that cannot take part.

    Attributes:
        deaf: Those that others do not reach.
        mute: Those that reach no other.
        to: What was tried to reach each host.
        by: What each host tried.
    """

    deaf: set[int]
    mute: set[int]
    to: Mapping[int, list[Attempt]]
    by: Mapping[int, list[Attempt]]


def unreached(attempts: Sequence[Attempt]) -> Unreached:
    """Return the hosts at which the failures meet."""
    to: dict[int, list[Attempt]] = defaultdict(list)
    by: dict[int, list[Attempt]] = defaultdict(list)
    for each in attempts:
        to[each.target].append(each)
        by[each.source].append(each)
    lost = {n for n, some in to.items() if all(each.why for each in some)}
    lone = {n for n, some in by.items() if all(each.why for each in some)}
    # With two hosts, one failure in each direction names both.
    deaf = {n for n in lost if any(not e.why for e in by[n]) or len(to[n]) > 1}
    mute = {
        n
        for n in lone - deaf
        if len(by[n]) > 1 and not {each.target for each in by[n]} <= deaf
    }
    return Unreached(deaf, mute, to, by)


def hosts_apart(attempts: Sequence[Attempt]) -> set[int]:
    """Return the fewest hosts, as far as seen, without which all reach each other."""
    deaf, mute, *_ = unreached(attempts)
    apart = deaf | mute
    while True:
        lost = [
            each
            for each in attempts
            if each.why and not apart & {each.source, each.target}
        ]
        if not lost:
            return apart
        ends = Counter(n for each in lost for n in (each.source, each.target))
        apart.add(max(ends, key=lambda n: (ends[n], n)))


def judge_reach(attempts: Sequence[Attempt], hosts: Sequence[str]) -> Iterator[Finding]:
    """Yield which hosts are not reached, or reach no other, else the pairs.

    Args:
        attempts: What was tried.
        hosts: The names of the hosts.
    """
    deaf, mute, to, by = unreached(attempts)
    told = []
    for n in sorted(deaf):
        first = to[n][0]
        who = ", ".join(hosts[each.source] for each in to[n][:MAX_NAMED])
        told.append(
            f"{hosts[n]} is not reached at {first.where} from {who}: {first.why}"
        )
    for n in sorted(mute):
        first = by[n][0]
        told.append(
            f"{hosts[n]} reaches no other host: {hosts[first.target]} at "
            f"{first.where}: {first.why}"
        )
    told += [
        f"{hosts[each.source]} does not reach {hosts[each.target]} at {each.where}: "
        f"{each.why}"
        for each in attempts
        if each.why and each.target not in deaf and each.source not in mute
    ]
    yield from (rules.NO_WAY.finding(None, text) for text in told[:MAX_NAMED])
    if len(told) > MAX_NAMED:
        left = len(told) - MAX_NAMED
        yield rules.NO_WAY.finding(None, f"{left} more hosts or pairs like these")
