"""Commands on HCCL tables: split, merge, subset, wait."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import ranktable
from ranktable.schema.check import decode_any
from ranktable.schema.formats import by_name, names
from tests.conftest import CORPUS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.conftest import Outcome

    Run = Callable[..., Outcome]

VALID = CORPUS / "hccl" / "valid"
PODS = VALID / "hccl12_2pods_4s_32p.json"
V2 = VALID / "hccl20_ipv4_2s4p.json"
LAB = VALID / "legacy_group_lab_2s16p.json"


HETEROGENEOUS = VALID / "hccl11_heterog.json"


@pytest.mark.parametrize(
    "source",
    [
        *(PODS, V2, HETEROGENEOUS),
        *(VALID / "hccl10_a2_uneven_8_6.json", LAB),
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


def test_format_of_one_host_is_not_split(run: Run, tmp_path: Path) -> None:
    info = VALID / "hccl_rootinfo_a5.json"
    done = run("ranktable", "split", str(info), "-o", str(tmp_path / "parts"))

    assert done.status == 2
    assert done.err == (
        "ranktable: a file of the format hccl-rootinfo describes one host and is not "
        "changed; ranktable convert --to hccl-2.0 makes a rank table of it\n"
    )


def cloud_of_two(first: str, second: str) -> bytes:
    """Return a cloud table of two servers, with two pods on the first."""

    def pod(name: str, server_id: str, chip: int, subnet: int) -> dict[str, object]:
        devices = [
            {"device_id": str(one), "device_ip": f"10.0.{subnet}.{one}", "tor_ip": "x"}
            for one in (chip, chip + 1)
        ]
        return {"pod_name": name, "server_id": server_id, "devices": devices}

    pods = [pod("p0", first, 0, 1), pod("p1", first, 2, 1), pod("p2", second, 0, 2)]
    group = {"group_name": "g", "device_count": "6", "instance_count": "3"}
    document = {
        "status": "completed",
        "group_count": "1",
        "group_list": [{**group, "instance_list": pods}],
    }
    return json.dumps(document).encode()


def test_parts_of_a_cloud_table_are_put_together_with_their_pods(
    run: Run, tmp_path: Path
) -> None:
    source = tmp_path / "t.json"
    source.write_bytes(cloud_of_two("a", "b"))
    run("ranktable", "split", "t.json", "-o", "parts")
    done = run(
        *("ranktable", "merge", "parts/a.json", "parts/b.json"),
        *("--renumber", "-o", "m.json"),
    )

    assert done.status == 0, done.out
    merged = json.loads((tmp_path / "m.json").read_text())
    assert merged == json.loads(source.read_text())


def of_two_groups(source: Path) -> dict[str, Any]:
    """Return a lab or a cloud table with half of its instances in another group."""
    table: dict[str, Any] = json.loads(source.read_text())
    (first,) = table["group_list"]
    listed = first["instance_list"]
    half = len(listed) // 2
    second = {**first, "group_name": "other", "instance_list": listed[half:]}
    first["instance_list"] = listed[:half]
    table |= {"group_count": "2", "group_list": [first, second]}
    for group in table["group_list"]:
        own = group["instance_list"]
        chips = str(sum(len(one["devices"]) for one in own))
        servers = str(len({one["server_id"] for one in own}))
        counts = {"device_num": chips, "device_count": chips, "server_num": servers}
        group |= {key: size for key, size in counts.items() if key in group}
        group["instance_count"] = str(len(own))
    return table


@pytest.mark.parametrize("kind", ["lab", "cloud"])
def test_parts_of_a_table_of_two_groups_are_put_together(
    run: Run, tmp_path: Path, kind: str
) -> None:
    source = tmp_path / "t.json"
    source.write_bytes(cloud_of_two("a", "b"))
    table = of_two_groups(LAB if kind == "lab" else source)
    source.write_text(json.dumps(table))
    run("ranktable", "split", "t.json", "-o", "parts")
    files = [str(one) for one in sorted((tmp_path / "parts").iterdir())]
    done = run("ranktable", "merge", *files, "--renumber", "-o", "m.json")

    assert done.status == 0, done.out
    merged = json.loads((tmp_path / "m.json").read_text())
    assert merged == table


def test_parts_that_say_other_things_of_a_group_are_not_put_together(
    run: Run, tmp_path: Path
) -> None:
    for name, colour in (("a", "red"), ("b", "blue")):
        table = json.loads(cloud_of_two(name, name))
        group = table["group_list"][0]
        del group["instance_list"][-1]
        group |= {"device_count": "4", "instance_count": "2", "colour": colour}
        (tmp_path / f"{name}.json").write_text(json.dumps(table))
    done = run("ranktable", "merge", "a.json", "b.json", "--renumber", "-o", "m.json")

    assert done.status == 1
    assert (
        'error[RT233] colour of the group g is "blue", and "red" in a.json' in done.out
    )


def test_cloud_table_is_not_written_in_another_order_than_hccl_counts(
    run: Run, tmp_path: Path
) -> None:
    (tmp_path / "t.json").write_bytes(cloud_of_two("a", "b"))
    done = run("ranktable", "subset", "t.json", "--ranks", "1,0")

    assert done.status == 2
    assert "hccl-cloud has no ranks: HCCL counts" in done.err
    assert "convert --to hccl-1.0" in done.err


def test_policy_that_keeps_the_order_of_the_ranks_is_named(
    run: Run, tmp_path: Path
) -> None:
    (tmp_path / "t.json").write_bytes(cloud_of_two("a", "b"))
    command = ("renumber", "t.json", "--drop-ranks", "0", "--policy")
    filled = run("ranktable", *command, "fill")
    shifted = run("ranktable", *command, "shift")

    assert (filled.status, shifted.status) == (2, 0)
    assert filled.err.endswith("help: --policy shift keeps the order of the ranks\n")


def test_server_that_prefills_and_decodes_keeps_both(run: Run, tmp_path: Path) -> None:
    devices = [
        {
            "server_id": "10.0.0.9",
            "device_id": str(chip),
            "device_ip": f"10.0.1.{chip}",
            "cluster_id": str(chip + 1),
        }
        for chip in range(3)
    ]
    document = {
        "version": "1.2",
        "server_count": "1",
        "prefill_device_list": devices[:1],
        "decode_device_list": devices[1:],
        "status": "completed",
        "made_by": ["a script"],
    }
    (tmp_path / "t.json").write_text(json.dumps(document))
    done = run("ranktable", "subset", "t.json", "--ranks", "0,2")
    lost = run("ranktable", "convert", "t.json", "--to", "sccl-1.0")

    kept = {**devices[2], "cluster_id": "2"}
    assert done.status == 0, done.err
    assert json.loads(done.out) == {**document, "decode_device_list": [kept]}
    assert lost.err == (
        "warning: sccl-1.0 cannot hold: made_by of the table, which devices "
        "prefill and which decode\n"
    )


def test_parts_of_a_table_without_written_ranks_need_renumber(
    run: Run, tmp_path: Path
) -> None:
    source = VALID / "vllm_pd_a3.json"
    parts, merged = tmp_path / "parts", str(tmp_path / "t.json")
    run("ranktable", "split", str(source), "-o", str(parts))
    files = [str(path) for path in sorted(parts.iterdir())]
    refused = run("ranktable", "merge", *files, "-o", merged)
    done = run("ranktable", "merge", "--renumber", *files, "-o", merged)

    assert refused.status == 1
    assert "RT231" in refused.out + refused.err
    assert done.status == 0, done.err
    assert ranktable.load(merged).chip_map == ranktable.load(source).chip_map


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


def test_finding_of_a_renumbered_table_is_where_its_device_was_read(
    run: Run, tmp_path: Path
) -> None:
    (tmp_path / "a.json").write_text(server("a", [1, 0], 1), encoding="utf-8")
    other = server("b", [7, 5], 2).replace("10.0.2.5", "10.0.1.0")
    (tmp_path / "b.json").write_text(other, encoding="utf-8")
    done = run("ranktable", "merge", "a.json", "b.json", "--renumber", "-o", "t.json")

    line = 1 + other[: other.index("10.0.1.0")].count("\n")
    assert done.status == 1
    assert done.out.startswith(f"b.json:{line}:")
    assert "RT214" in done.out


def test_what_has_no_ranks_is_not_merged(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "placeholder.json"
    file.write_text('{"status": "initializing"}', encoding="utf-8")
    done = run("ranktable", "merge", str(file), "-o", "-")

    assert done.status == 1
    assert "RT262" in done.err


@pytest.mark.parametrize("name", ["k8s_initializing.json", "clusterd_global_a3.json"])
@pytest.mark.parametrize(
    "command",
    [
        ["renumber", "--policy", "stable"],
        ["shrink", "--drop", "n1"],
        ["grow", "--add", "n9", "--new"],
        ["replace-node", "n1", "n9", "--new"],
    ],
)
def test_what_has_no_ranks_is_not_changed(
    run: Run, name: str, command: list[str]
) -> None:
    done = run("ranktable", command[0], str(VALID / name), *command[1:])

    assert done.status == 2
    said = "does not give ranks to the processes of a job\nhelp: "
    if (command[0], name) == ("renumber", "clusterd_global_a3.json"):
        said = "the ranks begin at 0 in each of the groups 2, 3\nhelp: "
    assert said in done.err


GROUPS = VALID / "clusterd_global_a3.json"


def test_renumbered_group_is_written_back(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "t.json"
    file.write_bytes(GROUPS.read_bytes())
    change = ("renumber", "t.json", "--server-group", "3", "-i")
    same = run("ranktable", *change, "--policy", "stable")
    done = run("ranktable", *change, "--policy", "fill", "--drop-ranks", "1")

    before, after = json.loads(GROUPS.read_text()), json.loads(file.read_text())
    assert (same.status, done.status) == (0, 0), same.err + done.err
    assert same.err.startswith("unchanged")
    groups, changed = (one.pop("server_group_list") for one in (before, after))
    assert after == before
    assert changed[:-1] == groups[:-1]
    (server,) = changed[-1]["server_list"]
    chips = [(one["rank_id"], one["device_id"]) for one in server["device"]]
    assert chips == [
        ("0", "0"),
        ("1", "7"),
        *((str(one), str(one)) for one in range(2, 7)),
    ]


@pytest.mark.parametrize(
    "command",
    [
        ["subset", "--ranks", "0-3"],
        ["plan", "--tp", "2", "-o", "better.json", "--bytes", "tp=1GiB"],
    ],
)
def test_one_group_of_several_is_taken_by_name(run: Run, command: list[str]) -> None:
    start = ("ranktable", command[0], str(GROUPS), *command[1:])
    one = run(*start, "--server-group", "2")
    none = run(*start)
    other = run(*start, "--server-group", "9")

    assert (one.status, none.status, other.status) == (0, 2, 2), one.err
    assert "help: take one with --server-group NAME" in none.err
    assert "there is no group 9 with devices; there are: 2, 3" in other.err


@pytest.mark.parametrize("command", [["mesh", "--tp", "2"], ["plan", "--tp", "2"]])
def test_every_group_is_shown_unless_one_is_named(run: Run, command: list[str]) -> None:
    start = ("ranktable", command[0], str(GROUPS), *command[1:])
    every = run(*start)
    data = run(*start, "--format", "json")
    one = run(*start, "--server-group", "2")

    assert (every.status, data.status, one.status) == (0, 0, 0), every.err
    titles = [line for line in every.out.splitlines() if "8 ranks = tp 2" in line]
    assert [line.split(": ")[0] for line in titles] == [
        f"{GROUPS}, group 2",
        f"{GROUPS}, group 3",
    ]
    found = json.loads(data.out)["server_groups"]
    assert {name: one["world_size"] for name, one in found.items()} == {
        "group-2": 8,
        "group-3": 8,
    }
    assert "group 3" not in one.out


def test_sizes_that_do_not_fit_name_the_group(run: Run) -> None:
    done = run("ranktable", "mesh", str(GROUPS), "--tp", "16")

    assert done.status == 2
    assert done.err.startswith("ranktable: group 2: tp 16")


def test_differences_are_shown_group_by_group(run: Run, tmp_path: Path) -> None:
    changed = json.loads(GROUPS.read_text())
    first, last = changed["server_group_list"][2]["server_list"][0]["device"][:2]
    first["rank_id"], last["rank_id"] = last["rank_id"], first["rank_id"]
    fewer = json.loads(GROUPS.read_text())
    del fewer["server_group_list"][3]
    tables = {"moved": changed, "fewer": fewer}
    for name, table in tables.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(table))

    same = run("ranktable", "diff", str(GROUPS), str(GROUPS))
    moved = run("ranktable", "diff", str(GROUPS), "moved.json", "--format", "json")
    alone = run("ranktable", "diff", "fewer.json", str(GROUPS))

    assert (same.status, moved.status, alone.status) == (0, 1, 1), moved.err
    assert same.out.count("say the same: 1 node, 8 ranks") == 2
    found = json.loads(moved.out)["server_groups"]
    assert [found["group-2"]["same"], found["group-3"]["same"]] == [False, True]
    assert f"{GROUPS}, group 3: only there\n" in alone.out


def test_coordinator_that_is_gone_is_a_difference(run: Run, tmp_path: Path) -> None:
    table = json.loads(GROUPS.read_text())
    del table["server_group_list"][0]
    (tmp_path / "t.json").write_text(json.dumps(table))
    done = run("ranktable", "diff", str(GROUPS), "t.json")
    named = run("ranktable", "diff", str(GROUPS), "t.json", "--server-group", "2")

    assert (done.status, named.status) == (1, 0)
    assert "also differs: servers without chips" in done.out


def test_pods_of_a_group_on_one_host_become_one_server(
    run: Run, tmp_path: Path
) -> None:
    pods = [
        {
            "server_id": "10.30.0.1",
            "server_ip": f"10.40.0.{pod}",
            "device": [
                {
                    "device_id": str(rank),
                    "device_ip": f"10.0.0.{rank + 1}",
                    "rank_id": str(rank),
                }
                for rank in (2 * pod, 2 * pod + 1)
            ],
        }
        for pod in range(2)
    ]
    group = {"group_id": "2", "server_count": "2", "server_list": pods}
    table = {"version": "1.0", "status": "completed", "server_group_list": [group]}
    (tmp_path / "t.json").write_text(json.dumps(table))

    done = run("ranktable", "convert", "t.json", "--to", "hccl-1.0", "-o", "-")
    split = run("ranktable", "split", "t.json", "--by", "group", "-o", "parts")

    assert (done.status, split.status) == (0, 0), done.err + split.err
    assert (tmp_path / "parts" / "group-2.json").read_text() == done.out
    (server,) = json.loads(done.out)["server_list"]
    assert [one["rank_id"] for one in server["device"]] == ["0", "1", "2", "3"]


class TestMergingGroups:
    """Files of groups are merged group by group."""

    def merged(
        self, run: Run, tmp_path: Path, tables: list[Any], *options: str
    ) -> tuple[Outcome, Any]:
        for place, table in enumerate(tables):
            (tmp_path / f"{place}.json").write_text(json.dumps(table))
        names = [f"{place}.json" for place in range(len(tables))]
        done = run("ranktable", "merge", *names, "-o", "t.json", *options)
        file = tmp_path / "t.json"
        return done, json.loads(file.read_text()) if file.exists() else None

    def server(self, number: int, ranks: list[int]) -> dict[str, Any]:
        chips = [
            {
                "device_id": str(place),
                "device_ip": f"10.0.{number}.{place + 1}",
                "rank_id": str(rank),
            }
            for place, rank in enumerate(ranks)
        ]
        host = {"server_id": f"10.30.0.{number}", "server_ip": f"10.40.0.{number}"}
        return {**host, "device": chips} if chips else host

    def table(self, **groups: list[dict[str, Any]]) -> dict[str, Any]:
        listed = [
            {
                "group_id": name[1:],
                "server_count": str(len(servers)),
                "server_list": servers,
            }
            for name, servers in groups.items()
        ]
        return {"version": "1.0", "status": "completed", "server_group_list": listed}

    def test_parts_of_every_server_make_the_table(
        self, run: Run, tmp_path: Path
    ) -> None:
        split = run("ranktable", "split", str(GROUPS), "-o", "parts")
        files = sorted(map(str, (tmp_path / "parts").iterdir()), reverse=True)
        merged = run("ranktable", "merge", *files, "-o", "t.json")

        assert (split.status, merged.status) == (0, 0), merged.out
        assert len(files) == 4
        before = json.loads(GROUPS.read_text())
        assert json.loads((tmp_path / "t.json").read_text()) == before

    def test_group_in_two_files_has_the_servers_of_both(
        self, run: Run, tmp_path: Path
    ) -> None:
        boss = self.server(9, [])
        first = self.table(g0=[boss], g2=[self.server(1, [0, 1])])
        other = self.table(
            g0=[boss], g2=[self.server(2, [2, 3])], g3=[self.server(3, [0])]
        )
        done, table = self.merged(run, tmp_path, [first, other])

        assert done.status == 0, done.out
        assert table == self.table(
            g0=[boss],
            g2=[self.server(1, [0, 1]), self.server(2, [2, 3])],
            g3=[self.server(3, [0])],
        )

    def test_pods_of_one_host_with_other_chips_are_not_one_server(
        self, run: Run, tmp_path: Path
    ) -> None:
        pods = [self.server(1, [0, 1]), self.server(1, [2, 3])]
        for place, chip in enumerate(pods[1]["device"]):
            chip |= {"device_id": str(2 + place), "device_ip": f"10.0.2.{place}"}
        tables = [self.table(g2=[pod]) for pod in pods]
        done, table = self.merged(run, tmp_path, tables)

        assert done.status == 0, done.out
        assert table == self.table(g2=pods)

    def test_ranks_that_clash_are_counted_anew_when_asked(
        self, run: Run, tmp_path: Path
    ) -> None:
        tables = [self.table(g2=[self.server(one, [0, 1])]) for one in (1, 2)]
        refused, nothing = self.merged(run, tmp_path, tables)
        done, table = self.merged(run, tmp_path, tables, "--renumber")

        assert (refused.status, nothing, done.status) == (1, None, 0), done.out
        assert "1.json:1:" in refused.out
        assert "error[RT231] the ranks 0, 1 are also in 0.json" in refused.out
        assert table == self.table(g2=[self.server(1, [0, 1]), self.server(2, [2, 3])])

    @pytest.mark.parametrize(
        ("other", "code"),
        [
            ({"version": "1.2"}, "RT233"),
            ({"deploy_server": "2"}, "RT233"),
            ({"server_id": "10.30.0.1", "server_ip": "10.40.0.1"}, "RT230"),
            ({"device_ip": "10.0.1.1"}, "RT230"),
            ({"rank_id": "5"}, "RT234"),
        ],
    )
    def test_what_does_not_go_together_is_refused_once(
        self, run: Run, tmp_path: Path, other: dict[str, str], code: str
    ) -> None:
        first, second = (
            self.table(g2=[self.server(1, [0, 1])]),
            self.table(g2=[self.server(2, [2, 3])]),
        )
        (group,) = second["server_group_list"]
        (server,) = group["server_list"]
        chip = server["device"][1]
        first["server_group_list"][0]["deploy_server"] = "1"
        group["deploy_server"] = "1"
        for key, value in other.items():
            holder = next(
                (one for one in (second, group, server, chip) if key in one), None
            )
            assert holder is not None
            holder[key] = value
        done, table = self.merged(run, tmp_path, [first, second], "--format", "json")

        assert (done.status, table) == (1, None)
        found = [
            one for file in json.loads(done.out)["files"] for one in file["diagnostics"]
        ]
        assert [one["code"] for one in found] == [code], done.out
        assert found[0]["location"]["line"] == 1


@pytest.mark.parametrize("file", [GROUPS, PODS])
def test_empty_name_of_a_group_is_refused(run: Run, file: Path) -> None:
    for command in ("mesh FILE --tp 2", "renumber FILE --policy shift"):
        words = command.replace("FILE", str(file)).split()
        done = run("ranktable", *words, "--server-group", "")

        assert (done.status, done.out) == (2, "")
        assert "--server-group is empty; give the name of a group" in done.err


def test_group_is_written_back_as_it_was_spelt(run: Run, tmp_path: Path) -> None:
    def server(number: int, chips: list[dict[str, Any]]) -> dict[str, Any]:
        address = f"10.0.0.{number}"
        return {"device": chips, "server_id": address, "server_ip": address}

    def chip(server: int, rank: int) -> dict[str, Any]:
        address = f"10.0.{server}.{rank}"
        return {"rank_id": rank, "device_id": rank % 2, "device_ip": address}

    servers = [
        server(3, [chip(3, 2), chip(3, 3)]),
        server(9, []),
        server(1, [chip(1, 0), chip(1, 1)]),
    ]
    group = {"group_id": 2, "server_count": 3, "server_list": servers}
    table = {"version": "1.0", "status": "completed", "server_group_list": [group]}
    (tmp_path / "t.json").write_text(json.dumps(table))
    command = "renumber t.json -i --policy shift --drop-ranks 1"
    done = run("ranktable", *command.split())

    del servers[2]["device"][1]
    for place, one in enumerate(servers[0]["device"]):
        one["rank_id"] = 1 + place
    assert done.status == 0, done.err
    written = (tmp_path / "t.json").read_text()
    assert json.dumps(json.loads(written)) == json.dumps(table)


@pytest.mark.parametrize(
    "command",
    [
        "split t.json --by group -o parts",
        "convert t.json --to hccl-1.0 -o parts",
        "mesh t.json --dp -1 --server-group 2-0",
    ],
)
def test_two_tables_of_a_table_of_groups_do_not_have_one_name(
    run: Run, tmp_path: Path, command: str
) -> None:
    table = json.loads(GROUPS.read_text())
    *_, first, second = table["server_group_list"]
    (server,) = first["server_list"]
    other = json.dumps(server).replace("10.30.7.12", "10.30.7.14")
    other = other.replace('"device_ip": "10.', '"device_ip": "11.')
    del first["super_pod_list"], second["super_pod_list"]
    first |= {"server_count": "2", "server_list": [server, json.loads(other)]}
    second["group_id"] = "2-0"
    (tmp_path / "t.json").write_text(json.dumps(table))

    done = run("ranktable", *command.split())

    assert (done.status, (tmp_path / "parts").exists()) == (2, False)
    assert (
        "the groups 2 and 2-0 would both have a table with the name group-2-0"
        in done.err
    )


def test_group_of_another_format_is_refused(run: Run) -> None:
    done = run("ranktable", "mesh", str(PODS), "--tp", "2", "--server-group", "2")

    assert done.status == 2
    assert "is not a table of groups" in done.err


@pytest.mark.parametrize("name", [one for one in names() if one != "mindie"])
def test_every_command_takes_every_format_or_says_what_to_do(
    run: Run, name: str, tmp_path: Path
) -> None:
    (tmp_path / "t.json").write_text(json.dumps(by_name(name).example))
    changing = [
        *("split t.json -o parts", "subset t.json --ranks 0"),
        "renumber t.json --policy stable",
    ]
    looking = ("diff t.json t.json", "mesh t.json --dp -1", "plan t.json --dp -1")
    always = ("show t.json", "digest t.json", f"schema {name}", "validate t.json")
    no_ranks = {
        *("kubernetes", "hccl-topology", "hccl-changed", "local-comm-res"),
        *("hccl-roles", "paddle-topology"),
    }

    for command in (*changing, *looking, *always):
        done = run("ranktable", *command.split())
        is_refused = command not in always and name in no_ranks
        if command in changing and name == "hccl-rootinfo":
            is_refused = True
        assert done.status == (2 if is_refused else 0), (command, done.err)
        if is_refused:
            assert "\nhelp: " in done.err or "ranktable convert --to" in done.err


def test_groups_become_files(run: Run, tmp_path: Path) -> None:
    source = str(VALID / "clusterd_global_a3.json")
    folder = tmp_path / "groups"
    done = run("ranktable", "split", source, "--by", "group", "-o", str(folder))

    assert (done.status, done.err) == (0, f"wrote 2 files to {folder}\n")
    sizes = {path.name: ranktable.load(path).world_size for path in folder.iterdir()}
    assert sizes == {"group-2.json": 8, "group-3.json": 8}


def test_tables_do_not_go_into_a_folder_without_a_name(run: Run) -> None:
    source = str(VALID / "clusterd_global_a3.json")
    done = run("ranktable", "convert", source, "--to", "sccl-1.0", "-o", "")

    assert done.status == 2
    assert done.err == "ranktable: --output is empty; name a folder for the tables\n"


def test_tables_do_not_go_into_a_folder_that_a_link_lacks(
    run: Run, tmp_path: Path
) -> None:
    source = str(VALID / "clusterd_global_a3.json")
    folder = tmp_path / "link"
    folder.symlink_to(tmp_path / "nothing")
    done = run("ranktable", "convert", source, "--to", "hccl-1.2", "-o", str(folder))

    assert done.status == 2
    assert f"{folder}/group-2.json: no such file or directory\n" in done.err
    assert list(tmp_path.iterdir()) == [folder]


@pytest.mark.parametrize(
    ("name", "also", "message"),
    [
        ("hccl10_1s1p.json", [], "is not a table of groups; --by node splits it"),
        ("clusterd_global_a3.json", ["--renumber"], "--renumber goes with --by node"),
    ],
)
def test_what_is_not_of_groups_is_not_split_by_them(
    run: Run, name: str, also: list[str], message: str
) -> None:
    done = run("ranktable", "split", str(VALID / name), "--by", "group", *also)

    assert done.status == 2
    assert message in done.err


def test_subset_has_its_own_super_pods_and_ranks(run: Run) -> None:
    done = run("ranktable", "subset", str(PODS), "--ranks", "16-17,0")
    table = ranktable.loads(done.out)

    assert (done.status, done.err) == (0, "")
    assert (table.chip_map, table.hosts) == ([0, 1, 0], ("sp1-node0", "sp0-node0"))
    assert json.loads(done.out)["super_pod_list"] == [
        {"super_pod_id": str(pod), "server_list": [{"server_id": f"sp{pod}-node0"}]}
        for pod in (0, 1)
    ]


def test_subset_of_version_2_keeps_its_layers(run: Run) -> None:
    done = run("ranktable", "subset", str(V2), "--ranks", "2-3")

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
        ("subset t.json --ranks 0-7 -o out.json", "out.json"),
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
    run("ranktable", "spares", "a.json", "--add", "n9", "--new", "-o", "t.json")
    run("ranktable", "split", "t.json", "-o", "parts")
    done = run("ranktable", *command.split())

    part = ranktable.load(tmp_path / written)
    assert done.status == 0, done.err
    assert dict(part.extra) == {"topology": "sophgo-8"}
    assert "RT509" not in ranktable.check(tmp_path / written).totals


def test_merge_puts_the_layout_and_the_spares_together_again(
    run: Run, tmp_path: Path
) -> None:
    chips = ("--device-id", "[[0,1],[0,1]]", "--hosts", "a,b", "--tp", "2")
    run("ranktable", "gen", *chips, "-o", "a.json")
    run("ranktable", "spares", "a.json", "--add", "n9", "--new", "-o", "t.json")
    run("ranktable", "split", "t.json", "-o", "parts")
    files = ("parts/a.json", "parts/b.json", "--renumber", "-o", "again.json")
    run("ranktable", "merge", *files)
    run("ranktable", "subset", "t.json", "--ranks", "2,3,0,1", "-o", "turned.json")

    data = (tmp_path / "t.json").read_bytes()
    turned = ranktable.load(tmp_path / "turned.json")
    assert (tmp_path / "again.json").read_bytes() == data
    assert turned.extra == ranktable.load(tmp_path / "t.json").extra


@pytest.mark.parametrize("ranks", ["32", "3-1", "x", "1,1", "", "0-999999999"])
def test_ranks_that_are_not_there_are_refused(run: Run, ranks: str) -> None:
    done = run("ranktable", "subset", str(PODS), "--ranks", ranks)

    assert (done.status, done.out) == (2, "")
    assert "--ranks" in done.err


def test_root_information_becomes_a_table_of_version_2(run: Run) -> None:
    source = VALID / "hccl_rootinfo_a5.json"
    refused = run("ranktable", "subset", str(source), "--ranks", "0")
    done = run("ranktable", "convert", str(source), "--to", "hccl-2.0")

    before = json.loads(source.read_text())
    assert "ranktable convert --to hccl-2.0 makes a rank table" in refused.err
    assert done.err == ("warning: hccl-2.0 cannot hold: topo_file_path of the table\n")
    made = json.loads(done.out)
    assert made["rank_list"] == before["rank_list"]
    assert set(made) == {"version", "rank_count", "rank_list"}


def test_mesh_says_which_ranks_run_on_a_host(run: Run) -> None:
    shown = run("ranktable", "mesh", str(HETEROGENEOUS)).out
    one = run("ranktable", "mesh", str(HETEROGENEOUS), "--rank", "1").out

    assert "dp/0: ranks 0-3, chips 0,host,0,host" in shown
    assert "   1  172.20.3.40  host   1\n" in shown
    assert one.startswith("rank 1: node 0 (172.20.3.40), on the host, dp 1\n")


def test_file_that_is_not_there_is_not_called_unsound(run: Run) -> None:
    done = run("ranktable", "digest", "nowhere.json")

    assert (done.status, done.out) == (2, "")
    assert done.err.startswith(
        "ranktable: the table cannot be read\nnowhere.json: RT001"
    )


def test_misspelt_status_of_a_placeholder_is_not_waited_for(
    run: Run, tmp_path: Path
) -> None:
    (tmp_path / "t.json").write_text('{"status": "complete"}', encoding="utf-8")
    done = run("ranktable", "wait", "t.json", "--timeout", "600")

    assert done.status == 2  # at once, as no test lets a command run for that long
    assert 'its status is "complete", which never becomes' in done.err


def test_misspelt_status_is_not_waited_for(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "t.json"
    file.write_text(PODS.read_text().replace("completed", "complete"))
    done = run("ranktable", "wait", str(file), "--timeout", "600")

    assert done.status == 2
    assert 'its status is "complete"' in done.err


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
    added = ("--add", "parts/sp1-node1.json", "--tp", "4", "-o", "four.json")
    done = run("ranktable", "grow", without_last_server, *added)

    assert done.status == 0, done.err
    grown = json.loads((tmp_path / "four.json").read_text())
    del grown["layout"]
    assert grown == json.loads(PODS.read_text())


def test_super_pod_of_a_new_server_is_asked_for(
    run: Run, without_last_server: str, tmp_path: Path
) -> None:
    grow = ["ranktable", "grow", without_last_server, "--add", "./bare.json"]
    grow += ["--tp", "4", "-o", "four.json"]
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
        *("ranktable", "grow", without_last_server, "--add", "./bare.json"),
        *("--tp", "4", "--pod", "1", "-o", "four.json"),
    )

    assert (done.status, done.out) == (2, "")
    assert done.err == (
        f"ranktable: {len(ids)} chips of sp1-node1 have the super_device_id of others "
        f"of super pod 1: {ids[0]} is one of sp1-node0\n"
    )


def test_a_host_with_two_pods_of_a_group_is_taken_out_whole(
    run: Run, tmp_path: Path
) -> None:
    servers = [
        {
            "server_id": host,
            "server_ip": host,
            "pod_name": pod,
            "device": [
                {
                    "device_id": str(chip),
                    "device_ip": f"10.{host[-1]}.0.{chip + 1}",
                    "rank_id": str(rank),
                }
                for chip, rank in ((first % 4, first), (first % 4 + 1, first + 1))
            ],
        }
        for host, pod, first in (
            ("10.9.0.1", "a", 0),
            ("10.9.0.1", "b", 2),
            ("10.9.0.2", "c", 4),
        )
    ]
    group = {"group_id": "2", "server_count": "3", "server_list": servers}
    table = {"version": "1.0", "status": "completed", "server_group_list": [group]}
    (tmp_path / "t.json").write_text(json.dumps(table))
    command = ("ranktable", "renumber", "t.json", "--policy", "fill", "--drop")

    both = run(*command, "10.9.0.1", "-o", "one.json")
    other = run(*command, "10.9.0.2", "-o", "two.json")

    assert (both.status, other.status) == (0, 0), both.err + other.err
    names = {}
    for name in ("one.json", "two.json"):
        (left,) = json.loads((tmp_path / name).read_text())["server_group_list"]
        names[name] = [server["pod_name"] for server in left["server_list"]]
    assert names == {"one.json": ["c"], "two.json": ["a", "b"]}


def test_pod_of_a_table_without_super_pods_is_refused(run: Run) -> None:
    source = VALID / "hccl10_a2_uneven_8_6.json"
    add = ("--add", str(VALID / "hccl10_1s1p.json"), "--pod", "1", "--dp", "-1")
    done = run("ranktable", "grow", str(source), *add)

    assert done.status == 2
    assert "--pod: the table has no super pods" in done.err


def test_collective_id_of_1_1_is_asked_for(run: Run) -> None:
    source = str(VALID / "hccl10_a2_uneven_8_6.json")
    convert = ("ranktable", "convert", source, "--to", "hccl-1.1")
    servers = ("--server-id", "10.9.0.[1-2]")
    refused = run(*convert, *servers)
    done = run(*convert, *servers, "--collective-id", "job")

    assert refused.status == 2
    assert "help: give --collective-id NAME" in refused.err
    assert done.status == 0, done.err
    table = ranktable.loads(done.out)
    assert (table.format, table.world_size) == ("hccl-1.1", 14)
    assert table.chip_map == ranktable.load(source).chip_map


def test_name_of_a_host_is_not_an_address_for_gaudi(run: Run) -> None:
    done = run("ranktable", "convert", str(PODS), "--to", "gaudi-hcl")

    assert done.status == 2
    assert "help: give them in the order of the nodes: --server-id LIST" in done.err


def test_list_of_config_maps_is_validated_as_a_table(run: Run, tmp_path: Path) -> None:
    inner = (VALID / "hccl10_1s1p.json").read_text()
    one = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"hccl.json": inner}}
    listed = {"apiVersion": "v1", "kind": "List", "items": [one]}
    (tmp_path / "t.json").write_text(json.dumps(listed))

    assert run("ranktable", "validate", "t.json").out == "t.json: sound\n"


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


def test_table_with_spares_before_its_servers_is_decoded_fast(
    run: Run, tmp_path: Path
) -> None:
    less = tmp_path / "less.json"
    result = run(
        "ranktable",
        "shrink",
        str(PODS),
        "--drop",
        "sp0-node1",
        "--tp",
        "16",
        "-o",
        str(less),
    )
    data = less.read_bytes()

    assert result.status == 0
    assert data.index(b"spare_list") < data.index(b"server_list")
    assert decode_any(data) is not None
