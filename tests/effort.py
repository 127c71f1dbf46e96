"""The number of examples of property tests: a fifth in the fast tests, otherwise all.

``make test-all`` tries all of them, with ``--hypothesis-profile=thorough``. Both draw
the same examples each time, so that a change fails by what it brings. ``make laws``
draws others, and ten times as many: what it finds becomes an ``@example``.
"""

from __future__ import annotations

import os
import resource
import signal
import traceback
from typing import TYPE_CHECKING

from hypothesis import settings

if TYPE_CHECKING:
    from collections.abc import Callable

EXAMPLES = 300
"""Of a law that does not say how many it takes, when thorough."""
FAST_SHARE = 5

for name, number, is_same in (
    ("fast", EXAMPLES // FAST_SHARE, True),
    ("thorough", EXAMPLES, True),
    ("drawn", EXAMPLES * 10, False),
):
    settings.register_profile(
        name, deadline=None, max_examples=number, derandomize=is_same
    )


def law(max_examples: int) -> settings:
    """Return the settings of a property test with this number of examples."""
    share = settings().max_examples / EXAMPLES
    return settings(deadline=None, max_examples=round(max_examples * share))


def within_cpu(limit_s: int, work: Callable[[], object]) -> None:
    """Run something in a fork that the kernel ends after this much time of a core.

    No times are compared: what is linear needs a small part of the limit on any
    machine, and what is not needs many times more.

    Raises:
        AssertionError: It raised there, or was ended.
    """
    child = os.fork()
    if child == 0:
        status = 1
        try:
            resource.setrlimit(resource.RLIMIT_CPU, (limit_s,) * 2)
            work()
            status = 0
        except BaseException:  # noqa: BLE001 - the parent fails
            traceback.print_exc()
        finally:
            os._exit(status)
    _, ended = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(ended)
    assert code == 0, f"ended with {code}; {-signal.SIGKILL} is over {limit_s} s of CPU"
