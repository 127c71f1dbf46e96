"""``ranktable merge``: tables and probes of nodes become one table."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

import ranktable
from ranktable.cluster.generate import make_table
from ranktable.cluster.merge import host_key
from ranktable.cluster.probes.probe_line import NodeProbe, ProbedChip
from tests.commands import BIN, on_terminal, run_measured
from tests.conftest import CORPUS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tests.commands import Commands
    from tests.conftest import Outcome, Run

OUT = "merged.json"


def table(
    chips: Sequence[Sequence[int]], hosts: Sequence[str] | None = None, first: int = 0
) -> bytes:
    """Return a table whose ranks begin where they should."""
    made = make_table(chips, hosts=hosts)
    document = json.loads(ranktable.dumps(made))
    for node in document["node_list"]:
        for device in node["device_list"]:
            for key in ("rank", "world_rank"):
                device[key] = str(int(device[key]) + first)
    return json.dumps(document, indent=1).encode()


def put(folder: Path, **files: bytes) -> list[str]:
    for name, data in files.items():
        (folder / f"{name}.json").write_bytes(data)
    return [f"{name}.json" for name in files]


def probes(*hosts: str, chips: int = 2) -> bytes:
    lines = [
        NodeProbe(
            host=host,
            vendor="sophgo",
            model="BM1690",
            chips=tuple(ProbedChip(device_id=i) for i in range(chips)),
        ).to_line()
        for host in hosts
    ]
    return "".join(lines).encode()


def hosts_of(path: Path) -> list[str | None]:
    return [node.host for node in ranktable.load(path).nodes]


def codes(done: Outcome) -> list[str]:
    """Return the codes of findings in the json form."""
    found = json.loads(done.out)
    return [d["code"] for file in found["files"] for d in file["diagnostics"]]


# Tables


def test_parts_of_a_table_become_the_table(run: Run, tmp_path: Path) -> None:
    files = put(
        tmp_path,
        a=table([[0, 1]], ["n1"]),
        b=table([[2, 3], [4, 5]], ["n2", "n3"], first=2),
    )
    done = run("ranktable", "merge", *files, "-o", OUT)
    whole = make_table([[0, 1], [2, 3], [4, 5]], hosts=["n1", "n2", "n3"])

    assert (done.status, done.out) == (0, "")
    assert ranktable.load(tmp_path / OUT).digest() == whole.digest()
    assert done.err.endswith("wrote merged.json: 3 nodes, 6 ranks\n")
    assert "b.json:" in done.err  # RT505, the file of the second node
    assert "warning[RT505]" in done.err


def test_order_is_that_of_the_arguments_unless_another_is_asked_for(
    run: Run, tmp_path: Path
) -> None:
    put(
        tmp_path,
        a=table([[0]], ["n10"], first=1),
        b=table([[0]], ["n9"], first=2),
        c=table([[0]], ["n1"]),
    )
    files = ("a.json", "b.json", "c.json")
    orders = {
        (): ["n10", "n9", "n1"],
        ("--order", "given"): ["n10", "n9", "n1"],
        ("--order", "by-rank"): ["n1", "n10", "n9"],
        ("--order", "by-host"): ["n1", "n9", "n10"],
        ("--hosts", "n[9,1,10]"): ["n9", "n1", "n10"],
    }
    for options, expected in orders.items():
        done = run("ranktable", "merge", *files, *options, "-o", OUT, "--force")
        assert (done.status, hosts_of(tmp_path / OUT)) == (0, expected), options
        ranks = {
            node.host: node.devices[0].rank
            for node in ranktable.load(tmp_path / OUT).nodes
        }
        assert ranks == {"n1": 0, "n10": 1, "n9": 2}


def test_ranks_are_renumbered_only_when_asked(run: Run, tmp_path: Path) -> None:
    files = put(tmp_path, a=table([[0, 1]], ["n1"]), b=table([[3, 2]], ["n2"]))
    refused = run("ranktable", "merge", *files, "-o", OUT)
    exists = (tmp_path / OUT).exists()
    done = run("ranktable", "merge", *files, "-o", OUT, "--renumber")

    assert (refused.status, exists) == (1, False)
    assert refused.out.startswith(
        "b.json: error[RT231] the ranks 0, 1 of n2 are also in a.json\n"
    )
    assert done.status == 0
    assert ranktable.load(tmp_path / OUT).chip_map == [0, 1, 3, 2]


def test_rank_that_nobody_has_is_missing_over_all_files(
    run: Run, tmp_path: Path
) -> None:
    files = put(tmp_path, a=table([[0, 1]]), b=table([[0, 1]], first=4))
    done = run("ranktable", "merge", *files, "-o", OUT)

    assert done.status == 1
    assert "error[RT234] no file has the ranks 2, 3: 4 devices need" in done.out
    assert done.out.startswith("b.json:")


def test_ranks_need_not_be_in_one_file_each(run: Run, tmp_path: Path) -> None:
    # A file of two nodes whose ranks lie around those of another file.
    ends = json.loads(table([[0], [1]], ["n1", "n3"]))
    ends["node_list"][1]["device_list"][0].update(rank="2", world_rank="2")
    files = put(tmp_path, a=json.dumps(ends).encode(), b=table([[5]], ["n2"], first=1))
    done = run("ranktable", "merge", *files, "--order", "by-rank", "-o", OUT)

    assert done.status == 0, done.err
    assert ranktable.load(tmp_path / OUT).chip_map == [0, 5, 1]


SAME_NODE = {
    "host": (table([[0]], ["n1"]), table([[1]], ["n1"], first=1), '"n1"'),
    "address": (
        table([[0]]).replace(b'"rank"', b'"device_ip":"10.0.0.5","rank"', 1),
        table([[1]], first=1).replace(b'"rank"', b'"device_ip":"10.0.0.5","rank"', 1),
        '"10.0.0.5"',
    ),
}


@pytest.mark.parametrize("kind", SAME_NODE)
def test_same_node_in_two_files_is_refused(kind: str, run: Run, tmp_path: Path) -> None:
    first, second, name = SAME_NODE[kind]
    files = put(tmp_path, a=first, b=second)
    done = run("ranktable", "merge", *files, "-o", OUT, "--renumber")

    assert done.status == 1
    assert f"error[RT230] the {kind} {name} is also in a.json" in done.out
    assert done.out.startswith("b.json:")


def test_doubled_and_missing_nodes_are_found_in_one_run(
    run: Run, tmp_path: Path
) -> None:
    names = {f"n{i}": table([[0]], [f"n{i}"], first=i) for i in range(1, 16)}
    files = put(tmp_path, again=names["n5"], n0=table([[0]], ["n0"]), **names)
    files.remove("n7.json")
    ranks = run("ranktable", "merge", *files, "-o", OUT)
    lines = b"".join(probes(f"n{i}") for i in (*range(7), *range(8, 16), 5))
    listed = run("ranktable", "merge", "-", "--hosts=n[0-15]", "-o", OUT, given=lines)

    assert 'error[RT230] the host "n5" is also in again.json' in ranks.out
    assert "error[RT234] no file has rank 7: " in ranks.out
    assert 'error[RT230] the host "n5" is also in an earlier node' in listed.out
    assert "error[RT235] nothing came from 1 host of 16: n7" in listed.out


def test_same_file_under_two_names_is_refused(run: Run, tmp_path: Path) -> None:
    put(tmp_path, a=table([[0]]))
    (tmp_path / "b.json").symlink_to("a.json")
    done = run("ranktable", "merge", "a.json", "b.json", "--renumber", "-o", OUT)

    assert done.status == 1
    assert done.out.startswith(
        "b.json: error[RT230] the file is given twice, the first time as a.json\n"
    )


def test_two_named_hosts_with_the_loopback_address_are_two(
    run: Run, tmp_path: Path
) -> None:
    loopback = [
        table([[0]], first=rank).replace(
            b'"rank"', b'"device_ip":"127.0.0.1","rank"', 1
        )
        for rank in range(2)
    ]
    files = put(tmp_path, a=loopback[0], b=loopback[1])

    assert run("ranktable", "merge", *files, "-o", OUT, "--renumber").status == 0


def test_unequal_nodes_are_a_warning_and_strict_refuses_them(
    run: Run, tmp_path: Path
) -> None:
    files = put(
        tmp_path,
        a=table([[0, 1], [0, 1]], ["n1", "n2"]),
        b=table([[0]], ["n3"], first=4),
    )
    done = run("ranktable", "merge", *files, "-o", OUT)
    strict = run("ranktable", "merge", *files, "-o", "other.json", "--strict")

    message = "warning[RT232] n3 has 1 device; 2 of 3 nodes have 2"
    assert (done.status, message in done.err) == (0, True)
    assert (strict.status, message in strict.out) == (1, True)
    assert not (tmp_path / "other.json").exists()


def test_strict_takes_nodes_that_are_alike(run: Run, tmp_path: Path) -> None:
    done = run(
        "ranktable", "merge", "-", "--strict", "-o", OUT, given=probes("n1", "n2")
    )

    assert (done.status, "warning[RT505]" in done.err) == (0, True)
    assert hosts_of(tmp_path / OUT) == ["n1", "n2"]


def test_files_of_two_formats_are_refused(run: Run, tmp_path: Path) -> None:
    other = (CORPUS / "hccl" / "valid" / "hccl10_1s1p.json").read_bytes()
    files = put(tmp_path, a=table([[0]]), b=other)
    done = run("ranktable", "merge", *files, "-o", OUT)

    assert done.status == 1
    assert "error[RT233] the format is hccl-1.0, and sccl-1.0 in a.json\n" in done.out


def test_keys_of_the_whole_table_must_agree(run: Run, tmp_path: Path) -> None:
    def noted(note: bytes, first: int) -> bytes:
        data = table([[0]], first=first)
        return data.replace(b'"version"', b'"job":' + note + b',"version"', 1)

    same = put(
        tmp_path, a=noted(b'"x"', 0), b=noted(b'"x"', 1), c=table([[0]], None, 2)
    )
    other = put(tmp_path, d=noted(b'"y"', 1))
    done = run("ranktable", "merge", *same, "-o", OUT)
    refused = run("ranktable", "merge", same[0], *other, "-o", "other.json")

    assert done.status == 0
    assert ranktable.load(tmp_path / OUT).extra == {"job": "x"}
    assert refused.status == 1
    assert 'error[RT233] job is "y", and "x" in a.json' in refused.out


def test_unsound_file_is_reported_as_validate_would(run: Run, tmp_path: Path) -> None:
    files = put(
        tmp_path,
        a=table([[0]], ["n1"]),
        b=table([[0, 1]], ["n2"], first=1).replace(
            b'"device_id": "1"', b'"device_id": "0"'
        ),
        c=b'{"version":"1.0"',
    )
    done = run("ranktable", "merge", *files, "-o", OUT, "--format", "json")

    assert done.status == 1
    assert codes(done) == ["RT207", "RT103"]  # not that b.json does not begin at 0
    assert json.loads(done.out)["totals"]["errors"] == 2


def test_missing_file_cannot_be_judged(run: Run, tmp_path: Path) -> None:
    put(tmp_path, a=table([[0]]))
    done = run("ranktable", "merge", "a.json", "no.json", "-o", OUT)

    assert done.status == 2
    assert "no.json: error[RT001]" in done.out


def test_defect_that_only_the_whole_has_is_placed_in_its_file(
    run: Run, tmp_path: Path
) -> None:
    # Ranks dealt out in turn: each file is a part, but the nodes are not in order.
    def every_second(first: int) -> bytes:
        document = json.loads(table([[0, 1]], [f"n{first}"]))
        for place, device in enumerate(document["node_list"][0]["device_list"]):
            device.update(
                rank=str(2 * place + first), world_rank=str(2 * place + first)
            )
        return json.dumps(document, indent=1).encode()

    files = put(tmp_path, a=every_second(0), b=every_second(1))
    done = run("ranktable", "merge", *files, "-o", OUT)

    assert done.status == 1
    assert "a.json: error[RT503] rank 2 follows rank 0 in node 0" in done.out
    assert "b.json: error[RT503] rank 3 follows rank 1 in node 1" in done.out


def test_findings_of_many_files_are_bounded_and_counted(
    run: Run, tmp_path: Path
) -> None:
    files = put(tmp_path, **{f"f{i}": table([[0]]) for i in range(50)})
    done = run("ranktable", "merge", *files, "-o", OUT)
    every = run("ranktable", "merge", *files, "-o", OUT, "--max-errors", "0")

    assert len(done.out.splitlines()) == 21
    assert "found 49 errors" in done.out.splitlines()[-1]
    assert len(every.out.splitlines()) == 50


def test_table_is_printed_alone_and_findings_go_aside(run: Run, tmp_path: Path) -> None:
    files = put(tmp_path, a=table([[0]], ["n1"]), b=table([[0]], ["n2"], first=1))
    done = run("ranktable", "merge", *files, "-o", "-")
    refused = run("ranktable", "merge", files[0], files[0], "-o", "-")

    assert (done.status, ranktable.loads(done.out).world_size) == (0, 2)
    assert "RT505" in done.err
    assert (refused.status, refused.out) == (1, "")
    assert "RT230" in refused.err


def test_another_table_is_kept_unless_forced(run: Run, tmp_path: Path) -> None:
    files = put(tmp_path, a=table([[0]]), merged=table([[5]]))
    done = run("ranktable", "merge", files[0], "-o", OUT)
    forced = run("ranktable", "merge", files[0], "-o", OUT, "--force")
    again = run("ranktable", "merge", files[0], "-o", OUT)

    assert [done.status, forced.status, again.status] == [2, 0, 0]
    assert "holds a different table; --force replaces it" in done.err
    assert again.err.endswith("unchanged merged.json: 1 node, 1 rank\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "Missing argument"),
        (("-", "-"), "standard input can be read once"),
        (("a.json", "--order", "by-rank", "--hosts", "n1"), "do not go together"),
        (("a.json", "--hosts", "n[1"), "--hosts: this bracket is not closed"),
        (("a.json", "--hosts", "n1,n1"), "--hosts: the host n1 is given twice"),
        (("a.json", "--order", "by-host"), "--order by-host: 1 node of 1 has no host"),
        (("a.json", "--ring", "sophgo-8"), "--ring orders the chips of probes"),
        (("a.json", "--ring", "nowhere"), "the topology cannot be used"),
        (("a.json", "p.jsonl"), "p.jsonl holds lines of ranktable probe and a.json"),
        (("p.jsonl", "--order", "by-rank"), "--order by-rank: probes have no ranks"),
        (("a.json", "-o", "no/such.json"), "the folder no does not exist"),
    ],
)
def test_wrong_usage_exits_2_and_writes_nothing(
    arguments: tuple[str, ...],
    message: str,
    run: Run,
    tmp_path: Path,
) -> None:
    put(tmp_path, a=table([[0]]))
    (tmp_path / "p.jsonl").write_bytes(probes("n1"))
    done = run("ranktable", "merge", *arguments)

    assert (done.status, done.out) == (2, "")
    assert message in done.err
    assert len(list(tmp_path.iterdir())) == 2


# Probes


def test_probes_become_a_table_in_the_order_of_their_hosts(
    run: Run, tmp_path: Path
) -> None:
    given = probes("n10", "n2", "n1")
    done = run("ranktable", "merge", "-", "-o", OUT, given=given)
    told = run(
        "ranktable", "merge", "-", "--from-probes", "-o", "told.json", given=given
    )

    assert done.status == told.status == 0
    assert hosts_of(tmp_path / OUT) == ["n1", "n2", "n10"]
    assert ranktable.load(tmp_path / OUT).chip_map == [0, 1] * 3
    assert (tmp_path / OUT).read_bytes() == (tmp_path / "told.json").read_bytes()


def test_probes_in_the_order_that_is_given(run: Run, tmp_path: Path) -> None:
    given = probes("n10.site", "n2.site", "n1.site")
    run("ranktable", "merge", "-", "--order", "given", "-o", "a.json", given=given)
    run("ranktable", "merge", "-", "--hosts", "n[2,10,1]", "-o", "b.json", given=given)

    assert hosts_of(tmp_path / "a.json") == ["n10.site", "n2.site", "n1.site"]
    assert hosts_of(tmp_path / "b.json") == ["n2.site", "n10.site", "n1.site"]


def test_hosts_that_sent_nothing_are_named(run: Run) -> None:
    done = run(
        "ranktable", "merge", "-", "--hosts", "n[1-128]", "-o", OUT,
        given=probes("n1", "n77", "other"),
    )  # fmt: skip

    assert done.status == 1
    assert done.out.splitlines()[:2] == [
        "<stdin>: error[RT235] nothing came from 126 hosts of 128: n[2-76,78-128]",
        '<stdin>:3:19: error[RT235] "other" is not in --hosts',
    ]


def test_several_files_of_probes_are_one_list(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(probes("n2"))
    (tmp_path / "b.jsonl").write_bytes(probes("n1"))
    done = run("ranktable", "merge", "a.jsonl", "b.jsonl", "-o", OUT)
    twice = run("ranktable", "merge", "a.jsonl", "-", "-o", "x", given=probes("n2"))

    assert (done.status, hosts_of(tmp_path / OUT)) == (0, ["n1", "n2"])
    assert '<stdin>:1:19: error[RT230] the host "n2" is also in a.jsonl' in twice.out


def test_chip_that_two_hosts_have_is_one_node_under_two_names(run: Run) -> None:
    lines = [
        NodeProbe(host=host, chips=(ProbedChip(device_id=0, uuid="GPU-1"),)).to_line()
        for host in ("n1", "alias")
    ]
    done = run("ranktable", "merge", "-", "-o", OUT, given="".join(lines).encode())

    assert done.status == 1
    assert 'RT230] the chip "GPU-1" is also in an earlier node' in done.out


def test_node_without_chips_makes_no_table(run: Run) -> None:
    empty = NodeProbe(host="n2").to_line().encode()
    done = run("ranktable", "merge", "-", "-o", OUT, given=probes("n1") + empty)

    assert done.status == 1
    assert "<stdin>:2:" in done.out
    assert "error[RT143] no chips were found on n2" in done.out


def test_rings_are_made_of_the_chips_that_are_there(run: Run, tmp_path: Path) -> None:
    arguments = ("merge", "-", "--ring", "sophgo-8", "-o")
    done = run("ranktable", *arguments, OUT, given=probes("n1", "n2", chips=8))
    refused = run("ranktable", *arguments, "x", given=probes("n1", chips=7))

    assert done.status == 0
    assert ranktable.load(tmp_path / OUT).chip_map == [0, 2, 6, 7, 3, 1, 5, 4] * 2
    assert refused.status == 2
    assert "--ring: n1: the chips 0,1,2,3,4,5,6 do not form a ring" in refused.err


def test_addresses_of_chips_are_kept(run: Run, tmp_path: Path) -> None:
    chips = (ProbedChip(device_id=4, address="10.0.0.4"), ProbedChip(device_id=2))
    line = NodeProbe(host="a1", vendor="ascend", chips=chips).to_line().encode()
    run("ranktable", "merge", "-", "-o", OUT, given=line)
    devices = ranktable.load(tmp_path / OUT).nodes[0].devices

    assert [(d.device_id, d.address) for d in devices] == [(2, None), (4, "10.0.0.4")]


def test_nothing_on_standard_input_is_said(run: Run) -> None:
    for options in ((), ("--from-probes",)):
        done = run("ranktable", "merge", "-", *options, "-o", OUT)
        assert (done.status, "RT102" in done.out) == (1, True)


def test_hosts_are_in_the_order_of_their_numbers() -> None:
    hosts = ["r2n1", "r1n10", "r1n9", "login", "10.0.0.10", "10.0.0.9", "n01", "n1"]

    assert sorted(hosts, key=host_key) == [
        *("10.0.0.9", "10.0.0.10", "login", "n01", "n1"),
        *("r1n9", "r1n10", "r2n1"),
    ]


# Size and progress


@pytest.mark.slow
def test_cost_grows_with_the_number_of_nodes(tmp_path: Path) -> None:
    costs = []
    for count in (1_000, 8_000):
        path = tmp_path / f"{count}.jsonl"
        path.write_bytes(probes(*(f"n{i}" for i in range(count)), chips=8))
        costs.append(cpu_s("merge", str(path), "-o", str(tmp_path / f"{count}.json")))

    assert costs[1] < 8 * costs[0] * 1.6


def cpu_s(*arguments: str) -> float:
    """Return the CPU seconds that a command takes."""
    status, cost_s = run_measured([f"{BIN}/ranktable", *arguments])
    assert status == 0
    return cost_s


def test_progress_is_shown_on_a_terminal_and_erased(
    commands: Commands, tmp_path: Path
) -> None:
    put(tmp_path, a=table([[0]]))
    command = [f"{commands.folder}/ranktable", "merge", "a.json", "-o", OUT]
    said = on_terminal(command, tmp_path, stream="stderr").err

    assert "reading file 1 of 1" in said
    assert said.rindex("\x1b[2K") < said.index("wrote merged.json")


def test_no_progress_where_nobody_sees_it(
    run: Run, commands: Commands, tmp_path: Path
) -> None:
    put(tmp_path, a=table([[0]]))
    done = run("ranktable", "merge", "a.json", "-o", OUT)
    command = [f"{commands.folder}/ranktable", "merge", "a.json", "-o", OUT]
    dumb = on_terminal(command, tmp_path, stream="stderr", env={"TERM": "dumb"}).err

    assert "\r" not in done.err
    assert "unchanged merged.json" in dumb
    assert "\x1b" not in dumb


def test_a_folder_stands_for_its_tables(run: Run, tmp_path: Path) -> None:
    run("ranktable", "gen", "--device-id", "[[0,1],[0,1]]", "-o", "whole.json")
    run("ranktable", "split", "whole.json", "-o", "parts")
    (tmp_path / "parts" / "notes.txt").write_text("mine")
    done = run("ranktable", "merge", "parts", "-o", "again.json")
    digests = [
        run("ranktable", "show", "--digest", name).out.split()[0]
        for name in ("whole.json", "again.json")
    ]

    assert done.status == 0, done.out
    assert digests[0] == digests[1]


def test_damaged_files_of_a_folder_are_not_left_out(run: Run, tmp_path: Path) -> None:
    nodes = "[[0],[0],[0],[0]]"
    run("ranktable", "gen", "--device-id", nodes, "--hosts", "n[1-4]", "-o", "t.json")
    run("ranktable", "split", "t.json", "-o", "parts")
    (tmp_path / "parts" / "n3.json").write_bytes(b"")
    (tmp_path / "parts" / "n4.json").write_bytes(b"\x00\xff")
    (tmp_path / "parts" / "notes.txt").write_text("mine")

    done = run("ranktable", "merge", "parts", "-o", "again.json")

    assert done.status == 1
    assert done.err == "note: neither tables nor probes: parts/notes.txt\n"
    assert [line.split()[:2] for line in done.out.splitlines()[:-1]] == [
        ["parts/n3.json:", "error[RT102]"],
        ["parts/n4.json:1:2:", "error[RT005]"],
    ]
    assert not (tmp_path / "again.json").exists()
