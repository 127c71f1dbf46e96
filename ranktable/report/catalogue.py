"""Every rule of this package, by code."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ranktable.cluster import merge_rules, pod_rules
from ranktable.cluster.hostfiles import hostfile_rules
from ranktable.cluster.probes import probe_rules
from ranktable.cluster.specs import spec_rules
from ranktable.cluster.submissions import submission_rules
from ranktable.doctor import rules as doctor_rules
from ranktable.layout import rack_rules
from ranktable.preflight import pods as preflight_pods
from ranktable.preflight import rules as preflight_rules
from ranktable.runtime import rules as runtime_rules
from ranktable.schema.rules import (
    hccl,
    hccl_2_0,
    hccl_chips,
    hccl_cloud,
    hccl_pods,
    mindie,
    nodes,
    placement,
    ranks,
    shape,
    syntax,
)

if TYPE_CHECKING:
    from ranktable.schema.finding import Rule

FAMILIES = (
    syntax,
    shape,
    ranks,
    nodes,
    hccl,
    hccl_pods,
    hccl_chips,
    hccl_cloud,
    mindie,
    hccl_2_0,
    placement,
    hostfile_rules,
    pod_rules,
    probe_rules,
    rack_rules,
    merge_rules,
    spec_rules,
    submission_rules,
    runtime_rules,
    doctor_rules,
    preflight_rules,
    preflight_pods,
)

RULES: tuple[Rule, ...] = tuple(
    sorted(
        (rule for family in FAMILIES for rule in family.RULES),
        key=lambda rule: rule.code,
    )
)
