"""The rounds of a loop of a script, where the file says them.

Source: POSIX.1-2024, Shell Command Language, "The for Loop"; the GNU Bash manual,
"Looping Constructs" and "Shell Arithmetic".
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from ranktable.cluster.submissions.shell import plain_number
from ranktable.cluster.submissions.shell_marks import HOSTS, UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ranktable.cluster.submissions.shell import Scope, ShellCommand

MOST_ROUNDS: Final = 2048
"""Loops over more nodes are not read; every round is read by itself."""
_ITEMS: Final = re.compile(r'"?\$\{(!?)([A-Za-z_]\w*)\[[@*]\](?::([0-9]+))?\}"?')
_RANGE: Final = re.compile(r"\{([0-9]{1,4})\.\.([0-9]{1,4})\}")
_COUNTING: Final = re.compile(
    r"for\s*\(\(\s*([A-Za-z_]\w*)\s*=\s*([^;]+);\s*\1\s*(<=?|!=)\s*([^;]+);\s*"
    r"(?:\1\s*\+\+|\+\+\s*\1|\1\s*\+=\s*1)\s*\)\)"
)
_INCREMENT: Final = re.compile(
    r"(?:\(\(|let\s+[\"']?)\s*(?:(\w+)\s*\+\+|\+\+\s*(\w+)|(\w+)\s*\+=\s*1)"
    r"\s*(?:\)\)|[\"';&\n]|\Z)"
)
_FUNCTION: Final = re.compile(r"([A-Za-z_][\w-]*)[ \t]*\([ \t]*\)\s*\{")
_LEAVES: Final = ("break", "continue", "return", "exit")


class LoopRounds(NamedTuple):
    """What a loop repeats.

    Attributes:
        name: Its variable.
        values: The value of the variable in every round.
        body: The commands of a round; the block of each is that in the loop.
    """

    name: str
    values: Sequence[str]
    body: Sequence[ShellCommand]


def read_rounds(
    text: str, loop: Sequence[ShellCommand], scope: Scope
) -> LoopRounds | None:
    """Return the rounds of a loop, None if the file does not say them.

    Args:
        text: The script.
        loop: The commands of the loop.
        scope: The variables at its beginning.
    """
    head = loop[0]
    if head.words[0].raw != "for" or any(one.words[0].raw in _LEAVES for one in loop):
        return None
    body = [replace(one, block=one.inner) for one in loop[1:]]
    counting = _COUNTING.match(text, head.words[0].start)
    if counting is not None:
        name, first, sign, last = counting.groups()
        ends = [plain_number(scope.sum_of(end)) for end in (first, last)]
        body = [one for one in body if one.words[0].start >= counting.end()]
        values = _counted(ends[0], ends[1], is_last=sign == "<=")
    elif [word.raw for word in head.words[2:3]] == ["in"]:
        name = head.words[1].raw
        values = [one for word in head.words[3:] for one in _values(word.raw, scope)]
    else:
        return None
    if not 0 < len(values) <= MOST_ROUNDS or {UNKNOWN, HOSTS, *"*?"} & {
        *"".join(values)
    }:
        values = [UNKNOWN]  # rounds one after the other are alike
    is_beside = any(one.after == "&" for one in body)
    return None if values == [UNKNOWN] and is_beside else LoopRounds(name, values, body)


def read_function(
    text: str, part: Sequence[ShellCommand], at: int
) -> tuple[str, Sequence[ShellCommand]]:
    """Return the name of the function that commands define, and its commands.

    Args:
        text: The script.
        part: The commands.
        at: Where the commands before it end.
    """
    if part[0].block != "function":
        return "", ()
    start = part[0].words[0].start
    if part[0].words[0].raw == "function":
        name, part = "".join(w.raw for w in part[0].words[1:2]), part[1:]
    else:
        name = "".join([m[1] for m in _FUNCTION.finditer(text, at, start)][-1:])
    return name, [replace(one, block=one.inner) for one in part]


def _values(raw: str, scope: Scope) -> list[str]:
    """Return what a word of the head of a loop stands for."""
    if match := _RANGE.fullmatch(raw):
        return _counted(int(match[1]), int(match[2]), is_last=True)
    match = _ITEMS.fullmatch(raw)
    if match is None:
        found = scope.fields(raw)
        return scope.hosts() if found == [HOSTS] else found
    items = scope.listed(match[2])
    if match[1]:
        is_known = not {HOSTS, UNKNOWN} & {*items}
        items = list(map(str, range(len(items)))) if is_known else items
    return items[int(match[3] or 0) :]


def _counted(first: int | None, last: int | None, *, is_last: bool) -> list[str]:
    if first is None or last is None or last - first > MOST_ROUNDS:
        return []
    return [str(number) for number in range(first, last + is_last)]


def incremented(text: str, command: ShellCommand) -> str:
    """Return the variable that ``((i++))`` or ``let i+=1`` increments, or nothing."""
    start = command.words[0].start
    before = text[max(start - 8, 0) : start].rstrip()
    at = start if command.words[0].raw == "let" else len(before) + max(start - 8, 0) - 2
    match = _INCREMENT.match(text, max(at, 0), command.words[-1].end + 2)
    return next(filter(None, match.groups()), "") if match else ""
