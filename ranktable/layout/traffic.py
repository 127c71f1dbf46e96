"""Bytes that groups send in a step, and how many of them cross a boundary.

For a group of n members in k domains, V is its size. Over the boundary an all-reduce
needs 2(k-1)V bytes, and a reduce-scatter or an all-gather (k-1)V, with any algorithm:
each shard needs one partial sum from every other domain. A flat ring with X edges that
cross sends (n-1)/n V over each of them, twice that for an all-reduce. In an all-to-all
every rank sends T/n to each of the others. A pipeline and a ring of neighbours send
over the edges that cross.

The traffic of a model is estimated for bf16 activations, gradients that are reduced in
fp32 and parameters that are gathered in bf16. b is the size of a microbatch, s the
sequence, h the hidden size, L the layers, M the microbatches of a step and replica, P
the parameters; A = 2bsh/cp is one activation.

* tp: 4 all-reduces of A per layer and microbatch, two forward and two backward; with
  sequence parallelism the bytes are the same.
* pp: an activation forward and a gradient backward, 2MA/tp for each pair of stages. If
  interleaved by v, they cross it v times, and go from the last stage to the first v - 1
  times.
* dp, together with cp: gradients are reduce-scattered, 4P/(tp pp), and parameters
  gathered, 2P/(tp pp). Copies of a sharded model all-reduce the shard of the gradients.
* edp: the same for the parameters of experts, which dp then does not include:
  4E/(etp ep pp) and 2E/(etp ep pp).
* cp: keys and values go around a ring cp - 1 times forward, and with their gradients
  backward: about 3(cp - 1) times 2(2bs/cp)h_kv/tp per layer and microbatch.
* ep: 4 all-to-alls per layer and microbatch, each of 2(tokens of a rank)(topk)h.

The bound is proved as follows. A domain holds G ranks of a grid whose axes have the
sizes n_i. Each domain of a group of axis i, after the first, costs at least w_i bytes.
A domain touches |proj_i| groups of axis i. By the discrete inequality of Loomis and
Whitney, the product of all |proj_i| is at least G^(d-1). Write |proj_i| = G/a_i: then
each a_i is at least 1 and at most min(n_i, G), and the product of all a_i is at most G.
The bytes that cross are the sum of w_i G/a_i over the domains, minus w_i for every
group. The lowest value over all real a_i is the bound. A placement reaches it if every
domain is a box with sides a_i that divide n_i.

The lowest value is computed from the dual problem. There, every multiplier gives a
valid bound, so a search that is not exact makes the bound lower, but never wrong.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from itertools import product
from math import exp, log
from operator import ne
from typing import TYPE_CHECKING, NamedTuple

from ranktable.layout.grid import Groups, divisors, either, factors, nearest
from ranktable.layout.layout_errors import LayoutError
from ranktable.layout.megatron import groups_named

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from ranktable.layout.boundaries import Boundary
    from ranktable.layout.parallel import ParallelLayout

GIB = 1 << 30

_UNITS: dict[str, int] = {
    "B": 1,
    **{f"{prefix}B": 10 ** (3 * at) for at, prefix in enumerate("kMGTP", 1)},
    **{f"{prefix}iB": 1 << (10 * at) for at, prefix in enumerate("KMGTP", 1)},
}
_SIZE = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,9})?)([A-Za-z]+)")


def parse_size(text: str) -> float:
    """Return a number of bytes, given a number and a unit such as ``16GiB``.

    Raises:
        LayoutError: It is not a number with a unit.
    """
    match = _SIZE.fullmatch(text)
    if match is None or match[2] not in _UNITS:
        raise LayoutError(
            f"{text!r} is not a number of bytes; write a number and one of "
            f"{', '.join(_UNITS)}, such as 16GiB"
        )
    return float(match[1]) * _UNITS[match[2]]


class Pattern(str, Enum):
    """Who sends to whom."""

    ALL_REDUCE = "all_reduce"
    SHARD = "reduce_scatter+all_gather"
    CHAIN = "chain"
    RING = "ring"
    ALL_TO_ALL = "all_to_all"


class Crossing(NamedTuple):
    """Bytes that cross a boundary in a step.

    Attributes:
        least: With a hierarchical algorithm, or if there is only one way.
        flat: With a flat ring over the members in their order.
    """

    least: float
    flat: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """The traffic of every group along some axes in a step.

    Attributes:
        axes: The axes, such as ``tp`` or ``dp-cp``.
        pattern: The pattern of senders and receivers.
        size_bytes: For a collective, the size of the tensor; for an all-to-all, the
            bytes that one rank sends; for a chain or a ring, the bytes over one edge,
            both directions together.
        wrap_bytes: Bytes that a chain sends from its last member to the first.
    """

    axes: str
    pattern: Pattern
    size_bytes: float
    wrap_bytes: float = 0

    @property
    def per_domain(self) -> float:
        """Least bytes of every domain after the first, 0 for other patterns."""
        if self.pattern is Pattern.ALL_TO_ALL:
            return 0  # these patterns have another bound
        return self.size_bytes * (2 if self.pattern is Pattern.ALL_REDUCE else 1)

    def sent_by(self, domains: Sequence[int]) -> dict[int, float]:
        """Return the bytes that every domain sends over the boundary for one group.

        They are the least that any algorithm sends. The domains of a collective send
        equal shares. Over an edge of a chain half of the bytes go in each direction,
        over one of a ring all go forward.

        Args:
            domains: Domain of every member, in the order of the group.
        """
        held = Counter(domains)
        if len(held) == 1:
            return {}
        if self.pattern is Pattern.ALL_TO_ALL:
            each, members = self.size_bytes / len(domains), len(domains)
            return {d: each * count * (members - count) for d, count in held.items()}
        if self.pattern not in (Pattern.CHAIN, Pattern.RING):
            share = (len(held) - 1) * self.per_domain / len(held)
            return dict.fromkeys(held, share)
        is_ring = self.pattern is Pattern.RING
        sent = dict.fromkeys(held, 0.0)
        sizes = [self.size_bytes] * (len(domains) - 1)
        sizes.append(self.size_bytes if is_ring else self.wrap_bytes)
        after = (*domains[1:], domains[0])
        for size, one, other in zip(sizes, domains, after, strict=True):
            if one != other:
                sent[one] += size if is_ring else size / 2
                sent[other] += 0 if is_ring else size / 2
        return sent

    def crossing(self, domains: Sequence[int]) -> Crossing:
        """Return the bytes that one group sends over a boundary; see ``sent_by``."""
        least = sum(self.sent_by(domains).values())
        if self.pattern not in (Pattern.ALL_REDUCE, Pattern.SHARD):
            return Crossing(least, least)
        edges = sum(map(ne, domains, (*domains[1:], domains[0])))
        return Crossing(least, edges * self.per_domain * (1 - 1 / len(domains)))


BF16_BYTES = 2
FP32_BYTES = 4

_ATTENTION_PER_LAYER = 4  # parameters, times h squared; the next one too
_MLP_PER_LAYER = 8  # both of its matrices, or one expert


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """Sizes of a model, from which the bytes are computed.

    Attributes:
        layers: L.
        hidden: h.
        sequence: s.
        microbatches: M, for a step and replica.
        microbatch: b, number of sequences in a microbatch.
        parameters: P; by default 12 L h h, and with experts 4 L h h plus the experts.
        kv_hidden: Size of the keys of a token; by default h.
        topk: Number of experts of a token, None without experts.
        experts: Experts of every layer; by default as many as ep.
        expert_parameters: Parameters of all experts. By default 8 h h for each of the
            ``experts`` in a layer; or, if P is given, the rest after attention, P - 4 L
            h h.
        interleave: Virtual stages of each rank of the pipeline.
    """

    layers: int
    hidden: int
    sequence: int
    microbatches: int
    microbatch: int = 1
    parameters: int | None = None
    kv_hidden: int | None = None
    topk: int | None = None
    experts: int | None = None
    expert_parameters: int | None = None
    interleave: int = 1


def model_flows(model: Model, layout: ParallelLayout) -> tuple[Flow, ...]:
    """Return the traffic of a model along every axis of a layout.

    Raises:
        LayoutError: Layers or tokens do not divide evenly over the layout; or there are
            experts, and ``topk`` is not given.
    """
    _refuse_parts(model, layout)
    if layout.ep > 1 and model.topk is None:
        raise LayoutError(
            f"ep is {layout.ep}, and the number of experts of a token is not known; "
            "give topk, or the bytes"
        )
    return tuple(flow for flow in _flows(model, layout) if _has_partners(flow, layout))


def _refuse_parts(model: Model, layout: ParallelLayout) -> None:
    """Raise LayoutError if a rank would have a part of a layer, or of a token."""
    layers, pp, chunks = model.layers, layout.pp, model.interleave
    if chunks > 1 and pp == 1:
        raise LayoutError(f"interleave is {chunks}, and pp is 1: there are no stages")
    if layers % (pp * chunks):
        stages = {"pp": pp, "interleave": chunks} if chunks > 1 else {"pp": pp}
        near = [f"pp={size}" for size in nearest(pp, _divisors(layers, chunks))]
        near += [f"{count} layers" for count in _multiples(layers, pp * chunks)]
        raise LayoutError(
            f"{layers} layers do not divide over {factors(stages)}; nearest: "
            f"{either(near)}; or give the bytes"
        )
    if model.sequence % layout.cp:
        near = [f"cp={size}" for size in nearest(layout.cp, divisors(model.sequence))]
        near += [f"{count} tokens" for count in _multiples(model.sequence, layout.cp)]
        raise LayoutError(
            f"{model.sequence} tokens do not divide over cp {layout.cp}; nearest: "
            f"{either(near)}"
        )


def _divisors(layers: int, chunks: int) -> list[int]:
    """Return the numbers of stages that give whole layers to each of so many chunks."""
    return divisors(layers // chunks) if layers % chunks == 0 else []


def _multiples(number: int, size: int) -> list[int]:
    """Return the nearest multiples of a size, without 0."""
    below = number // size * size
    return [multiple for multiple in (below, below + size) if multiple]


def _has_partners(flow: Flow, layout: ParallelLayout) -> bool:
    return layout.along(flow.axes).group_size > 1


def _flows(model: Model, layout: ParallelLayout) -> Iterator[Flow]:
    tp, cp, pp = layout.tp, layout.cp, layout.pp
    repeated = model.layers / pp * model.microbatches
    tokens = model.microbatch * model.sequence / cp
    activation = BF16_BYTES * tokens * model.hidden
    yield Flow(
        axes="tp", pattern=Pattern.ALL_REDUCE, size_bytes=4 * activation * repeated
    )
    kv = 2 * BF16_BYTES * tokens * (model.kv_hidden or model.hidden) / tp
    yield Flow(axes="cp", pattern=Pattern.RING, size_bytes=3 * (cp - 1) * kv * repeated)
    yield from _gradient_flows(model, layout)
    if layout.ep > 1 and model.topk is not None:
        sent = BF16_BYTES * tokens / tp * model.topk * model.hidden
        yield Flow(
            axes="ep", pattern=Pattern.ALL_TO_ALL, size_bytes=4 * sent * repeated
        )
    stage = 2 * model.microbatches * activation / tp
    yield Flow(
        axes="pp",
        pattern=Pattern.CHAIN,
        size_bytes=stage * model.interleave,
        wrap_bytes=stage * (model.interleave - 1),
    )


def _gradient_flows(model: Model, layout: ParallelLayout) -> Iterator[Flow]:
    """Yield the flows of gradients and parameters, with those of experts separate."""
    experts = expert_parameters(model, layout)
    copies = layout.dp_replicate
    dp = "dp_shard" if copies > 1 else "dp"
    dense = _sharded(model_parameters(model, layout) - experts, layout, dp)
    yield dense
    copied = [dense]
    if experts:
        spread = _sharded(experts, layout, "edp", layout.etp * layout.ep)
        yield spread
        if layout.ep_style in ("torchtitan", "deepspeed"):
            copied.append(spread)  # in other styles edp includes the copies
    if copies > 1:
        held = sum(one.size_bytes / layout.along(one.axes).group_size for one in copied)
        shard = held * FP32_BYTES / (FP32_BYTES + BF16_BYTES)
        yield Flow(axes="dp_replicate", pattern=Pattern.ALL_REDUCE, size_bytes=shard)


def _sharded(
    parameters: float, layout: ParallelLayout, data: str, split: int | None = None
) -> Flow:
    """Return the flow of parameters that are sharded over some ranks.

    Args:
        parameters: Their number.
        layout: The layout.
        data: The axis of the ranks with the same parameters.
        split: Ranks of a stage over which they are already split, by default tp.
    """
    is_apart = data != "edp" or layout.ep_style in ("deepspeed", "scaletorch")
    axes = f"{data}-cp" if layout.cp > 1 and is_apart else data
    share = parameters / ((split or layout.tp) * layout.pp)
    return Flow(
        axes=axes,
        pattern=Pattern.SHARD,
        size_bytes=(FP32_BYTES + BF16_BYTES) * share,
    )


def model_parameters(model: Model, layout: ParallelLayout) -> float:
    """Return P as it is given, or the sum of attention and the rest of every layer."""
    if model.parameters is not None:
        return model.parameters
    rest = expert_parameters(model, layout) or _MLP_PER_LAYER * _squares(model)
    return _ATTENTION_PER_LAYER * _squares(model) + rest


def expert_parameters(model: Model, layout: ParallelLayout) -> float:
    """Return the number of parameters of all experts, 0 without experts.

    Raises:
        LayoutError: The result is larger than the number of all parameters.
    """
    if layout.ep == 1 and (layout.ep_style != "megatron" or layout.etp == layout.tp):
        return 0  # they are counted with the others
    if layout.ep == 1 and model.topk is None:
        return 0
    total = model.parameters
    if model.expert_parameters is not None:
        found: float = model.expert_parameters
    elif model.experts is not None or total is None:
        found = _MLP_PER_LAYER * _squares(model) * (model.experts or layout.ep)
    else:
        found = total - _ATTENTION_PER_LAYER * _squares(model)
    if found < 0 or (total is not None and found > total):
        raise LayoutError(
            f"{total} parameters do not hold those of the experts and of attention; "
            "give the parameters of the experts too"
        )
    return found


def _squares(model: Model) -> int:
    """Return L h h."""
    return model.layers * model.hidden**2


_PATTERNS = {
    "tp": Pattern.ALL_REDUCE,
    "etp": Pattern.ALL_REDUCE,
    "dp_replicate": Pattern.ALL_REDUCE,
    "cp": Pattern.RING,
    "pp": Pattern.CHAIN,
    "ep": Pattern.ALL_TO_ALL,
}
"""Pattern by axis; all other axes are those of gradients and parameters."""


def given_flows(sizes: Mapping[str, float], layout: ParallelLayout) -> tuple[Flow, ...]:
    """Return the traffic along every axis that a user gives.

    Args:
        sizes: Bytes by axes, as in ``Flow.size_bytes``: for tp what is all-reduced, for
            dp what is reduce-scattered and gathered, for pp the bytes between two
            stages, for cp the bytes over one edge, for ep the bytes that one rank
            sends.
        layout: The layout.

    Raises:
        LayoutError: There are no such axes, or they have only one rank.
    """
    flows = []
    for axes, size in sizes.items():
        if layout.along(axes).group_size == 1:
            raise LayoutError(
                f"{axes} is 1, so nothing is sent along it; leave it out of the bytes"
            )
        pattern = _PATTERNS.get(axes, Pattern.SHARD)
        flows.append(Flow(axes=axes, pattern=pattern, size_bytes=size))
    return tuple(flows)


Owners = list[int]
"""A placement: the node of every rank."""

LOST = -1
"""The node of a rank that a table with gaps lacks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AxisCrossing:
    """The groups along some axes at one boundary.

    Attributes:
        inside: Number of groups that lie inside one domain.
        spread: The largest number of domains of one group.
        crossing: Bytes that cross, None if it is not known what is sent.
    """

    inside: int
    spread: int
    crossing: Crossing | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AxisRow:
    """The groups along some axes at all boundaries.

    Attributes:
        axes: The axes.
        num_groups: Number of groups.
        group_size: Number of ranks of each.
        at: The crossings at every boundary, in their order.
        is_rail_aligned: Whether each group joins the same local ranks of all its
            nodes; None if no group leaves its node.
    """

    axes: str
    num_groups: int
    group_size: int
    at: tuple[AxisCrossing, ...]
    is_rail_aligned: bool | None


