"""One finding as a line: the same for validate, check and doctor.

Of ``check``, findings that are equal but for one number are one line: eight chips of a
host have the same defect as a rule.
"""

from __future__ import annotations

import re
from html import escape
from typing import TYPE_CHECKING, NamedTuple

from ranktable.schema.text import folded, printable, times

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ranktable.report.terminal import Style
    from ranktable.schema.finding import Diagnostic

_NUMBER = re.compile(r"(?<![\w.:])[0-9]{1,9}(?![\w.:])")
"""A number of its own: no part of a name, an address or a version."""


class Folded(NamedTuple):
    """Equal findings.

    Attributes:
        first: The first of them, with the numbers of all in its message.
        number: How many there are.
    """

    first: Diagnostic
    number: int

    @property
    def message(self) -> str:
        """The message, with the count if there are several."""
        more = f" ({times(self.number)})" if self.number > 1 else ""
        return self.first.message + more


def fold(diagnostics: Iterable[Diagnostic]) -> Iterator[Folded]:
    """Yield findings in their order; those that differ in one number only as one."""
    alike: dict[tuple[object, ...], list[Diagnostic]] = {}
    for each in diagnostics:
        masked = _NUMBER.sub("0", each.message)
        key = (each.code, each.severity, each.hint, masked)
        alike.setdefault(key, []).append(each)
    for group in alike.values():
        message = _joined([each.message for each in group])
        if message is None:
            yield from (Folded(each, 1) for each in group)
        else:
            yield Folded(group[0]._replace(message=message), len(group))


def _joined(messages: Sequence[str]) -> str | None:
    """Return one message for several, None if they differ in more than a number."""
    columns = [*zip(*map(_NUMBER.findall, messages), strict=True)]
    differing = [at for at, column in enumerate(columns) if len({*column}) > 1]
    if len(differing) > 1:
        return None
    texts = iter(
        folded(sorted({*map(int, column)})) if at in differing else column[0]
        for at, column in enumerate(columns)
    )
    return _NUMBER.sub(lambda _: next(texts), messages[0])


def code_of(diagnostic: Diagnostic, style: Style) -> str:
    """Return the severity and the code of a finding: ``error[RT202]``."""
    kind = diagnostic.severity.value
    return style.mark(f"{kind}[{diagnostic.code}]", kind)


def concise_line(diagnostic: Diagnostic, style: Style, message: str = "") -> str:
    """Return a finding as one line; the message is its own by default."""
    place = style.mark(printable(str(diagnostic.location)), "place")
    text = printable(message or diagnostic.message)
    return f"{place}: {code_of(diagnostic, style)} {text}\n"


def help_line(hint: str, style: Style, before: str = "  ") -> str:
    """Return advice as a line."""
    return f"{before}{style.mark('help', 'help')}: {printable(hint)}\n"


def markdown_help(hint: str | None) -> str:
    """Return advice for Markdown, after a message; empty without any."""
    return f" **Help:** {escaped(hint)}" if hint else ""


def escaped(text: str) -> str:
    """Return text that Markdown and HTML show as it is."""
    for mark in "\\`*_{}[]#|":
        text = text.replace(mark, f"\\{mark}")
    return printable(escape(text, quote=False))
