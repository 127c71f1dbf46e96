"""Ascend's rank tables of version 1.x: what HCCL refuses, and what it only accepts."""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any

import pytest
from msgspec import structs

import ranktable
from ranktable.schema.check import check
from ranktable.schema.values import UNSET_ADDRESS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ranktable.schema.report import Report
    from tests.conftest import Run

Table = dict[str, Any]


ERROR, WARNING, NOTE = "error", "warning", "note"


def table(*sizes: int, version: str = "1.0") -> Table:
    """Return a sound table with servers of these sizes."""
    ranks = iter(range(sum(sizes)))
    return {
        "status": "completed",
        "version": version,
        "server_count": str(len(sizes)),
        "server_list": [
            {
                "server_id": f"n{node}",
                "device": [
                    {
                        "device_id": str(chip),
                        "device_ip": f"10.{node}.0.{chip + 1}",
                        "rank_id": str(next(ranks)),
                    }
                    for chip in range(size)
                ],
            }
            for node, size in enumerate(sizes)
        ],
    }


def pods(*sizes: int) -> Table:
    """Return a sound table 1.2 with one server of a size in each super pod."""
    found = table(*sizes, version="1.2")
    for node, server in enumerate(found["server_list"]):
        for chip, device in enumerate(server["device"]):
            device["super_device_id"] = str(node * 2**25 + chip)
    found["super_pod_list"] = [
        {"super_pod_id": f"pod{node}", "server_list": [{"server_id": f"n{node}"}]}
        for node in range(len(sizes))
    ]
    return found


def judged(document: object, **options: str) -> Report:
    return ranktable.check(json.dumps(document).encode(), **options)  # type: ignore[arg-type]


def found_in(document: object, **options: str) -> list[tuple[str, str, str | None]]:
    return [
        (diagnostic.code, diagnostic.severity.value, diagnostic.location.pointer)
        for diagnostic in judged(document, **options).diagnostics
    ]


def devices(document: Table) -> list[Table]:
    return [d for server in document["server_list"] for d in server["device"]]


def changed(document: Table, change: Callable[[Table], object]) -> Table:
    document = copy.deepcopy(document)
    change(document)
    return document


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda t: devices(t)[1].update(rank_id="1.9"), ("RT270", WARNING)),
        (
            lambda t: t["server_list"][1].update(server_id="127.0.1.1"),
            ("RT276", WARNING),
        ),
        (lambda t: t.update(super_pod_list=[]), ("RT284", WARNING)),
        (lambda t: t.update(version="1.2", super_pod_list=[]), ("RT280", ERROR)),
    ],
)
def test_one_mistake_gives_one_finding_with_its_weight(
    change: Callable[[Table], object], expected: tuple[str, str]
) -> None:
    found = found_in(changed(table(2, 2), change))

    assert [(code, weight) for code, weight, _ in found] == [expected]
    assert all(pointer is not None for _, _, pointer in found)


def test_placeholder_is_not_called_repeated_besides() -> None:
    document = table(4)
    for device in devices(document):
        device["device_ip"] = "-.-.-.-"

    assert {code for code, _, _ in found_in(document)} == {"RT211"}


def test_number_as_super_device_id_is_not_called_missing_besides() -> None:
    document = pods(2)
    devices(document)[1]["super_device_id"] = 1

    assert found_in(document) == [
        ("RT113", ERROR, "/server_list/0/device/1/super_device_id")
    ]


def test_chips_that_do_not_exist_are_not_called_an_odd_set_besides() -> None:
    assert {code for code, _, _ in found_in(table(16), chip="910")} == {"RT208"}


def test_host_address_stands_for_missing_device_addresses_but_not_on_a2() -> None:
    document = table(1, 1)
    for server in document["server_list"]:
        server["host_ip"] = "10.9.0.1"
        del server["device"][0]["device_ip"]

    assert found_in(document) == []
    assert {code for code, _, _ in found_in(document, chip="A2")} == {"RT271"}
    assert judged(document, chip="A3").ok


def test_server_of_its_own_needs_no_addresses() -> None:
    document = changed(table(2), lambda t: [d.pop("device_ip") for d in devices(t)])

    assert found_in(document) == []


