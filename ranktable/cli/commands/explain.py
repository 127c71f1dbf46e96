"""``ranktable explain``: the meaning of a code, offline, with its examples."""

from __future__ import annotations

import re
import textwrap
from typing import TYPE_CHECKING, Annotated

import typer

from ranktable.cli import completion
from ranktable.cli.kinds import judge_source
from ranktable.cli.output import (
    Color,
    CommandError,
    style_of,
    write,
    write_json,
)
from ranktable.cli.parameters import ColorOption, OutputFormatOption
from ranktable.preflight.rules import HostRule
from ranktable.report.catalogue import RULES
from ranktable.report.rule_pages import page_of
from ranktable.report.terminal import Style, render_full, table_lines
from ranktable.report.vendor_codes import causes, code_in, has_variable, vendor_codes
from ranktable.schema.check import check
from ranktable.schema.file_kind import Source
from ranktable.schema.report import Options

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ranktable.schema.finding import Rule
    from ranktable.schema.report import Report

_WIDTH = 79
BESIDE = "beside.json"
"""Name of the file that comes before an example, if a rule needs two files."""

SITE_SCHEMA_OPTION = "schema"
_LIKE_CODE = re.compile(r"[A-Za-z]{2}[0-9]+")
_BEGINS_CODE = re.compile(r"[Rr][Tt][0-9]{0,2}")


def explain(
    code: Annotated[
        str | None,
        typer.Argument(
            metavar="CODE",
            help="A code such as RT202 or RT2, a word such as duplicate, or a message.",
            autocompletion=completion.codes,
        ),
    ] = None,
    format: OutputFormatOption = "text",
    color: ColorOption = Color.AUTO,
) -> None:
    """Explain a diagnostic: why it matters, and how to fix it.

    It says what vendors' libraries do with the defect. Without CODE, list every code.
    The first digits of codes, a word, or an error code or message of a vendor's library
    list the codes that match.

    Example: ranktable explain RT202
    """
    found = list(RULES) if code is None else _find(code, RULES)
    if not found and (code is None or code_in(code) is None):
        raise CommandError(_nothing_found(code or ""))
    if format == "json":
        write_json([_data(rule) for rule in found])
        return
    style = style_of(color)
    if code is None:
        write(_listed(RULES, style))
        return
    vendor_code = code_in(code)
    if len(found) > 1 or vendor_code is not None:
        write(_several(code, vendor_code, found))
        return
    write(_page(found[0], style))


def _nothing_found(text: str) -> str:
    listing = "ranktable explain lists every code"
    if not text.strip() or _LIKE_CODE.fullmatch(text.strip()):
        return f"there is no code {text!r}; {listing}"
    return (
        f"{text!r} is not a code, nor the name of a rule, nor a message that is known; "
        f"{listing}"
    )


def _several(text: str, vendor_code: str | None, found: list[Rule]) -> Iterator[str]:
    """Yield the codes that match a code or message of a vendor."""
    if vendor_code is not None:
        known = vendor_codes()[vendor_code]
        yield _wrapped(f"{vendor_code}: {known.title}") + "\n"
        yield _wrapped(known.cause) + "\n\n"
    codes = "1 code" if len(found) == 1 else f"{len(found)} codes"
    yield f"{text!r} matches {codes}{':' if found else ''}\n\n"
    yield from (f"{rule.code}  {rule.summary}\n" for rule in found)


def _listed(rules: tuple[Rule, ...], style: Style) -> Iterator[str]:
    rows = [(rule.code, rule.severity.value, rule.summary) for rule in rules]
    if style.is_drawn:
        yield from table_lines([("code", "severity", "defect"), *rows], style)
        return
    for code, severity, summary in rows:
        yield f"{code}  {severity:<8} {summary}\n"


def _find(text: str, rules: tuple[Rule, ...]) -> list[Rule]:
    wanted = text.strip().casefold()
    exact = [rule for rule in rules if wanted in (rule.code.casefold(), rule.name)]
    if exact or not wanted:
        return exact
    if _BEGINS_CODE.fullmatch(text.strip()):
        return [rule for rule in rules if rule.code.casefold().startswith(wanted)]
    code = code_in(text)
    seen = [rule for rule in rules if _is_seen(wanted, rule, but=code)]
    if code is None:
        return [r for r in rules if r in seen or _speaks_of(wanted, r)]
    by_code = causes(text, rules)
    # A message is more exact than its code alone, unless it names the variable.
    is_message = len(wanted) > len("EI0014") and not has_variable(text)
    return seen if seen and is_message else by_code


def _speaks_of(wanted: str, rule: Rule) -> bool:
    """Whether a text is one word, and what is said of a rule has it."""
    said = f"{rule.name} {rule.summary} {page_of(rule).why}".casefold()
    return wanted.isalpha() and wanted in said


def _is_seen(wanted: str, rule: Rule, *, but: str | None) -> bool:
    """Whether a text is part of a message of a rule, or contains one besides a code."""
    return any(
        wanted in seen.casefold() or seen.casefold() in wanted
        for seen in page_of(rule).seen_as
        if seen != but
    )


