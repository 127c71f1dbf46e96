"""``ranktable plan``: the table of the worked example, better tables, refusals."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

import ranktable
from ranktable.cluster.generate import make_table
from tests.conftest import CORPUS

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Outcome, Run


HOSTS = tuple(f"n{node}" for node in range(1, 9))
MODEL = ("--model", "32x4096", "--seq", "4096", "--micro", "16")
LAYOUT = ("--tp", "4", "--pp", "4")
# Two racks, and the nodes of either in turn: the example's 0,4,1,5,2,6,3,7.
TWO_RACKS = "host rack\nn[1,3,5,7] r1\nn[2,4,6,8] r2\n"
DEFAULT = """\
t.json: 8 nodes, 2 racks, 64 ranks = tp 4 x dp 4 x pp 4, order tp-cp-ep-dp-pp

axis         groups  size  inside node  inside rack  spread  rail  nod\
e GiB  as ring  rack GiB  as ring
tp               16     4        16/16        16/16     1/1     -     \
 0.00     0.00      0.00     0.00
dp               16     4         0/16        16/16     2/1   yes     \
36.00    54.00      0.00     0.00
pp               16     4         0/16         0/16     4/2   yes     \
12.00    12.00      4.00     4.00
total                                                                 \
48.00    66.00      4.00     4.00
lower bound                                                           \
48.00               4.00
above it                                                            op\
timal            optimal
busiest                                                               \
 6.50               2.00

nothing can cross less, so the nodes stay in their order
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    table = make_table([range(8)] * 8, hosts=HOSTS)
    ranktable.dump(table, tmp_path / "t.json")
    (tmp_path / "racks").write_text(TWO_RACKS)
    return tmp_path


def plan(run: Run, *options: str, **more: object) -> Outcome:
    return run("ranktable", "plan", "t.json", *LAYOUT, *options, **more)


@pytest.mark.usefixtures("folder")
def test_worked_example_is_printed_digit_by_digit(run: Run) -> None:
    shown = plan(run, "--racks", "rack=4", *MODEL)

    assert (shown.status, shown.err) == (0, "")
    assert shown.out == DEFAULT


@pytest.mark.usefixtures("folder")
def test_bytes_that_are_given_say_the_same(run: Run) -> None:
    sizes = "tp=16GiB,dp=2.25GiB,pp=256MiB"

    assert plan(run, "--racks", "rack=4", "--bytes", sizes).out == DEFAULT


def test_node_order_is_written_in_a_new_table(run: Run, folder: Path) -> None:
    shown = plan(run, "--racks", "racks", *MODEL, "-o", "new.json")
    table = ranktable.load(folder / "new.json")

    assert shown.status == 0
    assert shown.err == "wrote new.json: 8 nodes, 64 ranks\n"
    before, after = shown.out.split("\nwith the nodes in a better order:\n")
    assert before.splitlines()[-2].split()[2:] == ["optimal", "+32.00", "9.00x"]
    *_, total, _, above, _, _, order = after.splitlines()
    assert above.split()[2:] == ["optimal", "optimal"]
    assert total.split() == ["total", "48.00", "66.00", "4.00", "4.00"]
    assert order == "nodes in order: n1,n3,n5,n7,n2,n4,n6,n8"
    assert [node.host for node in table.nodes] == [
        *("n1", "n3", "n5", "n7", "n2", "n4", "n6", "n8")
    ]
    assert table.chip_map == [*range(8)] * 8
    assert [d.rank for node in table.nodes for d in node.devices] == [*range(64)]


def test_order_is_kept_where_nothing_is_gained(run: Run, folder: Path) -> None:
    shown = plan(run, "--racks", "rack=4", *MODEL, "-o", "new.json")

    assert shown.out == DEFAULT
    assert shown.err == "wrote new.json: 8 nodes, 64 ranks, in the old order\n"
    before, after = (ranktable.load(folder / one) for one in ("t.json", "new.json"))
    assert after.nodes == before.nodes
    assert after.extra == {
        "layout": "tp=4 pp=4 dp=4 order=tp-cp-ep-dp-pp ep_style=megatron"
    }


def test_file_is_replaced_with_force_only(run: Run, folder: Path) -> None:
    options = ("--racks", "racks", *MODEL, "-o", "new.json")
    (folder / "new.json").write_text("mine\n")
    refused = plan(run, *options)

    assert refused.status == 2
    assert "new.json holds something else; --force replaces it" in refused.err
    assert (folder / "new.json").read_text() == "mine\n"
    assert plan(run, *options, "--force").status == 0
    assert plan(run, *options).err == "unchanged new.json: 8 nodes, 64 ranks\n"
    over = plan(run, "--racks", "racks", *MODEL, "-o", "t.json")
    assert (over.status, "t.json holds something else" in over.err) == (2, True)