class BoundaryTotal(NamedTuple):
    """The bytes that all groups send over one boundary.

    Attributes:
        sent: Bytes of a step.
        flat: The same if every collective were one ring in the order of the ranks.
        domain: Index of the domain that sends most.
        most: What this domain sends.
    """

    sent: float
    flat: float
    domain: int
    most: float


class CostSummary(NamedTuple):
    """The bytes that cross with one placement.

    Attributes:
        rows: One row for every axis, and for all axes along which data is sent.
        totals: The sums, in the order of the boundaries.
    """

    rows: list[AxisRow]
    totals: list[BoundaryTotal]


class CostModel:
    """The facts that are the same for all placements: groups, flows, boundaries.

    Attributes:
        layout: The layout.
        flows: What is sent; may be empty.
        boundaries: The boundaries, the one between nodes first.
        shown: Groups to show besides those of the axes and of the flows.
    """

    def __init__(
        self,
        layout: ParallelLayout,
        flows: Sequence[Flow],
        boundaries: Sequence[Boundary],
        shown: Sequence[str] = (),
    ) -> None:
        """Store the arguments."""
        self.shown = tuple(shown)
        self.layout = layout
        self.flows = tuple(flows)
        self.boundaries = tuple(boundaries)
        self.groups = [layout.along(flow.axes) for flow in flows]

    @cached_property
    def row_names(self) -> tuple[str, ...]:
        """The axes of every row: all of more than one rank, and those of the flows."""
        order = {name: at for at, name in enumerate(self.layout.axes)}
        names = dict.fromkeys((*(flow.axes for flow in self.flows), *self.layout.kinds))
        sent = sorted(names, key=lambda one: order.get(one.split("-")[0], len(order)))
        return tuple(dict.fromkeys((*sent, *self.shown)))

    def totals(self, owners: Owners) -> tuple[float, ...]:
        """Return the bytes that cross every boundary in a step.

        Args:
            owners: The node of every rank. What ranks that are ``LOST`` would send is
                not counted.
        """
        return tuple(self.total(owners, one) for one in self.boundaries)

    def total(self, owners: Owners, boundary: Boundary) -> float:
        """Return the bytes that cross one boundary in a step."""
        domain_of = _domains_of(owners, boundary)
        return sum(
            times * sum(flow.sent_by(domains).values())
            for flow, groups in zip(self.flows, self.groups, strict=True)
            for domains, times in _distinct(groups, domain_of)
        )

    def groups_of(self, ranks: Iterable[int]) -> set[tuple[int, int]]:
        """Return the groups of some ranks: the place of the flow, and the index."""
        return {
            (at, groups.index_of(rank))
            for at, groups in enumerate(self.groups)
            for rank in ranks
        }

    def crossing(
        self, touched: Iterable[tuple[int, int]], owners: Owners
    ) -> tuple[list[float], int]:
        """Return the bytes of some groups over every boundary, and their members."""
        found, members = [0.0] * len(self.boundaries), 0
        for at, index in touched:
            held = [owners[rank] for rank in self.groups[at][index]]
            members += len(held)
            for which, boundary in enumerate(self.boundaries):
                domains = [boundary.domains[node] for node in held]
                found[which] += sum(self.flows[at].sent_by(domains).values())
        return found, members

    def bounds(self, held: Sequence[int]) -> tuple[float, ...]:
        """Return the least bytes over every boundary, given the ranks of each node."""
        return tuple(
            lower_bound(self.layout, self.flows, one.num_ranks(held))
            for one in self.boundaries
        )

    def summary(self, owners: Owners) -> CostSummary:
        """Return what the groups of every axis send with a placement, and the sums."""
        senders = {flow.axes: flow for flow in self.flows}
        domains = [_domains_of(owners, one) for one in self.boundaries]
        local = local_ranks(owners)
        sent = [[0.0] * len(one.labels) for one in self.boundaries]
        rows = []
        for axes in self.row_names:
            groups = groups_named(self.layout, axes)
            flow = senders.get(axes)
            at = [
                _axis_crossing(flow, groups, domain_of, sums)
                for domain_of, sums in zip(domains, sent, strict=True)
            ]
            aligned = [_is_aligned(ranks, owners, local) for ranks in groups]
            known = [one for one in aligned if one is not None]
            row = AxisRow(
                axes=axes,
                num_groups=len(groups),
                group_size=len(groups[0]),
                at=tuple(at),
                is_rail_aligned=all(known) if known else None,
            )
            rows.append(row)
        totals = []
        for index, sums in enumerate(sent):
            crossed = [one for row in rows if (one := row.at[index].crossing)]
            least = sum(one.least for one in crossed)
            flat = sum(one.flat for one in crossed)
            most = max(sums)
            totals.append(BoundaryTotal(least, flat, sums.index(most), most))
        return CostSummary(rows, totals)


