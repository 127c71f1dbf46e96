"""What follows a host in Open MPI's host files: ``slots=8 max_slots=16``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ranktable.cluster.descriptions.endpoint import port_number
from ranktable.cluster.descriptions.openmpi_hosts import SLOTS, SLOTS_MAX, USER_NAMES
from ranktable.cluster.descriptions.openmpi_lines import EQUALS
from ranktable.cluster.hostfiles import hostfile_rules as rules
from ranktable.schema.messages import quoted

if TYPE_CHECKING:
    from ranktable.cluster.descriptions.source import Source, Word

_PAIR = 3  # key = value
_REACHING = {"user": "user names", "port": "ports"}


def read_keys(source: Source, words: list[Word]) -> dict[str, tuple[int, Word]]:
    """Return ``slots`` and ``maximum`` as far as they are given, with their places.

    A port and a user name say how to reach the host: they are checked and left out.
    """
    found: dict[str, tuple[int, Word]] = {}
    at = 0
    while at < len(words):
        key = words[at]
        kind = _kind(key.text)
        has_value = len(words) >= at + _PAIR and words[at + 1].text == EQUALS
        if kind is None or not has_value:
            _say_odd(source, key, is_known=kind is not None)
            break
        value = words[at + 2]
        at += _PAIR
        if kind in _REACHING:
            source.left_out.add(_REACHING[kind])
        if kind == "user":
            continue
        if kind in found:
            source.say(rules.BAD_LINE, key, f"{key.text} is given twice in this line")
        if kind == "port":
            number = port_number(source, value)
        else:
            number = source.count(value, hint="write, for example, slots=8")
        if number is not None:
            found[kind] = (number, value)
    return {kind: value for kind, value in found.items() if kind != "port"}


def _kind(key: str) -> str | None:
    if key in SLOTS:
        return "slots"
    if key in SLOTS_MAX:
        return "maximum"
    if key in USER_NAMES:
        return "user"
    return "port" if key == "port" else None


def _say_odd(source: Source, word: Word, *, is_known: bool) -> None:
    if is_known:
        message = f"{word.text} needs a value"
    elif word.text == EQUALS:
        message = "there is nothing before this ="
    else:
        message = f"{quoted(word.text)} is not a key; Open MPI ignores it or stops"
    hint = "a line is one host and keys: node01 slots=8 max_slots=16"
    source.say(rules.BAD_LINE, word, message, hint=hint)
