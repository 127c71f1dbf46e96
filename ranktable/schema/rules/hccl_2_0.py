"""RT263 to RT267: what HCCL 2.0 requires of the layers and addresses of a rank."""

from __future__ import annotations

from ranktable.schema.finding import Rule, Severity

ADDRESS_OF_TYPE = Rule(
    code="RT263",
    name="address-of-type",
    summary="an address is not of its addr_type",
    fix="Write the address, or correct addr_type.",
)
LAYERS = Rule(
    code="RT264",
    name="layers-not-increasing",
    summary="the layers of a rank do not increase from 0",
    fix="Sort level_list by net_layer, and begin with layer 0.",
)
ADDRESS_COUNTS = Rule(
    code="RT265",
    name="address-counts-differ",
    summary="ranks of a network differ in addresses, or share none",
    fix="Write the missing address or network.",
)
SHARED_PORT = Rule(
    code="RT266",
    name="shared-port",
    severity=Severity.WARNING,
    summary="one port has two addresses in a layer",
    fix="Keep only the address that the port has.",
)
SPARE = Rule(
    code="RT267",
    name="spare",
    summary="the spare chip contradicts the other ranks",
    fix="Keep one spare, and remove the replaced chip.",
)
RULES = (ADDRESS_OF_TYPE, LAYERS, ADDRESS_COUNTS, SHARED_PORT, SPARE)
