"""The variables of a batch script, as far as it was read."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from ranktable.cluster.submissions.shell import Scope, Word, is_assignment, name_of
from ranktable.cluster.submissions.shell_marks import shown
from ranktable.cluster.submissions.submission import Setting
from ranktable.cluster.submissions.task_command import is_read
from ranktable.schema.document import SourceSpan

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


VISIBLE: Final = "VISIBLE_DEVICES"
_ASSIGNING: Final = re.compile(
    r"\$\{([A-Za-z_]\w*):?=|\$\(\((?:[^)]*\W)?([A-Za-z_]\w*)\s*(?:\+\+|--|[-+*/]?=(?!=))"
)
"""An expansion that assigns."""
EXPORTS: Final = ("export", "declare", "readonly", "local", "typeset")
ACTIVATION: Final = re.compile(
    r"activate\b|bashrc|profile|conda\.sh|/lmod/|modules|env_?setup|setvars"
    r"|shell\.?\w* hook|ssh-agent|pyenv"
)
_SETTERS: Final = ("unset", "read", "mapfile", "readarray", "printf")
_READS_HOSTS: Final = re.compile(
    r"(?:mapfile|readarray)\s+-t\s+([A-Za-z_]\w*)\s*(?:<\s*<\(|<<<\s*\"?\$\()"
    r"\s*scontrol\s+show\s+hostnames?\b[^|)]*\)"
)
_ITEM: Final = re.compile(r"([A-Za-z_]\w*)\[[^]]*\]\+?=")
"""An assignment to an item of an array."""


def may_set_all(words: Sequence[Word]) -> bool:
    """Whether a command sets variables whose names are not in the file."""
    head, *rest = (word.raw for word in words)
    if head in ("source", ".", "eval"):
        return not any(map(ACTIVATION.search, rest[:1]))
    return head in EXPORTS and any(
        not is_assignment(word) and ("$" in word.raw or "`" in word.raw)
        for word in words[1:]
    )


def exported(given: Setting | None) -> dict[str, Setting]:
    """Return the variables to which --export gives a value without a comma."""
    found = {}
    span = given and given.span
    for item in [] if given is None else given.text.split(","):
        name, sign, value = item.partition("=")
        if sign and not name.endswith(VISIBLE):
            found[name] = Setting(value, f"--export={shown(item)}", span)
    return found


class ScriptVariables:
    """The variables of a batch script, as far as it was read.

    Attributes:
        scope: Their values.
        settings: Those that matter to a job, as they are written.
    """

    def __init__(
        self, text: str, known: Mapping[str, str], given: Mapping[str, Setting]
    ) -> None:
        """Begin with what Slurm sets, and with what ``--export`` gives."""
        self._text = text
        self.scope = Scope(known=known)
        self.scope.give({name: setting.text for name, setting in given.items()})
        self.settings = {n: s for n, s in given.items() if is_read(n)}

    def take(self, scope: Scope, word: Word) -> bool:
        """Take an assignment; return whether the word is one."""
        if not scope.assign(word, is_certain=True):
            return False
        name = name_of(word)
        if is_read(name):
            place = SourceSpan(offsets=(word.start, word.end))
            self.settings[name] = Setting(scope.value(name), word.raw, place)
        return True

    def forget(self, names: Sequence[str]) -> None:
        """Note that the values of some variables are not known from here on."""
        for name in names:
            self.scope.forget(name)
            self.settings.pop(name, None)

    def forget_set(self, words: Sequence[Word]) -> None:
        """Forget what a command sets, but by assignments that are words of it."""
        head = words[0].raw
        found = (pair for word in words for pair in _ASSIGNING.findall(word.raw))
        self.forget([first or second for first, second in found])
        self.forget(_ITEM.findall(head))
        if head in _SETTERS:
            self.forget([word.raw for word in words[1:]])
            read = _READS_HOSTS.match(self._text, words[0].start)
            if read is not None:
                self.scope.set_hosts(read[1])
        if may_set_all(words):
            self.forget([*self.scope.values, *self.scope.arrays])
            self.settings.clear()

    def export(self, words: Sequence[Word]) -> None:
        """Take the words of ``export``."""
        for word in words:
            self.take(self.scope, word)
            self.scope.exported.add(name_of(word))

    def inherited(
        self, scope: Scope, settings: Mapping[str, Setting] | None = None
    ) -> dict[str, Setting]:
        """Return what a command inherits of all settings, or of some."""
        settings = self.settings if settings is None else settings
        return {
            name: setting._replace(text=scope.assigned(name) or setting.text)
            for name, setting in settings.items()
            if scope.is_exported(name)
        }
