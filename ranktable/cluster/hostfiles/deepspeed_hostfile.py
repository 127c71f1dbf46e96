"""Host files of DeepSpeed, ``worker-0 slots=4``, and its filters ``worker-1:0,2``.

The slots of a host are the chips 0 to slots - 1. Hosts keep the order of the host file.
Included slots keep the order in which they are given, so a filter can put chips into
any order.

Source: microsoft/DeepSpeed, deepspeed/launcher/runner.py, _parse_hostfile and
parse_resource_filter.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from ranktable.cluster.argument import ArgumentError
from ranktable.cluster.hostfiles import hostfile_rules as rules
from ranktable.cluster.hostfiles.hostfile import (
    Host,
    Hostfile,
    HostTable,
    LauncherFormat,
    chips_of,
    names_of,
    refuse_interleaved,
)
from ranktable.cluster.source_text import Token, words_of
from ranktable.schema.diagnostic import printable, quoted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ranktable.cluster.hostfiles.hostfile import WriterOptions
    from ranktable.cluster.source_text import SourceText

TITLE = "a DeepSpeed host file"
_SLOTS = "slots="
_EXAMPLE = "a line is a host and its slots: worker-0 slots=4"
_TWICE = "DeepSpeed stops"
_LINE = re.compile(r"^[ \t]*[^#\s]\S*[ \t]+slots=[0-9]", re.MULTILINE)


def read(source: SourceText) -> Hostfile | None:
    """Return the hosts of a host file with their chips."""
    table = HostTable(source)
    for line in source.lines():
        words = words_of(line)
        if words and not words[0].text.startswith("#"):
            _read_line(source, words, table)
    return table.hostfile(are_chips=True)


def _read_line(source: SourceText, words: list[Token], table: HostTable) -> None:
    if len(words) == 1 or not words[1].text.startswith(_SLOTS):
        source.report(
            rules.BAD_LINE,
            words[min(1, len(words) - 1)],
            f"the host {quoted(words[0].text)} is not followed by slots=N",
            hint=_EXAMPLE,
        )
        return
    number = words[1].part(len(_SLOTS))
    slots = source.count(number, hint=_EXAMPLE, lax=_lax(number.text))
    _report_rest(source, words[2:])
    if source.host(words[0]) is not None and slots is not None:
        table.add(words[0], slots, _TWICE)


def _lax(text: str) -> str:
    """Return what DeepSpeed reads from a wrong number: its digits, of any script."""
    match = re.match(r"\d{1,9}", text)
    return f"DeepSpeed takes it as {int(match[0])}" if match else "DeepSpeed stops"


def _report_rest(source: SourceText, words: list[Token]) -> None:
    if words and not words[0].text.startswith("#"):
        source.report(
            rules.IGNORED_TEXT,
            words[0],
            f"DeepSpeed ignores {quoted(words[0].text)} and what follows it",
            hint="remove it, or put it on a line of its own that begins with #",
        )


def write(hostfile: Hostfile, _options: WriterOptions) -> str:
    """Return the text of a host file.

    DeepSpeed uses the chips 0 to slots - 1 of a host. For other chips, a comment has
    the option that selects them.
    """
    refuse_interleaved(hostfile, TITLE)
    names = names_of(hostfile, TITLE)
    chips = chips_of(hostfile)
    lines = [
        f"{name} slots={max(own) + 1}\n" for name, own in zip(names, chips, strict=True)
    ]
    chosen = filter_of(names, chips)
    head = [] if chosen is None else [f"# deepspeed --include {chosen}\n"]
    return "".join(head + lines)


DEEPSPEED_HOSTFILE = LauncherFormat(
    name="deepspeed-hostfile",
    title=TITLE,
    read=read,
    write=write,
    matches=_LINE.search,
)


_FILTER_EXAMPLE = "a filter is worker-0@worker-1:0,2"
Chosen = dict[str, "list[int] | None"]
"""Slots of each host in the filter, None for all of them."""


def include(source: SourceText, hostfile: Hostfile) -> Hostfile | None:
    """Return the hosts and chips that a filter includes, None if it is wrong."""
    chosen: Chosen = {}
    first: dict[str, Token] = {}
    for name, slots in _items(source, hostfile):
        if name.text in first:
            source.report(
                rules.SLOT_TWICE,
                name,
                f"{quoted(name.text)} is included twice; DeepSpeed keeps the last",
                hint=f"write {printable(name.text)} once, with all of its slots",
                first_use=first[name.text],
            )
        first[name.text] = name
        chosen[name.text] = None if slots is None else _once(source, slots)
    hosts = [host for host in hostfile.hosts if host.name in chosen]
    return _described(source, [_with(host, chosen[str(host.name)]) for host in hosts])


def exclude(source: SourceText, hostfile: Hostfile) -> Hostfile | None:
    """Return the hosts and chips that a filter leaves, None if it is wrong."""
    left = {host.name: dict.fromkeys(host.device_ids or ()) for host in hostfile.hosts}
    for name, slots in _items(source, hostfile):
        own = left[name.text]
        for number, word in slots or [(number, name) for number in own]:
            if number in own:
                del own[number]
            else:
                source.report(
                    rules.BAD_LINE,
                    word,
                    f"slot {number} of {quoted(name.text)} is excluded twice; "
                    "DeepSpeed stops with list.remove(x): x not in list",
                )
    return _described(
        source,
        [
            replace(host, slots=len(left[host.name]), device_ids=tuple(left[host.name]))
            for host in hostfile.hosts
            if left[host.name]
        ],
    )


def _with(host: Host, slots: list[int] | None) -> Host:
    """Return a host with only these slots, None for all of them."""
    if slots is None:
        return host
    return replace(host, slots=len(slots), device_ids=tuple(slots))


def _described(source: SourceText, hosts: list[Host]) -> Hostfile | None:
    if source.is_sound and not hosts:
        source.report(rules.NO_HOSTS, None, "the filter leaves no host")
    return Hostfile(hosts=tuple(hosts)) if source.is_sound else None


Slot = tuple[int, Token]


def _items(
    source: SourceText, hostfile: Hostfile
) -> list[tuple[Token, list[Slot] | None]]:
    """Return the hosts of a filter with their slots, None for all slots."""
    hosts = {host.name: host for host in hostfile.hosts}
    items = []
    for word in Token(source.text, 0, len(source.text)).parts("@"):
        name, *lists = word.parts(":")
        host = hosts.get(name.text)
        if host is None:
            source.report(
                rules.NOT_IN_THE_FILE,
                name,
                f"{quoted(name.text)} is not in the host file",
                hint=None if name.text else _FILTER_EXAMPLE,
            )
        elif len(lists) > 1:
            source.report(
                rules.BAD_LINE,
                lists[1],
                f"{quoted(word.text)} has two colons; DeepSpeed stops",
                hint=_FILTER_EXAMPLE,
            )
        else:
            slots = _slots(source, host, lists[0]) if lists else None
            items.append((name, slots))
    return items


def _slots(source: SourceText, host: Host, listed: Token) -> list[Slot]:
    slots = []
    for word in listed.parts(","):
        number = source.number(word, "the number of a slot", hint=_FILTER_EXAMPLE)
        if number is None:
            continue
        if number >= (host.slots or 0):
            source.report(
                rules.NOT_IN_THE_FILE,
                word,
                f"{quoted(host.name)} has no slot {number}",
                hint=f"its slots are 0 to {(host.slots or 0) - 1}",
            )
        else:
            slots.append((number, word))
    return slots


def _once(source: SourceText, slots: list[Slot]) -> list[int]:
    """Return the numbers of slots without duplicates."""
    first: dict[int, Token] = {}
    for number, word in slots:
        if number in first:
            source.report(
                rules.SLOT_TWICE,
                word,
                f"slot {number} is included twice; DeepSpeed drops the second",
                first_use=first[number],
            )
        else:
            first[number] = word
    return list(first)


def filter_of(names: Sequence[str], chips: Sequence[Sequence[int]]) -> str | None:
    """Return the include filter that selects these chips, None if all are selected.

    Raises:
        ArgumentError: The name of a host cannot be in a filter.
    """
    if all(list(own) == list(range(len(own))) for own in chips):
        return None
    for name in names:
        if ":" in name:
            raise ArgumentError(
                f"a DeepSpeed filter cannot name the host {name}: a colon begins slots",
                hint="name the hosts: --hosts LIST",
            )
    return "@".join(
        f"{name}:{','.join(map(str, own))}"
        for name, own in zip(names, chips, strict=True)
    )
