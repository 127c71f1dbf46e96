"""Command lines of launchers: split into words as a shell does, and into options."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import TYPE_CHECKING

from ranktable.cluster.hostfiles import hostfile_rules as rules
from ranktable.cluster.source_text import Token
from ranktable.schema.diagnostic import quoted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ranktable.cluster.source_text import SourceText

_TOKEN = re.compile(
    r"""(?P<blank>(?:[ \t\r]|\\\r?\n)+)
      | (?P<comment>\#[^\n]*)
      | (?P<redirection>[0-9]*>&[0-9]|&>+)
      | (?P<end>[\n;&|]+)
      | (?P<word>(?:[^\s'"\\;&|]+|\\.|'[^']*'|"(?:[^"\\]|\\.)*")+)
      | (?P<other>.)""",
    re.VERBOSE | re.DOTALL,
)
_QUOTED = re.compile(r"""'([^']*)'|"((?:[^"\\]|\\.)*)"|\\(.)""", re.DOTALL)
_HOST = re.compile(r"#\s*host:\s*(\S+)\s*")
_MAX_OPTION = 40  # a longer word is not a typing mistake
# A line with its continuation lines.
_LINE = re.compile(r"(?:[^\\\n]|\\.)+", re.DOTALL)
_CONTINUED = re.compile(r"\\\r?\n")
_SHEBANG = re.compile(r"#![^\n]*\b(?:ba|da|z|k)?sh\b")
_PREPARING = re.compile(
    r"(?:[ \t\r]*(?:#[^\n]*)?\n)*"
    r"(?:(?:\.|cd|echo|export|module|set|source|ulimit|umask|unset)[ \t]|[A-Za-z_]\w*=)"
)
"""The first command of a script without a shebang, such as ``cd /work``."""
_TARGET = re.compile(r"^[\w./%-]+ *:(?:[ \t]|$)", re.MULTILINE)
"""A line of a Makefile, which may begin with variables as scripts do."""
_VARIABLE = re.compile(r"\$(?:[A-Za-z_]\w*|\{[^}]*\}|\([^)]*\))")


@dataclass(slots=True)
class Command:
    """One command.

    Attributes:
        words: Its words.
        host: The host in a comment ``# host: n1`` above it.
    """

    words: list[Token]
    host: Token | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Syntax:
    """The syntax of a launcher's command line.

    Attributes:
        program: Name of the program.
        modules: Module names with which ``python -m`` starts it.
        values: Options with a value, with hyphens.
        flags: Options without a value.
        variables: Prefix of the variables that set options.
        aliases: Other names of options.
    """

    program: str
    modules: tuple[str, ...]
    values: frozenset[str]
    flags: frozenset[str] = frozenset()
    variables: str | None = None
    aliases: dict[str, str] = field(default_factory=dict)


def is_variable(text: str) -> bool:
    """Whether a word is a shell variable, such as ``$SLURM_NODEID``."""
    return _VARIABLE.fullmatch(text) is not None


def is_command_of(syntax: Syntax, text: str) -> bool:
    """Whether a text begins with a command that starts a launcher, or is such a script.

    An option or a script must follow the launcher, because texts may mention its name,
    and so may a Makefile.
    """
    is_script = _is_script(text)
    for line in _LINE.finditer(text):
        words = _CONTINUED.sub(" ", line[0]).split()
        if not words or words[0].startswith("#"):
            continue
        start = _program([Token(word, 0, 0) for word in words], syntax)
        if start is not None and start < len(words):
            word = words[start]
            if word[0] in "-$'\"" or any(mark in word[:-1] for mark in "./"):
                return True
        if not is_script:
            return False
    return False


def _is_script(text: str) -> bool:
    """Whether a text is a script of a shell, and not a list of commands."""
    if _SHEBANG.match(text):
        return True
    return _PREPARING.match(text) is not None and _TARGET.search(text) is None


def commands_in(source: SourceText, syntax: Syntax) -> Iterator[Command]:
    """Yield every command; a backslash at the end of a line continues the command.

    Of a script, only commands that start the launcher, or set one of its options.
    """
    is_script = _is_script(source.text)
    words: list[Token] = []
    host: Token | None = None
    for match in _TOKEN.finditer(source.text):
        if match.lastgroup == "word":
            text = _QUOTED.sub(lambda m: m[1] or m[2] or m[3] or "", match[0])
            words.append(Token(text, match.start(), match.end()))
        elif match.lastgroup == "comment":
            named = _HOST.fullmatch(match[0])
            if named is not None:
                start = match.start() + named.start(1)
                host = Token(named[1], start, start + len(named[1]))
        elif match.lastgroup == "other":
            word = Token(match[0], match.start(), match.end())
            source.report(rules.BAD_LINE, word, "a quotation mark is not closed")
        elif match.lastgroup == "end" and words:
            if not is_script or _is_about(words, syntax):
                yield Command(words, host)
                host = None
            words = []
    if words and (not is_script or _is_about(words, syntax)):
        yield Command(words, host)


def _is_about(words: Sequence[Token], syntax: Syntax) -> bool:
    """Whether a command starts the launcher, or sets one of its options."""
    start = _program(words, syntax)
    if start is not None:
        return start < len(words)  # a last word only names it, as in "which torchrun"
    return syntax.variables is not None and any(
        word.text.startswith(syntax.variables) for word in words
    )


def options_of(
    source: SourceText, command: Command, syntax: Syntax
) -> dict[str, Token] | None:
    """Return the options of a command, None if it does not start the launcher.

    Unknown options, and options that lack a value, are reported. Words after the script
    belong to the script.
    """
    start = _program(command.words, syntax)
    if start is None:
        return None
    found = _variables(command.words[:start], syntax)
    words, at = command.words, start
    while at < len(words) and words[at].text.startswith("-"):
        value = words[at + 1] if at + 1 < len(words) else None
        at += _read_option(source, words[at], value, syntax, found)
    return found


def _program(words: Sequence[Token], syntax: Syntax) -> int | None:
    """Return the index after the name of the program."""
    if words and words[0].text == "echo":
        return None
    for place, word in enumerate(words):
        if word.text == syntax.program or word.text.endswith(f"/{syntax.program}"):
            return place + 1
        if word.text in syntax.modules and words[place - 1].text == "-m" and place > 1:
            return place + 1
    return None


def _variables(words: Sequence[Token], syntax: Syntax) -> dict[str, Token]:
    """Return the options that are set by variables before the program."""
    found = {}
    for word in words if syntax.variables else ():
        name, mark, _ = word.text.partition("=")
        option = name.removeprefix(str(syntax.variables))
        if mark and option != name:
            found[option.lower().replace("_", "-")] = word.part(len(name) + 1)
    return found


def _read_option(
    source: SourceText,
    word: Token,
    value: Token | None,
    syntax: Syntax,
    found: dict[str, Token],
) -> int:
    """Read an option, whose value may be the next word; return the number of words."""
    name, mark, _ = word.text.partition("=")
    option = name.lstrip("-").replace("_", "-")
    option = syntax.aliases.get(option, option)
    if option in syntax.flags:
        found[option] = word
        return 1
    if option not in syntax.values:
        _report_unknown(source, word, name, syntax)
        return 1
    if mark:
        found[option] = word.part(len(name) + 1)
        return 1
    if value is None:
        source.report(rules.BAD_LINE, word, f"{name} needs a value")
        return 1
    found[option] = value
    return 2


def _report_unknown(source: SourceText, word: Token, name: str, syntax: Syntax) -> None:
    if len(name) > _MAX_OPTION:
        close = []
    else:
        option = name.lstrip("-").replace("_", "-")
        close = get_close_matches(option, (*syntax.values, *syntax.flags), 1)
    hint = f"did you mean --{close[0]}?" if close else None
    message = f"{quoted(name)} is not an option of {syntax.program}"
    source.report(rules.BAD_LINE, word, message, hint=hint)
