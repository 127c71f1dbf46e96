"""A document: its text, its plain data, and where in the text each value stands."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

Path = tuple[str | int, ...]
"""Keys and indices from the root of a document."""

Offsets = tuple[int, int]
"""First character and end of a piece of a text."""


@dataclass(frozen=True, slots=True)
class SourceSpan:
    """A place in a document.

    Attributes:
        path: Keys and indices from the root.
        part: The value, the key before it, the last repetition of that key, or the
            first key of that name with its value.
        offsets: First character and end in the text, where a parser knows them; they
            win over the path.
        label: What is there, for a related place.
    """

    path: Path = ()
    part: Literal["value", "key", "repeated key", "first member"] = "value"
    offsets: Offsets | None = None
    label: str | None = None

    @property
    def pointer(self) -> str | None:
        """JSON Pointer (RFC 6901) of the path, None for a place in broken syntax."""
        if self.offsets is not None and not self.path:
            return None
        return "".join(
            "/" + str(step).replace("~", "~0").replace("/", "~1") for step in self.path
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A document of JSON or YAML.

    Attributes:
        text: The text, of which other documents may be a part too.
        data: Plain data: dictionaries, lists, text, numbers, booleans and None.
        values: Offsets of every value by its path, where the parser notes them. The
            parser of JSON does not: a place is found in the text when it is shown.
        keys: Offsets of every key, by the path of its value.
    """

    text: str = field(repr=False)
    data: object
    values: Mapping[Path, Offsets] | None = field(default=None, repr=False)
    keys: Mapping[Path, Offsets] = field(default_factory=dict, repr=False)

    def get(self, *path: str | int) -> object:
        """Return a value, None if there is none."""
        value = self.data
        for step in path:
            if isinstance(value, dict) and isinstance(step, str):
                value = value.get(step)
            elif isinstance(value, list) and isinstance(step, int):
                value = value[step] if 0 <= step < len(value) else None
            else:
                return None
        return value

    def has(self, *path: str | int) -> bool:
        """Whether there is a value, which may be None."""
        if not path:
            return True
        holder, step = self.get(*path[:-1]), path[-1]
        if isinstance(holder, list) and isinstance(step, int):
            return 0 <= step < len(holder)
        return isinstance(holder, dict) and step in holder

    def span_of(
        self, *path: str | int, of_key: bool = False, label: str | None = None
    ) -> SourceSpan:
        """Return the place of a value or its key; if it is absent, of what is around.

        Args:
            path: Keys and indices from the root.
            of_key: Whether the key is meant.
            label: What is there, for a related place.
        """
        while path and not self.has(*path):
            path = path[:-1]
        if self.values is None:
            part: Literal["key", "value"] = "key" if of_key and path else "value"
            return SourceSpan(path, part, label=label)
        offsets = self.keys.get(path) if of_key else None
        return SourceSpan(
            path, offsets=offsets or self.values.get(path, (0, 0)), label=label
        )
