"""Decode bytes as strict UTF-8 and parse strict JSON; every defect is explained."""

from __future__ import annotations

import codecs
import json
import math
import re
from typing import TYPE_CHECKING, Final

from ranktable.schema.document import Path, SourceSpan
from ranktable.schema.finding import Edit, Finding, Findings
from ranktable.schema.rules import syntax as rules
from ranktable.schema.text import counted, quoted, times
from ranktable.schema.values import MAX_DEPTH, BadNumber

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ranktable.schema.files import UnreadableError

# The longer mark comes first: UTF-32-LE begins with the mark of UTF-16-LE.
_WIDE_MARKS = (
    (codecs.BOM_UTF32_LE, "UTF-32"),
    (codecs.BOM_UTF32_BE, "UTF-32"),
    (codecs.BOM_UTF16_LE, "UTF-16"),
    (codecs.BOM_UTF16_BE, "UTF-16"),
)


def unreadable(error: UnreadableError) -> Finding:
    """Return the finding for a file that could not be read."""
    rule = next(rule for rule in rules.RULES if rule.code == error.code)
    return rule.finding(None, error.message, hint=error.hint)


def decode(data: bytes) -> tuple[str, list[Finding]] | Finding:
    """Return the text of a document, and a warning for a byte order mark.

    UTF-16 and UTF-32 are detected, and invalid UTF-8 is located. The mark is not part
    of the text.
    """
    for mark, name in _WIDE_MARKS:
        if data.startswith(mark):
            return _wide(name)
    # JSON begins with two ASCII characters; a zero byte there means UTF-16 or UTF-32.
    ascii_of_start = data[:4].replace(b"\0", b"")
    if b"\0" in data[:4] and ascii_of_start and ascii_of_start.isascii():
        return _wide("UTF-16 or UTF-32")
    found = []
    if data.startswith(codecs.BOM_UTF8):
        data = data[len(codecs.BOM_UTF8) :]
        found.append(
            rules.BYTE_ORDER_MARK.finding(
                SourceSpan(offsets=(0, 0)),
                "the file begins with a byte order mark, which some readers refuse",
                edit=Edit("remove"),
            )
        )
    try:
        return data.decode("utf-8"), found
    except UnicodeDecodeError as error:
        return _not_utf8(data, error)


def _not_utf8(data: bytes, error: UnicodeDecodeError) -> Finding:
    offset = len(data[: error.start].decode("utf-8"))
    return rules.NOT_UTF8.finding(
        SourceSpan(offsets=(offset, offset + 1)),
        f"byte 0x{data[error.start]:02x} is not UTF-8",
    )


def _wide(name: str) -> Finding:
    return rules.WIDE_ENCODING.finding(
        None, f"the file is {name}, not UTF-8", hint="convert it with iconv"
    )


MAX_DIGITS = 19
"""Most digits of a number; a number beyond 64 bits is not a rank, chip or count."""

_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_MARK = re.compile(r'\\.|["\[\]{}]', re.DOTALL)
_PYTHON_WORD = re.compile(r"(?:True|False|None)\b")


class _Repetition:
    """An object with a repeated key, as it is in the text."""

    def __init__(
        self, members: dict[str, object], pairs: list[tuple[str, object]]
    ) -> None:
        self.members = members
        self.values: dict[str, list[object]] = {}
        for key, value in pairs:
            self.values.setdefault(key, []).append(value)


class _Parser:
    """The hooks of one parse, and their findings."""

    def __init__(self) -> None:
        self.repeated: list[_Repetition] = []
        self.has_bad_numbers = False

    def members(self, pairs: list[tuple[str, object]]) -> dict[str, object]:
        members = dict(pairs)
        if len(members) != len(pairs):
            self.repeated.append(_Repetition(members, pairs))
        return members

    def integer(self, text: str) -> int | BadNumber:
        return int(text) if len(text) <= MAX_DIGITS else self.constant(text)

    def real(self, text: str) -> float | BadNumber:
        number = float(text)
        return number if math.isfinite(number) else self.constant(text)

    def constant(self, text: str) -> BadNumber:
        self.has_bad_numbers = True
        return BadNumber(text)


def parse(text: str, limit: int | None = None) -> tuple[object, Findings] | Finding:
    """Return the data of a JSON text with its defects, or the defect that ended it.

    Duplicate keys, numbers out of range and lone surrogates are reported, and the rest
    is still read; a bad number is a ``BadNumber`` in the data.

    Args:
        text: The text.
        limit: Most defects of each kind to locate, None for all.
    """
    if not text.strip(" \t\r\n"):
        return rules.EMPTY_FILE.finding(
            None, "the file is empty", hint="something may still be writing it"
        )
    parser = _Parser()
    decoder = json.JSONDecoder(
        object_pairs_hook=parser.members,
        parse_int=parser.integer,
        parse_float=parser.real,
        parse_constant=parser.constant,
    )
    try:
        document = decoder.decode(text)
    except json.JSONDecodeError as error:
        return explain_syntax(text, error)
    except RecursionError:
        found_deep = find_too_deep(text)
        if found_deep is None:
            raise  # the stack of the caller is the reason
        return found_deep
    found = Findings(limit=limit)
    if parser.repeated:
        _add_duplicate_keys(document, parser.repeated, found)
    if parser.has_bad_numbers:
        _add_bad_numbers(document, found)
    if _SURROGATE.search(text):
        found.add(*_lone_surrogates(document))
    return document, found


