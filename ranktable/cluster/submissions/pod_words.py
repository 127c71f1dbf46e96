"""Words of a container's command that are several in one, or one text in several.

Kubernetes starts the first item as a program and gives it the others, without a shell.

Source: kubernetes.io, "Define a Command and Arguments for a Container"; POSIX.1-2024,
sh, option -c; Python, argparse, "Arguments containing -".
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from ranktable.cluster.submissions.launch_options import (
    JUDGED,
    SHELLS,
    after_shell_options,
    base,
    find_launch,
    options_of_mpirun,
    torchrun_name,
)
from ranktable.cluster.submissions.shell_marks import UNKNOWN
from ranktable.schema.text import quoted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_PROGRAM: Final = re.compile(
    r"python[0-9.]*|torchrun|accelerate|deepspeed|mpirun|mpiexec|ray|vllm|env"
    r"|(?:ba|da|z|k)?sh"
)
_EACH: Final = "write every word as an item of its own, or start it with sh -c"


def split_wrongly(words: Sequence[str]) -> Iterator[tuple[int, str, str]]:
    """Yield the indexes of wrong words of a command, what is wrong, and what to do."""
    if not words or UNKNOWN in words[0]:
        return
    name, *more = words[0].split() or [""]
    if _is_several(words[0]) or (more and "/" not in name):
        yield 0, f"no program is called {quoted(words[0])}", _EACH
    elif base(name) in SHELLS:
        yield from _of_shell(words)
    else:
        yield from _of_launcher(words)


def _is_several(word: str) -> bool:
    """Whether a word begins with a program or a script, and has others behind it."""
    name, *more = word.split() or [""]
    return bool(more) and (name.endswith((".sh", ".py")) or _is_program(name))


def _is_program(word: str) -> bool:
    return _PROGRAM.fullmatch(base(word)) is not None


def _of_shell(words: Sequence[str]) -> Iterator[tuple[int, str, str]]:
    """Judge what a shell is given."""
    at, has_text = after_shell_options(words, 0)
    parts = words[at].split() if at < len(words) else []
    if not parts or not _is_program(parts[0]):
        return
    if not has_text and len(parts) > 1:
        message = f"{words[0]} looks for a file called {quoted(words[at])}"
        yield at, message, "put -c before it"
    elif has_text and len(parts) == 1 and at + 1 < len(words):
        message = f"-c takes one item, so {parts[0]} is started without {words[at + 1]}"
        yield at, message, "write the command as one item behind -c"


def _of_launcher(words: Sequence[str]) -> Iterator[tuple[int, str, str]]:
    """Judge the options of a launcher and its script."""
    program, rest = find_launch(words)
    if program not in ("torchrun", "python", "mpirun"):
        return
    begin = len(words) - len(rest)
    end = last = len(words)
    if program == "mpirun":
        end = begin + options_of_mpirun(rest)[1]
        if end < len(words) and _is_several(words[end]):
            yield end, f"no program is called {quoted(words[end])}", _EACH
            last = end
    for at in range(begin - (program == "python"), last):
        first, *more = words[at].split() or [""]
        if more and at < end and _is_option(program, first):
            yield at, f"{program} takes {quoted(words[at])} for one argument", _EACH
        elif more and first.endswith(".py"):
            yield at, f"no script is called {quoted(words[at])}", _EACH
        if first.endswith(".py") or first in ("-m", "-c"):
            return


def _is_option(program: str, word: str) -> bool:
    """Whether a word is an option that has no blank in its value."""
    if program == "mpirun":
        return word.startswith("-") and "=" not in word
    if program != "torchrun" or not word.startswith("--"):
        return False
    name = torchrun_name(word)
    return name in JUDGED if "=" in word else name is not None
