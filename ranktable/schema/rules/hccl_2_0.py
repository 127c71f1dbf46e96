"""RT263 to RT267: what HCCL 2.0 requires of the layers and addresses of a rank."""

from __future__ import annotations

from ranktable.schema.finding import Rule, Severity
from ranktable.schema.rules.examples import level_2_0 as level
from ranktable.schema.rules.examples import rank_2_0 as rank
from ranktable.schema.rules.examples import table_2_0 as table

_NO_CODE = {"HCCL": "text of an exception, no code"}

ADDRESS_OF_TYPE = Rule(
    code="RT263",
    name="address-of-type",
    summary="an address is not of its addr_type",
    why="An EID has 32 hexadecimal digits; IPV4 and IPV6 addresses are numeric.",
    fix="Write the address, or correct addr_type.",
    readers=_NO_CODE,
    seen_as=("error in length", "addrs is error"),
    bad=table(rank(0, levels=[level(("10.0.0.300", "0/0"))])),
    good=table(rank(0, levels=[level(("10.0.0.30", "0/0"))])),
)
LAYERS = Rule(
    code="RT264",
    name="layers-not-increasing",
    summary="the layers of a rank are not in increasing order",
    why="HCCL reads level_list from the links inside a server to the outer networks, "
    "each layer once.",
    fix="Sort level_list by net_layer.",
    readers=_NO_CODE,
    bad=table(
        rank(
            0,
            levels=[
                level(("10.0.0.1", "0/0"), layer=1),
                level(("10.0.1.1", "0/1")),
            ],
        )
    ),
    good=table(
        rank(
            0,
            levels=[
                level(("10.0.1.1", "0/1")),
                level(("10.0.0.1", "0/0"), layer=1),
            ],
        )
    ),
)
ADDRESS_COUNTS = Rule(
    code="RT265",
    name="address-counts-differ",
    summary="ranks of one network have different numbers of addresses",
    why="Ranks with the same net_layer and net_instance_id must have the same number "
    "of addresses.",
    fix="Write the missing address.",
    readers=_NO_CODE,
    bad=table(
        rank(0),
        rank(1, levels=[level(("10.0.0.2", "0/0"), ("10.0.0.3", "0/1"))]),
    ),
    good=table(rank(0), rank(1, levels=[level(("10.0.0.2", "0/0"))])),
)
SHARED_PORT = Rule(
    code="RT266",
    name="shared-port",
    severity=Severity.WARNING,
    summary="one port has two addresses in a layer",
    why="The manual forbids it, and HCCL does not check it.",
    fix="Keep only the address that the port has.",
    readers={"HCCL": "accepted"},
    bad=table(rank(0, levels=[level(("10.0.0.1", "0/0"), ("10.0.0.2", "0/0"))])),
    good=table(rank(0, levels=[level(("10.0.0.1", "0/0"), ("10.0.0.2", "0/1"))])),
)
SPARE = Rule(
    code="RT267",
    name="spare",
    summary="the spare chip contradicts the other ranks",
    why=(
        "local_id 64 is the spare, and a table has at most one. The chip that it "
        "replaces, replaced_local_id, is no longer part of the job."
    ),
    fix="Keep one spare, and remove the replaced chip.",
    readers={"HCCL": "EI0014"},
    bad=table(rank(0), rank(1, local_id=64, replaced_local_id=0)),
    good=table(rank(0), rank(1, local_id=64, replaced_local_id=1)),
)
RULES = (ADDRESS_OF_TYPE, LAYERS, ADDRESS_COUNTS, SHARED_PORT, SPARE)