def _domains_of(owners: Owners, boundary: Boundary) -> list[int]:
    domains = (*boundary.domains, LOST)  # the last one has the index LOST
    return list(map(domains.__getitem__, owners))


def _distinct(
    groups: Sequence[Sequence[int]], domain_of: Sequence[int]
) -> Iterable[tuple[Sequence[int], int]]:
    """Return the domains of every group, and how many groups have the same ones.

    Groups in the same domains are counted once, such as those of all chips of a node.
    """
    if isinstance(groups, Groups):
        found = Counter(map(tuple, groups.parts_of(domain_of)))
    else:
        found = Counter(tuple([domain_of[rank] for rank in ranks]) for ranks in groups)
    if LOST not in domain_of:
        return found.items()
    left = (
        ([domain for domain in domains if domain != LOST], times)
        for domains, times in found.items()
    )
    return [(domains, times) for domains, times in left if domains]


def _axis_crossing(
    flow: Flow | None,
    groups: Sequence[Sequence[int]],
    domain_of: list[int],
    sent: list[float],
) -> AxisCrossing:
    """Return what crosses one boundary; add what every domain sends to ``sent``."""
    inside, spread, least, flat = 0, 1, 0.0, 0.0
    for domains, number in _distinct(groups, domain_of):
        width = len(set(domains))
        spread = max(spread, width)
        if width == 1:
            inside += number
        elif flow is not None:
            crossed = flow.crossing(domains)
            least, flat = least + number * crossed.least, flat + number * crossed.flat
            for domain, size in flow.sent_by(domains).items():
                sent[domain] += number * size
    crossing = None if flow is None else Crossing(least, flat)
    return AxisCrossing(inside=inside, spread=spread, crossing=crossing)


