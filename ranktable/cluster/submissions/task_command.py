"""The command that a task or a pod runs, also inside of ``bash -c '...'``."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from ranktable.cluster.submissions.launch_options import (
    ASSIGNED,
    HARMLESS,
    SHELLS,
    after_shell_options,
    base,
    find_launch,
    only_looks,
    read_command,
    split_wrappers,
)
from ranktable.cluster.submissions.shell import TooDeepError, commands, name_of
from ranktable.cluster.submissions.shell_marks import shown
from ranktable.cluster.submissions.submission import LaunchCommand, Setting

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ranktable.cluster.submissions.shell import Scope, ShellCommand
    from ranktable.schema.document import SourceSpan

LAUNCHERS: Final = re.compile(
    r"\b(?:srun|torchrun|torch\.distributed\.(?:run|launch)|mpirun|mpiexec|deepspeed"
    r"|accelerate\s+launch)\b"
)
SET_BY_SCRIPTS: Final = (
    *("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "NODE_RANK"),
    *("MASTER_ADDR", "MASTER_PORT", "CUDA_VISIBLE_DEVICES"),
    *("ASCEND_RT_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"),
)
BLOCKS: Final = {
    **dict.fromkeys(("for", "while", "until", "select"), "a loop"),
    **dict.fromkeys(("if", "case"), "a condition"),
    "function": "a function",
    "(": "a subshell",
    "{": "a group",
}


def is_read(name: str) -> bool:
    """Whether a variable is one that programs or torchrun read at their start."""
    return name in SET_BY_SCRIPTS or name.startswith("PET_")


class TaskCommand(NamedTuple):
    """What a task runs.

    Attributes:
        command: The command.
        variables: What it finds in its environment.
    """

    command: LaunchCommand
    variables: Mapping[str, Setting]


def task_command(
    words: Sequence[str],
    scope: Scope,
    variables: Mapping[str, Setting],
    span: SourceSpan | None,
) -> TaskCommand:
    """Return what the words of a task's command run."""
    variables = _after_wrappers(words, variables, span)
    for at, word in enumerate(words[:-2]):
        if base(word) not in SHELLS:
            continue
        text, has_text = after_shell_options(words, at)
        if has_text and text < len(words):
            if find_launch(words[:at])[0]:
                break  # mpirun sh -c '...'
            scope.set_arguments(list(words[text + 2 :]))
            try:
                return _inner(words[text], scope, dict(variables), span)
            except TooDeepError:
                reason = "quotation marks are nested too deeply"
                unread = LaunchCommand(is_whole=False, span=span, unjudged=(reason,))
                return TaskCommand(unread, variables)
    return TaskCommand(read_command(split_wrappers(words), span), variables)


def _inner(
    text: str, scope: Scope, variables: dict[str, Setting], span: SourceSpan | None
) -> TaskCommand:
    """Return the first command of a script that starts processes."""
    unjudged: list[str] = []
    unread = LaunchCommand(is_whole=False, span=span)
    other: LaunchCommand | None = None
    is_tested = is_found = False
    looks: list[bool] = []
    stray: list[Setting] = []
    chosen_line: Sequence[str] = ()
    for command in commands(text):
        block = command.block
        if command.before == "||" or (command.before == "&&" and is_tested):
            block = block or "if"
        is_tested = command.words[0].raw in ("[", "[[", "test")
        first = command.words[0].raw
        if not block and first.startswith("-"):
            stray.append(Setting(first, shown(first), span))
            continue
        if is_found:
            continue
        if block:
            looks.append(only_looks([word.raw for word in command.words]))
            if any(LAUNCHERS.search(word.raw) for word in command.words):
                unjudged.append(f"it is in {BLOCKS[block]}")
                other = unread
            continue
        line = _after_assignments(command, scope, variables, span)
        texts = list(split_wrappers(line))
        if not texts or base(texts[0]) in HARMLESS:
            looks += [only_looks(texts)] if texts else []
            continue
        found = read_command(texts, span)
        if find_launch(texts)[0] not in ("", "python"):
            other, is_found, chosen_line = found, True, line
            continue
        if other is None or (found.program and other is not unread):
            other, chosen_line = found, line
    is_none = looks and all(looks) and not unjudged
    nothing = LaunchCommand(only_looks=True, span=span) if is_none else unread
    chosen = other or nothing
    variables = _after_wrappers(chosen_line, variables, span)
    command_ = replace(
        chosen, unjudged=(*unjudged, *chosen.unjudged), stray=tuple(stray)
    )
    return TaskCommand(command_, variables)


def _after_assignments(
    command: ShellCommand,
    scope: Scope,
    variables: dict[str, Setting],
    span: SourceSpan | None,
) -> list[str]:
    """Take the assignments at the beginning of a command; return its other words."""
    words = list(command.words)
    if words[0].raw == "export":
        words.pop(0)
    while words and scope.assign(words[0], is_certain=True):
        name = name_of(words[0])
        if is_read(name):
            said = shown(words[0].raw)
            variables[name] = Setting(scope.value(name), said, span)
        words.pop(0)
    return [each for word in words for each in scope.fields(word.raw)]


def _after_wrappers(
    words: Sequence[str], variables: Mapping[str, Setting], span: SourceSpan | None
) -> dict[str, Setting]:
    """Return the variables of a program that ``env`` starts, of those before it.

    Source: POSIX.1-2024, env; the GNU coreutils manual, "env invocation".
    """
    found = dict(variables)
    own = words[: len(words) - len(split_wrappers(words))]
    for at, word in enumerate(own):
        name, _, value = word.partition("=")
        if word in ("-i", "-", "--ignore-environment"):
            found.clear()
        elif word == "-u" or name == "--unset":
            found.pop(value or "".join(own[at + 1 : at + 2]), None)
        elif ASSIGNED.match(word) and is_read(name):
            found[name] = Setting(value, shown(word), span)
    return found