@pytest.mark.usefixtures("folder")
def test_table_may_go_to_standard_output(run: Run) -> None:
    shown = plan(run, "--racks", "racks", *MODEL, "-o", "-")

    assert ranktable.loads(shown.out).nodes[1].host == "n3"
    assert "with the nodes in a better order" in shown.err


@pytest.mark.usefixtures("folder")
def test_without_traffic_there_are_counts_only(run: Run) -> None:
    shown = plan(run, "--racks", "rack=4")

    assert shown.out.splitlines()[2:] == [
        "axis  groups  size  inside node  inside rack  spread  rail",
        "tp        16     4        16/16        16/16     1/1     -",
        "dp        16     4         0/16        16/16     2/1   yes",
        "pp        16     4         0/16         0/16     4/2   yes",
    ]


@pytest.mark.usefixtures("folder")
def test_links_show_which_groups_are_rings(run: Run) -> None:
    shown = plan(run, "--links", "sophgo-8")
    data = json.loads(plan(run, "--links", "sophgo-8", "--format", "json").out)

    assert shown.out.splitlines()[2].endswith("rail  rings")
    assert [line.split()[-1] for line in shown.out.splitlines()[3:]] == [
        "0/16",
        "-",
        "-",
    ]
    assert data["before"]["axes"][0]["rings"] == {
        "groups": 16,
        "closed": 0,
        "hops": 128,
    }


@pytest.mark.usefixtures("folder")
def test_embedding_groups_are_shown_beside_links(run: Run) -> None:
    shown = plan(run, "--links", "sophgo-8", "--groups", "embedding")

    assert shown.status == 0, shown.err
    assert shown.out.splitlines()[-1].split() == [
        *("embedding", "16", "2", "0/16", "2", "yes", "-")
    ]


def test_rings_of_remembered_links_are_those_of_the_new_placement(
    run: Run, folder: Path
) -> None:
    options = ("--racks", "racks", *MODEL, "--format", "json")
    given = json.loads(plan(run, *options, "--links", "sophgo-8").out)
    table = ranktable.load(folder / "t.json")
    named = table.with_changes(extra={"topology": "sophgo-8"})
    ranktable.dump(named, folder / "t.json")
    remembered = json.loads(plan(run, *options).out)

    assert remembered["is_better"]
    assert remembered["after"] == given["after"]


@pytest.mark.usefixtures("folder")
def test_json_has_these_keys(run: Run) -> None:
    options = ("--racks", "racks", *MODEL)
    data = json.loads(plan(run, *options, "--format", "json").out)

    assert list(data) == [
        *("file", "world_size", "num_nodes", "layout", "boundaries", "flows"),
        *("before", "is_better", "after"),
        *("nodes_of_ranks", "node_order", "is_every_order_tried"),
    ]
    assert data["boundaries"] == [
        {"name": "node", "domains": 8, "lower_bound_bytes": 48 << 30},
        {"name": "rack", "domains": 2, "lower_bound_bytes": 4 << 30},
    ]
    assert data["flows"][1] == {
        "axes": "dp",
        "pattern": "reduce_scatter+all_gather",
        "bytes": 9 << 28,
        "wrap_bytes": 0,
    }
    assert data["before"]["axes"][1] == {
        "axes": "dp",
        "groups": 16,
        "group_size": 4,
        "is_rail_aligned": True,
        "at": {
            "node": {
                "inside": 0,
                "spread": 2,
                "bytes": 36 << 30,
                "flat_ring_bytes": 54 << 30,
            },
            "rack": {
                "inside": 0,
                "spread": 2,
                "bytes": 36 << 30,
                "flat_ring_bytes": 54 << 30,
            },
        },
    }
    assert data["before"]["totals"][1] == {
        "boundary": "rack",
        "bytes": 36 << 30,
        "flat_ring_bytes": 54 << 30,
        "above_lower_bound_bytes": 32 << 30,
        "is_optimal": False,
        "busiest": {"domain": "r1", "bytes": 18 << 30},
    }
    assert data["is_better"]
    assert data["after"]["totals"][1]["is_optimal"]
    order = (0, 2, 4, 6, 1, 3, 5, 7)
    assert data["nodes_of_ranks"] == [node for node in order for _ in range(8)]


