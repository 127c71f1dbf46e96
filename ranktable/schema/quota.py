"""How many findings of each rule are worth building; the rest is only counted.

Building a finding costs several times what finding the defect does. Of 100,000 equal
defects twenty are shown, so the others need no message, no hint and no place.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ranktable.schema.rules.rule import Rule


class Quota:
    """What is left to build for each rule, and how many were left out.

    Attributes:
        omitted: Number of findings of each code that were counted only, with one
            of the rules of that code.
    """

    def __init__(self, limit: int | None = None) -> None:
        """Allow this many findings of each code, None for all."""
        self.limit = limit
        self.built: Counter[str] = Counter()
        self.omitted: dict[str, tuple[Rule, int]] = {}

    def is_used_up(self, rule: Rule) -> bool:
        """Whether findings of a rule are being left out already."""
        return rule.code in self.omitted

    def is_spent(self, rule: Rule) -> bool:
        """Whether the next finding of a rule is to be left out; it is counted."""
        if self.limit is None:
            return False
        code = rule.code
        if self.built[code] < self.limit:
            self.built[code] += 1
            return False
        _, count = self.omitted.get(code, (rule, 0))
        self.omitted[code] = (rule, count + 1)
        return True

    def omit(self, rule: Rule, count: int) -> None:
        """Count findings of a rule that somebody else has left out."""
        _, before = self.omitted.get(rule.code, (rule, 0))
        self.omitted[rule.code] = (rule, before + count)
