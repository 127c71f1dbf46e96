"""What the links of a job are measured by, and what is wrong with the results.

Nodes first, each for itself; then pairs of nodes in two rounds, so that a slow node and
a slow link between two nodes can be told apart.
"""

from __future__ import annotations

from collections import defaultdict
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

from ranktable.preflight import link_rules as rules
from ranktable.preflight.here import Looked
from ranktable.schema.text import MAX_NAMED, counted, first_few, folded, named_ranks

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from ranktable.preflight.records import ProcessRecord
    from ranktable.schema.finding import Finding, Rule

SLOW_ON_CHIPS, SLOW_ON_CPUS = 0.8, 1 / 3
"""Part of the median of the others below which a node or pair is slow."""

MAX_DISTANCES = 3.0
_FEW = 32  # with more values the median of all is that of the others


class LinkNode(NamedTuple):
    """A node of the job.

    Attributes:
        number: Its number, of the table or the launcher.
        host: Its name.
        ranks: Its global ranks.
    """

    number: int
    host: str
    ranks: tuple[int, ...]

    def __str__(self) -> str:
        """Return what messages call it."""
        return f"node {self.number} ({self.host})"


class Step(NamedTuple):
    """An all_reduce of the ranks of one or two nodes.

    Attributes:
        stage: 0 within nodes, then the number of the round of pairs.
        nodes: The nodes.
    """

    stage: int
    nodes: tuple[LinkNode, ...]

    @property
    def ranks(self) -> tuple[int, ...]:
        """The ranks that take part."""
        return tuple(sorted(rank for node in self.nodes for rank in node.ranks))

    def __str__(self) -> str:
        """Return what messages call it."""
        return " and ".join(map(str, self.nodes))


class Measured(NamedTuple):
    """The result of a step.

    Attributes:
        step: What was measured.
        time_s: Time of an all_reduce.
        bandwidth: Bus bandwidth in GB/s.
    """

    step: Step
    time_s: float
    bandwidth: float


def pair_rounds(count: int) -> list[list[tuple[int, int]]]:
    """Return the pairs of two rounds; no node is in two pairs of a round.

    >>> pair_rounds(4), pair_rounds(5)
    ([[(0, 1), (2, 3)], [(1, 2), (3, 0)]], [[(0, 1), (2, 3)], [(1, 2), (3, 4)]])
    """
    first = [(node, node + 1) for node in range(0, count - 1, 2)]
    second = [(node, node + 1) for node in range(1, count - 1, 2)]
    if count > 2 and count % 2 == 0:
        second.append((count - 1, 0))
    return [first, second]


def bus_bandwidth(size_bytes: int, num_ranks: int, time_s: float) -> float:
    """Return the bus bandwidth of an all_reduce in GB/s, as nccl-tests has it."""
    return size_bytes / time_s * 2 * (num_ranks - 1) / num_ranks / 1e9


def slow_places(values: Sequence[float], limit: float) -> list[int]:
    """Return the places of bandwidths that are far below the others.

    Distances are those of times, which are not bounded above as bandwidths are below.

    >>> slow_places([100, 98, 40, 99], 0.8), slow_places([100, 98, 85, 99], 0.8)
    ([2], [])
    """
    times = [1 / value for value in values]
    if len(times) < 2:
        return []
    found, (usual, distance) = [], _spread(times)
    for place, time_ in enumerate(times):
        if len(times) <= _FEW:
            usual, distance = _spread([*times[:place], *times[place + 1 :]])
        if usual < limit * time_ and time_ - usual > MAX_DISTANCES * distance:
            found.append(place)
    return found


def _spread(times: Sequence[float]) -> tuple[float, float]:
    """Return the median, and the median distance from it."""
    usual = median(times)
    return usual, median(abs(each - usual) for each in times)


def nodes_of(records: Sequence[ProcessRecord]) -> tuple[LinkNode, ...]:
    """Return the nodes of a job, in the order of their first ranks.

    Their numbers are those of the table or the launcher. Else processes whose local
    ranks form blocks are one node, or else those with the same name of their host.
    """
    is_numbered = all(each.node is not None for each in records)
    blocks = defaultdict(list)
    for each in records:
        blocks[each.host, each.rank - (each.local_rank or 0)].append(each)
    is_blocks = all(len(b) == r.local_world_size for b in blocks.values() for r in b)
    groups: dict[Any, list[ProcessRecord]] = defaultdict(list)
    for each in sorted(records, key=lambda each: each.rank):
        block = (each.host, each.rank - (each.local_rank or 0))
        by_host = block if is_blocks else each.host
        groups[each.node if is_numbered else by_host].append(each)
    return tuple(
        LinkNode(
            number=key if is_numbered else place,
            host=(some[0].placed or [None])[0] or some[0].host,
            ranks=tuple(each.rank for each in some),
        )
        for place, (key, some) in enumerate(groups.items())
    )


