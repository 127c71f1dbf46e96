"""Endpoints: ``host:port`` and ``[fd00::1]:port``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ranktable.cluster.hostfiles import hostfile_rules as rules
from ranktable.schema.messages import quoted

if TYPE_CHECKING:
    from ranktable.cluster.descriptions.source import Source, Word

MAX_PORT = 65535
_BRACKETS = re.compile(r"\[([^\]]*)\](?::(.*))?")
_PLAIN = re.compile(r"([^:\[\]]*)(?::([^:]*))?")


def endpoint_parts(source: Source, word: Word) -> tuple[Word, Word | None] | None:
    """Return the host and the port of an endpoint, None after saying what is wrong."""
    match = _BRACKETS.fullmatch(word.text) or _PLAIN.fullmatch(word.text)
    if match is None:
        source.say(
            rules.BAD_HOST,
            word,
            f"{quoted(word.text)} is not host:port",
            hint="an IPv6 address stands in brackets: [fd00::1]:29400",
        )
        return None
    port = None if match[2] is None else word.part(match.start(2), match.end(2))
    return word.part(match.start(1), match.end(1)), port


def endpoint_host(source: Source, word: Word) -> Word | None:
    """Return the host of an endpoint whose port may be left out."""
    parts = endpoint_parts(source, word)
    if parts is None:
        return None
    if parts[1] is not None:
        port_number(source, parts[1])
    return parts[0]


def port_number(source: Source, word: Word) -> int | None:
    """Return a port, None after saying that it is none."""
    port = source.number(word, "a port")
    if port is not None and not 0 < port <= MAX_PORT:
        source.say(rules.BAD_COUNT, word, f"{port} is no port; ports end at {MAX_PORT}")
        return None
    return port


def endpoint(host: str, port: int) -> str:
    """Return an endpoint as it is written."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
