"""The SCCL rank table since August 2024: ``node_list`` of ``device_list``.

Written by ``tpu_gen_sccl_rank_table`` and by hand from SOPHGO's manual; devices name
their rank ``rank`` (SCCL's C++ reader), ``world_rank`` (torch_tpu's Python reader), or
both. ``host`` and ``placement`` are our own additions, which every reader of the vendor
ignores.
"""

from __future__ import annotations

from ranktable.schema.formats.format import Format

SCCL = Format(
    name="sccl-1.0",
    title="SCCL rank table 1.0 (node_list)",
    schema_file="sccl-1.0.schema.json",
    versions=("1.0",),
    nodes_key="node_list",
    devices_key="device_list",
    host_key="host",
    host_required=False,
    top_keys={"version": str, "placement": str},
    required_top_keys=("version",),
    node_keys=(),
    count_key=None,
    blank_address=False,
    written_keys=("local_rank", "rank", "world_rank"),
    reader_keys=("rank", "world_rank"),
)
