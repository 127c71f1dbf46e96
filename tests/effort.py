"""The number of examples of property tests: a fifth in the fast tests, otherwise all.

``make test-all`` tries all of them, with ``--hypothesis-profile=thorough``.
"""

from __future__ import annotations

from hypothesis import settings

EXAMPLES = 300
"""Of a law that does not say how many it takes, when thorough."""
FAST_SHARE = 5

settings.register_profile("thorough", deadline=None, max_examples=EXAMPLES)
settings.register_profile("fast", deadline=None, max_examples=EXAMPLES // FAST_SHARE)


def law(max_examples: int) -> settings:
    """Return the settings of a property test with this number of examples."""
    share = settings().max_examples / EXAMPLES
    return settings(deadline=None, max_examples=round(max_examples * share))
