"""DeepSpeed's ``--include`` and ``--exclude``: ``worker-1:0,2@worker-0``.

Hosts stay in the order of the host file. Slots that are included stay in the order in
which they are given, so that a filter can put chips into any order.

Source: microsoft/DeepSpeed, deepspeed/launcher/runner.py, parse_resource_filter.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ranktable.cluster.argument import ArgumentError
from ranktable.cluster.descriptions.description import Description, Host
from ranktable.cluster.descriptions.source import Word
from ranktable.cluster.hostfiles import hostfile_rules as rules
from ranktable.schema.messages import printable, quoted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ranktable.cluster.descriptions.source import Source

_EXAMPLE = "a filter is worker-0@worker-1:0,2"
Chosen = dict[str, "list[int] | None"]
"""Slots of each host in the filter, None for all of them."""


def include(source: Source, description: Description) -> Description | None:
    """Return the hosts and chips that a filter includes; None if it is wrong."""
    chosen: Chosen = {}
    first: dict[str, Word] = {}
    for name, slots in _items(source, description):
        if name.text in first:
            source.say(
                rules.SLOT_TWICE,
                name,
                f"{quoted(name.text)} is included twice; DeepSpeed keeps the last",
                hint=f"write {printable(name.text)} once, with all of its slots",
                first_use=first[name.text],
            )
        first[name.text] = name
        chosen[name.text] = None if slots is None else _once(source, slots)
    hosts = [host for host in description.hosts if host.name in chosen]
    return _described(source, [_with(host, chosen[str(host.name)]) for host in hosts])


def exclude(source: Source, description: Description) -> Description | None:
    """Return the hosts and chips that a filter leaves; None if it is wrong."""
    left = {
        host.name: dict.fromkeys(host.device_ids or ()) for host in description.hosts
    }
    for name, slots in _items(source, description):
        own = left[name.text]
        for number, word in slots or [(number, name) for number in own]:
            if number in own:
                del own[number]
            else:
                source.say(
                    rules.BAD_LINE,
                    word,
                    f"slot {number} of {quoted(name.text)} is excluded twice; "
                    "DeepSpeed stops with list.remove(x): x not in list",
                )
    return _described(
        source,
        [
            replace(host, slots=len(left[host.name]), device_ids=tuple(left[host.name]))
            for host in description.hosts
            if left[host.name]
        ],
    )


def _with(host: Host, slots: list[int] | None) -> Host:
    """Return a host with these of its slots, None for all of them."""
    if slots is None:
        return host
    return replace(host, slots=len(slots), device_ids=tuple(slots))


def _described(source: Source, hosts: list[Host]) -> Description | None:
    if source.is_sound and not hosts:
        source.say(rules.NO_HOSTS, None, "the filter leaves no host")
    return Description(hosts=tuple(hosts)) if source.is_sound else None


Slot = tuple[int, Word]


def _items(
    source: Source, description: Description
) -> list[tuple[Word, list[Slot] | None]]:
    """Return the hosts of a filter with their slots, None for all."""
    hosts = {host.name: host for host in description.hosts}
    items = []
    for word in Word(source.text, 0, len(source.text)).parts("@"):
        name, *lists = word.parts(":")
        host = hosts.get(name.text)
        if host is None:
            source.say(
                rules.NOT_IN_THE_FILE,
                name,
                f"{quoted(name.text)} is not in the host file",
                hint=None if name.text else _EXAMPLE,
            )
        elif len(lists) > 1:
            source.say(
                rules.BAD_LINE,
                lists[1],
                f"{quoted(word.text)} has two colons; DeepSpeed stops",
                hint=_EXAMPLE,
            )
        else:
            slots = _slots(source, host, lists[0]) if lists else None
            items.append((name, slots))
    return items


def _slots(source: Source, host: Host, listed: Word) -> list[Slot]:
    slots = []
    for word in listed.parts(","):
        number = source.number(word, "the number of a slot", hint=_EXAMPLE)
        if number is None:
            continue
        if number >= (host.slots or 0):
            source.say(
                rules.NOT_IN_THE_FILE,
                word,
                f"{quoted(host.name)} has no slot {number}",
                hint=f"its slots are 0 to {(host.slots or 0) - 1}",
            )
        else:
            slots.append((number, word))
    return slots


def _once(source: Source, slots: list[Slot]) -> list[int]:
    """Return the numbers of slots without repetitions."""
    first: dict[int, Word] = {}
    for number, word in slots:
        if number in first:
            source.say(
                rules.SLOT_TWICE,
                word,
                f"slot {number} is included twice; DeepSpeed drops the second",
                first_use=first[number],
            )
        else:
            first[number] = word
    return list(first)


def filter_of(names: Sequence[str], chips: Sequence[Sequence[int]]) -> str | None:
    """Return the include filter that chooses these chips, None if all are chosen.

    Raises:
        ArgumentError: A host cannot be named in a filter.
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
