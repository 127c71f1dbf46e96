"""The SCCL rank table since August 2024: ``node_list`` of ``device_list``.

``tpu_gen_sccl_rank_table`` writes it, and users by hand from SOPHGO's manual. The key
of the rank is ``rank`` (SCCL's C++ reader), ``world_rank`` (torch_tpu's Python reader),
or both. ``host``, ``layout`` and ``topology`` are additions of ranktable; every reader
of the vendor ignores them.
"""

from __future__ import annotations

from ranktable.schema.declare import (
    LAYOUT_KEY,
    SPARES_KEY,
    TOPOLOGY_KEY,
    Key,
    KeyRole,
    Kind,
    Record,
    address,
    filled_list,
    list_of,
    node_list_format,
    number,
    text,
    version,
)
from ranktable.schema.rules import hccl, nodes, placement, ranks

_OURS = "Our own addition; readers of the vendor ignore it."
LAYOUT = text(
    LAYOUT_KEY,
    "Sizes and order of the parallel groups, for the commands of ranktable that need "
    f"them. {_OURS}",
    "tp=4 pp=2 dp=1 order=tp-cp-ep-dp-pp",
)
TOPOLOGY = text(
    TOPOLOGY_KEY,
    f"How the chips of every host are linked: a name such as sophgo-8. {_OURS}",
    "sophgo-8",
)


DEVICE = Record(
    name="device",
    description="One chip and the process that runs on it. At least one of the keys "
    "rank, world_rank and rank_id gives the rank; where several do, they agree.",
    example={"device_id": "4", "rank": "0", "world_rank": "0"},
    one_of=("rank", "world_rank", "rank_id"),
    keys=(
        number(
            "device_id",
            "Index of the chip on its host, from 0, as tpu-smi shows it. It counts "
            "chips, not cards; each chip of a host serves one rank.",
            "0",
            "7",
            role=KeyRole.DEVICE_ID,
            is_required=True,
        ),
        number(
            "local_rank",
            "Place of the device within its node, from 0. The generator writes it and "
            "no library reads it.",
            "0",
            "7",
            role=KeyRole.LOCAL_RANK,
            is_written=True,
        ),
        number(
            "rank",
            "Global rank of the process on this chip, 0 to world_size - 1, each once "
            "in the table. SCCL's C++ library reads this key.",
            "0",
            "7",
            role=KeyRole.RANK,
            is_written=True,
        ),
        number(
            "world_rank",
            "The same number as rank. torch_tpu.tpu.read_rank_table() since August "
            "2024 reads this key and fails without it.",
            "0",
            "7",
            role=KeyRole.RANK,
            is_written=True,
        ),
        number(
            "rank_id",
            "The same number as rank. The first generator wrote this key; no released "
            "library reads it.",
            "0",
            "7",
            role=KeyRole.RANK,
        ),
        address(
            "device_ip",
            "IP address of the host's network card. No library reads it.",
            role=KeyRole.ADDRESS,
        ),
        address(
            "device_ip_emulator",
            "IP address of the network card of the host that emulates the device. SCCL "
            "reads it for emulation only.",
            "127.0.0.1",
            role=KeyRole.ADDRESS,
        ),
    ),
)
_SECOND = {"device_id": "5", "rank": "1", "world_rank": "1"}
NODE = Record(
    name="node",
    description="One host and its devices.",
    example={"device_list": [DEVICE.example, _SECOND]},
    keys=(
        text(
            "host",
            "Name or address of the host. An addition of ranktable, which the vendor's "
            "libraries ignore.",
            "node-a",
            "10.20.0.5",
            kind=Kind.HOST,
            role=KeyRole.HOST,
        ),
        filled_list(
            "device_list",
            DEVICE,
            "The devices of the host that the job uses, in the order of their local "
            "ranks. SCCL sends around a ring, so neighbours in this order need a "
            "direct link.",
        ),
    ),
)


def spares(node: Record, devices_key: str) -> Key:
    """Return the key of spares, which have the form of nodes, but no ranks."""
    devices = node.by_key[devices_key]
    assert isinstance(devices.each, Record)
    chip = Record(
        name=f"spare_{devices.each.name}",
        description="One chip of a spare.",
        keys=tuple(
            key._replace(is_required=key.role is KeyRole.DEVICE_ID)
            for key in devices.each.keys
            if key.role not in (KeyRole.RANK, KeyRole.LOCAL_RANK)
        ),
    )
    others = (key._replace(is_required=False) for key in node.other_keys(devices_key))
    spare = Record(
        name="spare",
        description="One host that carries no rank.",
        keys=(*others, devices._replace(each=chip, examples=([chip.example],))),
    )
    return list_of(
        SPARES_KEY,
        spare,
        f"Nodes that carry no rank, spelt as nodes are but without ranks. {_OURS}",
    )


TABLE = Record(
    name="table",
    description="The nodes of a job.",
    keys=(
        version("1.0", description="Version of the format; there is only one."),
        LAYOUT,
        TOPOLOGY,
        spares(NODE, "device_list"),
        filled_list(
            "node_list",
            NODE,
            "The hosts of the job. SCCL drives one host only.",
        ),
    ),
)
FORMAT = node_list_format(
    name="sccl-1.0",
    title="SCCL rank table 1.0 (node_list)",
    description="Which chip each rank of a SOPHGO SCCL job runs on, in the layout of "
    "node_list and device_list (since August 2024).",
    record=TABLE,
    nodes_key="node_list",
    devices_key="device_list",
    matches=lambda document: "node_list" in document,
    rules=(
        *ranks.RULES,
        *nodes.CHIP_RULES,
        nodes.BAD_ADDRESS,
        nodes.DUPLICATE_HOST,
        nodes.BAD_HOST,
        hccl.LOOPBACK,
        *nodes.SPARE_RULES,
        *placement.RULES,
    ),
    reader_keys=("rank", "world_rank"),
    keeps_file_order=True,
)
