"""Texts that a batch script has for others: here-documents, and files of ``cat``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ranktable.cluster.submissions.detect import is_of_shell
from ranktable.cluster.submissions.launch_options import (
    SHELLS,
    after_shell_options,
    base,
    slurm_options,
)
from ranktable.cluster.submissions.shell import Scope, ShellCommand, Word, text_below
from ranktable.cluster.submissions.shell_marks import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Sequence


class ScriptFiles:
    """The files that a batch script writes, as far as it was read."""

    def __init__(self, text: str, scope: Scope) -> None:
        """Begin without a file; the names are expanded by the script's scope."""
        self._text, self._scope = text, scope
        self._files: dict[str, str] = {}

    def keep(self, words: Sequence[Word], command: ShellCommand) -> None:
        """Note which file ``cat`` or ``tee`` writes, with which text of the script."""
        names = [word.raw for sign, word in command.redirects if sign in (">", ">|")]
        names += [word.raw for word in words[1:2] if words[0].raw == "tee"]
        text, is_expanded = text_below(self._text, command)
        for name in (one for raw in names for one in self._scope.fields(raw)):
            self._files.pop(name.removeprefix("./"), None)
            if text and words[0].raw in ("cat", "tee") and UNKNOWN not in name:
                text = self._scope.expand_text(text) if is_expanded else text
                self._files[name.removeprefix("./")] = text

    def inserted(self, texts: list[str], command: ShellCommand) -> list[str]:
        """Return a line in which the text of a script stands for its name."""
        is_srun = base(texts[0]) == "srun" if texts else False
        rest = slurm_options(texts[1:]).rest if is_srun else texts
        at = len(texts) - len(rest)
        shell = next((n for n, t in enumerate(rest, at) if base(t) in SHELLS), None)
        end, has_text = (
            (at, False) if shell is None else after_shell_options(texts, shell)
        )
        if has_text:
            return texts
        if end < len(texts):
            text = self._files.get(texts[end].removeprefix("./"), "")
        else:
            text, is_expanded = text_below(self._text, command)
            text = self._scope.expand_text(text) if is_expanded else text
        if not text or not is_of_shell(text):
            return texts
        before = [*texts[:at], "bash"] if shell is None else texts[: shell + 1]
        return [*before, "-c", text, *texts[end:]]
