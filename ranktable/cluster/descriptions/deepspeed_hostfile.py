"""Host files of DeepSpeed: ``worker-0 slots=4``. Its slots are the chips 0 to 3.

Source: microsoft/DeepSpeed, deepspeed/launcher/runner.py, _parse_hostfile.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ranktable.cluster.descriptions.deepspeed_filter import filter_of
from ranktable.cluster.descriptions.expressing import (
    chips_of,
    names_of,
    refuse_interleaved,
)
from ranktable.cluster.descriptions.form import Form
from ranktable.cluster.descriptions.roster import Roster
from ranktable.cluster.descriptions.source import words_of
from ranktable.cluster.hostfiles import hostfile_rules as rules
from ranktable.schema.messages import quoted

if TYPE_CHECKING:
    from ranktable.cluster.descriptions.description import Description
    from ranktable.cluster.descriptions.form import Settings
    from ranktable.cluster.descriptions.source import Source, Word

TITLE = "a DeepSpeed host file"
_SLOTS = "slots="
_EXAMPLE = "a line is a host and its slots: worker-0 slots=4"
_TWICE = "DeepSpeed stops"
_LINE = re.compile(r"^[ \t]*[^#\s]\S*[ \t]+slots=[0-9]", re.MULTILINE)


def read(source: Source) -> Description | None:
    """Return the hosts of a host file with their chips."""
    roster = Roster(source)
    for line in source.lines():
        words = words_of(line)
        if words and not words[0].text.startswith("#"):
            _read_line(source, words, roster)
    return roster.description(are_chips=True)


def _read_line(source: Source, words: list[Word], roster: Roster) -> None:
    if len(words) == 1 or not words[1].text.startswith(_SLOTS):
        source.say(
            rules.BAD_LINE,
            words[min(1, len(words) - 1)],
            f"the host {quoted(words[0].text)} is not followed by slots=N",
            hint=_EXAMPLE,
        )
        return
    number = words[1].part(len(_SLOTS))
    slots = source.count(number, hint=_EXAMPLE, lax=_lax(number.text))
    _say_rest(source, words[2:])
    if source.host(words[0]) is not None and slots is not None:
        roster.add(words[0], slots, _TWICE)


def _lax(text: str) -> str:
    """Return what DeepSpeed makes of a number: the digits of any script it has."""
    match = re.match(r"\d{1,9}", text)
    return f"DeepSpeed takes it as {int(match[0])}" if match else "DeepSpeed stops"


def _say_rest(source: Source, words: list[Word]) -> None:
    if words and not words[0].text.startswith("#"):
        source.say(
            rules.IGNORED_TEXT,
            words[0],
            f"DeepSpeed ignores {quoted(words[0].text)} and what follows it",
            hint="remove it, or put it on a line of its own that begins with #",
        )


def write(description: Description, _settings: Settings) -> str:
    """Return the host file of a description.

    DeepSpeed takes the chips 0 to slots - 1 of a host; where the description has
    others, a comment has the option that chooses them.
    """
    refuse_interleaved(description, TITLE)
    names = names_of(description, TITLE)
    chips = chips_of(description)
    lines = [
        f"{name} slots={max(own) + 1}\n" for name, own in zip(names, chips, strict=True)
    ]
    chosen = filter_of(names, chips)
    head = [] if chosen is None else [f"# deepspeed --include {chosen}\n"]
    return "".join(head + lines)


DEEPSPEED_HOSTFILE = Form(
    name="deepspeed-hostfile",
    title=TITLE,
    read=read,
    write=write,
    is_known_by=lambda text: _LINE.search(text) is not None,
)