def test_super_pods_without_addresses_are_refused_by_the_release_of_2025() -> None:
    document = changed(pods(2, 2), lambda t: [d.pop("device_ip") for d in devices(t)])

    assert {(c, w) for c, w, _ in found_in(document)} == {("RT271", WARNING)}
    assert {(c, w) for c, w, _ in found_in(document, reader="hccl-2025")} == {
        ("RT271", ERROR)
    }
    assert judged(document, reader="hccl").ok


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (
            lambda t: t["super_pod_list"][1]["server_list"].append({"server_id": "n0"}),
            [("RT281", ERROR, "/super_pod_list/1/server_list/1/server_id")],
        ),
        (
            lambda t: devices(t)[3].update(super_device_id="4294967295"),
            [],
        ),
    ],
)
def test_super_pods_and_their_servers_fit(
    change: Callable[[Table], object], expected: list[tuple[str, str, str]]
) -> None:
    assert found_in(changed(pods(2, 2), change)) == expected


def test_one_super_device_id_on_every_card_is_found_in_each_pod() -> None:
    document = changed(
        pods(3, 2), lambda t: [d.update(super_device_id="7") for d in devices(t)]
    )

    assert [(code, weight) for code, weight, _ in found_in(document)] == [
        ("RT283", ERROR)
    ] * 3


def test_master_and_first_worker_both_first_repeat_ranks() -> None:
    document = table(2, 2)
    for device in document["server_list"][1]["device"]:
        device["rank_id"] = device["device_id"]

    assert {code for code, _, _ in found_in(document)} == {"RT202"}


@pytest.mark.parametrize(
    ("document", "chip", "codes"),
    [
        (table(4), "910", set()),
        (table(8, 6), "A2", set()),
        (table(16), "A2", set()),
        (table(16), "910", {"RT208"}),
        (table(17), "A3", {"RT208"}),
        (table(17), "any", set()),
    ],
)
def test_generation_of_the_chips_decides(
    document: Table, chip: str, codes: set[str]
) -> None:
    report = judged(document, chip=chip)

    assert set(report.totals) == codes


def test_number_of_chips_still_counts_chips() -> None:
    assert set(judged(table(4), chip="2").totals) == {"RT208"}


@pytest.mark.parametrize(
    ("document", "codes"),
    [(table(1), {"RT290"}), (table(2, 1), {"RT289"}), (table(1, 1), set())],
)
def test_findings_about_mindie_need_a_table_for_mindie(
    document: Table, codes: set[str]
) -> None:
    meant = changed(
        document,
        lambda t: [
            s.update(container_ip=f"10.5.0.{n}")
            for n, s in enumerate(t["server_list"], 1)
        ],
    )

    assert found_in(document) == []
    assert {(c, w) for c, w, _ in found_in(meant)} == {(code, NOTE) for code in codes}
    assert set(judged(document, reader="mindie").totals) == {*codes, "RT288"}
    assert not judged(document, reader="MindIE").ok


def test_reader_of_another_format_reads_nothing_of_it() -> None:
    assert set(judged(table(1), reader="sccl").totals) == {"RT291"}
    with pytest.raises(ValueError, match="there is no reader 'x'"):
        judged(table(1), reader="x")


@pytest.mark.parametrize(
    ("reader", "said"),
    [
        ("torch_npu", "torch_npu ignores such a table"),
        ("xllm", "xLLM aborts on such a path"),
        ("hccl", None),
    ],
)
def test_table_that_is_a_link_is_refused_for_readers_that_take_none(
    run: Run, tmp_path: Path, reader: str, said: str | None
) -> None:
    (tmp_path / "t.json").write_text(json.dumps(table(1)), encoding="utf-8")
    (tmp_path / "link.json").symlink_to("t.json")
    link = run("ranktable", "validate", "link.json", "--for", reader)
    file = run("ranktable", "validate", "t.json", "--for", reader)

    assert (link.status, file.status) == (0 if said is None else 1, 0)
    assert (said or "sound") in link.out
    assert ranktable.check(tmp_path / "link.json", reader=reader).ok == (said is None)