def local_ranks(owners: Owners) -> list[int]:
    """Return the index of every rank within its node."""
    seen: Counter[int] = Counter()
    local = []
    for node in owners:
        local.append(seen[node])
        seen[node] += 1
    return local


def _is_aligned(ranks: Sequence[int], owners: Owners, local: list[int]) -> bool | None:
    """Whether a group joins the same local ranks of its nodes; None on one node."""
    places: dict[int, list[int]] = {}
    for rank in ranks:
        places.setdefault(owners[rank], []).append(local[rank])
    if len(places) == 1:
        return None
    first, *others = (sorted(held) for held in places.values())
    return all(held == first for held in others)


_HALVINGS = 200
_ROUNDING = 1e-14
"""Largest relative error of the sums of floats here."""

_SAME = 1e-9
_LESS_THAN_A_BYTE = 1e-3


class _Term(NamedTuple):
    """One flow in the form that the bound needs.

    Attributes:
        axes: Names and sizes of its axes in their grid.
        size: Number of ranks of a group.
        weight: Bytes of each domain of a group after the first.
    """

    axes: tuple[tuple[str, int], ...]
    size: int
    weight: float


def is_reached(bound: float, total: float) -> bool:
    """Whether some bytes equal a bound, apart from rounding."""
    return total - bound <= _SAME * total + _LESS_THAN_A_BYTE