def test_super_pods_of_the_table_are_a_boundary(run: Run, folder: Path) -> None:
    document = json.loads((folder / "t.json").read_text())
    for at, node in enumerate(document["node_list"]):
        node["super_pod_id"] = f"pod{at // 4}"
    (folder / "t.json").write_text(json.dumps(document))

    shown = plan(run, *MODEL)
    both = plan(run, *MODEL, "--racks", "rack=2", "--format", "json")

    assert shown.out.startswith("t.json: 8 nodes, 2 super pods, 64 ranks")
    assert [one["name"] for one in json.loads(both.out)["boundaries"]] == [
        *("node", "rack", "super pod")
    ]


def test_tables_of_hccl_are_laid_out_with_their_super_pods(
    run: Run, folder: Path
) -> None:
    good = str(CORPUS / "hccl" / "valid" / "hccl12_2pods_4s_32p.json")
    mixed = str(CORPUS / "hccl" / "valid" / "hccl10_ranks_listed_out_of_order.json")
    bad = str(CORPUS / "hccl" / "broken" / "rank_duplicate.json")
    outside = str(CORPUS / "hccl" / "broken" / "v12_pod_unknown_server.json")
    sent = ("--tp", "8", "--bytes", "tp=1GiB")

    shown = run("ranktable", "plan", good, *sent)
    mesh = run("ranktable", "mesh", mixed, "--tp", "2")
    twice = run("ranktable", "mesh", bad)
    podless = run("ranktable", "plan", outside)
    written = run("ranktable", "plan", good, *sent, "-o", "x.json")
    other = run("ranktable", "plan", str(CORPUS / "hccl/valid/hccl20_ipv4_2s4p.json"))

    assert "4 nodes, 2 super pods, 32 ranks = tp 8 x dp 4" in shown.out
    assert "tp/0: ranks 0,1, chips 0,1\n" in mesh.out
    assert (twice.status, "27:22: RT202 rank" in twice.err) == (1, True)
    assert "RT279" in podless.err
    assert written.status == 0
    assert ranktable.check(folder / "x.json").format == "hccl-1.2"
    assert (other.status, "4 ranks" in other.out) == (0, True)


def test_super_pod_of_a_node_is_no_unknown_key_and_is_not_made_up(
    run: Run, folder: Path
) -> None:
    document = json.loads((folder / "t.json").read_text())
    for at, node in enumerate(document["node_list"]):
        node["super_pod_id"] = f"pod{at // 4}"
    (folder / "t.json").write_text(json.dumps(document))

    run(
        "ranktable",
        *["fit", "t.json", "--lost", "n3", "--with", "other", "-o", "new.json"],
    )

    assert "RT117" not in ranktable.check(folder / "t.json").totals
    pods = [node.extra for node in ranktable.load(folder / "new.json").nodes]
    assert pods[1:4] == [{"super_pod_id": "pod0"}] * 3


def test_defects_of_a_topology_are_placed(run: Run, folder: Path) -> None:
    (folder / "bad.conf").write_text("SwitchName=s1 Nodes=n1\nSwitchName=s1 Node=n2\n")
    shown = plan(run, "--racks", "bad.conf")
    data = json.loads(plan(run, "--racks", "bad.conf", "--format", "json").out)

    assert (shown.status, shown.err) == (1, "")
    assert shown.out.startswith('bad.conf:2:15: error[RT146] "Node" is not known here')
    assert data["files"][0]["diagnostics"][0]["code"] == "RT146"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--model", "32"), "--model: '32' is not layers x hidden, as 32x4096"),
        (("--model", "32x4096"), "--model needs --seq and --micro to say"),
        (("--model", "32x4096", "--seq", "1"), "--model needs --micro to say"),
        (("--seq", "4096"), "--seq is about a model; give --model too"),
        (("--topk", "2"), "--topk is about a model"),
        ((*MODEL, "--bytes", "tp=1B"), "--model and --bytes say the same"),
        ((*MODEL, "--params", "x"), "--params: 'x' is not a number such as 70B"),
        ((*MODEL, "--params", "0"), "--params: '0' is not a number such as 70B"),
        (("--bytes", "tp"), "--bytes: 'tp' is not axes and bytes, as tp=16GiB"),
        (("--bytes", "=1GiB"), "--bytes: '=1GiB' is not axes and bytes"),
        (("--bytes", "tp=1GiB,tp=1GiB"), "--bytes: tp is given twice"),
        (("--bytes", "tp=16"), "'16' is not a number of bytes; write a number"),
        (("--bytes", "zz=16B"), "there is no axis 'zz'"),
        (("--bytes", "cp=16B"), "cp is 1, so nothing is sent along it"),
        (("-o", "x.json"), "the bytes that are sent are not known"),
        (("--racks", "nowhere"), "nowhere: RT001"),
        (("--racks", "rack=4,pod=6"), "6 nodes do not hold whole groups of 4"),
        (("--links", "nowhere"), "the topology cannot be used"),
        (("--order", "tp-pp"), "the order"),
        (("--preset", "jax", "--order", "tp-dp-pp"), "--preset is an order and"),
        (
            ("--model", "30x4096", *MODEL[2:]),
            "30 layers do not divide over pp 4; nearest: pp=3, pp=5, 28 layers or 32 l",
        ),
        (
            (*MODEL, "--interleave", "3"),
            "do not divide over pp 4 x interleave 3 = 12; nearest: 24 layers or 36",
        ),
        (("--pp", "1", *MODEL, "--interleave", "2"), "interleave is 2, and pp is 1"),
        (
            ("--cp", "4", "--model", "32x4096", "--seq", "4097", "--micro", "16"),
            "4097 tokens do not divide over cp 4; nearest: cp=1, cp=17, 4096 tokens",
        ),
        ((*MODEL, "-o", "no/x.json"), "the folder no does not exist"),
    ],
)
@pytest.mark.usefixtures("folder")
def test_wrong_usage_is_named(run: Run, options: tuple[str, ...], message: str) -> None:
    done = plan(run, *options)

    assert (done.status, message in done.err) == (2, True), done.err


