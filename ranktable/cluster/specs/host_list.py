"""Host lists in a cluster spec, with the place of what is wrong in them."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

from ranktable.cluster.argument import ArgumentError
from ranktable.cluster.host_lists import expand_hosts, fold_hosts
from ranktable.cluster.hostfiles.hostfile_rules import BAD_HOST
from ranktable.cluster.source_text import is_host
from ranktable.cluster.specs import spec_rules as rules
from ranktable.schema.messages import printable, quoted

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ranktable.cluster.specs.shape import Place, Shape

_ITEM = re.compile(r"(?:[^,\[\]]|\[[^\[\]]*\])+")
_MAX_LENGTH = 60


def read_hosts(shape: Shape, place: Place, value: object) -> list[str] | None:
    """Return the hosts of a list, None after saying that it is none."""
    if not isinstance(value, str) or re.fullmatch(r"[0-9_]*", value):
        shape.wrong_type(place, value, "a host list")
        return None
    try:
        hosts = expand_hosts(value)
    except ArgumentError as error:
        span = _part(shape, place, value, error.position or 0)
        shape.report(rules.BAD_HOSTS, place, error.reason, hint=error.hint, span=span)
        return None
    if not hosts:
        shape.report(rules.BAD_HOSTS, place, f"{place} names no host")
        return None
    odd = next((host for host in hosts if not is_host(host)), None)
    if odd is not None:
        span = item_span(shape, place, value, odd)
        message = f"{quoted(odd)} is not the name of a host"
        shape.report(BAD_HOST, place, message, span=span)
        return None
    return hosts


def refuse_twice(
    shape: Shape, place: Place, value: str, hosts: list[str]
) -> list[str] | None:
    """Return the hosts, None after saying which of them stand twice."""
    if len(set(hosts)) == len(hosts):
        return hosts
    twice = [host for host, count in Counter(hosts).items() if count > 1]
    span = item_span(shape, place, value, twice[0])
    message = f"{named(twice)} twice in {place}"
    shape.report(rules.HOST_TWICE, place, message, span=span)
    return None


def named(hosts: Iterable[str]) -> str:
    """Return a list of hosts as the subject of a sentence: ``n[1-2] stand``."""
    every = list(hosts)
    text = fold_hosts(every)
    shown = text if len(text) <= _MAX_LENGTH else f"{text[:_MAX_LENGTH]}..."
    return f"{printable(shown)} {'stands' if len(every) == 1 else 'stand'}"


def item_span(
    shape: Shape, place: Place, value: str, host: str
) -> tuple[int, int] | None:
    """Return the offsets of the last item of a list that has a host."""
    for match in reversed(list(_ITEM.finditer(value))):
        if host in expand_hosts(match[0]):
            return _part(shape, place, value, match.start(), match.end())
    return None


def _part(
    shape: Shape, place: Place, value: str, start: int, end: int | None = None
) -> tuple[int, int] | None:
    """Return the offsets of a part of a text, None where it is spelt otherwise."""
    first, last = shape.span(place)
    written = shape.source.text[first:last]
    quote = written[:1] in ("'", '"')
    if (written[1:-1] if quote else written) != value:
        return None
    at = first + quote
    return at + start, at + (start + 1 if end is None else end)
