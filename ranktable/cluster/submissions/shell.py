"""Read a shell script without running it: its commands, and the words that are certain.

A word is expanded with what the same file assigns. Everything else becomes a mark, one
character of Unicode's private use area, which says what kind of value stands there: a
value that is known in part, ``$head:29500``, keeps the part that is known, and a text
that a second shell parses, ``bash -c "..."``, keeps what the first one put into it.

Source: POSIX.1-2024, Shell Command Language; SchedMD/slurm, doc/man/man1/srun.1.
"""

from __future__ import annotations

import ast
import operator
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from ranktable.cluster.submissions.shell_marks import (
    ALL_ADDRESSES,
    CLOCK,
    CUT_LIST,
    DRAWN,
    EACH_NODE,
    EMPTY,
    FIRST_HOST,
    HOSTS,
    IN_TASK,
    JOB_ID,
    JOB_INDEX,
    JOB_SUM,
    MARKS,
    NODE_LIST,
    NOT_ASKED,
    NOT_EXPORTED,
    NOT_PASSED,
    OR_LOCALHOST,
    OTHER_HOST,
    OWN_HOST,
    OWN_NAME,
    POD_INDEX,
    PROCESS_IDS,
    RANDOM,
    UNKNOWN,
    UNSET,
    VALUES_IN_BATCH,
    VALUES_IN_TASK,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence


_ENVIRONMENT: Final = re.compile(
    r"SLURM_\w+|\w*PATH|\w+_(?:HOME|ENV|DEVICES|DEVICE_ORDINAL)|LANG|LC_\w+|USER|HOME"
    r"|TMPDIR|HOSTNAME|SHELL|PWD|OMP_NUM_THREADS|CONDA_\w+"
)
"""Variables that a batch script has got already, so it need not export them."""

MAX_NESTING: Final = 40
_MAX_SPENT: Final = 1 << 24
_MAX_SUM: Final = 200
_SEPARATOR: Final = "\0"
MAX_EXPANSION: Final = 1 << 16
"""Longest value of a word: assignments that double a value end here."""

_SPECIAL: Final = {
    "word": re.compile(r"[ \t\r\n\\'\"`$;&|()<>]"),  # no other space ends a word
    '"': re.compile(r"[\"\\$`]"),
    ")": re.compile(r"[()\\'\"`$]|(?<=[\s(])#"),
    "}": re.compile(r"[}\\'\"`$]"),
}
_BLANK: Final = re.compile(r"(?:[ \t\r]|\\\r?\n)+")
_COMMENT: Final = re.compile(r"#[^\n]*")
_REDIRECT: Final = re.compile(r"[0-9]*(?:<<<|<<-?|&>>?|>>|>&|>\||<&|<>|[<>](?!\())")
_OPERATOR: Final = re.compile(r";;&?|;&|&&|\|\||\|&|[;&|()\n]|[<>]\(")
_ASSIGNMENT: Final = re.compile(r"([A-Za-z_]\w*)(\+?)=")
_NAME: Final = re.compile(r"[A-Za-z_]\w*|[0-9@*#?$!-]")
_BRACED: Final = re.compile(
    r"([A-Za-z_]\w*|[0-9@*#?]+)(?:\[([^\]]*)\])?(.*)", re.DOTALL
)
_VARIABLE: Final = re.compile(r"\$(?:([A-Za-z_]\w*)|\{([A-Za-z_]\w*)\})")
_MOST_VALUES: Final = 9
_COUNTED: Final = re.compile(r"#([A-Za-z_]\w*)\[[@*]\]")
_ALL_ITEMS: Final = re.compile(r'"\$(?:\{([A-Za-z_]\w*)\[@\]\}|@|\{@\})"')
_NUMBER: Final = re.compile(r"0|[1-9][0-9]{0,8}")

_HEREDOCS: Final = ("<<", "<<-")
_QUOTES: Final = "'\"\\"
_ANSI_QUOTED: Final = re.compile(r"\$'(?:[^'\\]|\\.)*'", re.DOTALL)

_OPENING: Final = ("if", "for", "while", "until", "case", "select", "{", "function")
_CLOSING: Final = ("fi", "done", "esac", "}")
_INSIDE: Final = ("then", "else", "elif", "do", "!", "time")


class Word(NamedTuple):
    """A word as it is written, with its offsets."""

    raw: str
    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellCommand:
    """A simple command.

    Attributes:
        words: Its words.
        block: The word that begins the block around it: ``for``; empty if none.
        inner: The word that begins the block in that block; empty if none.
        begin: The number of the block around it in the text.
        before: The operator before it: ``&&``, ``||``, ``|`` or empty.
        after: The operator behind it.
        redirects: Its redirections: the sign, and the word behind it.
    """

    words: tuple[Word, ...]
    block: str
    inner: str
    begin: int
    before: str
    after: str
    redirects: tuple[tuple[str, Word], ...]


class TooDeepError(Exception):
    """Quotation marks or parentheses are nested too deeply."""


def commands(
    text: str, at: int = 0, comments: list[int] | None = None
) -> Iterator[ShellCommand]:
    """Yield the simple commands of a script, those inside of blocks too.

    Args:
        text: The script.
        at: Where to begin.
        comments: Gets the offsets of the comments.

    Raises:
        TooDeepError: The text is nested too deeply.
    """
    words: list[Word] = []
    blocks: list[str] = []
    redirects: list[tuple[str, Word]] = []
    heredocs: list[str] = []
    before = ""
    begin = 0
    while at <= len(text):
        kind, start, at = _next(text, at, comments)
        if kind == "word":
            word = text[start:at]
            if words or _is_kept(word, blocks):
                words.append(Word(word, start, at))
            continue
        if kind == "redirect":
            redirects.append(_redirect(text, start, at))
            at = redirects[-1][1].end
            continue
        sign = text[start:at]
        begun = _begun(sign, words)
        if begun:
            blocks.append(begun)
        elif words:
            yield ShellCommand(
                words=tuple(words),
                block=blocks[0] if blocks else "",
                inner=blocks[1] if len(blocks) > 1 else "",
                begin=begin,
                before=before,
                after=sign,
                redirects=tuple(redirects),
            )
        if sign == ")" and blocks and blocks[-1] == "(":
            blocks.pop()
        before = sign if sign in ("&&", "||", "|", "|&") else ""
        heredocs += [w.raw.strip(_QUOTES) for kind, w in redirects if kind in _HEREDOCS]
        words, redirects = [], []
        begin += not blocks
        if sign == "\n":
            at = _after_heredocs(text, at, heredocs)
        if kind == "end":
            return


def _redirect(text: str, start: int, at: int) -> tuple[str, Word]:
    """Return a redirection: its sign, and the word behind it."""
    _, target, end = _next(text, at)
    return text[start:at].lstrip("0123456789"), Word(text[target:end], target, end)


def text_below(text: str, command: ShellCommand) -> tuple[str, bool]:
    """Return the text that ``<<`` gives a command, and whether the shell expands it."""
    for sign, word in command.redirects:
        at = text.find("\n", word.end) + 1
        if sign in _HEREDOCS and at:
            end = word.raw.strip(_QUOTES)
            below = text[at : _after_heredocs(text, at, [end])].rstrip("\n")
            return below.rpartition("\n")[0], end == word.raw
    return "", False


def _is_kept(word: str, blocks: list[str]) -> bool:
    """Whether the first word of a command belongs to it; note where blocks begin."""
    if word not in (*_OPENING, *_CLOSING, *_INSIDE):
        return True
    _enter(word, blocks)
    return word in ("for", "select", "case", "function")


def _begun(sign: str, words: list[Word]) -> str:
    """Return the block that a parenthesis begins, nothing if it begins none."""
    if sign != "(":
        return ""
    if [word.raw in _OPENING for word in words] == [False]:  # name() {
        return "function"
    return "" if words else "("


def _enter(word: str, blocks: list[str]) -> None:
    """Note that a block begins or ends."""
    if word == "{" and blocks and blocks[-1] == "function":
        return  # its body
    if word in _OPENING:
        blocks.append(word)
    elif word in _CLOSING and blocks:
        blocks.pop()


def _after_heredocs(text: str, at: int, ends: list[str]) -> int:
    """Return the offset after the texts that stand below a line with ``<<``."""
    while ends:
        end = ends.pop(0)
        while at < len(text):
            newline = text.find("\n", at)
            newline = len(text) if newline < 0 else newline
            line, at = text[at:newline].strip("\t\r"), newline + 1
            if line == end:
                break
    return at


def _next(
    text: str, at: int, comments: list[int] | None = None
) -> tuple[str, int, int]:
    """Return the kind of the next piece of a text, its start and its end."""
    while True:
        blank = _BLANK.match(text, at)
        if blank is None:
            blank = _COMMENT.match(text, at)
            if blank is not None and comments is not None:
                comments.append(at)
        if blank is None:
            break
        at = blank.end()
    if at >= len(text):
        return "end", at, at
    if match := _REDIRECT.match(text, at):
        return "redirect", at, match.end()
    if match := _OPERATOR.match(text, at):
        return "operator", at, match.end()
    return "word", at, _word_end(text, at)


def _word_end(text: str, at: int) -> int:
    start = at
    while match := _SPECIAL["word"].search(text, at):
        at, sign = match.start(), match[0]
        is_array = sign == "(" and text[start:at].endswith("=")
        if is_array:
            at = _after(text, at + 1, ")", 0)
        elif text.startswith("$'", at):
            quoted = _ANSI_QUOTED.match(text, at)
            at = quoted.end() if quoted else len(text)
        elif sign in "\\'\"`$":
            at = _skip(text, at, 0)
        else:
            return at
    return len(text)


def is_open(text: str, word: Word) -> bool:
    """Whether a word has a quotation mark or bracket that nothing closes."""
    return word.end == len(text) and _word_end(text + "\n", word.start) > len(text)


def _skip(text: str, at: int, depth: int) -> int:
    """Return the offset after a quoted or substituted piece of a text."""
    sign = text[at]
    if sign == "\\":
        return min(at + 2, len(text))
    if sign in "'`":
        end = text.find(sign, at + 1)
        return len(text) if end < 0 else end + 1
    if sign == '"':
        return _after(text, at + 1, '"', depth)
    if sign == "$" and text[at + 1 : at + 2] in ("(", "{"):
        close = ")" if text[at + 1] == "(" else "}"
        return _after(text, at + 2, close, depth)
    return at + 1


def _after(text: str, at: int, close: str, depth: int) -> int:
    """Return the offset after the sign that ends a piece."""
    if depth > MAX_NESTING:
        raise TooDeepError
    while match := _SPECIAL[close].search(text, at):
        at, sign = match.start(), match[0]
        if sign == close:
            return at + 1
        if sign == "(":
            at = _after(text, at + 1, ")", depth + 1)
        elif sign == "#":
            at = _COMMENT.match(text, at).end()  # type: ignore[union-attr]
        else:
            at = _skip(text, at, depth + 1)
    return len(text)


def is_assignment(word: Word) -> bool:
    """Whether a word is an assignment where one may stand."""
    return _ASSIGNMENT.match(word.raw) is not None


def name_of(word: Word) -> str:
    """Return the name in an assignment, or the word."""
    match = _ASSIGNMENT.match(word.raw)
    return word.raw if match is None else match[1]


@dataclass(slots=True, kw_only=True)
class Scope:
    """The variables of a shell.

    Attributes:
        known: Variables that Slurm sets, as far as the file says their values.
        is_task: Whether every task runs this shell; otherwise the batch script does.
        values: What the file assigns, with marks.
        arrays: Its arrays.
        exported: Names that a command inherits, or may inherit.
        exports_all: Whether a command inherits all of them.
        kept: Names that ``--export`` lets a task have; None if it has them all.
        outer: The variables of the shell around it.
        perhaps: Values that a variable whose value depends on conditions may have.
        spent: The characters of all expanded words of a file.
    """

    known: Mapping[str, str] = field(default_factory=dict)
    is_task: bool = False
    values: dict[str, str] = field(default_factory=dict)
    arrays: dict[str, list[str]] = field(default_factory=dict)
    exported: set[str] = field(default_factory=set)
    exports_all: bool = False
    kept: frozenset[str] | None = None
    outer: Scope | None = None
    perhaps: dict[str, tuple[str, ...]] = field(default_factory=dict)
    spent: list[int] = field(default_factory=lambda: [0])

    def of_command(self) -> Scope:
        """Return the variables of a command with assignments before it."""
        return Scope(
            known=self.known, is_task=self.is_task, outer=self, spent=self.spent
        )

    def of_task(
        self, known: Mapping[str, str], kept: frozenset[str] | None = None
    ) -> Scope:
        """Return the variables of a shell that a task starts."""
        known = {**known, **PROCESS_IDS}
        spent = self.spent
        return Scope(known=known, is_task=True, kept=kept, outer=self, spent=spent)

    def is_exported(self, name: str) -> bool:
        """Whether a command inherits a variable."""
        outer = self.outer
        is_own = self.exports_all or name in self.exported
        return is_own or (outer is not None and outer.is_exported(name))

    def assigned(self, name: str) -> str | None:
        """Return the value that the file gives a variable, None if it gives none."""
        if name in self.values:
            return self.values[name]
        if name in self.arrays:
            items = self.arrays[name]
            return FIRST_HOST if items[:1] == [HOSTS] else "".join(items[:1])
        outer = self.outer
        if outer and self.is_task != outer.is_task and not name.isidentifier():
            return None  # arguments of another program
        found = None if outer is None else outer.assigned(name)
        if found is None or outer is None or self.is_task == outer.is_task:
            return found
        if not (outer.is_exported(name) or _ENVIRONMENT.fullmatch(name)):
            return NOT_EXPORTED + name
        is_kept = self.kept is None or name in self.kept or name.startswith("SLURM_")
        return found if is_kept else NOT_PASSED + name

    def array(self, name: str) -> list[str]:
        """Return an array; tasks do not inherit it."""
        if name in self.arrays:
            return self.arrays[name]
        outer = self.outer
        if name in self.values or outer is None or self.is_task != outer.is_task:
            return [UNKNOWN]
        return outer.array(name)

    def value(self, name: str) -> str:
        """Return the value of a variable."""
        if name in ("@", "*"):
            return " ".join(self.array("@"))
        found = self.assigned(name)
        if found is None:
            found = self.known.get(name)
        if found is None:
            found = (VALUES_IN_TASK if self.is_task else VALUES_IN_BATCH).get(
                name, UNKNOWN
            )
        return found

    def assign(self, word: Word, *, is_certain: bool) -> bool:
        """Take an assignment; return whether the word is one."""
        match = _ASSIGNMENT.match(word.raw)
        if match is None:
            return False
        name, raw = match[1], word.raw[match.end() :]
        before = self.perhaps.get(name) or (self.values.get(name, UNKNOWN),)
        start = [*self.arrays.get(name, ())] if match[2] and raw[:1] == "(" else []
        if raw[:1] == "(":
            inner = [item for each in commands(raw[1:-1]) for item in each.words]
            items = [text for item in inner for text in self.fields(item.raw)]
            if not match[2]:
                self.arrays[name] = []
            if len(self.arrays.setdefault(name, [])) < MAX_EXPANSION:
                self.arrays[name] += items
            self.values.pop(name, None)
        else:
            value = "".join(self._expand(raw, 0))
            if match[2]:
                value = (self.value(name) + value)[:MAX_EXPANSION]
            self.values[name] = value
        found = (*before, self.values.get(name, UNKNOWN))
        self.perhaps.pop(name, None)
        if not is_certain:
            self.forget(name)
            if start:  # its first words are the same
                self.arrays[name] = [*start, UNKNOWN]
            if not any(map(MARKS.search, found)) and len(found) < _MOST_VALUES:
                self.perhaps[name] = found
        return True

    def may_be(self, raw: str) -> Sequence[str]:
        """Return the values that a word may have, none if they are not known."""
        match = _VARIABLE.fullmatch(raw)
        name = "" if match is None else match[1] or match[2]
        found = self.perhaps.get(name, ())
        is_hidden = name in self.values or self.outer is None
        return found if found or is_hidden else self.outer.may_be(raw)  # type: ignore[union-attr]

    def own_name(self) -> str:
        """Return the name of the own host, as far as the file says it."""
        found = self.known.get(OWN_NAME)
        if found is None and self.outer is not None:
            return self.outer.own_name()
        return found or UNKNOWN

    def hosts(self) -> list[str]:
        """Return the hosts of the job, one mark if their number is not known."""
        number = plain_number(self.value("SLURM_JOB_NUM_NODES"))
        return [FIRST_HOST, *[OTHER_HOST] * (number - 1)] if number else [HOSTS]

    def set_hosts(self, name: str) -> None:
        """Give an array the hosts of the job."""
        self.values.pop(name, None)
        self.arrays[name] = [HOSTS]

    def listed(self, name: str) -> list[str]:
        """Return an array, with one item for each host of the job."""
        items = self.array(name)
        return self.hosts() if items == [HOSTS] else items

    def set_arguments(self, items: list[str]) -> None:
        """Set the arguments of the shell or of a function in it."""
        self.arrays["@"] = items
        self.values.update((str(at), item) for at, item in enumerate(items, 1))

    def sum_of(self, text: str) -> str:
        """Return the value of an arithmetic expression."""
        return self._sum(text, 0)

    def expand_text(self, text: str) -> str:
        """Return a text below ``<<`` with what it stands for."""
        return "".join(self._quoted(text, 0))[:MAX_EXPANSION]

    def give(self, values: Mapping[str, str]) -> None:
        """Set variables that commands inherit."""
        self.values.update(values)
        self.exported.update(values)

    def forget(self, name: str) -> None:
        """Note that a value is not known from here on."""
        self.values[name] = UNKNOWN
        self.arrays.pop(name, None)
        self.perhaps.pop(name, None)
        self.exported.add(name)

    def fields(self, raw: str) -> list[str]:
        """Return the words that a word is expanded to."""
        found: list[str] = []
        for text in self._expand(raw, 0, splits=True):
            if text == _SEPARATOR:
                found.append("")
            elif found:
                found[-1] += text
            else:
                found.append(text)
        is_quoted = "'" in raw or '"' in raw
        return [text for text in found if text or is_quoted]

    def _expand(self, raw: str, depth: int, *, splits: bool = False) -> Iterator[str]:
        """Yield the pieces of a word; ``_SEPARATOR`` stands between two words."""
        at, size = 0, 0
        while at < len(raw):
            match = _SPECIAL["word"].search(raw, at)
            start = match.start() if match else len(raw)
            if start > at:
                yield raw[at:start]
            if match is None:
                return
            at = start + 1
            if match[0] == "$":
                at = self._end_of_name(raw, start, depth)
            elif match[0] in "\\'\"`":
                at = _skip(raw, start, depth)
            items = _ALL_ITEMS.fullmatch(raw, start, at) if splits else None
            for piece in (
                self._all_items(items[1] or "@")
                if items
                else self._piece(raw[start:at], depth, splits=splits)
            ):
                size += len(piece)
                self.spent[0] += len(piece)
                if size > MAX_EXPANSION or self.spent[0] > _MAX_SPENT:
                    yield UNKNOWN
                    return
                yield piece

    def _all_items(self, name: str) -> Iterator[str]:
        """Yield the items of an array in quotation marks, each a word of its own."""
        for index, item in enumerate(self.array(name)):
            if index:
                yield _SEPARATOR
            yield item

    def _piece(self, raw: str, depth: int, *, splits: bool) -> Iterator[str]:
        """Yield what a quoted or substituted piece stands for."""
        if raw[0] == "\\":
            yield "" if raw[1:] in ("\n", "") else raw[1:]
        elif raw[0] == "'":
            yield raw[1:].removesuffix("'")
        elif raw[0] == '"':
            yield from self._quoted(raw[1:].removesuffix('"'), depth)
        elif raw[0] in "$`" and len(raw) > 1:
            values = self._substituted(raw, depth)
            for index, value in enumerate(values):
                if index and splits:
                    yield _SEPARATOR
                yield from _separated(value) if splits else (value,)
        else:
            yield raw

    def _quoted(self, text: str, depth: int) -> Iterator[str]:
        at = 0
        while match := re.compile(r"\\[\s\S]|[$`]").search(text, at):
            yield text[at : match.start()]
            at = match.start()
            if match[0][0] == "\\":
                kept = match[0] if match[0][1] not in '$`"\\\n' else match[0][1]
                yield "" if kept == "\n" else kept
                at = match.end()
                continue
            end = self._end_of_name(text, at, depth)
            if end == at + 1:
                yield text[at:end]
            else:
                yield " ".join(self._substituted(text[at:end], depth))
            at = end
        yield text[at:]

    def _end_of_name(self, text: str, at: int, depth: int) -> int:
        if text[at] == "`" or text[at + 1 : at + 2] in ("(", "{"):
            return _skip(text, at, depth)
        match = _NAME.match(text, at + 1)
        return at + 1 if match is None else match.end()

    def _substituted(self, raw: str, depth: int) -> list[str]:
        """Return the values of ``$name``, ``${...}`` or ``$(...)``."""
        if raw.startswith("$((") and raw.endswith("))"):
            return [self._sum(raw[3:-2], depth)]
        if raw[0] == "`" or raw.startswith("$("):
            text = raw[2:-1] if raw[0] == "$" else raw[1:-1]
            program = _WHICH.fullmatch(text.strip())
            return [f"{UNKNOWN}/{program[1]}" if program else self._output(text)]
        if raw.startswith("${"):
            return self._braced(raw[2:].removesuffix("}"))
        return [self.value(raw[1:])]

    def _braced(self, text: str) -> list[str]:
        match, counted = _BRACED.fullmatch(text), _COUNTED.fullmatch(text)
        if match is None or counted is not None:
            items = [UNKNOWN] if counted is None else self.listed(counted[1])
            is_known = not {UNKNOWN, HOSTS} & {*items}
            return [str(len(items)) if is_known else UNKNOWN]
        name, index, rest = match.groups()
        if index is not None:
            return [UNKNOWN] if rest else self._item(name, index)
        value = self.value(name)
        if not rest:
            return [value]
        if rest[:1] in "%#/^,":
            return [self._changed(value, rest)]
        is_default = rest.startswith((":-", "-", ":=", "=", ":?", "?"))
        is_open = {UNKNOWN, UNSET, NOT_ASKED, *EMPTY.values()} & {*value}
        is_set = value and not is_open
        return [value if is_default and is_set else UNKNOWN]

    def _changed(self, value: str, change: str) -> str:
        """Return what ``${NAME##*-}`` and its like make of a value."""
        if NODE_LIST in value and change[0] in "%#/":
            return CUT_LIST
        cut = _CUT.fullmatch(change)
        if UNSET in value or cut is None:
            return UNSET if UNSET in value else UNKNOWN
        whole = self.own_name() if value == OWN_HOST else value
        left = _without(whole, cut)
        return value if left == whole != UNKNOWN else left

    def _item(self, name: str, index: str) -> list[str]:
        """Return an item of an array, or all of them."""
        items = self.array(name)
        if index in ("@", "*"):
            return items
        index = index if _OTHER.fullmatch(index) else self._sum(index, 1)
        if items in ([HOSTS], [ALL_ADDRESSES]):
            other = OTHER_HOST if items == [HOSTS] and _OTHER.fullmatch(index) else ""
            return [FIRST_HOST if index == "0" else other or UNKNOWN]
        is_known = _NUMBER.fullmatch(index) and int(index) < len(items)
        return [items[int(index)] if is_known else UNKNOWN]

    def _sum(self, text: str, depth: int) -> str:
        """Return the value of an arithmetic expression."""
        if depth > MAX_NESTING or len(text) > _MAX_SUM:
            return UNKNOWN
        named = re.sub(r"(?<![\w${#])([A-Za-z_]\w*)", r"$\1", text)
        whole = "".join("".join(self._quoted(named, depth + 1)).split())
        drawn = [mark for mark in (RANDOM, DRAWN, CLOCK) if mark in whole]
        if drawn and "/" not in whole:
            return drawn[0]
        if NOT_ASKED in whole:
            return _NOT_ASKED.search(whole)[0]  # type: ignore[index]
        if JOB_ID in whole and not set(whole) & set("%/"):
            return JOB_SUM
        return _marked_sum(whole) if MARKS.search(whole) else _arithmetic(whole)

    def _output(self, text: str) -> str:
        """Return what is known of the output of a command."""
        if _OR_LOCALHOST.search(text):
            return OR_LOCALHOST
        if found := _SHOW_HOSTS.search(text):
            lines = ((_OTHER_LINE, OTHER_HOST), (_FIRST_LINE, FIRST_HOST))
            pipes = text[found.end() :].split("|")[1:]
            are_all = all(map(_SAME_LINES.fullmatch, pipes))
            all_hosts = HOSTS if are_all else UNKNOWN
            return next((m for line, m in lines if line.search(text)), all_hosts)
        if text.startswith(("seq ", "expr ")):
            return self._numbers(text)
        if host := self._printed_host(text):
            return host
        if self.is_task and (drawn := _drawn_by(text)):
            return drawn
        names = [name.strip("${}") for name in _USED.findall(text)]
        is_of_list = any(NODE_LIST in self.value(name) for name in names)
        is_cut = _CUTS.fullmatch(text.strip()) and not _OPENS.search(text)
        return CUT_LIST if is_of_list and is_cut else UNKNOWN

    def _printed_host(self, text: str) -> str:
        """Return the host that ``hostname`` prints, also on another one by srun."""
        step = _ON_HOST.search(self._words(text)) if text.startswith("srun ") else None
        if step and step[1] in (FIRST_HOST, OTHER_HOST):
            own = self._printed_host(text[text.index("hostname") :])
            return own if step[1] == FIRST_HOST else OTHER_HOST
        command, *pipes = text.split("|")
        if command.split()[:1] != ["hostname"] and command.split() != ["uname", "-n"]:
            return ""
        if any(_CUTS_NAME.search(p) and not _KEEPS_NAME.fullmatch(p) for p in pipes):
            is_name = _PRINTS_NAME.fullmatch(command.strip())
            return self._cut_from_name("|".join(pipes)) if is_name else UNKNOWN
        is_all = _ALL_ADDRESSES.fullmatch(text.strip())
        of_batch = ALL_ADDRESSES if is_all else FIRST_HOST
        return OWN_HOST if self.is_task else of_batch

    def _cut_from_name(self, pipes: str) -> str:
        """Return what commands cut out of the name of the own host."""
        _, sign, index = self.own_name().rpartition("-")
        is_last = _LAST_PART.fullmatch(pipes.strip())
        return index if sign and is_last else UNKNOWN

    def _words(self, text: str) -> str:
        return re.sub(r"[\\'\"]", "", "".join(self._quoted(text, 1)))

    def _numbers(self, text: str) -> str:
        """Return the output of ``expr``, or of ``seq`` with one step."""
        name, *pieces = self._words(text).split()
        if name == "expr":
            whole = "".join(pieces)
            return UNKNOWN if MARKS.search(whole) else _arithmetic(whole)
        first, last = [plain_number(end) for end in ("1", *pieces)][-2:]
        if first is None or last is None or len(pieces) > 2 or last - first > _MAX_SUM:
            return UNKNOWN
        return " ".join(map(str, range(first, last + 1)))


_OR_LOCALHOST: Final = re.compile(r"\|\|[^|]*(?:localhost|127\.0\.0\.1)[^|]*\Z")
_SHOW_HOSTS: Final = re.compile(r"\bscontrol[ \t]+show[ \t]+hostnames?\b")
_ON_HOST: Final = re.compile(
    r"\s(?:-w\s*|--nodelist[=\s]\s*)(\S+)\s(?:\S+\s+)*hostname\b"
)
"""A step on one host that prints its name or address."""
_SAME_LINES: Final = re.compile(r"\s*(?:cat|sort|uniq|xargs|paste|tr)\b[^|]*")
"""Commands that leave all hosts in a list."""
_FIRST_LINE: Final = re.compile(
    r"head\s+(?:-n\s*)?-?1\b|sed\s+-n\s+['\"]?1p|NR\s*==\s*1"
)
_OTHER: Final = re.compile(r"-1|[1-9][0-9]{0,5}")
_OTHER_LINE: Final = re.compile(
    r"\|\s*(?:tail\s+(?:-n\s*)?-?1|sed\s+-n\s+['\"]?(?:[2-9]|[1-9][0-9]+|\$)p['\"]?"
    r"|awk\s+'NR\s*==\s*(?:[2-9]|[1-9][0-9]+)'|shuf\s+-n\s*1)\s*\Z"
)
_WHICH: Final = re.compile(r"(?:which|command -v|type -P)[ \t]+([\w.-]+)")
_DRAWS: Final = re.compile(
    r"\bshuf\b|\buuidgen\b|\bmktemp\b|\buuid[14]\b|\A\s*uuid\b|openssl\s+rand\b"
    r"|\$\$|/dev/u?random\b|random/uuid\b|\$\{?(?:SRANDOM|EPOCHREALTIME|BASHPID)\b"
    r"|\brandom\.(?:rand|choice|getrandbits|sample|uniform)|\bsecrets\."
)
_SAME_DRAW: Final = re.compile(r"\bseed\b|random-source")
_DATE: Final = re.compile(
    r"date(?:\s+-u|\s+--utc)*(?:\s+(?:\+|[\"']\+)([^|]*))?(\|.*)?"
)
_MOMENT: Final = re.compile(r"%[-_0]?[0-9]?N")
_SECONDS: Final = re.compile(r"%[-_0]?[sSTcrXMR]")
_ALL_ADDRESSES: Final = re.compile(r"hostname\s+(?:-I|--all-ip-addresses)")
_NOT_ASKED: Final = re.compile(rf"{NOT_ASKED}\w+")
_CUT: Final = re.compile(r"(?:(##?)\*([-.:,_/=@+])|(%%?)([-.:,_/=@+])\*)")
"""A cut of a value at the first or last of a sign: ``${NAME##*-}``."""
_CUTS_NAME: Final = re.compile(
    r"\A\s*(?:awk\b.*-F\s*['\"]?\[?[^'\"\s]*-|awk\b.*\b(?:FS|g?sub|substr|match|split)\b"
    r"|cut\b.*-(?:d\s*['\"]?-|c|b)|(?:head|tail)\b.*-c|sed\b|rev\b|tr\b.*-\w*d"
    r"|tr\s+['\"]?-['\"]?\s|[ef]?grep\b.*\s(?:-\w*o|--only))"
)
"""Commands that leave a part of a name: its number, or what is before a hyphen."""
_KEEPS_NAME: Final = re.compile(
    r"\s*sed\s+(?:-[Er]\s+)?(['\"]?)s([/#])(?:\\\.|\[\.\]|\\n|\s)(?:(?!\2).)*\2\2g?\1\s*"
    r"|\s*tr\s+-d\s+(['\"]?)(?:\\+[nrt]|\s|\[:(?:space|blank):\])+\3\s*"
)
"""Commands that take the domain or blanks from a name."""
_PRINTS_NAME: Final = re.compile(r"hostname(?:\s+(?:-s|--short))?|uname\s+-n")
_LAST_PART: Final = re.compile(
    r"awk\s+-F\s*['\"]?-['\"]?\s+'\{\s*print\s+\$NF;?\s*\}'"
    r"|sed\s+(?:-E\s+|-r\s+)?['\"]?s([/|#])\^?\.\*-\1\1g?['\"]?"
    r"|rev\s*\|\s*cut\s+(?:-d\s*['\"]?-['\"]?\s+-f\s*1|-f\s*1\s+-d\s*['\"]?-['\"]?)"
    r"\s*\|\s*rev|grep\s+-o\w*\s+['\"]?(?:\[0-9\][+*]|\\d\+)\$['\"]?"
)
"""Commands that print what is behind the last hyphen of a name."""
_USED: Final = re.compile(r"\$\{?\w+")
_CUTS: Final = re.compile(
    r"(?:echo|printf)\s[^|]*(?:\|\s*(?:cut|sed|awk|tr|head)\b[^|]*)+"
    r"|(?:cut|sed|awk|tr)\s[^|]*<<<[^|]*"
)
_OPENS: Final = re.compile(r"\b(?:sed|awk)\b[^|]*\[|\A(?=.*\[).*\bcut\s+-d\s*['\"]?-")
"""A cut that knows the bracket of a list, and may make a host of it."""


def _without(value: str, cut: re.Match[str]) -> str:
    """Return what a cut leaves of a value, if nothing unknown may have its sign."""
    side, sign = cut[1] or cut[3], cut[2] or cut[4]
    is_last = side in ("##", "%")
    before, found, behind = (value.rpartition if is_last else value.partition)(sign)
    sure = behind if is_last else before
    if {*MARKS.findall(sure if found else value)} - {POD_INDEX, JOB_INDEX}:
        return UNKNOWN
    if not found:
        return value
    return behind if side[0] == "#" else before


def _drawn_by(text: str) -> str:
    """Return the mark of a command whose output differs between tasks, or nothing."""
    if _SAME_DRAW.search(text):
        return ""
    if "$RANDOM" in text or "${RANDOM" in text:
        return RANDOM
    if _DRAWS.search(text):
        return DRAWN
    date = _DATE.fullmatch(text.strip())
    if date is None:
        return ""
    form, pipe = date.groups()
    if form and _MOMENT.search(form) and (not pipe or "sum" in pipe):
        return DRAWN
    is_exact = form is None or _MOMENT.search(form) or _SECONDS.search(form)
    return CLOCK if is_exact else ""


def _marked_sum(text: str) -> str:
    """Return the mark for a sum with one in it."""
    marks = {*MARKS.findall(text)}
    if JOB_ID in marks:
        return JOB_ID
    if len(marks) != 1:
        return UNKNOWN
    if text in marks:
        return text
    values = {_arithmetic(MARKS.sub(number, text)) for number in "01"} - {UNKNOWN}
    is_of_node = marks <= {IN_TASK["SLURM_NODEID"], IN_TASK["SLURM_PROCID"]}
    return EACH_NODE if is_of_node and len(values) > 1 else UNKNOWN


_OPERATORS: Final[dict[type[ast.operator], Callable[[int, int], int]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}


def _arithmetic(text: str) -> str:
    """Return the value of an expression of plain numbers, or ``UNKNOWN``."""
    if not re.fullmatch(r"[0-9+*/%() -]+", text) or "**" in text or "//" in text:
        return UNKNOWN
    try:
        number = _value_of(ast.parse(text.replace("/", "//"), mode="eval").body)
    except (SyntaxError, ValueError, ZeroDivisionError, RecursionError, MemoryError):
        return UNKNOWN
    return str(number) if 0 <= number < 10**9 else UNKNOWN


def _value_of(node: ast.expr) -> int:
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return node.value
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        return _OPERATORS[type(node.op)](_value_of(node.left), _value_of(node.right))
    raise ValueError


def _separated(value: str) -> Iterator[str]:
    """Yield the words of an unquoted value with blanks between them."""
    for index, text in enumerate(re.split(r"\s+", value)):
        if index:
            yield _SEPARATOR
        if text:
            yield text


def plain_number(text: str) -> int | None:
    """Return the number that a text is, None if it is another text."""
    return int(text) if _NUMBER.fullmatch(text) else None
