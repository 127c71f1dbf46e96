"""A text that is being parsed, and its findings."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from ranktable.cluster.hostfiles import hostfile_rules as rules
from ranktable.schema.document import SourceSpan
from ranktable.schema.files import refuse_other_types
from ranktable.schema.finding import Finding, Findings
from ranktable.schema.json_parser import decode
from ranktable.schema.report import Report, make_report
from ranktable.schema.rules.syntax import TOO_LARGE, TOO_MANY
from ranktable.schema.text import quoted
from ranktable.schema.values import is_address

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from ranktable.schema.finding import Rule, Severity

T = TypeVar("T")

MAX_LINES = 1 << 21

MAX_SLOTS = 1 << 20
"""Most processes of a job; a rank table has the same limit of chips."""

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,252}")
_DIGITS = re.compile(r"[0-9]+")
_MAX_DIGITS = 18
_WORD = re.compile(r"\S+")


class Token(NamedTuple):
    """A piece of a text with its offsets.

    Attributes:
        text: The text without a shell's quotation marks.
        start: Offset of its first character.
        end: Offset after its last character.
    """

    text: str
    start: int
    end: int

    def span(self, label: str | None = None) -> SourceSpan:
        """Return its place in the text."""
        return SourceSpan(offsets=(self.start, self.end), label=label)

    def part(self, start: int, end: int | None = None) -> Token:
        """Return the part between two offsets of this piece."""
        text = self.text[start:end]
        return Token(text, self.start + start, self.start + start + len(text))

    def parts(self, separator: str) -> Iterator[Token]:
        """Yield the pieces between separators."""
        at = 0
        for text in self.text.split(separator):
            yield self.part(at, at + len(text))
            at += len(text) + len(separator)


class SourceText:
    """A text and the findings of its reader.

    Attributes:
        text: The text.
        found: The findings.
        left_out: What the text says about hosts that a ``Hostfile`` cannot express.
    """

    def __init__(self, text: str, found: Findings | None = None) -> None:
        """Start with findings, or with none."""
        self.text = text
        self.found = Findings() if found is None else found
        self.left_out: set[str] = set()

    def report(
        self,
        rule: Rule,
        place: Token | SourceSpan | None,
        message: str,
        *,
        hint: str | None = None,
        first_use: Token | None = None,
        severity: Severity | None = None,
    ) -> None:
        """Add a finding of a rule."""
        span = place.span() if isinstance(place, Token) else place
        related = () if first_use is None else (first_use.span("first use"),)
        self.found.add(
            rule.finding(span, message, hint=hint, related=related, severity=severity)
        )

    @property
    def is_sound(self) -> bool:
        """Whether no error was found, shown or not."""
        return not self.found.has_errors

    def lines(self) -> Iterator[Token]:
        """Yield every line without its end; only a newline ends a line."""
        at = 0
        for text in self.text.split("\n"):
            yield Token(text, at, at + len(text))
            at += len(text) + 1

    def number(self, word: Token, what: str, *, hint: str | None = None) -> int | None:
        """Return the number in a word, None after reporting that it is not a number.

        Args:
            word: The word.
            what: What the number means, with an article.
            hint: What to write.
        """
        if _DIGITS.fullmatch(word.text):
            if len(word.text) <= _MAX_DIGITS:
                return int(word.text)
            message = f"{quoted(word.text)} is too large for {what}"
        elif word.text:
            message = f"{quoted(word.text)} is not {what}"
        else:
            message = f"{what} is missing here"
        self.report(rules.BAD_COUNT, word, message, hint=hint)
        return None

    def count(
        self,
        word: Token,
        what: str = "a number of slots",
        *,
        hint: str | None = None,
    ) -> int | None:
        """Return the number of processes in a word, if it is within the limit."""
        number = self.number(word, what, hint=hint)
        if number is not None and number > MAX_SLOTS:
            self.too_many(word, "processes")
            return None
        return number

    def too_many(self, word: Token, what: str) -> None:
        """Report that there are more hosts or processes than the limit."""
        self.report(TOO_MANY, word, f"this is more than {MAX_SLOTS} {what}")

    def host(self, word: Token) -> str | None:
        """Return the host in a word, None after reporting that it is not a host."""
        if is_host(word.text):
            return word.text
        hint = None
        if "," in word.text:
            hint = "write one host a line"
        elif re.fullmatch(r"[A-Za-z0-9_.-]+:[0-9]+", word.text):
            hint = "the number of slots is not part of the name here"
        message = f"{quoted(word.text)} is not the name of a host"
        if not word.text:
            message = "the name of a host is missing here"
        self.report(rules.BAD_HOST, word, message, hint=hint)
        return None

    def refuse_long(self) -> bool:
        """Report too many lines or commas; return whether there are too many."""
        for character, what in (("\n", "lines"), (",", "commas")):
            if self.text.count(character) > MAX_LINES:
                message = f"the file has more than {MAX_LINES} {what}"
                self.report(TOO_MANY, None, message)
                return True
        return False

    def refuse_nothing(self, hosts: Iterable[object]) -> None:
        """Report that there are no hosts, unless there is another error."""
        if self.is_sound and not any(True for _ in hosts):
            self.report(rules.NO_HOSTS, None, "the file names no host")


def is_host(text: str) -> bool:
    """Whether a text is a host name or an IP address."""
    return bool(_NAME.fullmatch(text)) or is_address(text)


def words_of(line: Token) -> list[Token]:
    """Return the words of a line, which are separated by blanks."""
    return [
        line.part(match.start(), match.end()) for match in _WORD.finditer(line.text)
    ]


def parse_source(
    data: bytes | str,
    read: Callable[[SourceText], T | None],
    *,
    file: str,
    name: str,
    limit: int | None,
    max_size_bytes: int,
) -> tuple[Report, T | None, tuple[str, ...]]:
    """Parse the bytes of a file with a reader of its text.

    Args:
        data: The file.
        read: The reader; it returns None after reporting errors.
        file: Name to report.
        name: Name of the format.
        limit: Most findings of each code to locate; the report counts all.
        max_size_bytes: The largest file that is read.

    Returns:
        The report; the value, None if there is an error; and what the value leaves out.

    Raises:
        TypeError: The data is neither bytes nor text.
    """
    refuse_other_types(data)

    def report(found: Findings, text: str | None) -> Report:
        return make_report(found, file=file, text=text, format_name=name)

    if len(data) > max_size_bytes:
        message = f"the file is larger than {max_size_bytes} bytes"
        return report(Findings([TOO_LARGE.finding(None, message)]), None), None, ()
    decoded = (data, []) if isinstance(data, str) else decode(data)
    if isinstance(decoded, Finding):
        assert not isinstance(data, str)
        text = data.decode("utf-8", "replace") if decoded.span else None
        return report(Findings([decoded]), text), None, ()
    text, marks = decoded
    source = SourceText(text, Findings(marks, limit=limit))
    value = None if source.refuse_long() else read(source)
    result = report(source.found, text)
    left_out = tuple(sorted(source.left_out))
    return result, value if result.ok else None, left_out
