"""The SCCL rank table since August 2024: ``node_list`` of ``device_list``.

``tpu_gen_sccl_rank_table`` writes it, and users by hand from SOPHGO's manual. The key
of the rank is ``rank`` (SCCL's C++ reader), ``world_rank`` (torch_tpu's Python reader),
or both. ``host``, ``layout`` and ``topology`` are additions of ranktable;
every reader of the vendor ignores them.
"""

from __future__ import annotations

from ranktable.schema.format import (
    LAYOUT_KEY,
    SPARES_KEY,
    TOPOLOGY_KEY,
    Field,
    Format,
    Kind,
    Role,
)
from ranktable.schema.rules import (
    nodes,
    placement,
    ranks,
)

VERSION = Field(
    key="version",
    kind=Kind.TEXT,
    role=Role.VERSION,
    is_required=True,
    values=("1.0",),
    title="Version",
    description="Version of the format; there is only one.",
)
LAYOUT = Field(
    key=LAYOUT_KEY,
    kind=Kind.TEXT,
    title="Layout",
    description="Sizes and order of the parallel groups, for the commands of ranktable "
    "that need them. Our own addition; readers of the vendor ignore it.",
    examples=("tp=4 pp=2 dp=1 order=tp-cp-ep-dp-pp",),
)
TOPOLOGY = Field(
    key=TOPOLOGY_KEY,
    kind=Kind.TEXT,
    title="Topology",
    description="How the chips of every host are linked: a name such as sophgo-8. Our "
    "own addition; readers of the vendor ignore it.",
    examples=("sophgo-8",),
)


def spares_field(host_key: str, devices_key: str) -> Field:
    """Return the field of spare nodes, which have the form of nodes without ranks."""
    return Field(
        key=SPARES_KEY,
        kind=Kind.LIST,
        title="Spares",
        description="Nodes that carry no rank, spelt as nodes are but without ranks. "
        "Our own addition; readers of the vendor ignore it.",
        examples=([{host_key: "node-z", devices_key: [{"device_id": "0"}]}],),
    )


OWN_FIELDS = (LAYOUT, TOPOLOGY)
DEVICE_ID = Field(
    key="device_id",
    kind=Kind.NUMBER,
    role=Role.DEVICE_ID,
    is_required=True,
    title="Chip",
    description="Index of the chip on its host, from 0, as tpu-smi shows it. It counts "
    "chips, not cards; each chip of a host serves one rank.",
    examples=("0", "7"),
)
RANK = Field(
    key="rank",
    kind=Kind.NUMBER,
    role=Role.RANK,
    is_written=True,
    title="Global rank",
    description="Global rank of the process on this chip, 0 to world_size - 1, each "
    "once in the table. SCCL's C++ library reads this key.",
    examples=("0", "7"),
)
WORLD_RANK = Field(
    key="world_rank",
    kind=Kind.NUMBER,
    role=Role.RANK,
    is_written=True,
    title="Global rank, as torch_tpu reads it",
    description="The same number as rank. torch_tpu.tpu.read_rank_table() since August "
    "2024 reads this key and fails without it.",
    examples=("0", "7"),
)
RANK_ID = Field(
    key="rank_id",
    kind=Kind.NUMBER,
    role=Role.RANK,
    title="Global rank, as spelt in 2024",
    description="The same number as rank. The first generator wrote this key; no "
    "released library reads it.",
    examples=("0", "7"),
)
LOCAL_RANK = Field(
    key="local_rank",
    kind=Kind.NUMBER,
    role=Role.LOCAL_RANK,
    is_written=True,
    title="Local rank",
    description="Place of the device within its node, from 0. The generator writes it "
    "and no library reads it.",
    examples=("0", "7"),
)
DEVICE_IP = Field(
    key="device_ip",
    kind=Kind.ADDRESS,
    role=Role.ADDRESS,
    title="Address of the device",
    description="IP address of the host's network card. No library reads it.",
    examples=("10.20.0.5",),
)
DEVICE_IP_EMULATOR = Field(
    key="device_ip_emulator",
    kind=Kind.ADDRESS,
    role=Role.ADDRESS,
    title="Address of the emulated device",
    description="IP address of the network card of the host that emulates the device. "
    "SCCL reads it for emulation only.",
    examples=("127.0.0.1",),
)
RULES = (
    *ranks.RULES,
    *nodes.CHIP_RULES,
    nodes.BAD_ADDRESS,
    nodes.DUPLICATE_HOST,
    *placement.RULES,
)

FORMAT = Format(
    name="sccl-1.0",
    title="SCCL rank table 1.0 (node_list)",
    description="Which chip each rank of a SOPHGO SCCL job runs on, in the layout of "
    "node_list and device_list (since August 2024).",
    nodes=Field(
        key="node_list",
        kind=Kind.LIST,
        is_required=True,
        title="Nodes",
        description="The hosts of the job. SCCL drives one host only.",
    ),
    devices=Field(
        key="device_list",
        kind=Kind.LIST,
        is_required=True,
        title="Devices",
        description="The devices of the host that the job uses, in the order of their "
        "local ranks. SCCL sends around a ring, so neighbours in this order need a "
        "direct link.",
    ),
    table_fields=(VERSION, *OWN_FIELDS, spares_field("host", "device_list")),
    node_fields=(
        Field(
            key="host",
            kind=Kind.HOST,
            role=Role.HOST,
            title="Host",
            description="Name or address of the host. An addition of ranktable, which "
            "the vendor's libraries ignore.",
            examples=("node-a", "10.20.0.5"),
        ),
    ),
    device_fields=(
        DEVICE_ID,
        LOCAL_RANK,
        RANK,
        WORLD_RANK,
        RANK_ID,
        DEVICE_IP,
        DEVICE_IP_EMULATOR,
    ),
    device_description="One chip and the process that runs on it. At least one of the "
    "keys rank, world_rank and rank_id gives the rank; where several do, they agree.",
    matches=lambda document: "node_list" in document,
    rules=RULES,
    reader_keys=("rank", "world_rank"),
    example={
        "version": "1.0",
        "node_list": [
            {
                "device_list": [
                    {"device_id": "4", "rank": "0", "world_rank": "0"},
                    {"device_id": "5", "rank": "1", "world_rank": "1"},
                ]
            }
        ],
    },
)