def test_validate_takes_a_reader(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "t.json"
    file.write_text(json.dumps(table(2, 1)), encoding="utf-8")

    mindie = run("ranktable", "validate", str(file), "--for", "mindie")
    other = run("ranktable", "validate", str(file), "--for", "nobody")

    assert mindie.status == 1
    assert "error[RT289]" in mindie.out
    assert (other.status, other.out) == (2, "")


def test_advice_about_addresses_is_for_hccl_too(run: Run) -> None:
    said = " ".join(run("ranktable", "explain", "RT211").out.split())

    assert "HCCL needs it where a job has several servers" in said


def test_text_after_a_table_is_ignored_by_hccl_and_a_warning() -> None:
    text = json.dumps(changed(table(2), lambda t: t.update(status="no")), indent=1)

    report = ranktable.check(f"{text}\nrest".encode())
    half = ranktable.check(text[:-3].encode())
    of_sccl = ranktable.check(b'{"version":"1.0","node_list":[]} rest')

    assert [
        (d.code, d.severity.value, d.location.line) for d in report.diagnostics
    ] == [("RT213", ERROR, 2), ("RT101", WARNING, 1 + len(text.splitlines()))]
    assert (half.ok, of_sccl.ok, set(of_sccl.totals)) == (False, False, {"RT101"})


def test_operators_keys_are_kept_and_not_reported() -> None:
    document = changed(
        table(1), lambda t: t["server_list"][0].update(server_sn="1", rack={"a": [1]})
    )

    report = judged(document)

    assert report.totals == {}
    assert report.table is not None
    assert json.loads(ranktable.dumps(report.table)) == document


@pytest.mark.parametrize("where", ["server", "device"])
def test_super_pod_that_no_list_names_stays_where_it_is(where: str) -> None:
    document = table(2, 2)
    for server in document["server_list"]:
        for named in [server] if where == "server" else server["device"]:
            named["super_pod_id"] = f"of-{server['server_id']}"
    read = ranktable.loads(json.dumps(document))
    again = ranktable.dumps(read.with_changes(nodes=read.nodes))

    assert [node.super_pod for node in read.nodes] == ["of-n0", "of-n1"]
    assert json.loads(again) == document


def test_super_pod_that_only_the_second_chip_names_is_not_that_of_its_server() -> None:
    document = table(2)
    document["server_list"][0]["device"][1]["super_pod_id"] = "7"
    read = ranktable.loads(json.dumps(document))
    node = structs.replace(read.nodes[0], super_pod="7")
    written = json.loads(ranktable.dumps(read.with_changes(nodes=[node])))

    assert read.nodes[0].super_pod is None
    assert written["server_list"][0]["super_pod_id"] == "7"


def _of_two_cards(second: str) -> bytes:
    """Return a table of three devices with two addresses each; those of the last."""
    addresses = ["10.0.0.1,10.0.1.1", "10.0.0.2,10.0.1.2", f"10.0.0.3,{second}"]
    devices = [
        {"device_id": str(place), "device_ip": address, "rank_id": str(place)}
        for place, address in enumerate(addresses)
    ]
    servers = [{"server_id": "n1", "device": devices}]
    top = {"status": "completed", "version": "1.0", "server_count": "1"}
    return json.dumps({**top, "server_list": servers}).encode()


def test_several_addresses_of_a_device_are_read() -> None:
    table = ranktable.loads(_of_two_cards("10.0.1.3"))

    assert table.chip_map == [0, 1, 2]


@pytest.mark.parametrize(
    ("second", "code"),
    [
        ("10.0.1.2", "RT214"),
        *((text, "RT211") for text in (UNSET_ADDRESS, "10.0.1.256", "224.0.0.1")),
        ("255.255.255.255", "RT211"),
    ],
)
def test_a_defect_of_one_of_several_addresses_is_found(second: str, code: str) -> None:
    data = _of_two_cards(second)

    assert [found.code for found in check(data).diagnostics] == [code]


@pytest.mark.parametrize("address", ["127.0.0.1", "169.254.3.1", "::1", "fe80::2"])
def test_address_of_one_host_is_doubtful_between_servers_alone(address: str) -> None:
    servers = [
        {"server_id": f"n{n}", "device": [
            {"device_id": "0", "device_ip": f"10.0.1.{n}", "rank_id": str(n)}
        ]}
        for n in range(2)
    ]  # fmt: skip
    servers[0]["device"][0]["device_ip"] = address  # type: ignore[index]

    def codes(count: int) -> list[tuple[str, str]]:
        table = {"version": "1.0", "status": "completed", "server_count": str(count),
                 "server_list": servers[:count]}  # fmt: skip
        found = check(json.dumps(table).encode()).diagnostics
        return [(each.code, each.severity.value) for each in found]

    assert codes(1) == []
    assert codes(2)[0] == ("RT211", "warning")
