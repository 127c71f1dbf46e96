"""Ascend's rank table 1.0 and 1.2: ``server_list`` of ``device``, and super pods.

It is no table of SCCL, so that no command takes it for one; those that only ask who is
where, ``mesh`` and ``plan``, read it as far as that goes. Addresses are not looked at.

Source: Ascend's HCCL, rank table configuration for 1.0 and 1.2.
"""

from __future__ import annotations

from ranktable.schema.formats.format import Format

HCCL = Format(
    name="hccl",
    title="HCCL rank table 1.0 and 1.2 (server_list)",
    schema_file="",
    versions=("1.0", "1.2"),
    nodes_key="server_list",
    devices_key="device",
    host_key="server_id",
    host_required=True,
    top_keys={"version": str, "status": str, "server_count": str},
    required_top_keys=("version",),
    node_keys=(),
    count_key=None,
    blank_address=True,
    written_keys=(),
    rank_keys=("rank_id",),
    address_keys=(),
)
