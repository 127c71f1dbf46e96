"""What HCCL, MindIE and vLLM refuse or read wrongly: one finding for each mistake.

Every row is one line of the vendor's behaviour, on a small table that shows it. The
smallest ones, with the whole report, are the golden pairs of the rules.
"""

# ruff: noqa: E501 - a row of the table is a line

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any

import pytest

import ranktable
from ranktable.report.catalogue import RULES
from ranktable.report.rule_pages import page_of
from tests.conftest import CORPUS
from tests.test_hccl import changed, devices, pods, table

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

Table = dict[str, Any]

VALID = CORPUS / "hccl" / "valid"
ERROR, WARNING, NOTE = "error", "warning", "note"
LOG, TAKEN, NO_CODE = "device log", "accepted", "no code"


def example(name: str) -> Table:
    found: Table = json.loads((VALID / name).read_text())
    return found


TABLE, PODS = table(2, 2), pods(2, 2)
VERSION_2 = example("hccl20_ipv4_2s4p.json")
CLOUD = example("legacy_group_cloud_8p.json")


def mindie(count: int) -> Table:
    found = table(*[1] * count)
    for node, server in enumerate(found["server_list"]):
        server["container_ip"] = f"10.5.{node // 200}.{node % 200 + 1}"
    return found


def server(t: Table, node: int) -> Table:
    found: Table = t["server_list"][node]
    return found


def rank(t: Table, at: int) -> Table:
    found: Table = t["rank_list"][at]
    return found


def address(t: Table) -> Table:
    found: Table = rank(t, 3)["level_list"][1]["rank_addr_list"][1]
    return found


def instance(t: Table, at: int = -1) -> Table:
    found: Table = t["group_list"][0]["instance_list"][at]
    return found


def without_addresses(t: Table, node: int) -> None:
    for device in server(t, node)["device"]:
        del device["device_ip"]


def second_instance(t: Table, **values: object) -> None:
    """Give a cloud table another server, with some values of its own."""
    group = t["group_list"][0]
    other = copy.deepcopy(instance(t))
    for device in other["devices"]:
        device["device_ip"] = device["device_ip"].replace("10.40", "10.41")
    other |= {"pod_name": "bert-worker-1", "server_id": "10.30.7.12"}
    group["instance_list"].append(other | values)
    group |= {"device_count": "16", "instance_count": "2"}


def second_group(t: Table) -> None:
    """Give a cloud table another group, of a server of its own, with the same name."""
    second_instance(t)
    first = t["group_list"][0]
    other = {**first, "instance_list": [first["instance_list"].pop()]}
    for group in (first, other):
        group |= {"device_count": "8", "instance_count": "1"}
    t["group_list"] = [first, other]
    t["group_count"] = "2"


def chips(t: Table, *ids: int) -> None:
    for device, chip in zip(devices(t), ids, strict=True):
        device["device_id"] = str(chip)


A2, A3, A5 = {"chip": "A2"}, {"chip": "A3"}, {"chip": "A5"}
OLD, DUO, MINDIE = {"chip": "910"}, {"chip": "310P"}, {"reader": "mindie"}
ANY: dict[str, str] = {}
EFFECTS = {rule.code: page_of(rule).readers for rule in RULES}