def steps_of(nodes: Sequence[LinkNode]) -> list[Step]:
    """Return what is measured, in the order in which groups are made."""
    steps = [Step(0, (node,)) for node in nodes if len(node.ranks) > 1]
    for stage, pairs in enumerate(pair_rounds(len(nodes)), 1):
        steps += [Step(stage, (nodes[one], nodes[two])) for one, two in pairs]
    return steps


def ended(absent: Sequence[int], nodes: Sequence[LinkNode]) -> str:
    """Return the ranks that did not answer, by node as far as it is known."""
    gone = set(absent)
    named = [
        f"{folded(lost)} of {node}"
        for node in nodes
        if (lost := [rank for rank in node.ranks if rank in gone])
    ]
    shown = "; ".join(named[:MAX_NAMED]) or folded(absent)
    left = len(named) - MAX_NAMED
    more = f"; and those of {left} more nodes" if left > 0 else ""
    return f"{counted(len(absent), 'rank')} ended, stopped or hang: {shown}{more}"


def judge_links(
    nodes: Sequence[LinkNode],
    answers: Mapping[int, Sequence[Any]],
    size_bytes: int,
    what: str,
    limit: float,
) -> tuple[list[Finding], list[Measured]]:
    """Return what is wrong with the links of a job, and what was measured.

    Args:
        nodes: The nodes of the job.
        answers: The problem and the results by stage of each rank that answered.
        size_bytes: Size of a tensor.
        what: What was sent, in words.
        limit: Part of the median of the others below which one is slow.
    """
    every = {rank for node in nodes for rank in node.ranks}
    absent = sorted(every - answers.keys())
    found = []
    if absent:
        found.append(rules.NO_ANSWER.finding(None, ended(absent, nodes)))
    problems = [(rank, each[0]) for rank, each in answers.items() if each[0]]
    # Those with RT404 have only waited for the others.
    problems.sort(key=lambda each: (each[1].startswith("RT404"), each))
    if problems and not absent:
        (rank, problem), more = problems[0], len(problems) - 1
        also = f" ({more} more)" if more else ""
        found.append(rules.NOT_STARTED.finding(None, f"rank {rank}: {problem}{also}"))
    measured: list[Measured] = []
    late: list[str] = []
    wrong: list[str] = []
    doubted = {*absent, *(rank for rank, _ in problems)}
    faulty: set[LinkNode] = set()
    for step in steps_of(nodes):
        results = {
            rank: answers[rank][1].get(str(step.stage), {})
            for rank in step.ranks
            if rank in answers
        }
        times = [each["times"] for each in results.values() if "times" in each]
        bad = {n: each["wrong"] for n, each in results.items() if each.get("wrong")}
        if bad and not faulty & set(step.nodes):
            wrong.append(_told_wrong(step, bad))
            faulty |= set(step.nodes) if step.stage == 0 else set()
        if len(times) < len(step.ranks):
            # Those that waited for a busy rank say nothing of the way to it.
            is_busy = any("late" in each for each in results.values())
            if not (is_busy or doubted & set(step.ranks)):
                late.append(_told_late(step, results))
            doubted |= set(step.ranks)
        elif not bad:
            time_s = median(map(max, zip(*times, strict=True)))
            bandwidth = bus_bandwidth(size_bytes, len(step.ranks), time_s)
            measured.append(Measured(step, time_s, bandwidth))
    found += _first_of(rules.WRONG_SUM, wrong)
    found += _first_of(rules.NO_ANSWER, late)
    found += _slow(measured, limit)
    found += _summaries(measured, what)
    return found, measured


def _first_of(rule: Rule, messages: Sequence[str]) -> Iterator[Finding]:
    """Yield the first messages of a rule, and how many more there are."""
    yield from (rule.finding(None, message) for message in messages[:MAX_NAMED])
    if len(messages) > MAX_NAMED:
        yield rule.finding(None, f"{len(messages) - MAX_NAMED} more like these")


