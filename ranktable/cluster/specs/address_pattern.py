"""Patterns of addresses: ``10.{node/250}.{node%250}.{chip+1}``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ranktable.cluster.argument import ArgumentError

if TYPE_CHECKING:
    from collections.abc import Sequence

_FIELD = re.compile(
    r"\{(?P<name>node|chip)(?:(?P<operator>[/%])(?P<by>[1-9][0-9]{0,6}))?"
    r"(?:\+(?P<plus>[0-9]{1,7}))?\}|\{(?P<host>host)\}"
)
_HINT = "{node}, {chip} and {host} can stand in braces: {node%250+1}"


@dataclass(frozen=True, slots=True)
class PatternField:
    """What stands in braces: a number that may be divided, and added to."""

    name: str
    operator: str | None = None
    by: int = 1
    plus: int = 0

    def of(self, number: int) -> str:
        """Return the field for the place of a node or the number of a chip."""
        if self.operator == "/":
            number //= self.by
        elif self.operator == "%":
            number %= self.by
        return str(number + self.plus)


@dataclass(frozen=True, slots=True)
class AddressPattern:
    """Text and fields by turns."""

    parts: tuple[str | PatternField, ...]

    def addresses(self, node: int, host: str | None, chips: Sequence[int]) -> list[str]:
        """Return the address of every chip of a node."""
        addresses = [""] * len(chips)
        text = ""  # what all of them have in common since the last chip
        for part in self.parts:
            if isinstance(part, str):
                text += part
            elif part.name == "host":
                text += host or ""
            elif part.name == "node":
                text += part.of(node)
            else:
                addresses = [
                    f"{address}{text}{part.of(chip)}"
                    for address, chip in zip(addresses, chips, strict=True)
                ]
                text = ""
        return [address + text for address in addresses]

    @property
    def has_host(self) -> bool:
        """Whether the name of the host is part of it."""
        return any(
            isinstance(part, PatternField) and part.name == "host"
            for part in self.parts
        )


def parse_pattern(text: str) -> AddressPattern:
    """Return the pattern that a text is.

    Raises:
        ArgumentError: There are braces around something else; it has the place.
    """
    parts: list[str | PatternField] = []
    at = 0
    for match in _FIELD.finditer(text):
        parts += [_plain(text, at, match.start()), _field(match)]
        at = match.end()
    parts.append(_plain(text, at, len(text)))
    return AddressPattern(tuple(part for part in parts if part != ""))


def _plain(text: str, start: int, end: int) -> str:
    brace = re.search(r"[{}]", text[start:end])
    if brace is None:
        return text[start:end]
    position = start + brace.start()
    word = re.match(r"\{[^{}]*\}?|\}", text[position:])
    shown = word[0] if word else brace[0]
    raise ArgumentError(
        f"{shown} means nothing here", text=text, position=position, hint=_HINT
    )


def _field(match: re.Match[str]) -> PatternField:
    if match["host"]:
        return PatternField("host")
    by, plus = int(match["by"] or 1), int(match["plus"] or 0)
    return PatternField(match["name"], match["operator"], by, plus)