Row = tuple[Table, "Callable[[Table], object]", dict[str, str], str, str, str]
# fmt: off
ROWS: dict[str, Row] = {
    # The table, what is changed in it, options; the code, how grave it is, what HCCL
    # or the reader of the options says.
    "device_id a number": (TABLE, lambda t: devices(t)[1].update(device_id=1), ANY, "RT113", ERROR, "EI0017"),
    "status a number": (TABLE, lambda t: t.update(status=1), ANY, "RT113", ERROR, "EI0017"),
    "super_device_id a number": (PODS, lambda t: devices(t)[1].update(super_device_id=1), ANY, "RT113", ERROR, "EI0017"),
    "super_device_id true in 1.0": (TABLE, lambda t: devices(t)[1].update(super_device_id=True), ANY, "RT113", ERROR, "EI0017"),
    "rank_id missing": (TABLE, lambda t: devices(t)[1].pop("rank_id"), ANY, "RT112", ERROR, "EI0017"),
    "device_id missing": (TABLE, lambda t: devices(t)[1].pop("device_id"), ANY, "RT112", ERROR, "EI0017"),
    "server_id missing": (TABLE, lambda t: server(t, 1).pop("server_id"), ANY, "RT112", ERROR, "EI0017"),
    "blank 3": (TABLE, lambda t: devices(t)[3].update(rank_id=" 3"), ANY, "RT270", WARNING, "takes the digits"),
    "0x1 as chip": (TABLE, lambda t: devices(t)[3].update(device_id="0x1"), ANY, "RT114", ERROR, "0"),
    "unknown version": (TABLE, lambda t: t.update(version="1.7"), ANY, "RT115", ERROR, "EI0014 version"),
    "version of another chip": (TABLE, lambda _: None, A5, "RT287", ERROR, "EI0014 version"),
    "2.0 on A3": (VERSION_2, lambda _: None, A3, "RT287", ERROR, "EI0014 version"),
    "no version": (TABLE, lambda t: t.pop("version"), ANY, "RT112", ERROR, "EI0017 group_count"),
    "gap": (TABLE, lambda t: devices(t)[3].update(rank_id="4"), ANY, "RT201", ERROR, "EI0014"),
    "device_id twice": (TABLE, lambda t: devices(t)[3].update(device_id="0"), ANY, "RT207", ERROR, "EI0014"),
    "pods interleaved": (pods(1, 1, 1, 1), lambda t: t.update(super_pod_list=[{"super_pod_id": p, "server_list": [{"server_id": f"n{n}"} for n in servers]} for p, servers in (("a", (0, 2)), ("b", (1, 3)))]), ANY, "RT215", WARNING, TAKEN),
    "super_pod_id twice": (PODS, lambda t: t["super_pod_list"][1].update(super_pod_id="pod0"), ANY, "RT281", ERROR, 'EI0014 Value of "IP" is repeated'),
    "one loopback name twice": (TABLE, lambda t: [server(t, at).update(server_id="127.0.1.1") for at in (0, 1)], ANY, "RT212", ERROR, "EI0014"),
    "address and a comma": (TABLE, lambda t: devices(t)[1].update(device_ip="10.7.0.1,"), ANY, "RT211", ERROR, "EI0014"),
    "device_id beyond every chip": (TABLE, lambda t: devices(t)[1].update(device_id="32"), ANY, "RT208", ERROR, LOG),
    "super_pod_id a number": (PODS, lambda t: t["super_pod_list"][0].update(super_pod_id=0), ANY, "RT113", ERROR, "EI0017"),
    "address a placeholder": (TABLE, lambda t: devices(t)[1].update(device_ip="-.-.-.-"), ANY, "RT211", ERROR, "EI0014"),
    "address -1": (TABLE, lambda t: devices(t)[1].update(device_ip="-1"), ANY, "RT211", ERROR, "EI0014"),
    "address 0.0.0.0": (TABLE, lambda t: devices(t)[1].update(device_ip="0.0.0.0"), ANY, "RT211", ERROR, "EI0014"),
    "host address empty": (TABLE, lambda t: server(t, 1).update(host_ip=""), ANY, "RT211", ERROR, "EI0014"),
    "host address wrong": (TABLE, lambda t: server(t, 1).update(host_ip="x"), ANY, "RT211", ERROR, "EI0014"),
    "address missing": (TABLE, lambda t: devices(t)[3].pop("device_ip"), ANY, "RT271", ERROR, "EI0014"),
    "address empty": (TABLE, lambda t: devices(t)[3].update(device_ip=""), ANY, "RT271", ERROR, "EI0014"),
    "address missing on the one server": (table(4), lambda t: devices(t)[3].pop("device_ip"), ANY, "RT272", ERROR, ""),
    "address missing on A2": (TABLE, lambda t: (server(t, 1).update(host_ip="10.9.0.1"), without_addresses(t, 1)), A2, "RT271", ERROR, "EI0014"),  # type: ignore[func-returns-value]
    "addresses missing in pods of 2025": (PODS, lambda t: without_addresses(t, 1), {"reader": "hccl-2025"}, "RT271", ERROR, "EI0004"),
    "no device": (TABLE, lambda t: server(t, 1).update(device=[]), ANY, "RT116", ERROR, LOG),
    "port 0": (TABLE, lambda t: devices(t)[1].update(device_port="0"), ANY, "RT260", ERROR, LOG),
    "A2 chip 16": (table(1), lambda t: chips(t, 16), A2, "RT208", ERROR, LOG),
    "A3 chip 16": (table(1), lambda t: chips(t, 16), A3, "RT208", ERROR, LOG),
    "310P chip 32": (table(1), lambda t: chips(t, 32), DUO, "RT208", ERROR, LOG),
    "mixed families": (TABLE, lambda t: devices(t)[3].update(device_ip="fd00::7"), ANY, "RT273", ERROR, "EI0001"),
    "unequal on 310P": (table(2, 1), lambda _: None, DUO, "RT285", ERROR, "EI0014 DeviceNum"),
    "three of 910": (table(3), lambda _: None, OLD, "RT286", ERROR, "EI0014"),
    "four of 910": (table(4), lambda t: chips(t, 0, 1, 2, 4), OLD, "RT286", ERROR, '"is unique"'),
    "complete": (TABLE, lambda t: t.update(status="complete"), ANY, "RT213", ERROR, "30 minutes"),
    "server in no pod": (PODS, lambda t: t["super_pod_list"].pop(), ANY, "RT280", ERROR, LOG),
    "no super_device_id": (PODS, lambda t: devices(t)[3].pop("super_device_id"), ANY, "RT282", ERROR, LOG),
    "super_device_id a word": (PODS, lambda t: devices(t)[3].update(super_device_id="x"), ANY, "RT282", ERROR, LOG),
    "super_device_id too large": (PODS, lambda t: devices(t)[3].update(super_device_id=str(1 << 32)), ANY, "RT282", ERROR, LOG),
    "2.0 rank negative": (VERSION_2, lambda t: rank(t, 3).update(rank_id=-1), ANY, "RT203", ERROR, "EI0014"),
    "2.0 chip negative": (VERSION_2, lambda t: rank(t, 3).update(device_id=-1), ANY, "RT260", ERROR, "EI0014"),
    "2.0 key missing": (VERSION_2, lambda t: rank(t, 3).pop("local_id"), ANY, "RT112", ERROR, "EI0017"),
    "2.0 count missing": (VERSION_2, lambda t: t.pop("rank_count"), ANY, "RT112", ERROR, "EI0017"),
    "2.0 address missing": (VERSION_2, lambda t: address(t).pop("addr"), ANY, "RT112", ERROR, "EI0017"),
    "2.0 EID": (VERSION_2, lambda t: address(t).update(addr_type="EID"), ANY, "RT263", ERROR, NO_CODE),
    "2.0 address": (VERSION_2, lambda t: address(t).update(addr="10.1"), ANY, "RT263", ERROR, NO_CODE),
    "2.0 address counts": (VERSION_2, lambda t: rank(t, 3)["level_list"][1]["rank_addr_list"].pop(), ANY, "RT265", ERROR, NO_CODE),
    "2.0 local_id 65": (VERSION_2, lambda t: rank(t, 3).update(local_id=65), ANY, "RT260", ERROR, NO_CODE),
    "cloud device_count": (CLOUD, lambda t: t["group_list"][0].update(device_count="7"), ANY, "RT292", ERROR, LOG),
    "cloud group_name": (CLOUD, lambda t: t["group_list"][0].pop("group_name"), ANY, "RT112", ERROR, LOG),
    "cloud group_name twice": (CLOUD, second_group, ANY, "RT294", ERROR, LOG),
    "cloud sorted as text": (CLOUD, lambda t: second_instance(t, server_id="10.30.7.100"), ANY, "RT296", NOTE, TAKEN),
    "MindIE one server": (mindie(1), lambda _: None, MINDIE, "RT290", ERROR, "refuses the table"),
    "MindIE 61 servers": (mindie(61), lambda _: None, MINDIE, "RT290", ERROR, "refuses the table"),
    "MindIE unequal": (mindie(2), lambda t: (devices(t)[1].update(rank_id="2"), server(t, 0)["device"].append({"device_id": "1", "device_ip": "10.7.7.7", "rank_id": "1"})), MINDIE, "RT289", ERROR, "refuses the table"),
    "MindIE container of another": (mindie(2), lambda t: server(t, 1).update(container_ip=server(t, 0)["container_ip"]), MINDIE, "RT288", ERROR, "containerIp"),
    "MindIE container no address": (mindie(2), lambda t: server(t, 1).update(container_ip="10.5.0.x"), MINDIE, "RT288", ERROR, "containerIp"),
    "MindIE no container": (mindie(2), lambda t: server(t, 1).pop("container_ip"), MINDIE, "RT288", ERROR, "containerIp"),
}
# fmt: on