def _data(rule: Rule) -> dict[str, object]:
    page = page_of(rule)
    return {
        "code": rule.code,
        "name": rule.name,
        "severity": rule.severity.value,
        "summary": rule.summary,
        "why": page.why,
        "fix": rule.fix,
        "readers": dict(page.readers),
        "seen_as": list(page.seen_as),
        "command": page.command,
        "beside": _text(page.beside),
        "bad": _text(page.bad),
        "good": _text(page.good),
        **(_checked_by(rule) if isinstance(rule, HostRule) else {}),
    }


def _checked_by(rule: HostRule) -> dict[str, str]:
    return {
        "needs": "; ".join(rule.needs),
        "compares": rule.compares,
        "source": rule.source,
    }


def _text(example: bytes | None) -> str | None:
    return None if example is None else example.decode("utf-8", "replace")


def _page(rule: Rule, style: Style) -> Iterator[str]:
    page = page_of(rule)
    title = style.mark(f"{rule.code} {rule.name}", "bold")
    kind = style.mark(rule.severity.value, rule.severity.value)
    yield f"{title} ({kind})\n{rule.summary}\n\n{_wrapped(page.why)}\n"
    yield f"\n{style.mark('What to do', 'bold')}\n{_wrapped(rule.fix)}\n"
    if isinstance(rule, HostRule):
        yield f"\n{style.mark('How it is checked', 'bold')}\n"
        for word, text in _checked_by(rule).items():
            yield _wrapped(f"{word}: {text}", indent="  ") + "\n"
    if page.readers:
        yield f"\n{style.mark('What others do', 'bold')}\n"
        for reader, effect in page.readers.items():
            yield _wrapped(f"{reader}: {effect}", indent="  ") + "\n"
    if page.seen_as:
        yield f"\n{style.mark('Seen as', 'bold')}\n"
        yield "".join(f"  {text}\n" for text in page.seen_as)
    yield from _examples(rule, style)


def _examples(rule: Rule, style: Style) -> Iterator[str]:
    """Yield the bad example, its command and what that says, and the good example."""
    page = page_of(rule)
    if page.bad is None or page.good is None:
        return
    if page.beside is not None:
        yield f"\n{style.mark(BESIDE, 'bold')}\n"
        yield textwrap.indent(page.beside.decode(), "  ")
    name = _example_name(rule)
    yield f"\n{style.mark('Bad', 'bold')}: {_command(rule, name)}\n"
    if page.command == "validate" and SITE_SCHEMA_OPTION not in page.options:
        yield "\n" + textwrap.indent(_finding(rule, page.bad, name, style), "  ")
    else:
        yield textwrap.indent(page.bad.decode("utf-8", "replace"), "  ")
    yield f"\n{style.mark('Good', 'bold')}\n"
    yield textwrap.indent(page.good.decode("utf-8", "replace"), "  ")


def example_ending(rule: Rule) -> str:
    """Return the ending of a file for an example of a rule."""
    page = page_of(rule)
    bad = page.bad or b""
    # topology.conf, and pairs of linked chips
    if "from" in page.options or bad.startswith((b"SwitchName=", b"0 ")):
        return "txt"
    if "spec" in page.options:  # it holds the ending
        return page.options["spec"]
    if bad.startswith((b"#!", b"apiVersion:")):
        return "sbatch" if bad.startswith(b"#!") else "yaml"
    return "jsonl" if bad.startswith(b'{"probe"') else "json"


def _example_name(rule: Rule) -> str:
    """Return the name of a file, or a folder, for the bad example of a rule."""
    page = page_of(rule)
    is_folder = page.command == "check" and "pods" not in page.options
    return "bad" if is_folder else f"bad.{example_ending(rule)}"


def _command(rule: Rule, name: str) -> str:
    """Return the command that finds the defect of the bad example."""
    page = page_of(rule)
    if "spec" in page.options:
        return f"ranktable gen --spec {name}"
    options = "".join(f" --{key} {value}" for key, value in page.options.items())
    if "from" in page.options:
        options = f" --to sccl-1.0{options}"
    if page.command == "check":
        option = "--pods" if "pods" in page.options else "--root"
        return f"ranktable check {BESIDE} {option} {name}"
    is_file = page.beside is not None and SITE_SCHEMA_OPTION not in page.options
    first = f"{BESIDE} " if is_file else ""
    return f"ranktable {page.command}{options} {first}{name}"


def judge_example(rule: Rule, data: bytes, file: str) -> Report:
    """Return what ``validate`` finds in an example of a rule."""
    page = page_of(rule)
    if not page.options:
        return judge_source(Source(file, data), Options(limit=None))[0]
    tp = page.options.get("tp")
    return check(
        data,
        file=file,
        chip=page.options.get("chip"),
        reader=page.options.get("for"),
        topology=page.options.get("topology"),
        tp=None if tp is None else int(tp),
    )


def _finding(rule: Rule, bad: bytes, name: str, style: Style) -> str:
    """Return what ``validate`` says of the bad example of a rule."""
    report = judge_example(rule, bad, name)
    only = report.only(lambda code: code == rule.code)
    shown = "".join(render_full([only], Style(style.is_coloured, _WIDTH)))
    return shown.rpartition("\n\n")[0] + "\n"


def _wrapped(text: str, indent: str = "") -> str:
    return textwrap.fill(
        text,
        _WIDTH,
        initial_indent=indent,
        subsequent_indent=indent + "  " * bool(indent),
    )
