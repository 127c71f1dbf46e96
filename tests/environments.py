"""Environments of launchers in a few words."""

from __future__ import annotations


def variables(text: str) -> dict[str, str]:
    """Return the variables of a text such as ``RANK=1 WORLD_SIZE=2``."""
    return dict(each.split("=", 1) for each in text.split())