@pytest.mark.parametrize("name", ROWS)
def test_one_mistake_gives_one_finding_of_its_own_cause(name: str) -> None:
    document, change, options, code, severity, said = ROWS[name]
    text = json.dumps(changed(document, change), indent=1)

    report = ranktable.check(text.encode(), **options)  # type: ignore[arg-type]

    (found,) = report.diagnostics
    assert (found.code, found.severity.value) == (code, severity)
    assert found.location.line
    assert found.location.column
    assert any(said in effect for effect in EFFECTS[code].values())


@pytest.mark.parametrize("document", [TABLE, PODS, VERSION_2, CLOUD])
def test_tables_that_the_rows_change_are_sound(document: Table) -> None:
    report = ranktable.check(json.dumps(document).encode())

    assert report.totals == {}


@pytest.mark.parametrize(
    ("change", "code", "line"),
    [
        (lambda _: "", "RT102", None),
        (lambda _: "version: 1.0", "RT101", 1),
        (lambda text: text[:-40], "RT103", 31),
        (lambda text: text.replace('"version"', '// v\n "version"'), "RT101", 3),
        (lambda text: text.replace('"version"', '/* v */ "version"'), "RT101", 3),
        (lambda text: text[:-1] + ",}", "RT101", 37),
    ],
)
def test_what_is_not_json_is_refused_at_once(
    change: Callable[[str], str], code: str, line: int | None
) -> None:
    report = ranktable.check(change(json.dumps(TABLE, indent=1)).encode())

    (found,) = report.diagnostics
    assert (found.code, found.severity.value) == (code, ERROR)
    assert found.location.line == line
    assert EFFECTS[code]["HCCL"].startswith("EI0004 at once")


