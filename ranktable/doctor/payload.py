"""What a message carries is judged again as if it stood alone.

A watchdog, the block of torchrun, ``Last error:`` or a chain of exceptions only wraps
what happened. A traceback with all that stands below it is one event.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from ranktable.doctor import causes
from ranktable.doctor.lines import (
    MAX_BELOW,
    OF_PROCESS,
    recognise,
    speaker_of,
    voice_of,
)
from ranktable.doctor.patterns import TRACEBACK, Evidence, LogPattern

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ranktable.doctor.lines import LogEvent

MAX_DEPTH = 4
MAX_TEXT = 300
SILENT = {
    Evidence.IDENTITY, Evidence.STATE, Evidence.LIFE, Evidence.END, Evidence.ATTEMPT,
    Evidence.UNKNOWN, Evidence.EXIT, Evidence.HOST,
}  # fmt: skip
"""What does not tell more than the message that carries it."""

LOST = LogPattern("lost-a-peer", "python", Evidence.CLOSED, "", "", "")
"""An exception of a process that lost another, or waited for it."""

STOPPED = LogPattern("stopped", "python", Evidence.CASCADE, "", "", "")
"""An exception of a process that was told to stop, or that tells of another."""

WRAPPERS = {Evidence.EXCEPTION, Evidence.CASCADE, Evidence.CLOSED, Evidence.UNKNOWN}
"""What may carry something that tells more."""

_OF_LIBRARY = re.compile(
    r"CCL|NPU|A[Cc][Ll]|acl|CUDA|HIP|PT_BRIDGE|PTX|error code|ERR\d|Last error"
    r"|reported as above"
)
"""Exceptions below which their library says more."""
_SAYS_MORE = "- Ascend Error Message:"
"""Title above what CANN says, below any exception of MindSpore."""

_GROUP = ("group", "group_id", "group_name")
_TASK, _OF_TASK = ("hccl-task", "hccl-task-peer"), ("group", "group_size", "group_rank")

CODES = ("npu-code", "hccl-code")
"""Codes of CANN that stand beside what the driver says."""

_OWN_CALL = re.compile(
    r"call aclnn\w+ failed|\b(?:(?:SetDevice|aclInit|(?:acl)?rt(?:SetDevice|Malloc\w*"
    r"|Create\w+))(?:\([^)\n]{0,80}\))?, error code is)"
)
"""A call of CANN that waits for nobody: an error of it is one of this process."""

ERROR = LogPattern("error-text", "text", Evidence.FAULT, "", "", "")
"""A text whose meaning is in ``causes.toml``, wherever it stands."""


def judged_again(events: Sequence[LogEvent]) -> list[LogEvent]:
    """Return the events, each as what it carries; an exception is one event."""
    events, chained = _chains(events)
    raised = {
        (event.file, event.line): event
        for event in events
        if event.kind is Evidence.EXCEPTION
    }
    told: set[tuple[str, int]] = set()
    kept: list[LogEvent] = []
    for event in events:
        if (event.file, event.line) in chained:
            continue
        call = raised.get((event.file, event.line))
        if event is call or (call is not None and event.kind is Evidence.UNKNOWN):
            continue
        if call is not None and event.kind not in SILENT:
            told.add((event.file, event.line))
            event = _joined(event, call)  # noqa: PLW2901 - the line is one event
        is_carried = call is None and _is_below(event, raised)
        kept.append(event if is_carried else _unwrapped(event))
    kept += [_unwrapped(call) for place, call in raised.items() if place not in told]
    return _with_groups(sorted(kept, key=lambda event: (event.file, event.line)))


def _with_groups(events: list[LogEvent]) -> list[LogEvent]:
    """Return the events, each time-out with the group that another line tells.

    torch tells the operation with the rank in its group, and then the group with the
    number of the operation. HCCL tells task and peer, and then their group.
    """
    groups = {
        (event.file, *voice_of(event), event.fields["seq"]): event.fields
        for event in reversed(events)
        if event.kind is Evidence.STATE and event.fields.keys() >= {"seq", "group_id"}
    }
    below: dict[tuple[str, ...], LogEvent] = {}
    found: list[LogEvent] = []
    for event in reversed(events):
        who = event.file, *voice_of(event)
        if event.pattern.name == "hccl-task-group":
            below[who] = event
        elif event.pattern.name in _TASK and who in below:
            of_it = {name: below[who].fields[name] for name in _OF_TASK}
            event = replace(event, fields={**event.fields, **of_it})  # noqa: PLW2901
            if event.pattern.name == _TASK[0]:  # the first line of a task
                del below[who]
        found.append(_with_group(event, groups))
    return found[::-1]


def _with_group(
    event: LogEvent, groups: Mapping[tuple[str, ...], Mapping[str, str]]
) -> LogEvent:
    said = event.fields
    if event.kind is not Evidence.TIMEOUT or not said.keys() >= {"seq", "group_rank"}:
        return event
    told = groups.get((event.file, *voice_of(event), said["seq"]), {})
    of_it = {name: told[name] for name in _GROUP if name in told}
    is_told = not said.keys().isdisjoint(_GROUP)
    return event if is_told else replace(event, fields={**said, **of_it})


def _is_below(event: LogEvent, raised: Mapping[tuple[str, int], LogEvent]) -> bool:
    """Whether a message stands below an exception that is judged with it.

    An older watchdog says its rank, which the exception does not.
    """
    is_named = "group_rank" in event.fields and "rank" not in event.fields
    if "payload" not in event.fields or is_named:
        return False
    places = ((event.file, event.line - above) for above in range(1, MAX_BELOW + 1))
    said = speaker_of(event.text)[1].strip()
    return any(
        said in raised[place].fields.get("below", "").splitlines()
        for place in places
        if place in raised
    )


def _chains(
    events: Sequence[LogEvent],
) -> tuple[list[LogEvent], set[tuple[str, int]]]:
    """Return the events with a chain of exceptions as one, and the lines left out."""
    begun: dict[tuple[str, ...], list[LogEvent]] = {}
    chains: list[list[LogEvent]] = []
    kept: list[LogEvent] = []
    for event in events:
        if event.kind is not Evidence.EXCEPTION:
            kept.append(event)
            continue
        who = (event.file, *voice_of(event))
        chain = [*begun.pop(who, []), event]
        if event.fields.get("is_chained"):
            begun[who] = chain
        else:
            chains.append(chain)
    chains += begun.values()  # the log ends before their last exception
    told = list(map(_root_event, chains))
    kept += told
    left_out = {(one.file, one.line) for chain in chains for one in chain}
    return kept, left_out - {(one.file, one.line) for one in told}


def _root_event(chain: Sequence[LogEvent]) -> LogEvent:
    """Return the exception of a chain that counts: the first that tells something.

    One of a process that had lost a peer is told by the last, with all that it says.
    One that was handled until a peer was lost may tell nothing: it is noted as such.
    """
    last = chain[-1]
    if len(chain) == 1:
        return last
    said = [one.fields.get("what", "") for one in chain]
    is_vague = [causes.is_bland(what) or causes.is_wrapper(what) for what in said]
    first = is_vague.index(False) if False in is_vague else -1
    if causes.is_of_peer(said[first]) or causes.is_stop(said[first]):
        before = {"before": said[0]} if first > 0 and causes.is_bland(said[0]) else {}
        return replace(last, fields={**last.fields, **before, "root": said[first]})
    if first != -1 and _is_consequence(last):
        return replace(chain[first], fields={**chain[first].fields, "handled": "1"})
    return chain[first]


def _is_consequence(event: LogEvent) -> bool:
    what, frame = (event.fields.get(name, "") for name in ("what", "frame"))
    return causes.is_of_peer(what) or causes.is_below_call(what, frame)


def root_of(event: LogEvent) -> str:
    """Return the exception of a chain that counts."""
    names = ("root", "payload", "what")
    return next((text for name in names if (text := event.fields.get(name))), "")


def _joined(event: LogEvent, call: LogEvent) -> LogEvent:
    """Return a message with the traceback that ends with it."""
    said = event.fields
    if call.pattern.is_of_another:  # who tells it did not raise it
        said = {name: text for name, text in said.items() if name not in OF_PROCESS}
    return replace(event, fields={**call.fields, **said, "raised": root_of(call)})


def _unwrapped(event: LogEvent, depth: int = MAX_DEPTH) -> LogEvent:
    """Return what an event carries as an event of the same speaker."""
    wrapper = None
    for text in _carried(event) if depth else ():
        found = recognise(text)
        if found is not None and found[0].name in CODES:
            # The text of the driver beside it tells more.
            is_better = wrapper is None or wrapper[0].name == "npu-code"
            wrapper = found if is_better else wrapper
        elif found is not None and _tells_more(found[0], event):
            return _unwrapped(_told(event, *found), depth - 1)
        if causes.meaning_of(text) is not None:
            return _told(event, ERROR, {"what": text[:MAX_TEXT]})
    if wrapper is not None and not _is_of_own_call(event):
        return _told(event, *wrapper)
    if event.kind is Evidence.EXCEPTION:
        return _of_others(event)
    return _own_call(event) if _is_of_own_call(event) else event


def _is_of_own_call(event: LogEvent) -> bool:
    """Whether an exception came out of a call of CANN that waits for nobody."""
    is_of_cann = event.pattern.name in ("npu-function", *CODES)
    return is_of_cann and bool(_OWN_CALL.search(event.fields.get("raised", "")))


def _own_call(event: LogEvent) -> LogEvent:
    """Return the exception of a call that waits for nobody, by what it says itself."""
    raised = event.fields["raised"]
    if causes.meaning_of(raised) is not None:
        return _told(event, ERROR, {"what": raised[:MAX_TEXT]})
    said = {**event.fields, "what": raised}
    said.pop("payload", None)
    return replace(event, pattern=TRACEBACK, fields=said)


def _tells_more(carried: LogPattern, event: LogEvent) -> bool:
    """Whether a message tells more than the one that carries it."""
    is_same = carried.is_form and event.kind is Evidence.EXCEPTION
    return carried.kind not in SILENT and not is_same


def _of_others(event: LogEvent) -> LogEvent:
    """Return an exception as what it follows from, if it is no failure of its own."""
    what = root_of(event)
    if causes.is_stop(what) or causes.is_wrapper(what):
        return replace(event, pattern=STOPPED)
    frame = event.fields.get("frame", "")
    if causes.is_of_peer(what):
        place = "" if "root" in event.fields else causes.is_apart(what, frame)
        said = {"apart": place} if place else {}
        return replace(event, pattern=LOST, fields={**event.fields, **said})
    if causes.is_below_call(what, frame):
        return replace(event, pattern=LOST, fields={**event.fields, "below_call": "1"})
    return event


def _told(event: LogEvent, pattern: LogPattern, fields: dict[str, str]) -> LogEvent:
    """Return what an event carries, with its speaker."""
    left = ("payload", "below", "root", "what")
    own = {name: text for name, text in event.fields.items() if name not in left}
    said = {"what": event.fields.get("what", ""), **fields, **own}
    if event.kind is Evidence.EXCEPTION:
        said["raised"] = root_of(event)
    return replace(event, pattern=pattern, fields=said)


def _carried(event: LogEvent) -> Iterator[str]:
    """Yield the texts that an event carries, the most telling first."""
    meaning = None
    if event.kind is Evidence.FAULT:
        meaning = causes.meaning_of(event.fields.get("what", ""))
    is_unclear = meaning is not None and meaning.of_class == "unclear"
    if not (event.kind in WRAPPERS or "payload" in event.fields or is_unclear):
        return
    said = event.fields.get("raised") or event.fields.get("what", "")
    below = event.fields.get("below", "")
    if _OF_LIBRARY.search(said) or _SAYS_MORE in below:
        yield from reversed(below.splitlines())
    if payload := event.fields.get("payload"):
        yield payload
    if event.kind is Evidence.EXCEPTION:
        yield root_of(event)
    elif event.kind is Evidence.UNKNOWN or event.pattern.name == "hccl-code":
        yield event.fields.get("what", "")
