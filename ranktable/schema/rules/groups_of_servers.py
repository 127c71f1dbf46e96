"""RT254 to RT259 and RT269: tables of several groups, which vendors do not check."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ranktable.schema.document import SourceSpan
from ranktable.schema.finding import Rule, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from ranktable.schema.columns import Columns
    from ranktable.schema.finding import Finding
    from ranktable.schema.report import Options

_ACCEPTED = {"MindIE": "looks at the first group only", "vLLM": "not checked"}


def _group(count: str, *ranks: int) -> bytes:
    devices = ",\n     ".join(
        f'{{"device_id":"{place}","device_ip":"10.0.0.{place + 1}","rank_id":"{rank}"}}'
        for place, rank in enumerate(ranks)
    )
    return (
        '{"version":"1.0","status":"completed","server_group_list":[\n'
        f'  {{"group_id":"2","server_count":"{count}","server_list":[\n'
        '   {"server_id":"10.30.0.5","server_ip":"10.40.0.5","device":[\n'
        f"     {devices}]}}]}}]}}\n"
    ).encode()


def _disaggregated(*entries: str) -> bytes:
    listed = ",\n  ".join(entries)
    return (
        '{"version":"1.2","server_count":"1","status":"completed",\n'
        f'"prefill_device_list":[\n  {listed}],\n"decode_device_list":[]}}\n'
    ).encode()


def _entry(device: int, cluster: int, super_device: int | None = None) -> str:
    more = "" if super_device is None else f',"super_device_id":"{super_device}"'
    return (
        f'{{"server_id":"10.30.0.5","device_id":"{device}",'
        f'"device_ip":"10.0.0.{device + 1}"{more},"cluster_id":"{cluster}"}}'
    )


def _none_on_a3(columns: Columns, options: Options) -> Iterator[Finding]:
    """Yield RT258 for an A3 table in which no device has a super_device_id."""
    if options.npu != "A3" or not columns.num_devices:
        return
    data: Any = columns.document.data
    paths = [columns.device_path(index) for index in range(columns.num_devices)]
    if any(not _IN_PODS.isdisjoint(data[key][place]) for key, place in paths):
        return  # the reader reports the devices without one
    yield NO_SUPER_DEVICE_ID.finding(
        SourceSpan(min(paths, key=lambda path: path[0] == "decode_device_list")),
        "no device has a super_device_id, which A3 needs",
    )


_IN_PODS = {"super_pod_id", "super_device_id"}

UNEQUAL_LOGICAL_NODES = Rule(
    code="RT254",
    name="unequal-logical-nodes",
    summary="nodes of a logical table have different numbers of ranks",
    why="HCCL compiles ahead of time for nodes of the same size.",
    fix="Give every node the same number of ranks.",
    readers={"HCCL": "a line in the device log"},
    bad=(
        b'{"status":"completed","node_list":[\n'
        b'  {"node_id":"0","rank_list":[{"rank_id":"0","item_id":"0"},'
        b'{"rank_id":"1","item_id":"1"}]},\n'
        b'  {"node_id":"1","rank_list":[{"rank_id":"2","item_id":"0"}]}]}\n'
    ),
    good=(
        b'{"status":"completed","node_list":[\n'
        b'  {"node_id":"0","rank_list":[{"rank_id":"0","item_id":"0"}]},\n'
        b'  {"node_id":"1","rank_list":[{"rank_id":"1","item_id":"0"}]}]}\n'
    ),
)
DUPLICATE_CLUSTER_ID = Rule(
    code="RT256",
    name="duplicate-cluster-id",
    severity=Severity.WARNING,
    summary="two devices have the same cluster_id",
    why="cluster_id counts the devices of the cluster from 1, and links are made with "
    "it.",
    fix="Number the devices from 1, prefill before decode.",
    readers=_ACCEPTED,
    bad=_disaggregated(_entry(0, 1), _entry(1, 1)),
    good=_disaggregated(_entry(0, 1), _entry(1, 2)),
)
DUPLICATE_DEVICE = Rule(
    code="RT257",
    name="duplicate-device",
    severity=Severity.WARNING,
    summary="a device is listed twice",
    why=(
        "A chip is used by one process. If a device of a server, an address or a "
        "super_device_id occurs twice, the table is wrong."
    ),
    fix="Write the values of each device: npu-smi info -t spod-info, hccn_tool -ip -g.",
    readers=_ACCEPTED,
    bad=_disaggregated(_entry(0, 1, 7), _entry(1, 2, 7)),
    good=_disaggregated(_entry(0, 1, 7), _entry(1, 2, 8)),
)
NO_SUPER_DEVICE_ID = Rule(
    code="RT258",
    name="no-super-device-id",
    severity=Severity.WARNING,
    summary="a device of a super pod has no super_device_id",
    why="On A3 the connector needs it, and uses None if it is missing.",
    fix="Write the SDID that npu-smi info -t spod-info shows.",
    readers=_ACCEPTED,
    bad=_disaggregated(_entry(0, 1, 7), _entry(1, 2)),
    good=_disaggregated(_entry(0, 1, 7), _entry(1, 2, 8)),
    find=_none_on_a3,
)
GROUP_COUNT = Rule(
    code="RT259",
    name="group-count",
    severity=Severity.WARNING,
    summary="the server_count of a group is not the number of its servers",
    why="MindIE and ClusterD compare it only in the first group, or not at all.",
    fix="Write the number of entries of server_list.",
    readers=_ACCEPTED,
    bad=_group("2", 0, 1),
    good=_group("1", 0, 1),
)
GROUP_RANKS = Rule(
    code="RT269",
    name="group-ranks",
    severity=Severity.WARNING,
    summary="the ranks of a group are not 0 to n - 1",
    why=(
        "Each group is a separate job, and its ranks count from 0. On one node MindIE "
        "counts from 0 in each server instead."
    ),
    fix="Number the devices of each group from 0.",
    readers=_ACCEPTED,
    bad=_group("1", 0, 2),
    good=_group("1", 0, 1),
)

RULES = (
    UNEQUAL_LOGICAL_NODES,
    DUPLICATE_CLUSTER_ID,
    DUPLICATE_DEVICE,
    NO_SUPER_DEVICE_ID,
    GROUP_COUNT,
    GROUP_RANKS,
)