def walk(document: object) -> Iterator[tuple[Path, object]]:
    """Yield every value of a document with its path, without recursion."""
    stack: list[tuple[Path, object]] = [((), document)]
    while stack:
        path, value = stack.pop()
        yield path, value
        if isinstance(value, dict):
            stack.extend(((*path, key), item) for key, item in value.items())
        elif isinstance(value, list):
            stack.extend(((*path, index), item) for index, item in enumerate(value))


def _brackets(text: str) -> Iterator[tuple[str, int]]:
    """Yield every bracket outside strings, with its offset."""
    in_string = False
    for mark in _MARK.finditer(text):
        if mark[0] == '"':
            in_string = not in_string
        elif not in_string and mark[0][0] != "\\":
            yield mark[0], mark.start()


def find_too_deep(text: str) -> Finding | None:
    """Return RT107 for a text that is nested too deeply, None for any other."""
    depth = 0
    for bracket, offset in _brackets(text):
        depth += 1 if bracket in "[{" else -1
        if depth > MAX_DEPTH:
            return too_deep(SourceSpan(offsets=(offset, offset + 1)))
    return None


def too_deep(span: SourceSpan) -> Finding:
    """Return the finding RT107 for a place."""
    return rules.NESTED_TOO_DEEPLY.finding(
        span, f"the document is nested more than {MAX_DEPTH} levels deep"
    )


def _add_duplicate_keys(
    document: object, repetitions: list[_Repetition], found: Findings
) -> None:
    pending = {id(repetition.members): repetition for repetition in repetitions}
    for path, value in walk(document):
        if not pending or len(found.kept) == found.limit:
            break
        repetition = pending.pop(id(value), None)
        if repetition is not None:
            _add_repeated_keys(path, repetition, found)
    for repetition in pending.values():  # only counted: the place is not shown
        _add_repeated_keys((), repetition, found)


def _add_repeated_keys(path: Path, repetition: _Repetition, found: Findings) -> None:
    for key, values in repetition.values.items():
        if len(values) > 1:
            found.tell(rules.DUPLICATE_KEY, _repeated_key, (*path, key), values)


_ONE_IS_KEPT = "remove all but one; readers take the last"
_MERGED = (
    "readers take the last; if these are two tables, put each into a file of its own, "
    "and join them: ranktable merge A B --renumber"
)


def _repeated_key(path: Path, values: list[object]) -> Finding:
    same = len(values) == 2 and _same(*values)
    return rules.DUPLICATE_KEY.finding(
        SourceSpan(path, "repeated key"),
        f"the key {quoted(path[-1])} occurs {times(len(values))} in one object",
        hint=_MERGED if str(path[-1]).endswith("_list") else _ONE_IS_KEPT,
        related=(SourceSpan(path, "key", label="first use"),),
        # The last one is kept: readers use it, and other edits change it.
        edit=Edit("remove member") if same else None,
    )


def _same(first: object, second: object) -> bool:
    return type(first) is type(second) and first == second


def _add_bad_numbers(document: object, found: Findings) -> None:
    for path, value in walk(document):
        if isinstance(value, BadNumber):
            found.tell(rules.NOT_A_NUMBER, _bad_number, path, value.text)


def _bad_number(path: Path, text: str) -> Finding:
    name = text if len(text) <= MAX_DIGITS else f"of {len(text)} characters"
    what = "is not JSON" if name.isalpha() or "I" in name else "is out of range"
    return rules.NOT_A_NUMBER.finding(SourceSpan(path), f"the number {name} {what}")


def _lone_surrogates(document: object) -> Iterator[Finding]:
    for path, value in walk(document):
        keys = value if isinstance(value, dict) else ()
        for key in keys:
            if not _is_unicode(key):
                yield _surrogate(SourceSpan((*path, key), "key"))
        if isinstance(value, str) and not _is_unicode(value):
            yield _surrogate(SourceSpan(path))


