"""``ranktable convert`` between formats of rank tables: what is lost, what is asked."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import ranktable
from ranktable.cluster import ArgumentError, TableOptions, convert_table
from tests.conftest import CORPUS

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Outcome, Run


VALID = CORPUS / "hccl" / "valid"
PODS = "hccl12_2pods_4s_32p.json"
UNEVEN = "hccl10_a2_uneven_8_6.json"
TWO_SERVERS = ("--server-id", "a,b", "--super-device-id", "0-1")
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
        (SCCL, "hccl-1.0", (), "--server-id"),
        (SCCL, "hccl-1.0", ("--server-id", "a,b"), "--device-ip"),
        (SCCL, "hccl-1.2", (*TWO_SERVERS, "--pods", "a,b"), "--device-ip"),
    ],
)
def test_what_is_missing_is_named_with_its_option(
    run: Run, source: str, to: str, options: tuple[str, ...], option: str
) -> None:
    done = convert(run, source, to, *options)

    assert (done.status, done.out) == (2, "")
    assert option in done.err


def test_servers_of_one_super_pod_need_no_addresses(run: Run) -> None:
    done = convert(run, SCCL, "hccl-1.2", *TWO_SERVERS, "--pods", "a")

    assert (done.status, len(table_of(done)["server_list"])) == (0, 2), done.err


@pytest.mark.parametrize(
    ("source", "to", "options", "reason"),
    [
        ("hccl20_ipv4_2s4p.json", "hccl-1.0", (), "the server_id of every server"),
        (UNEVEN, "mpich", ("--pods", "1"), "mpich-machinefile does not use --pods"),
        (UNEVEN, "hccl-1.2", ("--super-device-id", "0-3"), "4 values for 14 devices"),
        (UNEVEN, "hccl-1.2", ("--super-device-id", "x"), "'x' is not a number"),
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


def test_keys_of_operators_are_kept_between_versions_and_lost_beyond(run: Run) -> None:
    document = json.loads((VALID / PODS).read_text())
    document["server_list"][0]["device"][0]["tor_ip"] = "10.1.1.1"
    given = json.dumps(document).encode()
    kept = convert(run, given, "hccl-1.0")
    lost = convert(run, given, "sccl-1.0")

    assert table_of(kept)["server_list"][0]["device"][0]["tor_ip"] == "10.1.1.1"
    assert "tor_ip of 1 device" in lost.err
    assert "tor_ip" not in lost.out


def test_of_several_addresses_the_first_is_kept_and_the_others_are_named(
    run: Run,
) -> None:
    done = convert(run, "hccl10_multi_device_ip.json", "sccl-1.0")
    before = ranktable.load(VALID / "hccl10_multi_device_ip.json")
    first = (before.device_of(0).address or "").split(",")[0]

    assert done.status == 0
    assert f"further addresses of {before.world_size} devices" in done.err
    assert ranktable.loads(done.out).device_of(0).address == first


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


def test_a_config_map_that_kubernetes_refuses_is_not_written(run: Run) -> None:
    chips = f"[{','.join(['[0..63]'] * 256)}]"
    many = run("ranktable", "gen", "--device-id", chips, "-o-")
    done = convert(run, many.out.encode(), "kubernetes")

    assert (done.status, done.out) == (2, "")
    assert "MiB, and Kubernetes takes 1 MiB at most" in done.err


def test_sizes_of_a_job_stay_and_an_emulated_address_is_listed(run: Run) -> None:
    given = (
        "--hosts=a",
        "--device-ip=[['10.0.0.1','10.0.1.1']]",
        "--emulator",
        "--tp=2",
        "-o-",
    )
    before = run("ranktable", "gen", "--device-id=[[0,1]]", *given).out
    there = convert(run, before.encode(), "hccl-1.0")
    back = convert(run, there.out.encode(), "sccl-1.0")

    assert there.err.endswith("cannot hold: device_ip_emulator of 2 devices\n")
    assert str(ranktable.loads(back.out).extra["layout"]).startswith("tp=2")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--to", "hccl-1.0", "--pods", "0"], "hccl-1.0 does not use --pods"),
        (["--to", "hccl-2.0"], "hccl-2.0 cannot be written from a table of another"),
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
        convert_table(table, "hccl-2.0")


def test_spares_are_written_in_the_form_of_the_new_format(
    run: Run, tmp_path: Path
) -> None:
    addresses = "[['10.0.0.1','10.0.0.2'],['10.0.1.1','10.0.1.2']]"
    hosts = ("--hosts", "10.1.0.1,10.1.0.2", "--device-ip", addresses)
    run("ranktable", "gen", "--device-id", "[[0,1],[0,1]]", *hosts, "-o", "s.json")
    spare = b'{"probe":1,"host":"10.1.0.9","vendor":"sophgo","chips":[%s]}' % b",".join(
        b'{"device_id":%d,"address":"10.0.9.%d"}' % (chip, chip) for chip in (1, 2)
    )
    (tmp_path / "p.jsonl").write_bytes(spare)
    run("ranktable", "fit", "s.json", "--spare", "p.jsonl", "-i")
    before = json.loads((tmp_path / "s.json").read_text())

    there = run("ranktable", "convert", "s.json", "--to", "hccl-1.0", "-o", "h.json")
    back = run("ranktable", "convert", "h.json", "--to", "sccl-1.0")
    used = run("ranktable", "fit", "h.json", "--lost", "10.1.0.2", "-o", "-")

    assert there.err == "wrote h.json: 2 nodes, 4 ranks\n"
    assert table_of(back)["spare_list"] == before["spare_list"]
    assert table_of(used)["server_list"][1]["server_id"] == "10.1.0.9"