def lower_bound(
    layout: ParallelLayout,
    flows: Sequence[Flow],
    sizes: Iterable[int],
) -> float:
    """Return a lower bound of the bytes that cross a boundary in a step.

    Args:
        layout: The layout.
        flows: What is sent.
        sizes: Most ranks that every domain can hold; their sum may exceed the world
            size.
    """
    held: dict[int, float] = {}
    left = layout.world_size
    # A larger domain costs less for each rank, so the largest are filled first.
    for size, count in sorted(Counter(sizes).items(), reverse=True):
        filled = min(left, size * count)
        left -= filled
        held[size] = filled / size
    alone = 0.0
    grids: defaultdict[frozenset[str], list[_Term]] = defaultdict(list)
    for flow in flows:
        groups = layout.along(flow.axes)
        if flow.pattern is Pattern.ALL_TO_ALL:
            alone += _all_to_all(flow, groups, max(held))
        else:
            axes = tuple((axis.name, axis.size) for axis in groups.inside)
            every = frozenset(axis.name for axis in (*groups.inside, *groups.outside))
            weight = _weight(flow, groups.group_size)
            grids[every].append(_Term(axes, groups.group_size, weight))
    return alone + sum(
        _of_grid(terms, held, layout.world_size) for terms in grids.values()
    )


