"""What a step of training sends along every axis, from the model or as given.

Formulae for bf16 activations, gradients that are reduced in fp32 and parameters that
are gathered in bf16. b is the size of a microbatch, s the sequence, h the hidden size,
L the layers, M the microbatches of a step and replica, P the parameters; A = 2bsh/cp is
one activation.

* tp: 4 all-reduces of A per layer and microbatch, two forward and two backward; with
  sequence parallelism the same bytes.
* pp: an activation forward and a gradient back, 2MA/tp a boundary; interleaved by v
  they cross it v times, and go from the last stage to the first v - 1 times.
* dp, and cp with it: gradients reduce-scattered, 4P/(tp pp), and parameters gathered,
  2P/(tp pp). Copies of a sharded model all-reduce the shard of the gradients.
* edp: the same of the parameters of experts, which dp does not hold then: 4E/(etp ep
  pp) and 2E/(etp ep pp).
* cp: keys and values go around a ring cp - 1 times, forward, and with their gradients
  backward: about 3(cp - 1) times 2(2bs/cp)h_kv/tp per layer and microbatch.
* ep: 4 all-to-alls per layer and microbatch, each of 2(tokens of a rank)(topk)h.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ranktable.layout.errors import LayoutError
from ranktable.layout.flow import Flow, Pattern
from ranktable.layout.sizes import divisors, either, factors, nearest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ranktable.layout.parallel import ParallelLayout

BF16_BYTES = 2
FP32_BYTES = 4

_ATTENTION_PER_LAYER = 4  # times h squared, as the next
_MLP_PER_LAYER = 8  # its two halves, or one expert


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """What is trained, as far as it decides about bytes.

    Attributes:
        layers: L.
        hidden: h.
        sequence: s.
        microbatches: M, of a step and replica.
        microbatch: b, sequences in one.
        parameters: P; by default 12 L h h, and with experts 4 L h h and theirs.
        kv_hidden: Size of the keys of a token; by default h.
        topk: Experts that a token goes to, None without experts.
        experts: Experts of every layer; by default as many as ep.
        expert_parameters: Parameters of all experts; by default those of ``experts``,
            8 h h each and layer, or of a known P what attention leaves, P - 4 L h h.
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
    """Return what a model sends along every axis of a layout.

    Raises:
        LayoutError: Layers or tokens do not divide over the layout; or experts are
            spread, and nothing says to how many a token goes.
    """
    _refuse_parts(model, layout)
    if layout.ep > 1 and model.topk is None:
        raise LayoutError(
            f"ep is {layout.ep}, and nothing says to how many experts a token goes; "
            "give topk, or the bytes"
        )
    return tuple(flow for flow in _flows(model, layout) if _has_partners(flow, layout))


def _refuse_parts(model: Model, layout: ParallelLayout) -> None:
    """Raise LayoutError where a rank would have a part of a layer, or of a token."""
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
    """Return how many stages can have layers, each in so many chunks."""
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
    """Yield what is sent for gradients and parameters, those of experts apart."""
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
            copied.append(spread)  # elsewhere edp holds the copies too
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
        data: The axis of the ranks that hold the same ones.
        split: Ranks of a stage over which they are split before, by default tp.
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
    """Return P: as it is given, or attention and what the rest of a layer has."""
    if model.parameters is not None:
        return model.parameters
    rest = expert_parameters(model, layout) or _MLP_PER_LAYER * _squares(model)
    return _ATTENTION_PER_LAYER * _squares(model) + rest


def expert_parameters(model: Model, layout: ParallelLayout) -> float:
    """Return how many parameters are those of experts, 0 without experts.

    Raises:
        LayoutError: They are more than all parameters.
    """
    if layout.ep == 1 and (layout.ep_style != "megatron" or layout.etp == layout.tp):
        return 0  # they are where the others are
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
"""Who sends to whom along an axis; along all others, gradients and parameters."""


def given_flows(sizes: Mapping[str, float], layout: ParallelLayout) -> tuple[Flow, ...]:
    """Return what is sent along every axis as a user gives it.

    Args:
        sizes: Bytes by axes, as ``Flow.size_bytes`` counts them: of tp what is
            all-reduced, of dp what is reduce-scattered and gathered, of pp what goes
            over one boundary, of cp over one edge, of ep what one rank sends.
        layout: The layout.

    Raises:
        LayoutError: There are no such axes, or nobody to send to along them.
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
