"""The order and the expert style of the libraries that place ranks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ranktable.layout.errors import LayoutError
from ranktable.layout.order import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Preset:
    """How a library numbers its ranks.

    Attributes:
        order: Its axes, the fastest first.
        ep_style: What it means by ep.
    """

    order: str
    ep_style: str


# Sources: RankGenerator's default order in Megatron-Core; the axes pipe, data, model of
# DeepSpeed's PipeModelDataParallelTopology; ParallelDims of torchtitan; the grid DP,
# PP, CP, EP, TP of ScaleTorch; the shape (dp, pp, pcp, tp) of vLLM. JAX names no axes;
# these are MaxText's, data, stage, context, tensor, expert. The others are written with
# the slowest first, and are read backwards here.
PRESETS: Mapping[str, Preset] = {
    "megatron": Preset("tp-cp-ep-dp-pp", "megatron"),
    "deepspeed": Preset("tp-cp-ep-dp-pp", "deepspeed"),
    "torchtitan": Preset("tp-cp-dp-pp", "torchtitan"),
    "scaletorch": Preset("tp-ep-cp-pp-dp", "scaletorch"),
    "vllm": Preset("tp-cp-pp-dp", "vllm"),
    "jax": Preset("ep-tp-cp-pp-dp", "scaletorch"),
}


def find_preset(name: str) -> Preset:
    """Return a preset by its name.

    Raises:
        LayoutError: There is no such preset.
    """
    if name not in PRESETS:
        raise LayoutError(
            f"{name!r} is not a preset; the presets are {', '.join(PRESETS)}"
            f"{did_you_mean(name, tuple(PRESETS))}"
        )
    return PRESETS[name]
