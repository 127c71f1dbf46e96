"""The messages of failed jobs: ``patterns.toml`` has one entry for each."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from enum import Enum
from functools import cache, cached_property
from importlib import resources

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


class Evidence(Enum):
    """What a message is evidence of."""

    IDENTITY = "who runs where"
    TIMEOUT = "a rank gave up waiting"
    STATE = "how far a rank came"
    EDGE = "a rank waits for another"
    ABSENT = "ranks did not join"
    MISMATCH = "ranks call different operations"
    LAUNCH = "ranks contradict each other"
    START = "a launcher did not start a process"
    TABLE = "the rank table is refused"
    PORT = "a port is in use"
    SETTING = "a setting or version differs"
    EXCEPTION = "a process raised an exception"
    EXIT = "a process ended"
    OOM = "the kernel killed a process for memory"
    MEMORY = "a chip has no memory left"
    FAULT = "a chip or its driver failed"
    LEFTOVER = "a chip is in use"
    NODE = "a node failed"
    SCHEDULER = "the scheduler ended the job"
    LINK = "a link between two chips broke"
    HEARTBEAT = "a rank was seen to fail"
    CLOSED = "a peer closed its connection"
    CASCADE = "a rank follows others"
    HOST = "a link or file server of a host went away or came back"
    ATTEMPT = "the job starts again"
    LIFE = "a process goes on"
    END = "a process or the job ended well"
    UNKNOWN = "an error that is not known"


CONSEQUENCES = {
    Evidence.CLOSED,
    Evidence.CASCADE,
    Evidence.TIMEOUT,
    Evidence.ABSENT,
    Evidence.EDGE,
    Evidence.LINK,
}
"""What a process says that waits for another, or has lost it."""

NO_ERRORS = {
    Evidence.IDENTITY, Evidence.STATE, Evidence.ATTEMPT, Evidence.LIFE, Evidence.END,
    Evidence.HOST,
}  # fmt: skip
"""Kinds of evidence that are not errors by themselves."""

FATAL = {
    Evidence.EXCEPTION, Evidence.FAULT, Evidence.MEMORY, Evidence.SETTING,
}  # fmt: skip
"""What ends a process that does not handle it."""

LOST = {Evidence.TIMEOUT, Evidence.CLOSED}
"""What is said by those that waited in vain, or lost another."""

OF_OTHERS = {Evidence.EXIT, Evidence.OOM, Evidence.NODE, Evidence.SCHEDULER}
"""What launchers and kernels say of a process, in whatever file it stands."""


@dataclass(frozen=True, eq=False)
class LogPattern:
    """One message of one speaker; ``patterns.toml`` describes the attributes."""

    name: str
    speaker: str
    kind: Evidence
    key: str
    match: str
    example: str
    what: str = ""
    advice: str = ""
    counter: str = ""
    before: int = 0
    after: int = 0
    is_form: bool = False
    is_of_another: bool = False

    @cached_property
    def keys(self) -> tuple[str, ...]:
        """Texts of which every such line contains one."""
        return tuple(key for key in self.key.split("|") if key)

    @cached_property
    def compiled(self) -> re.Pattern[str]:
        """The compiled expression."""
        return re.compile(self.match)

    def fields(self, text: str) -> dict[str, str] | None:
        """Return the fields of a line without its prefixes, None if it is another."""
        if not any(key in text for key in self.keys):
            return None
        found = self.compiled.search(text)
        if found is None:
            return None
        return {name: value for name, value in found.groupdict().items() if value}


@cache
def patterns() -> tuple[LogPattern, ...]:
    """Return every message, in the order in which a line is compared with them."""
    text = resources.files("ranktable.doctor").joinpath("patterns.toml").read_text()
    return tuple(
        LogPattern(**{**entry, "kind": Evidence[entry["kind"].upper()]})
        for entry in tomllib.loads(text)["pattern"]
    )


TRACEBACK = LogPattern(
    name="python-traceback",
    speaker="python",
    kind=Evidence.EXCEPTION,
    key="Traceback (most recent call last)",
    match=r"Traceback \(most recent call last\)",
    example="[rank3]: Traceback (most recent call last):",
)
"""The start of a traceback, which is followed to the line of its exception."""


LIFE = LogPattern("step", "program", Evidence.LIFE, "", "", "step 7 loss 2.31")
"""A line of a step: its process goes on."""

AROUND = LogPattern("step-around", "program", Evidence.LIFE, "", "", "step 7 loss 2.31")
"""A line of a step beside the end of a process."""


@cache
def triggers() -> tuple[bytes, ...]:
    """Return letters of which every line with a message has some, in this order."""
    keys = {key for pattern in (TRACEBACK, *patterns()) for key in pattern.keys}
    found = {re.sub("[^A-Za-z]", "", key).encode() for key in keys}
    return tuple(one for one in found if not any(o in one for o in found if o != one))