def test_hosts_of_the_table_are_compared(run: Run, folder: Path) -> None:
    (folder / "racks").write_text("n1 a\n")
    unnamed = make_table([range(8)] * 8)
    ranktable.dump(unnamed, folder / "u.json")

    other = plan(run, "--racks", "racks")
    none = run("ranktable", "plan", "u.json", "--racks", "racks")

    assert (other.status, "racks has no n2, the host of node 1" in other.err) == (
        2,
        True,
    )
    assert (none.status, "node 0 has no host" in none.err) == (2, True)


def test_chips_that_links_lack_are_named(run: Run, folder: Path) -> None:
    ranktable.dump(make_table([range(10)]), folder / "ten.json")
    done = run("ranktable", "plan", "ten.json", "--links", "sophgo-8")

    assert (done.status, done.out) == (2, "")
    assert "chip 9 is not one of the 8 chips of sophgo-8" in done.err


def test_a_broken_table_is_a_defect(run: Run, folder: Path) -> None:
    (folder / "t.json").write_text("{}")

    assert plan(run).status == 1
    assert run("ranktable", "plan", "nowhere.json").status == 2


@pytest.mark.usefixtures("folder")
def test_groups_that_are_named_have_a_line_too(run: Run) -> None:
    shown = plan(run, "--groups", "embedding,tp-pp", *MODEL)
    rows = {
        line.split()[0]: line.split()[1:] for line in shown.out.splitlines() if line
    }

    assert rows["embedding"] == ["16", "2", "0/16", "2", "yes", "-", "-"]
    assert rows["tp-pp"][:4] == ["4", "16", "0/4", "4"]
    assert rows["total"] == ["48.00", "66.00"]
    assert "no axis 'embeding'" in plan(run, "--groups", "embeding").err


def test_small_cluster_says_that_every_order_was_tried(run: Run, folder: Path) -> None:
    ranktable.dump(make_table([range(8)] * 4, hosts=HOSTS[:4]), folder / "four.json")
    (folder / "uneven").write_text("host rack\nn1 r1\nn[2,3] r2\nn4 r1\n")
    options = ("--tp", "8", "--cp", "2", "--racks", "uneven")

    shown = run("ranktable", "plan", "four.json", *options, "--bytes", "cp=1GiB")

    assert shown.out.endswith(
        "nodes in order: n1,n4,n2,n3\nevery order of the 4 nodes was tried\n"
    )


def test_racks_may_be_those_of_a_cluster_spec(run: Run, folder: Path) -> None:
    spec = "nodes: n[1-8]\nchips: 8\nracks:\n  a: n[1,3,5,7]\n  b: n[2,4,6,8]\n"
    (folder / "cluster.yaml").write_text(spec)

    shown = plan(run, "--racks", "cluster.yaml", *MODEL)
    by_file = plan(run, "--racks", "racks", *MODEL)

    assert shown.status == 0, shown.err
    assert shown.out == by_file.out


def test_explanation_of_a_racks_finding_is_about_racks(run: Run, folder: Path) -> None:
    (folder / "bad.txt").write_text("n1 r1\nn1 r2\nn2\n")
    found = plan(run, "--racks", "bad.txt", "--format", "json")
    findings = json.loads(found.out)["files"][0]["diagnostics"]
    codes = [finding["code"] for finding in findings]

    pages = [run("ranktable", "explain", code).out for code in codes]

    assert codes == ["RT147", "RT146"]
    assert not any("MPI" in page for page in pages)
