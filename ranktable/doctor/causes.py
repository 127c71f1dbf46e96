"""What the text of an error means: ``causes.toml`` is the table."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import resources
from typing import TYPE_CHECKING, Any

from ranktable.doctor import rules

if TYPE_CHECKING:
    from ranktable.doctor.lines import LogEvent
    from ranktable.schema.finding import Rule

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

RULE_OF_CLASS = {
    "setting": rules.SETTING, "in use": rules.LEFTOVER, "program": rules.EXCEPTION,
    "memory": rules.EXCEPTION, "chip memory": rules.CHIP_MEMORY, "chip": rules.FAULT,
    "unclear": rules.FAULT, "network": rules.UNREACHABLE, "port": rules.PORT,
    "storage": rules.STORAGE,
}  # fmt: skip


@dataclass(frozen=True)
class Meaning:
    """What a text means; ``causes.toml`` describes the attributes."""

    of_class: str
    match: str
    advice: str
    example: str
    counter: str
    what: str = ""

    @cached_property
    def compiled(self) -> re.Pattern[str]:
        """The compiled expression."""
        return re.compile(self.match)

    @property
    def rule(self) -> Rule:
        """The rule of its class."""
        return RULE_OF_CLASS[self.of_class]

    def advice_for(self, text: str) -> str:
        """Return the advice, with the variable of the vendor that a text names."""
        names = data()["visible"]
        found = (names[key] for key in names if key in text)
        fallback = "the list of visible chips (CUDA_VISIBLE_DEVICES, "
        fallback += "ASCEND_RT_VISIBLE_DEVICES)"
        return self.advice.replace("{visible}", next(found, fallback))


@cache
def data() -> dict[str, Any]:
    """Return the tables of ``causes.toml``."""
    text = resources.files("ranktable.doctor").joinpath("causes.toml").read_text()
    return tomllib.loads(text)


@cache
def meanings() -> tuple[Meaning, ...]:
    """Return the meanings, in the order in which a text is compared with them."""
    return tuple(
        Meaning(**{("of_class" if k == "class" else k): v for k, v in entry.items()})
        for entry in data()["cause"]
    )


def meaning_of(text: str) -> Meaning | None:
    """Return what a text means, None if it is not known."""
    return next((one for one in meanings() if one.compiled.search(text)), None)


ABORT = "SIGABRT"


def signal_of(event: LogEvent) -> str | None:
    """Return the name of the signal that ended a process, None if none did."""
    ended = data()["ended"]
    said = next((event.fields[name] for name in event.fields
                 if name.startswith("signal")), "")  # fmt: skip
    name = ended["signals"].get(event.fields.get("exit", ""))
    name = name or ended["signals"].get(f"-{said}") or ended["words"].get(said)
    return name or said or None


PROGRAMS = re.compile(
    r"(?i)python|torch|train|pt_|ray|(?<!\bk)worker|mpi|deepspeed|java"
)
"""Names of programs that may be processes of a job."""


@cache
def _expression(name: str) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{text})" for text in data()["peer"][name]))


def _is(name: str, kind: str) -> bool:
    return kind.rpartition(".")[2] in data()["peer"][name]


def type_of(what: str) -> str:
    """Return the type of an exception, as ``Type: text`` begins."""
    return what.partition(":")[0].strip()


def is_stop(what: str) -> bool:
    """Whether an exception is that of a process that was told to stop."""
    return _is("stops", type_of(what))


def is_wrapper(what: str) -> bool:
    """Whether an exception only tells what another process raised."""
    is_type = _is("wrappers", type_of(what).partition("(")[0])
    return is_type or bool(_expression("wrapped").search(what))


def is_general(what: str) -> bool:
    """Whether the type of an exception says little."""
    return _is("general", type_of(what))


def is_bland(what: str) -> bool:
    """Whether an exception often was handled before another was raised."""
    return _is("bland", type_of(what))


def is_of_peer(what: str) -> bool:
    """Whether an exception says that another process was lost or did not come."""
    return _is("types", type_of(what)) or bool(_expression("texts").search(what))


def is_apart(what: str, frame: str) -> str:
    """Return ``by_program`` or ``by_call`` if a connection may be none of the job.

    Args:
        what: The exception, of a type that any connection raises.
        frame: The file of its innermost frame: of the program, or of a library that
            talks to services and children too.
    """
    if not _is("outside", type_of(what)) or not frame:
        return ""
    if _expression("shared").search(frame):
        return "by_call"
    return "" if _expression("sites").search(frame) else "by_program"


def is_launcher(frame: str) -> bool:
    """Whether a frame is of a program that starts ranks, or may begin any program."""
    return bool(_expression("launchers").search(frame))


def is_below_call(what: str, frame: str) -> bool:
    """Whether an exception came out of a call that talks to other processes.

    Args:
        what: The exception, ``Type: text``; wrong arguments have types of their own.
        frame: The file of its innermost frame; empty if it is not known.
    """
    is_raised = _is("raised", type_of(what)) and bool(frame)
    return is_raised and bool(_expression("sites").search(frame))
