"""Names of hosts as Open MPI reads them.

Source: openpmix/prrte, src/util/hostfile/hostfile.c and hostfile_lex.l.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ranktable.cluster.argument import ArgumentError
from ranktable.cluster.hostfiles import hostfile_rules as rules
from ranktable.schema.address import is_address
from ranktable.schema.messages import printable, quoted

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ranktable.cluster.descriptions.source import Source, Word

SLOTS = ("slots", "cpu", "count")
SLOTS_MAX = tuple(
    f"{pair[0]}{joint}{pair[1]}"
    for name in SLOTS
    for joint in "-_"
    for pair in ((name, "max"), ("max", name))
)
USER_NAMES = ("username", "user-name", "user_name")
KEYWORDS = frozenset((*SLOTS, *SLOTS_MAX, *USER_NAMES, "rank", "slot", "port"))
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")


def host_word(source: Source, word: Word) -> Word | None:
    """Return the host of ``[user@]host``, None after saying what is wrong."""
    users = list(word.parts("@"))
    host = users[-1]
    if len(users) > 2 or not users[0].text:  # noqa: PLR2004 - user@host
        source.say(
            rules.BAD_HOST, word, f"{quoted(word.text)} is not a host or user@host"
        )
        return None
    if len(users) > 1:
        source.left_out.add("user names")
    reason = _problem(host.text)
    if reason is not None:
        source.say(rules.BAD_HOST, host, f"{quoted(host.text)} {reason}")
        return None
    return None if source.host(host) is None else host


def _problem(text: str) -> str | None:
    if text in KEYWORDS:
        return "is a word of Open MPI's host files, which cannot name a host"
    if text.isascii() and text.isdigit() and text != str(int(text)):
        return f"is a number to Open MPI, which makes {quoted(text.lstrip('0'))} of it"
    return None


def identity(name: str) -> str:
    """Return the name that Open MPI compares: without a domain, addresses whole."""
    return name if is_address(name) else name.partition(".")[0]


def refuse_names(names: Iterable[str], title: str) -> None:
    """Raise ArgumentError for hosts that cannot be written or are one to Open MPI."""
    seen: dict[str, str] = {}
    for name in names:
        shown = printable(name)
        problem = _problem(name)
        if problem is None and not (_NAME.fullmatch(name) or is_address(name)):
            problem = "is not a name that it reads"
        if problem is not None:
            raise ArgumentError(f"{title} cannot name the host {shown}: it {problem}")
        first = seen.setdefault(identity(name), name)
        if first != name:
            raise ArgumentError(
                f"{title} cannot hold both {printable(first)} and {shown}: Open MPI "
                "cuts names at the first dot",
                hint="name the hosts without their domains: --hosts LIST",
            )