def _surrogate(span: SourceSpan) -> Finding:
    return rules.LONE_SURROGATE.finding(
        span, "this string has half of a surrogate pair"
    )


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def explain_syntax(text: str, error: json.JSONDecodeError) -> Finding:
    """Return the finding for a syntax error, in the user's words.

    The messages of the standard library differ between versions of Python, and say what
    the parser expected. This message says what is in the text.
    """
    at = error.pos
    rest = text[at:].lstrip(" \t\r\n")
    if error.msg.startswith("Unterminated string"):
        return _truncated(text, error.pos)
    if not rest:
        return _truncated(text)
    if not error.msg.startswith("Invalid control character"):
        at = len(text) - len(rest)  # the first character that is not blank
    before = text[:at].rstrip(" \t\r\n")
    here = SourceSpan(offsets=(at, at + 1))
    found = _repairable(text, at, before) or _of_another_kind(text, at, before)
    return found or rules.NOT_JSON.finding(here, _reason(text, at, before, error))


def _repairable(text: str, at: int, before: str) -> Finding | None:
    """Return the finding of a comma or a comment that can be removed."""
    comma = _last_comma(text, at, before)
    if comma is not None:
        return rules.NOT_JSON.finding(
            SourceSpan(offsets=(comma, comma + 1)),
            "there is a comma after the last item",
            hint="remove the comma",
            edit=Edit("remove"),
        )
    comment = COMMENT.match(text, at)
    if comment is None:
        return None
    return rules.NOT_JSON.finding(
        SourceSpan(offsets=comment.span()),
        "JSON has no comments",
        hint="remove the comment",
        edit=Edit("remove"),
    )


def _last_comma(text: str, at: int, before: str) -> int | None:
    """Return the offset of a comma that follows an item, and that no item follows."""
    if text[at] in "]}" and before.endswith(","):
        return len(before) - 1
    is_last = text[at + 1 :].lstrip()[:1] in "]}"
    return at if before and text[at] == "," and is_last else None


def _of_another_kind(text: str, at: int, before: str) -> Finding | None:
    """Return the finding of a text that is of another kind than JSON."""
    here = SourceSpan(offsets=(at, at + 1))
    if text[at] == "'" or _PYTHON_WORD.match(text, at):
        return rules.PYTHON_LITERAL.finding(
            here,
            "this is Python, not JSON: JSON has double quotes, true, false and null",
            hint="the generator prints this form; use the file it writes",
        )
    for pattern, reason, hint in _OTHER_TEXTS if before else (_YAML, *_OTHER_TEXTS):
        if pattern.match(text, at):
            return rules.NOT_JSON.finding(here, reason, hint=hint)
    return None


COMMENT: Final = re.compile(r"//[^\n]*|#[^\n]*|/\*.*?\*/", re.DOTALL)

_OTHER_TEXTS = (
    (
        re.compile(r"(?:<{7}|={7}|>{7}|\|{7})(?:\s|$)"),
        "this is a conflict that git could not merge",
        "keep one side, and remove the lines with <<<<<<<, ======= and >>>>>>>",
    ),
    (
        re.compile("[\u2018-\u201f]"),
        "this is a quotation mark of a word processor",
        'write a straight one: "',
    ),
)
"""What else a text may be, by its characters at the place of the error."""

_YAML = (
    re.compile(r"(?:---|- |[A-Za-z_][\w.-]*:)(?:\s|$)"),
    "this is YAML, and not JSON",
    "write the same as JSON (kubectl: -o json); specs and ConfigMaps may be YAML",
)

TEXT_AFTER = "there is more text after the end of the table"
_REASONS = (
    ("Extra data", TEXT_AFTER),
    ("Invalid control character", "a string holds a control character; escape it"),
    ("Invalid \\", "this escape does not exist in JSON"),
    ("Expecting ',' delimiter", "a comma is missing, or a bracket"),
    ("Expecting ':' delimiter", "a colon is missing after the key"),
    ("Expecting property name", "a key in double quotes is expected here"),
)
"""Beginnings of the standard library's messages, and what is reported instead."""


def _reason(text: str, at: int, before: str, error: json.JSONDecodeError) -> str:
    if text.startswith("/*", at):
        return "a comment begins here and does not end"
    if text[at] == "\0":
        return "the file holds zero bytes, as it may after a crash"
    if not before and text[at] == "<":
        return "this is HTML or XML, perhaps an error page that was saved"
    if text[at].isdigit() and before[-1:] == "0":
        return "a number begins with a zero"
    for beginning, reason in _REASONS:
        if error.msg.startswith(beginning):
            return reason
    return "a value is expected here"


def _truncated(text: str, string_at: int | None = None) -> Finding:
    opened = 0
    for bracket, _ in _brackets(text):
        opened += 1 if bracket in "[{" else -1
    end = len(text.rstrip(" \t\r\n"))
    related: tuple[SourceSpan, ...] = ()
    if string_at is not None:
        span = (string_at, string_at + 1)
        related = (
            SourceSpan(offsets=span, label="a string begins here and does not end"),
        )
    return rules.TRUNCATED.finding(
        SourceSpan(offsets=(max(end - 1, 0), end)),
        "the file ends in the middle of the table"
        + (f": {counted(opened, 'bracket')} not closed" if opened > 0 else ""),
        hint="it may be half written, or lack a quotation mark",
        related=related,
    )
