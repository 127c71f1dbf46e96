"""What ``check`` has found: full, concise, JSON and Markdown; others as for files."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from ranktable.report.doctor_renderers import escaped
from ranktable.report.findings_data import as_data, render_github, render_sarif
from ranktable.report.json_document import json_document
from ranktable.report.terminal import summary
from ranktable.schema.report import Report
from ranktable.schema.text import counted, printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ranktable.preflight.here import Checked
    from ranktable.report.terminal import Style
    from ranktable.schema.finding import Diagnostic


def _report(checked: Checked) -> Report:
    """Return the findings as those of a file, for the renderers of files."""
    counts = Counter((each.code, each.severity) for each in checked.diagnostics)
    return Report(file=checked.subject, diagnostics=checked.diagnostics, counts=counts)


def render_full(checked: Checked, style: Style) -> Iterator[str]:
    """Yield what differs with advice, then what could not be looked at."""
    yield f"{style.mark(printable(checked.subject), 'bold')}\n"
    advised: set[tuple[str, str | None]] = set()
    for each in checked.diagnostics:
        kind = each.severity.value
        message = printable(each.message)
        yield f"{style.mark(f'{kind}[{each.code}]', kind)}: {message}\n"
        if each.location.line is not None:
            place = printable(str(each.location))
            yield f"  {style.mark('-->', 'gutter')} {place}\n"
        if each.hint is not None and (each.code, each.hint) not in advised:
            yield f"  {style.mark('help', 'help')}: {printable(each.hint)}\n"
        advised.add((each.code, each.hint))
    yield f"{_outcome(checked)}\n"
    for reason in not_checked(checked):
        yield f"not checked: {reason}\n"


def _outcome(checked: Checked) -> str:
    rules = counted(len(checked.agrees), "rule")
    if checked.diagnostics:
        agrees = "agrees" if len(checked.agrees) == 1 else "agree"
        return f"{summary([_report(checked)])}; {rules} {agrees}"
    if not checked.has_looked:
        return "nothing could be checked"
    return f"all that was checked agrees: {rules}"


def not_checked(checked: Checked) -> list[str]:
    """Return why something was not checked, with the rules of each reason."""
    by_reason: dict[str, list[str]] = {}
    for each in checked.not_checked:
        by_reason.setdefault(each.why, []).append(f"{each.code} {each.name}")
    return [printable(f"{why} ({', '.join(r)})") for why, r in by_reason.items()]


def render_concise(checked: Checked, style: Style) -> Iterator[str]:
    """Yield one line for each finding and for each reason why nothing was looked at."""
    for each in checked.diagnostics:
        place = style.mark(printable(str(each.location)), "place")
        code = style.mark(f"{each.severity.value}[{each.code}]", each.severity.value)
        yield f"{place}: {code} {printable(each.message)}\n"
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
            **({"measured": iter(checked.measured)} if checked.measured else {}),
        }
    )


def render_markdown(checked: Checked, _style: Style) -> Iterator[str]:
    """Yield the findings for the summary of a run."""
    yield f"### ranktable check: {escaped(checked.subject)}\n\n"
    for each in checked.diagnostics:
        yield f"- **{each.severity.value} {each.code}**: {_told(each)}\n"
    yield f"\n{escaped(_outcome(checked))}.\n"
    for reason in not_checked(checked):
        yield f"\nNot checked: {escaped(reason)}\n"


def _told(each: Diagnostic) -> str:
    return escaped(each.message + (f". {each.hint}" if each.hint else ""))


def render_as_sarif(checked: Checked, style: Style) -> Iterator[str]:
    """Yield one SARIF log."""
    return render_sarif([_report(checked)], style)


def render_as_github(checked: Checked, style: Style) -> Iterator[str]:
    """Yield a workflow command for each finding."""
    return render_github([_report(checked)], style)


RENDERERS = (
    ("full", render_full),
    ("concise", render_concise),
    ("json", render_json),
    ("markdown", render_markdown),
    ("sarif", render_as_sarif),
    ("github", render_as_github),
)
