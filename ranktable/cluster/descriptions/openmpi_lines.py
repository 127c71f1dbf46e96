"""The words of Open MPI's host files and rank files, line by line.

Comments are ``#``, ``//`` and ``/* */``; the latter end a line on either side, and a
comment to the end of the line needs a newline: Open MPI 4.1 was seen to refuse one at
the very end of a file.

Source: openpmix/prrte, src/util/hostfile/hostfile_lex.l and
src/mca/rmaps/rank_file/rmaps_rank_file_lex.l.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ranktable.cluster.descriptions.source import Word
from ranktable.cluster.hostfiles import hostfile_rules as rules
from ranktable.schema.messages import quoted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ranktable.cluster.descriptions.source import Source

EQUALS = "="

_TOKEN = re.compile(
    r"""(?P<blank>[ \t\f\v]+)
      | (?P<line>\n)
      | (?P<comment>(?:\#|//)[^\n]*)
      | (?P<block>/\*.*?\*/)
      | (?P<word>=|[^\s=#"/\0-\x1f\x7f]+)
      | (?P<other>.)""",
    re.VERBOSE | re.DOTALL,
)
_ODD = {
    '"': "a quotation mark cannot stand here",
    "\r": "a carriage return ends this line; Open MPI takes it for a part of it",
}


def read_lines(source: Source) -> Iterator[list[Word]]:
    """Yield the words of every line that has any; ``=`` is a word of its own."""
    words: list[Word] = []
    text = source.text
    at, end = 0, len(text)
    while at < end:
        match = _TOKEN.match(text, at)
        assert match is not None  # noqa: S101 - the last alternative is any character
        kind = match.lastgroup
        if kind == "word":
            words.append(Word(match[0], at, match.end()))
        elif kind == "other":
            _say_odd(source, match[0], at)
            # Nothing sensible can be made of the rest of the line.
            words = []
            at = text.find("\n", at) + 1 or end
            continue
        elif kind != "blank":
            if kind == "comment" and match.end() == end:
                _say_no_newline(source, Word(match[0], at, end))
            if kind != "comment" and words:
                yield words
                words = []
        at = match.end()
    if words:
        yield words


def _say_odd(source: Source, character: str, at: int) -> None:
    message = _ODD.get(character, f"{quoted(character)} cannot stand here")
    if source.text.startswith("/*", at):
        message = "a comment begins here and does not end"
    hint = "convert the file: sed -i 's/\\r$//' FILE" if character == "\r" else None
    word = Word(character, at, at + 1)
    source.say(rules.BAD_LINE, word, message, hint=hint)


def _say_no_newline(source: Source, comment: Word) -> None:
    source.say(
        rules.NOT_EVERYWHERE,
        comment,
        "Open MPI 4 takes a comment at the end of the file for a parse error",
        hint="end the last line with a newline",
    )