def _told_wrong(step: Step, bad: Mapping[int, str]) -> str:
    rank = min(bad)
    who = "all ranks" if len(bad) == len(step.ranks) else named_ranks(sorted(bad))
    return f"wrong sums in {step} on {who}; on rank {rank} {bad[rank]}"


def _told_late(step: Step, results: Mapping[int, Mapping[str, Any]]) -> str:
    lacking = [rank for rank in step.ranks if "times" not in results.get(rank, {})]
    reasons = [each["why"] for each in results.values() if "why" in each]
    reason = f": {reasons[0]}" if reasons else ""
    return f"{step} did not finish on {named_ranks(lacking)}{reason}"


def _slow(measured: Sequence[Measured], limit: float) -> Iterator[Finding]:
    """Yield nodes that are slow alone or in both of their pairs, then slow pairs."""
    inside = [each for each in measured if each.step.stage == 0]
    pairs = [each for each in measured if each.step.stage > 0]
    alone = [inside[p] for p in slow_places([e.bandwidth for e in inside], limit)]
    nodes = [f"{each.step}: {_gb(each.bandwidth)}" for each in alone]
    slow_pairs = [pairs[p] for p in slow_places([e.bandwidth for e in pairs], limit)]
    by_node: dict[LinkNode, list[Measured]] = defaultdict(list)
    for each in slow_pairs:
        for node in each.step.nodes:
            by_node[node].append(each)
    known = {each.step.nodes[0] for each in alone}
    twice = {node for node, some in by_node.items() if len(some) > 1} - known
    nodes += [
        f"{node}: {' and '.join(_gb(e.bandwidth) for e in by_node[node])} "
        "in its two pairs"
        for node in sorted(twice)
    ]
    lone = [
        f"{each.step}: {_gb(each.bandwidth)}"
        for each in slow_pairs
        if not (known | twice) & set(each.step.nodes)
    ]
    for rule, some, all_ in (
        (rules.SLOW_NODE, nodes, inside if alone else pairs),
        (rules.SLOW_PAIR, lone, pairs),
    ):
        if some:
            usual = _gb(median(each.bandwidth for each in all_))
            yield rule.finding(
                None,
                f"{first_few(some, '; ')}; the median is {usual} (slow is below "
                f"{limit:.0%} of the others, by more than 3 median distances)",
            )


def _summaries(measured: Sequence[Measured], what: str) -> Iterator[Finding]:
    """Yield the slowest node and pair, with the median and the spread."""
    for name, some in (
        ("node", [each for each in measured if each.step.stage == 0]),
        ("pair", [each for each in measured if each.step.stage > 0]),
    ):
        if some:
            slowest = min(some, key=lambda each: each.bandwidth)
            values = [each.bandwidth for each in some]
            yield rules.MEASURED.finding(
                None,
                f"the slowest {name} is {slowest.step}: {_gb(min(values))}; "
                f"median {_gb(median(values))}, fastest {_gb(max(values))} "
                f"({counted(len(some), name)}, all_reduce of {what})",
            )


def _gb(bandwidth: float) -> str:
    return f"{bandwidth:.3g} GB/s" if bandwidth < 1000 else f"{bandwidth:.0f} GB/s"


def not_measured(
    nodes: Sequence[LinkNode], measured: Iterable[Measured]
) -> Iterator[Looked]:
    """Yield what could not be compared, and why."""
    done = [each.step.stage > 0 for each in measured]
    wanted = [step.stage > 0 for step in steps_of(nodes)]
    one = "there is one node"
    few = "fewer than two nodes have two ranks", "there is one pair of nodes"
    for rule, is_pair, why in (
        (rules.SLOW_NODE, False, one if len(nodes) == 1 else few[0]),
        (rules.SLOW_PAIR, True, f"{one}, so no pairs" if len(nodes) == 1 else few[1]),
    ):
        count, all_ = done.count(is_pair), wanted.count(is_pair)
        if count < all_:
            why = f"{all_ - count} of {all_} were not measured"  # noqa: PLW2901
        if count < max(all_, 2):
            yield Looked(rule.code, rule.name, why)
    if not done:
        skipped = rules.WRONG_SUM
        yield Looked(skipped.code, skipped.name, "nothing was measured")
