"""What ``check`` has found: full, concise, JSON and Markdown; others as for files."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from ranktable.report.finding_lines import (
    code_of,
    concise_line,
    escaped,
    fold,
    help_line,
    markdown_help,
)
from ranktable.report.findings_data import (
    as_data,
    ignored_data,
    render_github,
    render_sarif,
)
from ranktable.report.json_document import json_document
from ranktable.report.terminal import ignored_text, summary
from ranktable.schema.report import Report
from ranktable.schema.text import counted, printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ranktable.preflight.here import Checked
    from ranktable.report.terminal import Style


def _report(checked: Checked) -> Report:
    """Return the findings as those of a file, for the renderers of files."""
    found, ignored = checked.diagnostics, checked.ignored
    return Report.of(found, file=checked.subject, ignored=ignored)


def render_full(checked: Checked, style: Style) -> Iterator[str]:
    """Yield what differs with advice, then what could not be looked at."""
    yield f"{style.mark(printable(checked.subject), 'bold')}\n"
    advised: set[tuple[str, str | None]] = set()
    for each in fold(checked.diagnostics):
        first = each.first
        yield f"{code_of(first, style)}: {printable(each.message)}\n"
        if first.location.line is not None:
            place = printable(str(first.location))
            yield f"  {style.mark('-->', 'gutter')} {place}\n"
        if first.hint is not None and (first.code, first.hint) not in advised:
            yield help_line(first.hint, style)
        advised.add((first.code, first.hint))
    yield f"{_outcome(checked)}\n"
    for reason in not_checked(checked):
        yield f"not checked: {reason}\n"


def _outcome(checked: Checked) -> str:
    rules = counted(len(checked.agrees), "rule")
    if checked.diagnostics:
        agrees = "agrees" if len(checked.agrees) == 1 else "agree"
        return f"{summary([_report(checked)])}; {rules} {agrees}"
    if not checked.has_looked:
        return f"nothing could be checked{ignored_text([_report(checked)])}"
    return f"all that was checked agrees: {rules}{ignored_text([_report(checked)])}"


def not_checked(checked: Checked) -> list[str]:
    """Return why something was not checked, with the rules of each reason."""
    by_reason: dict[str, list[str]] = {}
    for each in checked.not_checked:
        by_reason.setdefault(each.why, []).append(f"{each.code} {each.name}")
    return [printable(f"{why} ({', '.join(r)})") for why, r in by_reason.items()]


def render_concise(checked: Checked, style: Style) -> Iterator[str]:
    """Yield one line for each finding and for each reason why nothing was looked at."""
    for each in fold(checked.diagnostics):
        yield concise_line(each.first, style, each.message)
    if not checked.diagnostics:
        yield f"{printable(checked.subject)}: {_outcome(checked)}\n"
    for reason in not_checked(checked):
        yield f"not checked: {reason}\n"


def render_json(checked: Checked, _style: Style) -> Iterator[str]:
    """Yield one document; ``docs/check.md`` describes it, and keys are only added."""
    yield from json_document(
        {
            "ok": checked.is_agreed and checked.has_looked,
            "subject": checked.subject,
            "findings": iter([as_data(each) for each in checked.diagnostics]),
            "agrees": [each.code for each in checked.agrees],
            "not_checked": iter([each._asdict() for each in checked.not_checked]),
            "totals": dict(Counter(each.code for each in checked.diagnostics)),
            **ignored_data([_report(checked)]),
            **({"measured": iter(checked.measured)} if checked.measured else {}),
        }
    )


def render_markdown(checked: Checked, _style: Style) -> Iterator[str]:
    """Yield the findings for the summary of a run."""
    yield f"### ranktable check: {escaped(checked.subject)}\n\n"
    for each in fold(checked.diagnostics):
        kind, code = each.first.severity.value, each.first.code
        told = escaped(each.message) + markdown_help(each.first.hint)
        yield f"- **{kind} {code}**: {told}\n"
    yield f"\n{escaped(_outcome(checked))}.\n"
    for reason in not_checked(checked):
        yield f"\nNot checked: {escaped(reason)}\n"


def render_as_sarif(checked: Checked, style: Style) -> Iterator[str]:
    """Yield one SARIF log."""
    return render_sarif([_report(checked)], style)


def render_as_github(checked: Checked, style: Style) -> Iterator[str]:
    """Yield a workflow command for each finding."""
    return render_github([_report(checked)], style)


RENDERERS = {
    "full": render_full,
    "concise": render_concise,
    "json": render_json,
    "markdown": render_markdown,
    "sarif": render_as_sarif,
    "github": render_as_github,
}
