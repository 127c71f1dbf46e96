"""The pages of ``ranktable explain``: what a rule says to people, and its examples.

They are data, one file for each family of rules in the folder ``pages``. Nothing that
judges a file reads them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from ranktable._toml import loads

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ranktable.schema.finding import Rule

_EXAMPLES = ("beside", "bad", "good")


@dataclass(frozen=True, slots=True, kw_only=True)
class RulePage:
    """What a rule says to people.

    Attributes:
        why: What goes wrong and where the rule comes from.
        readers: What each vendor library does with this mistake. ``HCCL`` is its
            source of August 2026.
        seen_as: Messages that users see and will search for.
        command: The command that finds it, such as ``validate`` or ``merge``.
        options: Options of ``command`` that the examples need.
        beside: A file that is given before the other, if the defect is between two.
        bad: A smallest file with the defect, None if no content has it.
        good: The most similar sound file.
    """

    why: str
    readers: Mapping[str, str] = field(default_factory=dict)
    seen_as: tuple[str, ...] = ()
    command: str = "validate"
    options: Mapping[str, str] = field(default_factory=dict)
    beside: bytes | None = None
    bad: bytes | None = None
    good: bytes | None = None


def page_of(rule: Rule) -> RulePage:
    """Return the page of a rule."""
    for text in _texts():
        if f"\n[{rule.code}]\n" in text:
            return _pages(text)[rule.code]
    raise KeyError(rule.code)  # not of this package


def pages() -> dict[str, RulePage]:
    """Return every page by its code."""
    return {code: page for text in _texts() for code, page in _pages(text).items()}


@cache
def _texts() -> tuple[str, ...]:
    folder = resources.files("ranktable.report").joinpath("pages")
    files = sorted(folder.iterdir(), key=lambda file: file.name)
    return tuple(f"\n{file.read_text('utf-8')}" for file in files)


@cache
def _pages(text: str) -> dict[str, RulePage]:
    """Return the pages of a family."""
    entries = loads(text)
    return {code: _page(entries, entry) for code, entry in entries.items()}


def _page(entries: Mapping[str, Any], entry: Mapping[str, Any]) -> RulePage:
    examples = {key: _example(entries, key, entry.get(key)) for key in _EXAMPLES}
    seen_as = tuple(entry.get("seen_as", ()))
    return RulePage(**{**entry, **examples, "seen_as": seen_as})


def _example(entries: Mapping[str, Any], key: str, example: Any) -> bytes | None:
    """Return an example of a page, which may be that of another page of the file."""
    if isinstance(example, dict) and "same_as" in example:
        example = entries[example["same_as"]][key]
    if isinstance(example, dict):
        return example["text"].encode(example["encoding"])  # type: ignore[no-any-return]
    return None if example is None else example.encode()
