"""``ranktable convert`` between formats of rank tables: what is lost, what is asked."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import ranktable
from ranktable.cluster import ArgumentError, TableOptions, convert_table
from tests.conftest import CORPUS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.conftest import Outcome

    Run = Callable[..., Outcome]

VALID = CORPUS / "hccl" / "valid"
PODS = "hccl12_2pods_4s_32p.json"
UNEVEN = "hccl10_a2_uneven_8_6.json"
VLLM = "vllm_pd_a3.json"
GROUPS = "clusterd_global_a3.json"
SCCL = json.dumps(
    {
        "version": "1.0",
        "node_list": [
            {"device_list": [{"device_id": "0", "rank": str(node)}]}
            for node in range(2)
        ],
    }
).encode()


def convert(run: Run, source: str | bytes, to: str, *options: str) -> Outcome:
    given = source if isinstance(source, bytes) else (VALID / source).read_bytes()
    return run("ranktable", "convert", "-", "--to", to, *options, given=given)


def table_of(outcome: Outcome) -> Any:
    assert outcome.status == 0, outcome.err
    assert ranktable.check(outcome.out.encode()).ok
    return json.loads(outcome.out)


def test_super_pods_are_lost_with_a_warning_and_can_be_given_again(run: Run) -> None:
    there = convert(run, PODS, "hccl-1.0")
    back = convert(
        run,
        there.out.encode(),
        "hccl-1.2",
        *("--super-device-id", "0-31", "--pods", "a,a,b,b"),
    )

    assert there.err == (
        "warning: hccl-1.0 cannot hold: super_pod_id of 4 nodes, "
        "super_device_id of 32 devices\n"
    )
    assert "super" not in json.dumps(table_of(there))
    assert back.err == ""
    assert table_of(back)["super_pod_list"] == [
        {
            "super_pod_id": pod,
            "server_list": [{"server_id": f"sp{at}-node{n}"} for n in range(2)],
        }
        for at, pod in enumerate("ab")
    ]


@pytest.mark.parametrize(
    ("source", "to", "options", "option"),
    [
        (UNEVEN, "hccl-1.2", (), "--super-device-id"),
        (UNEVEN, "hccl-1.2", ("--super-device-id", "0-13"), "--pods"),
        (PODS, "mindie", (), "--container-ip"),
        (UNEVEN, "vllm-pd", (), "--prefill"),
        (UNEVEN, "hccl-2.0", (), "--skeleton"),
        (SCCL, "hccl-1.0", (), "--server-id"),
        (SCCL, "hccl-1.0", ("--server-id", "a,b"), "--device-ip"),
        (GROUPS, "hccl-1.2", (), "--output"),
    ],
)
def test_what_is_missing_is_named_with_its_option(
    run: Run, source: str, to: str, options: tuple[str, ...], option: str
) -> None:
    done = convert(run, source, to, *options)

    assert (done.status, done.out) == (2, "")
    assert option in done.err


@pytest.mark.parametrize(
    ("source", "to", "options", "reason"),
    [
        (UNEVEN, "mindie", ("--container-ip", "10.0.0.[1-2]"), "6 and 8"),
        ("hccl10_1s1p.json", "mindie", (), "two servers or more"),
        ("hccl20_ipv4_2s4p.json", "hccl-1.0", (), "names no servers"),
        (GROUPS, "mpich-machinefile", (), "does not give ranks to the processes"),
        (UNEVEN, "hccl-1.0", ("--prefill", "1"), "hccl-1.0 does not use --prefill"),
        (UNEVEN, "mpich", ("--pods", "1"), "mpich-machinefile does not use --pods"),
        (
            UNEVEN,
            "mpich",
            ("--prefill", "0"),
            "mpich-machinefile does not use --prefill",
        ),
        (UNEVEN, "hccl-1.2", ("--super-device-id", "0-3"), "4 values for 14 devices"),
        (UNEVEN, "hccl-1.2", ("--super-device-id", "x"), "'x' is not a number"),
        (UNEVEN, "vllm-pd", ("--prefill", "15"), "beyond the 14 ranks"),
        (SCCL, "hccl-1.0", ("--server-id", "a,a"), "a is given twice"),
        (SCCL, "hccl-1.0", ("--server-id", "a"), "1 value for 2 servers"),
    ],
)
def test_what_cannot_be_expressed_ends_in_a_sentence(
    run: Run, source: str, to: str, options: tuple[str, ...], reason: str
) -> None:
    done = convert(run, source, to, *options)

    assert (done.status, done.out) == (2, "")
    assert reason in done.err
    assert "internal error" not in done.err


def test_mindie_needs_only_the_addresses_of_containers(run: Run) -> None:
    done = convert(run, PODS, "mindie", "--container-ip", "10.9.0.[1-4]")
    report = ranktable.check(done.out.encode(), reader="mindie")

    assert [s["container_ip"] for s in table_of(done)["server_list"]] == [
        f"10.9.0.{n}" for n in range(1, 5)
    ]
    assert report.ok


def test_vllm_is_grouped_by_server_and_comes_back(run: Run) -> None:
    there = convert(run, VLLM, "hccl-1.2")
    back = convert(run, there.out.encode(), "vllm-pd", "--prefill", "8")

    assert there.err == (
        "warning: hccl-1.2 cannot hold: which devices prefill and which decode\n"
    )
    assert [s["server_id"] for s in table_of(there)["server_list"]] == [
        "10.30.7.11",
        "10.30.7.12",
    ]
    assert (back.status, back.err) == (0, "")
    assert json.loads(back.out) == json.loads((VALID / VLLM).read_text())


def test_part_of_a_vllm_table_counts_the_servers_that_it_has(run: Run) -> None:
    ranks = ("--ranks", "0-7")
    part = run("ranktable", "subset", "-", *ranks, given=(VALID / VLLM).read_bytes())
    report = ranktable.check(part.out.encode())

    assert json.loads(part.out)["server_count"] == "1"
    assert report.diagnostics == ()


def test_a_server_may_prefill_and_decode(run: Run) -> None:
    done = convert(run, UNEVEN, "vllm-pd", "--prefill", "9")
    made = json.loads(done.out)

    assert [d["cluster_id"] for d in made["prefill_device_list"]] == [
        str(rank) for rank in range(1, 10)
    ]
    assert len(made["decode_device_list"]) == 5
    assert made["server_count"] == "2"


def test_skeleton_has_gaps_that_validate_refuses(run: Run) -> None:
    done = convert(run, UNEVEN, "hccl-2.0", "--skeleton")
    report = ranktable.check(done.out.encode())

    assert done.err == (
        "warning: hccl-2.0 cannot hold: device_ip of 14 devices\n"
        "note: the EIDs and ports of 14 devices are gaps to fill in\n"
    )
    assert (report.ok, report.format) == (False, "hccl-2.0")


def test_every_group_becomes_a_table_with_its_own_ranks(
    run: Run, tmp_path: Path
) -> None:
    done = convert(run, GROUPS, "hccl-1.2", "-o", str(tmp_path))
    files = sorted(tmp_path.iterdir())

    assert done.status == 0, done.err
    assert "servers without devices are left out, of the groups 0, 1" in done.err
    assert [file.name for file in files] == ["group-2.json", "group-3.json"]
    for file in files:
        table = ranktable.load(file)
        assert [d.rank for n in table.nodes for d in n.devices] == list(range(8))


def test_sccl_takes_addresses_from_hccn_conf(run: Run, tmp_path: Path) -> None:
    for name, text in (("a", "address_0=10.0.0.1\n"), ("b", "address_1=10.0.0.2\n")):
        (tmp_path / name).write_text(text)
    given = ("--server-id", "a,b")
    files = [f"--hccn-conf={tmp_path / name}" for name in "ab"]
    lacking = convert(run, SCCL, "hccl-1.0", *given, *files)
    once = convert(run, SCCL, "hccl-1.0", *given, files[0])
    (tmp_path / "b").write_text("address_0=10.0.0.2\n")
    named = [f"--hccn-conf={name}={tmp_path / name}" for name in "ba"]
    done = convert(run, SCCL, "hccl-1.0", *given, *named)

    assert (lacking.status, once.status) == (2, 2)
    assert f"{tmp_path}/b has no address_0 of device 0 of b" in lacking.err
    assert "--hccn-conf is given 1 times for 2 servers" in once.err
    assert [s["device"][0]["device_ip"] for s in table_of(done)["server_list"]] == [
        "10.0.0.1",
        "10.0.0.2",
    ]


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        (("b=x.conf", "y.conf"), "--hccn-conf names a server for some files only"),
        (("b=x.conf", "b=y.conf"), "--hccn-conf names b twice"),
        (("a=x.conf", "b=x.conf", "b=y.conf"), "--hccn-conf names b twice"),
    ],
)
def test_hccn_conf_names_every_server_once(
    run: Run, tmp_path: Path, files: tuple[str, ...], reason: str
) -> None:
    for name in ("x.conf", "y.conf"):
        (tmp_path / name).write_text("address_0=10.0.0.1\n")
    given = [f"--hccn-conf={name}" for name in files]
    done = convert(run, SCCL, "hccl-1.0", "--server-id", "a,b", *given)

    assert (done.status, done.out) == (2, "")
    assert reason in done.err


def test_files_in_a_folder_with_an_equals_sign_are_not_named(
    run: Run, tmp_path: Path
) -> None:
    files = []
    for number in (1, 2):
        files.append(tmp_path / f"run={number}" / "hccn.conf")
        files[-1].parent.mkdir()
        files[-1].write_text(f"address_0=10.0.0.{number}\n")
    given = ("--server-id", "a,b", *(f"--hccn-conf={file}" for file in files))
    done = convert(run, SCCL, "hccl-1.0", *given)

    assert [s["device"][0]["device_ip"] for s in table_of(done)["server_list"]] == [
        "10.0.0.1",
        "10.0.0.2",
    ]


@pytest.mark.parametrize("wrong", ["x", "10.9.0.256"])
def test_container_ip_is_an_address(run: Run, wrong: str) -> None:
    given = f"10.9.0.[1-3],{wrong}"
    done = convert(run, PODS, "mindie", "--container-ip", given)

    assert (done.status, done.out) == (2, "")
    assert f"--container-ip: {wrong!r} is not an IP address" in done.err


def test_keys_of_operators_are_kept_between_versions_and_lost_beyond(run: Run) -> None:
    document = json.loads((VALID / PODS).read_text())
    document["server_list"][0]["device"][0]["tor_ip"] = "10.1.1.1"
    given = json.dumps(document).encode()
    kept = convert(run, given, "hccl-1.0")
    lost = convert(run, given, "sccl-1.0")

    assert table_of(kept)["server_list"][0]["device"][0]["tor_ip"] == "10.1.1.1"
    assert "tor_ip of 1 device" in lost.err
    assert "tor_ip" not in lost.out


@pytest.mark.parametrize(
    ("source", "to", "lost"),
    [
        (UNEVEN, "gaudi-hcl", "device_ip"),
        (UNEVEN, "paddle-mapping", "device_ip"),
        (PODS, "hccl-logical", "super_device_id"),
    ],
)
def test_chips_hosts_and_ranks_go_to_other_vendors(
    run: Run, source: str, to: str, lost: str
) -> None:
    done = convert(run, source, to)
    before, after = ranktable.load(VALID / source), ranktable.loads(done.out)

    assert f"{lost} of {before.world_size} devices" in done.err
    assert (after.world_size, after.hosts) == (before.world_size, before.hosts)


def test_addresses_go_to_a_logical_table(run: Run) -> None:
    done = convert(run, PODS, "hccl-logical")
    before, after = ranktable.load(VALID / PODS), ranktable.loads(done.out)

    assert after.device_of(17).address == before.device_of(17).address


def test_of_several_addresses_the_first_is_kept_and_the_others_are_named(
    run: Run,
) -> None:
    done = convert(run, "hccl10_multi_device_ip.json", "sccl-1.0")
    before = ranktable.load(VALID / "hccl10_multi_device_ip.json")
    first = (before.device_of(0).address or "").split(",")[0]

    assert done.status == 0
    assert f"further addresses of {before.world_size} devices" in done.err
    assert ranktable.loads(done.out).device_of(0).address == first


def test_process_of_a_host_has_no_place_among_chips(run: Run) -> None:
    done = convert(run, "hccl11_heterog.json", "hccl-1.0")

    assert (done.status, done.out) == (2, "")
    assert "on a host, not on a chip, and hccl-1.0 has ranks on chips only" in done.err


def test_host_that_is_not_an_address_is_refused_for_gaudi(run: Run) -> None:
    done = convert(run, PODS, "gaudi-hcl")

    assert (done.status, done.out) == (2, "")
    assert "names hosts by their addresses" in done.err
    assert "--server-id" in done.err


def test_table_of_the_lab_keeps_its_ranks_and_names_what_is_lost(run: Run) -> None:
    source = VALID / "legacy_group_lab_2s16p.json"
    done = run("ranktable", "convert", str(source), "--to", "hccl-1.0")

    servers = json.loads(done.out)["server_list"]
    assert [set(server) for server in servers] == [{"server_id", "device"}] * 2
    assert ranktable.loads(done.out).chip_map == ranktable.load(source).chip_map
    assert "board_id of the table" in done.err
    assert "para_plane_nic_num of the table" in done.err
    assert "group_name of 1 group" in done.err
    assert "rank_id" not in done.err


def test_table_of_the_cloud_gets_the_ranks_that_hccl_gives(run: Run) -> None:
    document = json.loads((VALID / "legacy_group_cloud_8p.json").read_text())
    group = document["group_list"][0]
    other = json.loads(json.dumps(group["instance_list"][0]).replace("10.40", "10.41"))
    other |= {"pod_name": "bert-worker-1", "server_id": "10.30.7.100"}
    group["instance_list"].append(other)
    group |= {"device_count": "16", "instance_count": "2"}
    done = convert(run, json.dumps(document).encode(), "hccl-1.0")

    servers = table_of(done)["server_list"]
    assert [(s["server_id"], s["device"][0]["rank_id"]) for s in servers] == [
        ("10.30.7.100", "0"),
        ("10.30.7.11", "8"),
    ]
    assert "pod_name" in json.dumps(servers)
    assert "pod_name" not in done.err


@pytest.mark.parametrize(
    ("to", "lost"),
    [
        ("sccl-1.0", "super_pod_id of 4 nodes, host_ip of 4 nodes, super_device_id"),
        ("paddle-mapping", "device_ip of 32 devices"),
        ("openmpi-rankfile", "device_ip of 32 devices"),
        ("mpich-machinefile", "device_ip of 32 devices"),
    ],
)
def test_what_other_files_have_no_place_for_is_named(
    run: Run, to: str, lost: str
) -> None:
    done = convert(run, PODS, to)

    assert done.status == 0, done.err
    assert lost in done.err


def test_new_server_names_keep_the_super_pods(run: Run) -> None:
    source = str(CORPUS / "hccl" / "valid" / "hccl12_2pods_4s_32p.json")
    done = run(
        "ranktable", "convert", source, "--to", "hccl-1.2", "--server-id", "a,b,c,d"
    )

    pods = json.loads(done.out)["super_pod_list"]
    assert [[one["server_id"] for one in pod["server_list"]] for pod in pods] == [
        ["a", "b"],
        ["c", "d"],
    ]
    assert done.status == 0


def test_an_option_for_a_config_map_is_one_for_the_table_inside(run: Run) -> None:
    source = str(CORPUS / "hccl" / "valid" / "hccl10_1s1p.json")
    done = run(
        "ranktable", "convert", source, "--to", "kubernetes",
        "--device-ip", "[['1.2.3.9']]",
    )  # fmt: skip

    assert done.status == 0
    assert "server_list" in done.out
    assert "cannot hold" not in done.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--to", "hccl-1.0", "--prefill", "0"], "hccl-1.0 does not use --prefill"),
        (["--to", "hccl-lab"], "hccl-lab cannot be written from a table of another"),
        (["--to", "hccl-10"], "did you mean hccl-1.0?"),
    ],
)
def test_what_cannot_be_converted_is_said(
    run: Run, arguments: list[str], message: str
) -> None:
    source = str(CORPUS / "hccl" / "valid" / "hccl10_1s1p.json")
    done = run("ranktable", "convert", source, *arguments)

    assert done.status == 2
    assert message in done.err


# In Python


def test_python_writes_the_bytes_of_the_command(run: Run) -> None:
    table = ranktable.load(VALID / PODS)
    pods = ranktable.loads(convert_table(table, "hccl-1.0").data)
    options = TableOptions(
        super_device_ids=[str(rank) for rank in range(32)], pods=list("aabb")
    )

    there = convert(run, PODS, "hccl-1.0")
    back = convert(
        run,
        there.out.encode(),
        "hccl-1.2",
        *("--super-device-id", "0-31", "--pods", "a,a,b,b"),
    )

    assert convert_table(table, "hccl-1.0").data == there.out.encode()
    assert convert_table(table, "hccl-1.0").losses == (
        "super_pod_id of 4 nodes",
        "super_device_id of 32 devices",
    )
    assert convert_table(pods, "hccl-1.2", options).data == back.out.encode()


def test_every_refusal_in_python_is_one_of_our_errors() -> None:
    table = ranktable.loads(SCCL)

    with pytest.raises(ArgumentError, match="there is no format 'hccl-9'"):
        convert_table(table, "hccl-9")
    with pytest.raises(ArgumentError, match="--server-id"):
        convert_table(table, "hccl-1.0")
    with pytest.raises(ArgumentError, match="cannot be written from a table"):
        convert_table(table, "hccl-roles")
