"""``ranktable convert`` as an installed command."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

import ranktable
from ranktable.cluster import expand_hosts
from ranktable.cluster.generate import make_table, parse_device_list
from ranktable.cluster.hostfiles.launcher_formats import LAUNCHER_FORMATS

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Outcome, Run


READ = [form for form in LAUNCHER_FORMATS if form.read and form.write]
HOSTS = b"n1 slots=2\nn2 slots=2\n"
RANKS = b"rank 0=n1 slot=4\nrank 1=n1 slot=6\nrank 2=n2 slot=5\n"


def table(chips: str = "[[3,1],[0,1]]", hosts: str = "n[1-2]") -> bytes:
    nodes = [[chip.device_id for chip in node] for node in parse_device_list(chips)]
    return ranktable.dumps(make_table(nodes, hosts=expand_hosts(hosts) or None))


def convert(run: Run, given: bytes, *options: str) -> Outcome:
    return run("ranktable", "convert", "-", *options, given=given)


def test_table_becomes_a_rank_file_and_the_same_table_again(run: Run) -> None:
    before = table()
    there = convert(run, before, "--to", "openmpi-rankfile")
    back = convert(run, there.out.encode(), "--to", "sccl-1.0")

    assert (there.status, there.err) == (0, "")
    assert there.out.startswith("rank 0=n1 slot=3\n")
    assert (back.status, back.err) == (0, "")
    assert back.out.encode() == before


@pytest.mark.parametrize("form", READ, ids=lambda form: form.name)
def test_every_kind_is_written_and_read_back(form: object, run: Run) -> None:
    name = form.name  # type: ignore[attr-defined]
    there = convert(run, table("[[0,1],[0,1]]"), "--to", name)
    back = convert(run, there.out.encode(), "--from", name, "--to", "sccl-1.0")

    assert (there.status, back.status) == (0, 0)
    assert ranktable.loads(back.out).chip_map == [0, 1, 0, 1]


def test_defect_is_shown_with_its_line_and_the_status_is_1(run: Run) -> None:
    given = b"n1 slots=2\nn2 slots=x\n"
    done = convert(run, given, "--from", "openmpi-hostfile", "--to", "sccl-1.0")

    assert (done.status, done.out) == (1, "")
    assert "error[RT132]" in done.err
    assert "<stdin>:2:10" in done.err
    assert done.err.endswith("ranktable: <stdin> cannot be converted\n")


def test_warning_is_shown_beside_the_result(run: Run) -> None:
    given = b"n1 slots=2 more words\n"
    done = convert(run, given, "--from", "deepspeed", "--to", "mpich")

    assert (done.status, done.out) == (0, "n1:2\n")
    assert "warning[RT139]" in done.err
    assert done.err.endswith("found 1 warning\n")


@pytest.mark.parametrize("form", ["json", "sarif"])
def test_findings_have_forms_for_programs(form: str, run: Run) -> None:
    options = ("--from", "mpich", "--to", "slurm", "--format", form)
    done = convert(run, b"n1:x\n", *options)
    found = json.loads(done.err)

    assert (done.status, done.out) == (1, "")
    assert "RT132" in json.dumps(found)


@pytest.mark.parametrize(
    ("text", "kind", "left_out"),
    [
        (b"n1 slots=2 port=2222\n", "openmpi-hostfile", "ports"),
        (b"bob@n1 slots=2\n", "openmpi-hostfile", "user names"),
        (b"n1 slots=2 username=bob\n", "openmpi-hostfile", "user names"),
        (b"n1 slots=2 max_slots=4\n", "openmpi-hostfile", "maximums of slots"),
        (
            b"bob@n1 slots=1\nn2 slots=1 port=22\n",
            "openmpi-hostfile",
            "ports, user names",
        ),
        (b"n1:2 user=bob binding=rr\n", "mpich-machinefile", "bindings, user names"),
    ],
)
def test_what_has_no_place_in_the_result_is_named(
    text: bytes, kind: str, left_out: str, run: Run
) -> None:
    done = convert(run, text, "--from", kind, "--to", "slurm-nodelist")

    assert done.status == 0
    assert done.err == f"note: left out of what the file says: {left_out}\n"


def test_no_warning_if_nothing_is_left_out(run: Run) -> None:
    text = b"n1 slots=2\nn2\nn2\n"
    done = convert(run, text, "--from", "openmpi-hostfile", "--to", "slurm-nodelist")

    assert (done.status, done.out, done.err) == (0, "n[1-2] 2(x2)\n", "")


def test_findings_have_a_concise_form(run: Run) -> None:
    options = ("--from", "mpich", "--to", "slurm", "--format", "concise")
    done = convert(run, b"n1:x\n", *options)

    assert done.err.splitlines()[0] == (
        '<stdin>:1:4: error[RT132] "x" is not a number of processes'
    )


def test_control_characters_do_not_reach_the_terminal(run: Run) -> None:
    given = b"n\x1b[31m1 slots=2\n"
    done = convert(run, given, "--from", "deepspeed-hostfile", "--to", "mpich")

    assert done.status == 1
    assert "\x1b" not in done.err


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--to", "nothing"], "there is no format"),
        (["--to", "openmpi"], "may be openmpi-hostfile and openmpi-rankfile"),
        (["--to", "mpich", "--from", "sccl-9"], "there is no format"),
        (
            ["--to", "mpich", "--image", "i"],
            "mpich-machinefile does not use --image",
        ),
        (["--to", "sccl-1.0", "--port", "1"], "sccl-1.0 does not use --port"),
        (["--to", "mpich", "--hosts", "n[1-3]"], "3 hosts for 2 nodes"),
        (["--to", "mpich", "--hosts", "a,a"], "the host a is given twice"),
        (["--to", "mpich", "--hosts", "a["], "this bracket is not closed"),
        (
            ["--to", "mpich", "--chips-per-node", "3"],
            "has 2 slots and is given 3 chips",
        ),
        (["--to", "mpich", "--device-id", "[[0,1]]"], "chips are given for 1 node"),
        (["--to", "mpich", "--device-id", "[[0,0]]"], "chip 0 is listed twice"),
        (
            ["--to", "mpich", "--device-id", "[[0]]", "--chips-per-node", "1"],
            "do not go together",
        ),
        (["--to", "jobset"], "a container needs an image"),
        (["--to", "hccl-2.0"], "hccl-2.0 cannot be written from a table of"),
        (["--to", "mpich", "--from", "torchrun"], "torchrun is written only"),
        ([], "--to"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_sentence(
    options: list[str], reason: str, run: Run
) -> None:
    done = convert(run, table(), *options)

    assert (done.status, done.out) == (2, "")
    assert reason in done.err
    assert done.err.count("ranktable: ") == 1


def test_table_without_hosts_needs_names(run: Run) -> None:
    given = table(hosts="")
    refused = convert(run, given, "--to", "openmpi-hostfile")
    named = convert(run, given, "--to", "openmpi-hostfile", "--hosts", "a,b")

    assert refused.status == 2
    assert refused.err.startswith("ranktable: node 0 has no host, and an Open MPI host")
    assert named.out == "a slots=2\nb slots=2\n"


@pytest.mark.parametrize(
    ("options", "chips"),
    [
        ([], [0, 1, 0, 1]),
        (["--device-id", "[[4,5],[7,6]]"], [4, 5, 7, 6]),
        (["--chips-per-node", "2"], [0, 1, 0, 1]),
    ],
)
def test_host_file_becomes_a_table(
    options: list[str], chips: list[int], run: Run
) -> None:
    done = convert(
        run, HOSTS, "--from", "openmpi-hostfile", "--to", "sccl-1.0", *options
    )

    found = ranktable.loads(done.out)
    assert found.chip_map == chips
    assert [node.host for node in found.nodes] == ["n1", "n2"]
    assert ("--device-id names others" in done.err) == (options == [])


@pytest.mark.parametrize(
    "name", ["openmpi-hostfile", "mpich", "slurm", "srun", "torchrun"]
)
def test_chips_and_sizes_that_a_file_does_not_hold_are_listed(
    name: str, run: Run
) -> None:
    made = ("--device-id", "[[4,5]]", "--hosts=a", "--tp=2", "-o", "-")
    given = run("ranktable", "gen", *made).out
    done = convert(run, given.encode(), "--to", name)

    assert done.status == 0
    assert "cannot hold: layout of the table, the chip of 2 devices" in done.err


def test_deepspeed_host_file_is_read_back_with_as_many_ranks(run: Run) -> None:
    there = convert(run, table("[[0..1],[0..1]]"), "--to", "deepspeed")
    back = convert(run, there.out.encode(), "--from=deepspeed", "--to", "sccl")

    assert ranktable.loads(back.out).chip_map == [0, 1, 0, 1]
    assert there.err == ""


@pytest.mark.parametrize(
    ("chips", "slots", "selection"),
    [
        ("[[2,3],[2,3]]", [4, 4], "n1:2,3@n2:2,3"),
        ("[[0..3],[4,6]]", [4, 7], "n1@n2:4,6"),
        ("[[1,0],[0,1]]", [2, 2], "n1:1,0@n2"),
    ],
)
def test_deepspeed_is_told_which_chips_to_use(
    chips: str, slots: list[int], selection: str, run: Run
) -> None:
    done = convert(run, table(chips), "--to", "deepspeed")

    assert done.out == "".join(f"n{i} slots={n}\n" for i, n in enumerate(slots, 1))
    assert f"note: start with --include {selection};" in done.err
    assert "the chip of" not in done.err


def test_deepspeed_cannot_be_told_the_chips_of_a_name_with_a_colon(run: Run) -> None:
    done = convert(run, table("[[2,3]]", "fd00::1"), "--to", "deepspeed")

    assert done.out == "fd00::1 slots=2\n"
    assert "cannot hold: the chip of 2 devices" in done.err


def test_slots_of_a_rank_file_are_the_chips(run: Run) -> None:
    done = convert(run, RANKS, "--to", "sccl-1.0")

    assert ranktable.loads(done.out).chip_map == [4, 6, 5]
    assert done.err == ""


def test_interleaved_ranks_make_no_table(run: Run) -> None:
    given = b"rank 0=n1 slot=0\nrank 1=n2 slot=0\nrank 2=n1 slot=1\n"
    done = convert(run, given, "--to", "sccl-1.0")

    assert done.status == 2
    assert "the ranks of a node one after the other" in done.err


def test_unknown_size_of_a_host_is_asked_for(run: Run) -> None:
    refused = convert(run, b"n[1-2]\n", "--to", "slurm")
    named = convert(run, b"n[1-2]\n", "--to", "slurm", "--chips-per-node", "8")

    assert "the number of processes of node 0 (n1) is not known" in refused.err
    assert named.out == "n[1-2] 8(x2)\n"


@pytest.mark.parametrize(
    ("given", "status", "said"),
    [
        (HOSTS, 0, ""),  # Open MPI and DeepSpeed mean the same
        (b"word\n", 2, "the format of <stdin> cannot be detected"),
        (b"n1 slots=8\nn2 lots=8\n", 1, " --> <stdin>:2:4"),
        (b"", 1, "<stdin>: RT102 the file is empty"),
        (b"n1 slots=2 extra\n", 2, "may be openmpi-hostfile or deepspeed-hostfile"),
        (b"{}", 1, "the table is not sound"),
        (b"\xff\xfe", 1, "<stdin>: RT006 "),
        (b"n1 slots=\xff\n", 1, "RT005"),
    ],
)
def test_kind_is_recognised_or_asked_for(
    given: bytes, status: int, said: str, run: Run
) -> None:
    done = convert(run, given, "--to", "mpich")

    assert done.status == status
    assert said in done.err


def test_unsound_table_is_shown(run: Run) -> None:
    given = table().replace(b'"3"', b'"1"')
    done = convert(run, given, "--to", "openmpi-rankfile")

    assert (done.status, done.out) == (1, "")
    assert "RT207" in done.err


def test_table_may_get_other_hosts_and_chips(run: Run) -> None:
    options = ("--hosts", "a,b", "--device-id", "[[7,6],[5,4]]")
    done = convert(run, table(), "--to", "sccl-1.0", *options)

    found = ranktable.loads(done.out)
    assert found.chip_map == [7, 6, 5, 4]
    assert [node.host for node in found.nodes] == ["a", "b"]
    assert done.err == ""  # it has no addresses to lose


def test_file_is_written_and_not_replaced_unasked(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "hosts"
    options = ("--to", "mpich", "--output", "hosts")
    first = convert(run, table(), *options)
    again = convert(run, table(), *options)
    other = convert(run, table("[[0],[0]]"), *options)
    forced = convert(run, table("[[0],[0]]"), *options, "--force")

    assert first.err.endswith("wrote hosts: 2 hosts, 4 processes\n")
    assert again.err.endswith("unchanged hosts: 2 hosts, 4 processes\n")
    assert (other.status, forced.status) == (2, 0)
    assert "hosts holds something else" in other.err
    assert path.read_text() == "n1:1\nn2:1\n"


def test_table_comes_from_the_environment(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "table.json"
    path.write_bytes(table())
    done = run(
        "ranktable", "convert", "--to", "mpich", env={"RANK_TABLE_FILE": str(path)}
    )

    assert done.out == "n1:2\nn2:2\n"


def test_file_that_cannot_be_read_is_status_2(run: Run, tmp_path: Path) -> None:
    missing = run("ranktable", "convert", "missing", "--to", "mpich")
    folder = run("ranktable", "convert", str(tmp_path), "--to", "mpich")

    assert (missing.status, folder.status) == (2, 2)
    assert missing.err == "ranktable: missing: RT001 the file does not exist\n"


def test_pods_are_said_to_have_names_of_their_own(run: Run) -> None:
    options = ("--to", "kubernetes-job", "--image", "i", "--name", "job")
    done = convert(run, table("[[0,1],[0,1]]"), *options)

    assert (
        done.err == "note: the pods have names of their own, not those of the hosts\n"
    )


def test_message_of_a_launcher_finds_the_page(run: Run) -> None:
    done = run("ranktable", "explain", "Hostfile contains multiple entries for n1")

    assert done.out.startswith("RT220 host-twice")