def _weight(flow: Flow, size: int) -> float:
    """Return the least bytes of every domain of a group after the first.

    A ring of neighbours in k domains crosses k times if k is 2 or more: k / (k - 1)
    times for every domain after the first. The factor is smallest for the largest k,
    and k is at most the size of the group.
    """
    if flow.pattern is Pattern.RING and size > 1:
        return flow.size_bytes * size / (size - 1)
    return flow.per_domain


def _all_to_all(flow: Flow, groups: Groups, largest: int) -> float:
    """Return T(n - min(n, G)) for each group: sums of m_j^2 are <= n min(n, G)."""
    size = groups.group_size
    return flow.size_bytes * (size - min(size, largest)) * len(groups)


def _of_grid(
    terms: Sequence[_Term], held: Mapping[int, float], world_size: int
) -> float:
    """Return the best bound for flows of one grid.

    The inequality needs different axes. Flows can share axes, as dp-cp and cp do. Each
    of them is counted with all of its axes, with only one of them, or separately: a
    group of dp-cp touches at least as many domains as any group of dp inside it.
    """
    best = 0.0
    for choice in product(*(_ways(term) for term in terms)):
        taken = [term for term in choice if term is not None]
        names = [name for term in taken for name, _ in term.axes]
        if len(names) == len(set(names)):
            pairs = zip(terms, choice, strict=True)
            apart = (term for term, way in pairs if way is None)
            largest = max(held)
            single = sum(_by_itself(term, largest, world_size) for term in apart)
            together = max(
                _together(taken, held, world_size),
                sum(_by_itself(term, largest, world_size) for term in taken),
            )
            best = max(best, single + together)
    return best


