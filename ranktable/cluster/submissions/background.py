"""Which lines of a batch script run beside others, and which its end would stop.

Measured with Slurm 22.05: a step in the background ends with the batch script.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from ranktable.cluster.submissions.shell import is_assignment

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ranktable.cluster.submissions.shell import ShellCommand

_QUICK: Final = (
    *("echo", "printf", "date", "exit", "export", "set", "cd", "hostname", "squeue"),
    *("true", ":", "disown", "mkdir", "touch", "unset", "pwd", "sacct", "chmod"),
)
"""Commands behind which a script soon goes on."""
_AT_END: Final = re.compile(r"\bwait\b|\A(?:EXIT|0)\Z")
"""Words of a trap that may wait when the script ends."""


def with_ends(found: Iterable[ShellCommand]) -> Iterator[ShellCommand]:
    """Yield commands, each with the operator behind the pipe or list that it is in."""
    part: list[ShellCommand] = []
    for command in found:
        part.append(command)
        if command.after not in ("|", "|&", "&&", "||"):
            yield from (replace(one, after=command.after) for one in part)
            part = []
    yield from part


class Background:
    """What runs in the background while a script is read.

    Attributes:
        beside: Numbers of the submissions that run beside others.
        left: Numbers of those that nothing waits for.
        first: Of each in the background the first that nothing waited for until then;
            of a list or a function, whose commands wait for each other, one only.
        is_nested: Whether a function in the background is read.
    """

    def __init__(self) -> None:
        """Begin with nothing."""
        self.beside: set[int] = set()
        self.left: list[int] = []
        self.first: dict[int, int] = {}
        self.is_nested = self._has_listed = False
        self._running: list[int] = []
        self._fresh: list[int] = []
        self._has_other = self._has_trap = False

    def see(
        self, command: ShellCommand, made: Sequence[int], *, is_unjudged: bool
    ) -> None:
        """Take a command, the numbers of what it starts, and if it may start more."""
        words = [word for word in command.words if not is_assignment(word)]
        head = words[0].raw if words else ""
        if head == "wait":
            self._running, self._fresh, self.left = [], [], []
            self._has_other = False
            return
        if head == "trap" and any(_AT_END.search(word.raw) for word in words):
            self._has_trap = True
        if (made or is_unjudged) and (self._running or self._has_other):
            self.beside.update(self._fresh, made)
            self._fresh = []
        is_behind = command.before in ("&&", "||") and self._has_listed
        self._has_listed = bool(made) or is_behind
        is_short = head in _QUICK or not words
        if command.after == "&":
            self._running += made
            self._fresh += made
            self._has_other = self._has_other or is_unjudged
            self.left += made
            if not (is_behind or self.is_nested):
                self.count(made)
        elif command.block or not is_short or _has_output(command):
            self.left = []
        if self._has_trap:
            self.left = []

    def count(self, made: Sequence[int]) -> None:
        """Count submissions that run beside each other."""
        self.first.update(dict.fromkeys(made, next(iter(self.left), 0)))


def _has_output(command: ShellCommand) -> bool:
    """Whether a command has the output of another one in it, which may wait."""
    return any("$(" in word.raw or "`" in word.raw for word in command.words)