def test_unset_addresses_of_all_devices_are_one_kind_of_finding() -> None:
    found = ranktable.check(
        json.dumps(
            changed(
                TABLE, lambda t: [one.update(device_ip="0.0.0.0") for one in devices(t)]
            )
        ).encode()
    )

    assert found.totals == {"RT211": 4}
    assert "hccn_tool -i N -ip -s" in str(found.diagnostics[0].hint)


@pytest.mark.parametrize("ip", ["10.1.0.7,10.1.0.8", ""])
def test_backup_addresses_may_be_several_or_empty(ip: str) -> None:
    text = changed(PODS, lambda t: devices(t)[1].update(backup_device_ip=ip))

    assert ranktable.check(json.dumps(text).encode()).totals == {}


def test_largest_number_of_32_bits_is_a_super_device_id() -> None:
    most = str((1 << 32) - 1)
    text = changed(PODS, lambda t: devices(t)[3].update(super_device_id=most))

    assert ranktable.check(json.dumps(text).encode()).totals == {}


def test_reading_a_large_table_finds_addresses_and_chips_that_cannot_be(
    tmp_path: Path,
) -> None:
    file = tmp_path / "t.json"
    large = table(*[8] * 200)
    file.write_text(json.dumps(large))
    assert len(ranktable.read_rank_table(str(file))) == 1600

    bad = changed(large, lambda t: devices(t)[1500].update(device_ip="0.0.0.0"))
    file.write_text(json.dumps(bad))
    with pytest.raises(ranktable.RankTableError, match="RT211"):
        ranktable.read_rank_table(str(file))

    bad = changed(large, lambda t: devices(t)[1500].update(device_id="40"))
    file.write_text(json.dumps(bad))
    with pytest.raises(ranktable.RankTableError, match="RT208"):
        ranktable.read_rank_table(str(file))


def test_mindie_refuses_a_table_of_cce_for_its_version() -> None:
    document = {**mindie(2), "version": "1.3"}
    report = ranktable.check(json.dumps(document).encode(), reader="mindie")

    (found,) = report.diagnostics
    assert (report.format, found.code) == ("hccl-1.2", "RT291")
    assert "EI0014 version" in found.message