def _ways(term: _Term) -> Iterator[_Term | None]:
    """Yield a flow with all of its axes, with each one alone, and None."""
    yield term
    if len(term.axes) > 1:
        for name, size in term.axes:
            if size > 1:
                yield _Term(((name, size),), size, term.weight * size / term.size)
    yield None


def _by_itself(term: _Term, largest: int, world_size: int) -> float:
    """Return the bytes of groups that touch as few domains as can hold them."""
    domains = -(-term.size // largest)
    return term.weight * (domains - 1) * (world_size // term.size)


def _together(
    terms: Sequence[_Term], held: Mapping[int, float], world_size: int
) -> float:
    touched = sum(_least_touched(terms, size) * times for size, times in held.items())
    every = sum(term.weight * (world_size // term.size) for term in terms)
    return max(0.0, touched - every - _ROUNDING * every)


def _least_touched(terms: Iterable[_Term], size: int) -> float:
    """Return the least sum of w_i G/a_i of a domain of G ranks."""
    costs = [
        (term.weight * size, log(min(term.size, size))) for term in terms if term.weight
    ]
    room = log(size)
    free = sum(cost * exp(-most) for cost, most in costs)
    if sum(most for _, most in costs) <= room:
        return free  # a domain has room for whole groups of every axis

    def dual(multiplier: float) -> tuple[float, float]:
        """Return the value of the dual, and how much capacity is unused."""
        value, left = -multiplier * room, room
        for cost, most in costs:
            side = min(max(log(cost / multiplier), 0.0), most)
            value += cost * exp(-side) + multiplier * side
            left -= side
        return value, left

    low, high = 0.0, max(cost for cost, _ in costs)
    best = free
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if not low < middle < high:
            break
        value, left = dual(middle)
        best = max(best, value)
        if left < 0:
            low = middle
        else:
            high = middle
    return best
