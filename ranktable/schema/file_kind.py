"""A kind of file: how it is detected, and who judges and shows it.

Each kind stands beside its reader, as a constant of its module; ``cli/kinds.py`` has
all of them in the one order in which they are tried.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from fnmatch import fnmatch
from typing import TYPE_CHECKING, Final, NamedTuple

from ranktable.schema.report import make_report
from ranktable.schema.rules.syntax import NOTHING

if TYPE_CHECKING:
    from ranktable.schema.report import Options, Report

LOOKED_AT_BYTES: Final = 1 << 16
"""Bytes of a file that are examined to detect its kind; a manifest is read whole."""

DESCRIPTIONS: Final = (".yaml", ".yml", ".json")
"""Endings of files that may hold a spec or a manifest among much else."""

PLAIN_ENDING: Final = re.compile(r"(?:\.(?:txt|conf|cfg|hosts|[0-9]+))?")
"""Endings of files with one word for a name, such as hostfile."""


class Source(NamedTuple):
    """What was read, and the name for it in messages."""

    name: str
    data: bytes


class Shown(NamedTuple):
    """What ``ranktable show`` prints of a file that is not a rank table.

    Attributes:
        reports: The findings; nothing is shown if one has an error.
        text: The lines for people.
        data: The same for programs, as plain data.
    """

    reports: list[Report]
    text: str
    data: object


Judge = Callable[[Source, "Options"], "list[Report]"]
"""Returns the reports of a file, whatever it holds."""


class FileKind(NamedTuple):
    """A kind of file.

    Attributes:
        name: Its name; ``validate --from`` takes it.
        title: What such a file is, with an article: "a cluster spec".
        detect: Whether a file is one, by its first bytes and its name, which may be a
            path or empty. It raises nothing, whatever the bytes are.
        judge: Returns the reports of a file, whatever it holds; none if nothing of this
            kind is in it after all, so that the next kind is tried.
        names: Patterns of names, in lower case. A file of a folder that has one is
            judged whatever it holds, even if it is empty or damaged. A pattern without
            a dot is for names without an ending, or with one such as .txt.
        endings: A file of a folder that ends like this is judged if it is detected.
        is_clear: Whether the content alone decides, whatever the file is called.
        is_part: Whether the file may hold other kinds too, as manifests do; then those
            of the other kinds that are parts are judged as well.
        advice: What to do where a command needs a rank table; ``{file}`` stands for the
            name.
        show: What ``ranktable show`` prints of such a file.
    """

    name: str
    title: str
    detect: Callable[[bytes, str], bool]
    judge: Judge
    names: tuple[str, ...] = ()
    endings: tuple[str, ...] = ()
    is_clear: Callable[[bytes], bool] | None = None
    is_part: bool = False
    advice: str = ""
    show: Callable[[Source], Shown] | None = None

    def has_name(self, name: str) -> bool:
        """Whether a name, without its folder, is one of this kind."""
        return matches(name, self.names)

    def is_among(self, start: bytes, name: str) -> bool:
        """Whether the content of a file of a folder says that it is one."""
        if self.is_clear is not None and self.is_clear(start):
            return True
        return name.lower().endswith(self.endings) and self.detect(start, name)


def matches(name: str, patterns: tuple[str, ...]) -> bool:
    """Whether a name has one of the patterns of a kind; see ``FileKind.names``."""
    lower = name.lower()
    stem, dot, ending = lower.partition(".")
    is_plain = PLAIN_ENDING.fullmatch(dot + ending) is not None
    return any(
        fnmatch(lower, pattern)
        if "." in pattern
        else is_plain and fnmatch(stem, pattern)
        for pattern in patterns
    )


def not_judged(file: str, reason: str, hint: str | None = None) -> Report:
    """Return the report of a file that was read and could not be judged: exit status 2.

    Args:
        file: Its name.
        reason: Why, as a sentence without a period.
        hint: What to do.
    """
    return make_report([NOTHING.finding(None, reason, hint=hint)], file=file)
