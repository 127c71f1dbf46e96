"""What of ``torch_tpu.tpu`` needs a chip."""

from __future__ import annotations

from ranktable.simulate.needs_chip import NeedsChip

REASONS = {
    "BmodelRunner": "runs a model compiled for it",
    "ExternalStream": "takes a queue of its driver",
    "GlobalOpTimer_dump": "shows what its operators took",
    "GlobalOpTimer_reset": "times its operators",
    "OpTimer_dump": "shows what its operators took",
    "OpTimer_reset": "times its operators",
    "TPUGraph": "records what a chip does",
    "caching_allocator_alloc": "takes memory of it",
    "caching_allocator_delete": "gives memory of it back",
    "current_blas_handle": "is for its libraries",
    "dtype_map": "is for models compiled for it",
    "format_cast": "lays tensors out as it wants them",
    "graph": "records what a chip does",
    "graph_pool_handle": "records what a chip does",
    "set_per_process_memory_fraction": "limits the memory of it",
    "start_cache": "keeps its memory",
    "stop_cache": "keeps its memory",
}
globals().update(
    {name: NeedsChip(f"torch_tpu.tpu.{name}", why) for name, why in REASONS.items()}
)
__all__ = list(REASONS)
