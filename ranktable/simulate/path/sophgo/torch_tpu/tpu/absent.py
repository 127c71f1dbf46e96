"""What of ``torch_tpu.tpu`` needs a chip."""

from __future__ import annotations

from ranktable.simulate.needs_chip import NeedsChip

_GRAPH = "records what a chip does"

BmodelRunner = NeedsChip("torch_tpu.tpu.BmodelRunner", "runs a model compiled for it")
ExternalStream = NeedsChip(
    "torch_tpu.tpu.ExternalStream", "takes a queue of its driver"
)
TPUGraph = NeedsChip("torch_tpu.tpu.TPUGraph", _GRAPH)
graph = NeedsChip("torch_tpu.tpu.graph", _GRAPH)
graph_pool_handle = NeedsChip("torch_tpu.tpu.graph_pool_handle", _GRAPH)
format_cast = NeedsChip(
    "torch_tpu.tpu.format_cast", "lays tensors out as it wants them"
)
