"""A diagnosis for people and programs: full, concise, JSON and Markdown."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ranktable.report.finding_lines import escaped, help_line
from ranktable.report.json_document import json_document
from ranktable.schema.finding import Severity
from ranktable.schema.text import counted, folded, printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ranktable.doctor.diagnose import Diagnosis
    from ranktable.doctor.headlines import Cause
    from ranktable.doctor.lines import LogEvent
    from ranktable.report.terminal import Style

MAX_UNSEEN_HOSTS = 8
MAX_TEXT = 200
MAX_UNKNOWN = 20
_SOURCE = re.compile(r"\[/\S*/(?=[\w.]+:\d+\])")
"""The folders of a source file of a library, which only take room."""


def render_full(diagnosis: Diagnosis, style: Style) -> Iterator[str]:
    """Yield the diagnosis as a few paragraphs, each cause with its lines."""
    for cause in diagnosis.causes:
        mark = "job failed:" if cause.rule.severity is Severity.ERROR else "job ended:"
        yield f"{style.mark(mark, 'error')} {printable(cause.headline)}\n"
        if cause.waiting:
            yield f"  {printable(cause.waiting)}\n"
        yield from _evidence(cause.evidence, style)
        rule = f"{cause.rule.summary} ({cause.rule.code})"
        yield f"{style.mark('cause:', 'bold')} {rule}\n"
        explain = f"`ranktable explain {cause.rule.code}`"
        yield help_line(f"{cause.fix} {explain}", style, "")
    if not diagnosis.causes:
        yield f"{no_failure(diagnosis)}\n"
    if diagnosis.unknown_text and not _is_told(diagnosis):
        yield f"{style.mark('also:', 'help')} {printable(diagnosis.unknown_text)}\n"
    for note in diagnosis.notes:
        yield f"{style.mark('also:', 'help')} {printable(note)}\n"
    yield from _gaps(diagnosis)


def no_failure(diagnosis: Diagnosis) -> str:
    """Return that nothing failed, or that nothing says how the job ended."""
    if diagnosis.num_ignored:
        causes = counted(diagnosis.num_ignored, "cause")
        return f"no cause with these codes; {causes} ignored"
    if diagnosis.has_ended_well:
        return f"no failure found in {looked_at(diagnosis)}"
    if diagnosis.unknown:
        return (
            f"no failure is known in {looked_at(diagnosis)}, but the few steps below "
            "errors of unknown kind do not tell how the job ended: add the logs of the "
            "other ranks and of the launcher"
        )
    return (
        f"no failure found in {looked_at(diagnosis)}, and no line that says that the "
        "job ended or goes on: add the logs of the other ranks and of the launcher"
    )


def _is_told(diagnosis: Diagnosis) -> bool:
    """Whether the errors that are not known are a cause of their own."""
    return any(cause.rule.code == "RT631" for cause in diagnosis.causes)


def _evidence(events: Sequence[LogEvent], style: Style) -> Iterator[str]:
    places = [printable(f"{event.file}:{event.line}") for event in events]
    width = max(map(len, places), default=0)
    for place, event in zip(places, events, strict=True):
        text = printable(_SOURCE.sub("[", event.text.strip()))
        text = text if len(text) <= MAX_TEXT else text[:MAX_TEXT] + "..."
        times = f" ({counted(event.count, 'time')})" if event.count > 1 else ""
        yield f"  {style.mark(place.ljust(width), 'place')}  {text}{times}\n"


def _gaps(diagnosis: Diagnosis) -> Iterator[str]:
    """Yield what could not be looked at."""
    if diagnosis.unseen:
        yield f"not seen: no line of {unseen(diagnosis)}\n"
    for log in diagnosis.logs:
        if log.problem is not None:
            yield f"not read: {printable(f'{log.file}: {log.problem}')}\n"


def unseen(diagnosis: Diagnosis) -> str:
    """Return the ranks of which no line was seen, by host."""
    by_host: dict[str | None, list[int]] = {}
    for rank in diagnosis.unseen:
        by_host.setdefault(diagnosis.ranks.host_of(rank), []).append(rank)
    shown = [
        f"rank{'s' * (len(ranks) > 1)} {folded(ranks)}" + (f" ({host})" if host else "")
        for host, ranks in list(by_host.items())[:MAX_UNSEEN_HOSTS]
    ]
    left = len(by_host) - len(shown)
    return printable("; ".join(shown) + (f"; and {left} more hosts" if left else ""))


def looked_at(diagnosis: Diagnosis) -> str:
    """Return how much was read."""
    lines = sum(log.num_lines for log in diagnosis.logs)
    return (
        f"{counted(len(diagnosis.logs), 'log')}, {counted(lines, 'line')}, "
        f"{diagnosis.num_recognised} of them recognised"
    )


def render_concise(diagnosis: Diagnosis, style: Style) -> Iterator[str]:
    """Yield one line for each cause: ``file:line:1: CODE message``."""
    for diagnostic in diagnosis.diagnostics():
        code = style.mark(diagnostic.code, diagnostic.severity.value)
        yield printable(f"{diagnostic.location}: ")
        yield f"{code} {printable(diagnostic.message)}\n"


def render_markdown(diagnosis: Diagnosis, _style: Style) -> Iterator[str]:
    """Yield the diagnosis for a pull request or the summary of a run."""
    if not diagnosis.causes:
        yield f"N{no_failure(diagnosis)[1:]}.\n"
    for cause in diagnosis.causes:
        yield f"### {cause.rule.code}: {escaped(cause.headline)}\n\n"
        if cause.waiting:
            yield f"{escaped(cause.waiting)}\n\n"
        for event in cause.evidence:
            text = printable(event.text.strip()).replace("`", "'")
            yield f"- {escaped(f'{event.file}:{event.line}')}: `{text}`\n"
        yield f"\n**Cause:** {cause.rule.summary}."
        yield f" **Help:** {cause.fix}\n\n"
    if diagnosis.unseen:
        yield f"Not seen: no line of {escaped(unseen(diagnosis))}.\n"


def render_json(diagnosis: Diagnosis, _style: Style) -> Iterator[str]:
    """Yield one document; ``docs/json.md`` describes it, and keys are only added."""
    logs = diagnosis.logs
    yield from json_document(
        {
            "ok": not diagnosis.causes,
            "causes": iter(
                [_cause_data(cause, diagnosis) for cause in diagnosis.causes]
            ),
            "world_size": diagnosis.ranks.size
            if diagnosis.ranks.is_size_known
            else None,
            "unseen": list(diagnosis.unseen),
            "ended_well": diagnosis.has_ended_well,
            **({"notes": list(diagnosis.notes)} if diagnosis.notes else {}),
            **({"ignored": diagnosis.num_ignored} if diagnosis.num_ignored else {}),
            "unknown": [
                _event_data(event) for event in diagnosis.unknown[:MAX_UNKNOWN]
            ],
            "logs": {
                "files": len(logs),
                "lines": sum(log.num_lines for log in logs),
                "bytes": sum(log.num_bytes for log in logs),
                "recognised": diagnosis.num_recognised,
                "unread": [
                    {"file": log.file, "problem": log.problem}
                    for log in logs
                    if log.problem is not None
                ],
            },
        }
    )


def _cause_data(cause: Cause, diagnosis: Diagnosis) -> dict[str, object]:
    return {
        "code": cause.rule.code,
        "name": cause.rule.name,
        "severity": cause.rule.severity.value,
        "ranks": list(cause.ranks),
        "host": cause.host,
        "chips": [diagnosis.ranks.chip_of(rank) for rank in cause.ranks],
        "message": cause.headline,
        "waiting": cause.waiting,
        "hint": cause.fix,
        "evidence": [_event_data(event) for event in cause.evidence],
    }


def _event_data(event: LogEvent) -> dict[str, object]:
    return {
        "file": event.file,
        "line": event.line,
        "text": event.text.strip(),
        "count": event.count,
    }


RENDERERS = {
    "full": render_full,
    "concise": render_concise,
    "json": render_json,
    "markdown": render_markdown,
}
