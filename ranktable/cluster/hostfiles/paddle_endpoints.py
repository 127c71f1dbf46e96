"""Paddle's list of endpoints, one a rank: ``10.0.0.1:6070,10.0.0.1:6071``.

The host of an endpoint tells its node; ports need not follow each other.

Source: PaddlePaddle/Paddle, python/paddle/distributed/launch/controllers/collective.py
and ``PADDLE_TRAINER_ENDPOINTS``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ranktable.cluster.argument import ArgumentError
from ranktable.cluster.hostfiles import hostfile_rules as rules
from ranktable.cluster.hostfiles.host_table import RankAssignment
from ranktable.cluster.hostfiles.hostfile import (
    LauncherFormat,
    hosts_of_ranks,
    sizes_of,
)
from ranktable.cluster.hostfiles.writer_checks import names_of
from ranktable.cluster.source_text import (
    MAX_PORT,
    MAX_SLOTS,
    Token,
    endpoint,
    endpoint_parts,
    port_number,
)
from ranktable.schema.messages import quoted

if TYPE_CHECKING:
    from ranktable.cluster.hostfiles.hostfile import Hostfile, WriterOptions
    from ranktable.cluster.source_text import SourceText

TITLE = "a list of Paddle's endpoints"
DEFAULT_PORT = 6070
"""Paddle's own first port."""

_VARIABLE = re.compile(r"\s*(?:(?:export\s+)?PADDLE_TRAINER_ENDPOINTS=)?")
_KNOWN = re.compile(
    r"\s*(?:(?:export\s+)?PADDLE_TRAINER_ENDPOINTS=|[^\s,]+:[0-9]+,[^\s,]+:[0-9])"
)


def read(source: SourceText) -> Hostfile | None:
    """Return the hosts of a list of endpoints, with the ranks of each."""
    start = _VARIABLE.match(source.text).end()  # type: ignore[union-attr]
    end = len(source.text.rstrip())
    assignment = RankAssignment(source)
    if start < end:
        listed = Token(source.text[start:end], start, end)
        if listed.text[0] == listed.text[-1] and listed.text[0] in "'\"":
            listed = listed.part(1, -1)
        if listed.text.count(",") >= MAX_SLOTS:
            source.too_many(listed, "processes")
        else:
            _read_items(source, listed, assignment)
    return assignment.hostfile()


def _read_items(source: SourceText, listed: Token, assignment: RankAssignment) -> None:
    first_use: dict[tuple[str, int], Token] = {}
    for word in listed.parts(","):
        parts = endpoint_parts(source, word)
        if parts is None:
            continue
        host = source.host(parts[0])
        if parts[1] is None:
            message = f"{quoted(word.text)} has no port"
            source.report(rules.BAD_COUNT, word, message, hint="write host:port")
            continue
        port = port_number(source, parts[1])
        if host is None or port is None:
            continue
        if (host, port) in first_use:
            source.report(
                rules.HOST_TWICE,
                word,
                f"the endpoint {quoted(word.text)} is given to two ranks",
                first_use=first_use[host, port],
            )
        first_use[host, port] = word
        assignment.add(host, parts[0], len(assignment.ranks), word)


def write(hostfile: Hostfile, options: WriterOptions) -> str:
    """Return the endpoint of every rank, the ports of a node one after the other."""
    names = names_of(hostfile, TITLE)
    first = options.port or DEFAULT_PORT
    if first + max(sizes_of(hostfile)) - 1 > MAX_PORT:
        raise ArgumentError(f"the ports from {first} on go beyond {MAX_PORT}")
    ports = [first] * len(names)
    endpoints = []
    for node in hosts_of_ranks(hostfile):
        endpoints.append(endpoint(names[node], ports[node]))
        ports[node] += 1
    return ",".join(endpoints) + "\n"


PADDLE_ENDPOINTS = LauncherFormat(
    name="paddle-endpoints",
    title=TITLE,
    read=read,
    write=write,
    matches=_KNOWN.match,
    options=("port",),
)
