"""The SCCL rank table of July and August 2024: ``server_list`` of ``device``.

Written by the first generator, whose sample has blank addresses, and read only by the
torch_tpu of that time, which compares ``server_count`` (an integer) with the list.
"""

from __future__ import annotations

from ranktable.schema.formats.format import Format

SCCL_2024 = Format(
    name="sccl-2024",
    title="SCCL rank table of 2024 (server_list)",
    schema_file="sccl-2024.schema.json",
    versions=("1.0",),
    nodes_key="server_list",
    devices_key="device",
    host_key="server_ip",
    host_required=True,
    top_keys={
        "version": str,
        "status": str,
        "server_count": int,
        "placement": str,
    },
    required_top_keys=("version", "server_count"),
    node_keys=("host_nic_ip",),
    count_key="server_count",
    blank_address=True,
    written_keys=("rank_id",),
)
