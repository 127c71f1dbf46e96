"""Judge servers of models that span several chips and nodes: vLLM and SGLang.

SGLang and vLLM with ``--nnodes`` share the chips of a model out evenly over the nodes;
vLLM without it takes those of a cluster of Ray, if there is one.

Sources: vllm-project/vllm, vllm/engine/arg_utils.py; sgl-project/sglang,
python/sglang/srt/server_args.py.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Final

from ranktable.cluster.submissions import submission_rules as rules
from ranktable.cluster.submissions.agents import (
    SERVERS,
    fact_of,
    groups_of,
    listed_chips,
)
from ranktable.cluster.submissions.submission import Setting
from ranktable.schema.finding import Severity
from ranktable.schema.text import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ranktable.cluster.submissions.agents import Group
    from ranktable.cluster.submissions.submission import Fact, Submission
    from ranktable.schema.finding import Finding

_SIZES: Final = ("tp", "pp")


def judge_servers(one: Submission) -> Iterator[Finding]:
    """Compare the chips that servers need with those of their nodes."""
    for group in groups_of(one):
        role = group.role
        sizes = [fact_of(role.option(name)) for name in _SIZES]
        given = [size for size in sizes if size is not None]
        if role.command.program in SERVERS and given and role.chips is not None:
            listed = listed_chips(one, role)
            is_less = listed is not None and listed.value < role.chips.value
            chips = listed if listed and is_less else role.chips
            yield from _judge_sizes(one, group, given, chips)


def _judge_sizes(
    one: Submission, group: Group, sizes: list[Fact], chips: Fact
) -> Iterator[Finding]:
    role = group.role
    product = prod(size.value for size in sizes)
    span = sizes[0].span
    needed = f"{' and '.join(size.said for size in sizes)}: {counted(product, 'chip')}"
    is_even = role.option("nnodes") is not None or role.command.program == "sglang"
    if is_even and role.option("dp") is None:
        nodes = fact_of(role.option("nnodes") or _NO_NODES)
        if nodes is None or not nodes.value:
            return
        if product % nodes.value:
            yield rules.WRONG_SIZE.finding(
                span,
                f"{needed}, which cannot be shared out evenly ({nodes.said})",
                hint="change the sizes, or the number of nodes",
                severity=Severity.WARNING,
            )
        elif product > chips.value * nodes.value:
            yield rules.MORE_THAN_CHIPS.finding(
                span,
                f"{needed} on {counted(nodes.value, one.node)} ({nodes.said}), but "
                f"every {one.node} has {chips.value} ({chips.said})",
                hint="change the sizes, or the number of nodes",
            )
        elif one.kind == "LeaderWorkerSet" and nodes.value > 1:
            yield from _judge_idle(group, needed, product // nodes.value)
        return
    is_group = one.kind == "LeaderWorkerSet"  # its pods may be a cluster of Ray
    pairs = [(each.nodes, each.chips) for each in one.roles]
    if any(None in pair for pair in pairs):
        return
    total = sum(nodes.value * each.value for nodes, each in pairs if nodes and each)
    total = max(total, (one.job_nodes or 0) * chips.value)
    if product > total:
        yield rules.MORE_THAN_CHIPS.finding(
            span,
            f"{needed}, but all {one.node}s together have {total}",
            hint="change the sizes, or the number of nodes",
        )
    elif product > chips.value and (group.starts or 1) > 1 and not is_group:
        yield rules.MORE_THAN_CHIPS.finding(
            span,
            f"{needed}, and every {one.node} that starts it has {chips.value} "
            f"({chips.said})",
            hint="start it once, with a cluster of Ray on all nodes",
            severity=Severity.WARNING,
        )


def _judge_idle(group: Group, needed: str, each: int) -> Iterator[Finding]:
    """Warn about chips of the pods of a server that it does not use."""
    role = group.role
    if role.chips is not None and each < role.chips.value:
        yield rules.IDLE_CHIPS.finding(
            role.command.span,
            f"{needed}, {each} in every pod, which has {role.chips.value} "
            f"({role.chips.said})",
            hint="change the sizes or the limits, unless other processes use the rest",
        )


_NO_NODES: Final = Setting("1", "no --nnodes")
