"""Judge the tests of NCCL and RCCL, whose processes use several chips each.

Source: NVIDIA/nccl-tests, src/common.cu: the chips of a process begin at its number on
the node times ``-g`` times ``-t``, and a number that the node lacks is refused. Built
without MPI, every process takes the first chips and measures alone.
"""

from __future__ import annotations

import re
from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING, Final

from ranktable.cluster.submissions import submission_rules as rules
from ranktable.cluster.submissions.agents import listed_chips
from ranktable.cluster.submissions.launch_options import base
from ranktable.cluster.submissions.shell import plain_number
from ranktable.schema.finding import Severity
from ranktable.schema.text import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ranktable.cluster.submissions.submission import Fact, Role, Submission
    from ranktable.schema.finding import Finding

_TEST: Final = re.compile(
    r"(?:all_gather|all_reduce|alltoallv?|broadcast|gather|hypercube|reduce|"
    r"reduce_scatter|scatter|sendrecv)_perf(?:_mpi)?"
)
_FIRST: Final = "NCCL_TESTS_DEVICE"
"""The first chip of all processes, whatever their number."""
_SIZES: Final = ("-g", "--ngpus", "-t", "--nthreads")


def judge_tests(one: Submission, role: Role, tasks: Fact | None) -> Iterator[Finding]:
    """Compare the chips that tests of NCCL use on a node with those that it has.

    Args:
        one: The submission.
        role: What runs the tests.
        tasks: Processes on each node, None if not known.
    """
    sizes = _sizes(role.command.script)
    seen = role.chips_per_task or listed_chips(one, role) or role.chips
    if not sizes or seen is None or not seen.value or _FIRST in role.variables:
        return
    each = prod(sizes.values())
    said = " ".join(f"{name} {value}" for name, value in sizes.items())
    use = f"every process of the test uses {counted(each, 'chip')} ({said})"
    if each > seen.value:
        what = "task sees" if role.chips_per_task else f"{one.node} has"
        yield rules.MORE_THAN_CHIPS.finding(
            role.command.span,
            f"{use}, but every {what} {counted(seen.value, 'chip')} ({seen.said})",
            hint=f"write {seen.value}: -g is the chips of each process",
        )
    elif tasks and not role.chips_per_task and tasks.value * each > seen.value:
        yield rules.MORE_THAN_CHIPS.finding(
            role.command.span,
            f"{use}, and some {one.node} starts {tasks.value} of them ({tasks.said}), "
            f"but it has {counted(seen.value, 'chip')} ({seen.said})",
            hint="write -g 1 with a process for each chip, or start one on each "
            f"{one.node}",
            severity=Severity.WARNING,  # built without MPI, each is a test of its own
        )


def chips_of_test(role: Role) -> int:
    """Return how many chips a process of a test of NCCL uses, 1 for other programs."""
    return prod(_sizes(role.command.script).values())


def _sizes(words: Sequence[str]) -> dict[str, int]:
    """Return the sizes that a test is given, empty if none or not all are known."""
    at = next((n for n, word in enumerate(words) if _TEST.fullmatch(base(word))), None)
    sizes: dict[str, int] = {}
    for name, text in pairwise(words[at:] if at is not None else ()):
        if name in _SIZES:
            number = plain_number(text)
            if not number:
                return {}
            sizes[name] = number
    return sizes
