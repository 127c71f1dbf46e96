"""Commands on HCCL tables: split, merge, subset, wait."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

import ranktable
from ranktable.schema.formats import by_name, names
from tests.conftest import CORPUS

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Run


VALID = CORPUS / "hccl" / "valid"
PODS = VALID / "hccl12_2pods_4s_32p.json"
V2 = VALID / "hccl20_ipv4_2s4p.json"


@pytest.mark.parametrize(
    "source",
    [
        *(PODS, V2, VALID / "hccl10_a2_uneven_8_6.json"),
    ],
)
def test_merge_of_split_is_the_table(run: Run, source: Path, tmp_path: Path) -> None:
    parts = tmp_path / "parts"
    split = run("ranktable", "split", str(source), "-o", str(parts))
    files = map(str, sorted(parts.iterdir()))
    merged = run("ranktable", "merge", *files, "-o", str(tmp_path / "t.json"))

    assert (split.status, merged.status) == (0, 0), merged.out
    again = json.loads((tmp_path / "t.json").read_text())
    assert again == json.loads(source.read_text())


def test_merge_names_a_table_of_ascend_as_its_controllers_do(
    run: Run, tmp_path: Path
) -> None:
    source = VALID / "hccl10_a2_uneven_8_6.json"
    run("ranktable", "split", str(source), "-o", "parts")
    parts = [f"parts/{path.name}" for path in sorted((tmp_path / "parts").iterdir())]

    done = run("ranktable", "merge", *parts)

    assert done.status == 0, done.err
    assert ranktable.load(tmp_path / "hccl.json").format == "hccl-1.0"
    assert not (tmp_path / "sccl_rank_table.json").exists()


def server(name: str, chips: list[int], subnet: int) -> str:
    """Return the table of one server, whose ranks are in the order of its chips."""
    devices = [
        {
            "device_id": str(chip),
            "device_ip": f"10.0.{subnet}.{chip}",
            "rank_id": str(r),
        }
        for r, chip in enumerate(chips)
    ]
    document = {
        "status": "completed",
        "version": "1.0",
        "server_count": "1",
        "server_list": [{"server_id": name, "device": devices}],
    }
    return json.dumps(document, indent=1)


def test_renumbered_chips_are_in_numeric_order(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(server("a", [10, 2, 0], 1), encoding="utf-8")
    (tmp_path / "b.json").write_text(server("b", [3, 1], 2), encoding="utf-8")
    done = run("ranktable", "merge", "a.json", "b.json", "--renumber", "-o", "t.json")

    assert done.status == 0, done.out
    table = ranktable.load(tmp_path / "t.json")
    assert table.chip_map == [0, 2, 10, 1, 3]
    assert table.device_of(2).address == "10.0.1.10"


def test_finding_of_a_renumbered_table_names_the_file_of_its_node(
    run: Run, tmp_path: Path
) -> None:
    (tmp_path / "a.json").write_text(server("a", [1, 0], 1), encoding="utf-8")
    other = server("b", [7, 5], 2).replace("10.0.2.5", "10.0.1.0")
    (tmp_path / "b.json").write_text(other, encoding="utf-8")
    done = run("ranktable", "merge", "a.json", "b.json", "--renumber", "-o", "t.json")

    assert done.status == 1
    assert done.out.startswith("b.json: error[RT214]")


@pytest.mark.parametrize("name", names())
def test_every_command_takes_every_format_or_says_what_to_do(
    run: Run, name: str, tmp_path: Path
) -> None:
    (tmp_path / "t.json").write_text(json.dumps(by_name(name).example))
    changing = [
        *("split t.json -o parts", "split t.json --ranks 0"),
        "fit t.json",
    ]
    looking = ("diff t.json t.json", "mesh t.json --dp -1", "plan t.json --dp -1")
    always = (
        "show t.json",
        "show t.json --digest",
        f"schema {name}",
        "validate t.json",
    )

    for command in (*changing, *looking, *always):
        done = run("ranktable", *command.split())
        is_refused = command not in always and name == "kubernetes"
        if command in changing and name == "hccl-cloud":
            is_refused = True
        assert done.status == (2 if is_refused else 0), (command, done.err)
        if is_refused:
            assert "\nhelp: " in done.err or "ranktable convert --to" in done.err


def test_subset_has_its_own_super_pods_and_ranks(run: Run) -> None:
    done = run("ranktable", "split", str(PODS), "--ranks", "16-17,0")
    table = ranktable.loads(done.out)

    assert (done.status, done.err) == (0, "")
    assert (table.chip_map, table.hosts) == ([0, 1, 0], ("sp1-node0", "sp0-node0"))
    assert json.loads(done.out)["super_pod_list"] == [
        {"super_pod_id": str(pod), "server_list": [{"server_id": f"sp{pod}-node0"}]}
        for pod in (0, 1)
    ]


def test_subset_of_version_2_keeps_its_layers(run: Run) -> None:
    done = run("ranktable", "split", str(V2), "--ranks", "2-3")

    before = json.loads(V2.read_text())["rank_list"][2:]
    after = json.loads(done.out)
    assert after["rank_count"] == 2
    assert [one["rank_id"] for one in after["rank_list"]] == [0, 1]
    assert [one["level_list"] for one in after["rank_list"]] == [
        one["level_list"] for one in before
    ]


@pytest.mark.parametrize(
    ("command", "written"),
    [
        ("split t.json --ranks 0-7 -o out.json", "out.json"),
        ("split t.json --renumber -o out", "out/n1.json"),
        ("merge parts/n0.json parts/n2.json --renumber -o out.json", "out.json"),
    ],
)
def test_table_of_fewer_ranks_forgets_the_layout_and_the_spares_of_the_job(
    run: Run, tmp_path: Path, command: str, written: str
) -> None:
    chips, hosts = "[[0..7],[0..7],[0..7]]", "n[0-2]"
    made = ("--hosts", hosts, "--tp", "4", "--ring", "sophgo-8", "-o", "a.json")
    run("ranktable", "gen", "--device-id", chips, *made)
    run("ranktable", "fit", "a.json", "--spare", "n9", "-o", "t.json")
    run("ranktable", "split", "t.json", "-o", "parts")
    done = run("ranktable", *command.split())

    part = ranktable.load(tmp_path / written)
    assert done.status == 0, done.err
    assert dict(part.extra) == {"topology": "sophgo-8"}
    assert "RT508" not in ranktable.check(tmp_path / written).totals


def test_merge_puts_the_layout_and_the_spares_together_again(
    run: Run, tmp_path: Path
) -> None:
    chips = ("--device-id", "[[0,1],[0,1]]", "--hosts", "a,b", "--tp", "2")
    run("ranktable", "gen", *chips, "-o", "a.json")
    run("ranktable", "fit", "a.json", "--spare", "n9", "-o", "t.json")
    run("ranktable", "split", "t.json", "-o", "parts")
    files = ("parts/a.json", "parts/b.json", "--renumber", "-o", "again.json")
    run("ranktable", "merge", *files)
    run("ranktable", "split", "t.json", "--ranks", "2,3,0,1", "-o", "turned.json")

    data = (tmp_path / "t.json").read_bytes()
    turned = ranktable.load(tmp_path / "turned.json")
    assert (tmp_path / "again.json").read_bytes() == data
    assert turned.extra == ranktable.load(tmp_path / "t.json").extra


@pytest.fixture
def without_last_server(run: Run, tmp_path: Path) -> str:
    """Make a table of three servers, and the files of all four in a folder."""
    run("ranktable", "split", str(PODS), "-o", "parts")
    files = [f"parts/{name}.json" for name in ("sp0-node0", "sp0-node1", "sp1-node0")]
    assert run("ranktable", "merge", *files, "-o", "three.json").status == 0
    part = json.loads((tmp_path / "parts" / "sp1-node1.json").read_text())
    del part["super_pod_list"]
    (tmp_path / "bare.json").write_text(json.dumps({**part, "version": "1.0"}))
    return "three.json"


def test_new_server_is_in_the_super_pod_that_its_file_names(
    run: Run, without_last_server: str, tmp_path: Path
) -> None:
    added = ("--with", "parts/sp1-node1.json", "--tp", "4", "--grow", "-o", "four.json")
    done = run("ranktable", "fit", without_last_server, *added)

    assert done.status == 0, done.err
    grown = json.loads((tmp_path / "four.json").read_text())
    del grown["layout"]
    assert grown == json.loads(PODS.read_text())


def test_super_pod_of_a_new_server_is_asked_for(
    run: Run, without_last_server: str, tmp_path: Path
) -> None:
    grow = ["ranktable", "fit", without_last_server, "--with", "./bare.json"]
    grow += ["--tp", "4", "--grow", "-o", "four.json"]
    refused = run(*grow)
    done = run(*grow, "--pod", "1")

    assert refused.status == 2
    assert "the super pod of sp1-node1 is not known; give --pod NAME" in refused.err
    assert done.status == 0, done.err
    grown = json.loads((tmp_path / "four.json").read_text())
    assert grown["super_pod_list"] == json.loads(PODS.read_text())["super_pod_list"]


def test_chip_ids_that_a_super_pod_has_already_are_one_sentence(
    run: Run, without_last_server: str, tmp_path: Path
) -> None:
    part = json.loads((tmp_path / "bare.json").read_text())
    three = json.loads((tmp_path / without_last_server).read_text())
    server = three["server_list"][2]
    ids = [one["super_device_id"] for one in server["device"]]
    for device, one in zip(part["server_list"][0]["device"], ids, strict=True):
        device["super_device_id"] = one
    (tmp_path / "bare.json").write_text(json.dumps(part))

    done = run(
        *("ranktable", "fit", without_last_server, "--with", "./bare.json", "--grow"),
        *("--tp", "4", "--pod", "1", "-o", "four.json"),
    )

    assert (done.status, done.out) == (2, "")
    assert done.err == (
        f"ranktable: {len(ids)} chips of sp1-node1 have the super_device_id of others "
        f"of super pod 1: {ids[0]} is one of sp1-node0\n"
    )


def test_list_of_config_maps_is_validated_as_a_table(run: Run, tmp_path: Path) -> None:
    inner = (VALID / "hccl10_1s1p.json").read_text()
    one = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"hccl.json": inner}}
    listed = {"apiVersion": "v1", "kind": "List", "items": [one]}
    (tmp_path / "t.json").write_text(json.dumps(listed))

    assert run("ranktable", "validate", "t.json").out == "t.json#hccl.json: sound\n"


def test_servers_without_any_address_are_one_finding() -> None:
    document = json.loads((VALID / "hccl10_a2_uneven_8_6.json").read_text())
    for server in document["server_list"]:
        for device in server["device"]:
            device.pop("device_ip")
    found = ranktable.check(json.dumps(document).encode()).diagnostics

    assert [(one.code, one.location.pointer) for one in found] == [
        ("RT271", "/server_list/0/device")
    ]
    assert "the devices of the nodes 0, 1 have no device_ip" in found[0].message
