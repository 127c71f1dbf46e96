"""The sizes of parallel groups in the options of a program."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ranktable.cluster.submissions import shell

if TYPE_CHECKING:
    from collections.abc import Sequence


def parallel_sizes(words: Sequence[str], names: Sequence[str]) -> dict[str, int]:
    """Return the literal sizes of parallel groups; none if one is not literal."""
    sizes = {}
    for at, word in enumerate(words):
        name, sign, value = word.lstrip("-").partition("=")
        name = name.replace("_", "-")
        if not word.startswith("-") or name not in names:
            continue
        text = value if sign else next(iter(words[at + 1 : at + 2]), "")
        size = shell.plain_number(text)
        if size is None:
            return {}
        sizes[name] = size
    return sizes
