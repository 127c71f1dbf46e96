"""RT119: what a site asks for beside the format."""

from __future__ import annotations

from ranktable.schema.rules.rule import PAIR, Rule, device, one_node

SITE_SCHEMA = Rule(
    code="RT119",
    name="site-schema",
    summary="the file is not as the site's own JSON Schema asks",
    why=(
        "ranktable validate --schema FILE checks a rank table or a cluster spec by a "
        "JSON Schema that a site has written for itself: names of hosts, numbers of "
        "chips, keys of its own. Why it asks for something only the site knows."
    ),
    fix="Change the value, or the schema.",
    bad=one_node(device(0, 0), device(9, 1)),
    good=PAIR,
    options={"schema": "beside.json"},
    beside=b"""{"properties": {"node_list": {"items": {"properties": {"device_list": {
  "items": {"properties": {"device_id": {"pattern": "^[0-7]$"}}}}}}}}}
""",
)

RULES = (SITE_SCHEMA,)
