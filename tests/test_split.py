"""``ranktable split``: one table becomes one per node, and merge undoes it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import ranktable
from ranktable.cluster.generate import make_table
from ranktable.cluster.splitting import file_names
from ranktable.schema.writing import create_folder

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.conftest import Run


def put(
    folder: Path, chips: Sequence[Sequence[int]], hosts: Sequence[str] | None = None
) -> bytes:
    data = ranktable.dumps(make_table(chips, hosts=hosts))
    (folder / "t.json").write_bytes(data)
    return data


def test_every_node_becomes_a_file_and_merge_undoes_it(
    run: Run, tmp_path: Path
) -> None:
    data = put(tmp_path, [[0, 1], [3, 2], [4]], ["n1", "n2", "n3"])
    done = run("ranktable", "split", "t.json", "-o", "out")
    files = [f"out/{name}" for name in ("n1.json", "n2.json", "n3.json")]
    merged = run("ranktable", "merge", *files, "-o", "again.json")

    assert (done.status, done.out) == (0, "")
    assert done.err == (
        "wrote 3 files to out\n"
        "note: 2 of 3 files are not sound tables alone, because their ranks "
        "do not begin at 0\n"
        "help: ranktable merge puts them together; --renumber makes each one sound\n"
    )
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        Path(file).name for file in files
    ]
    assert merged.status == 0
    assert (tmp_path / "again.json").read_bytes() == data


def test_renumbered_files_are_sound_alone(run: Run, tmp_path: Path) -> None:
    put(tmp_path, [[0, 1], [3, 2]], ["n1", "n2"])
    done = run("ranktable", "split", "t.json", "--renumber", "-o", "out")
    files = [str(path) for path in sorted((tmp_path / "out").iterdir())]
    merged = run("ranktable", "merge", *files, "--renumber", "-o", "again.json")

    assert done.err == "wrote 2 files to out\n"
    assert [ranktable.load(file).chip_map for file in files] == [[0, 1], [3, 2]]
    assert [[d.rank for d in ranktable.load(f).nodes[0].devices] for f in files] == [
        [0, 1],
        [0, 1],
    ]
    assert merged.status == 0
    assert ranktable.load(tmp_path / "again.json").chip_map == [0, 1, 3, 2]


def test_one_node_is_sound_as_it_is(run: Run, tmp_path: Path) -> None:
    put(tmp_path, [[0, 1]], ["n1"])
    done = run("ranktable", "split", "t.json")

    assert done.err == "wrote 1 file to t-nodes\n"
    assert ranktable.check(tmp_path / "t-nodes" / "n1.json").ok


@pytest.mark.parametrize(
    ("hosts", "names"),
    [
        (["n1", "fd00::1"], ["n1.json", "fd00::1.json"]),
        (None, ["node-0.json", "node-1.json"]),
        (["n1", ".."], ["node-0.json", "node-1.json"]),
        (["n1", "a/b"], ["node-0.json", "node-1.json"]),
        (["n1", "-rf"], ["node-0.json", "node-1.json"]),
        (["n1", ".hidden"], ["node-0.json", "node-1.json"]),
        (["n1", "x" * 300], ["node-0.json", "node-1.json"]),
        (["n1", "a\nb"], ["node-0.json", "node-1.json"]),
    ],
)
def test_files_have_the_names_of_hosts_that_are_safe(
    hosts: list[str] | None, names: list[str]
) -> None:
    assert file_names(make_table([[0], [0]], hosts=hosts)) == names


def test_numbers_of_nodes_are_padded_for_the_shell() -> None:
    names = file_names(make_table([[0]] * 101))

    assert (names[0], names[100]) == ("node-000.json", "node-100.json")
    assert sorted(names) == names


def test_standard_input_and_the_variable_are_split_too(
    run: Run, tmp_path: Path
) -> None:
    data = put(tmp_path, [[0]], ["n1"])
    piped = run("ranktable", "split", "-", given=data)
    named = run("ranktable", "split", "-o", "b", env={"RANK_TABLE_FILE": "t.json"})

    assert (piped.status, named.status) == (0, 0)
    assert (tmp_path / "table-nodes" / "n1.json").exists()
    assert (tmp_path / "b" / "n1.json").exists()


def test_empty_folder_is_used_and_a_full_one_is_not(run: Run, tmp_path: Path) -> None:
    put(tmp_path, [[0]], ["n1"])
    (tmp_path / "empty").mkdir()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").touch()
    used = run("ranktable", "split", "t.json", "-o", "empty")
    refused = run("ranktable", "split", "t.json", "-o", "full")
    file = run("ranktable", "split", "t.json", "-o", "t.json")
    nowhere = run("ranktable", "split", "t.json", "-o", "no/where")

    assert [done.status for done in (used, refused, file, nowhere)] == [0, 2, 2, 2]
    assert "the folder full is not empty; --output names another" in refused.err
    assert "t.json is not a folder" in file.err
    assert "does not exist; create it first" in nowhere.err
    assert [path.name for path in (tmp_path / "full").iterdir()] == ["mine"]


def test_unsound_table_is_not_split(run: Run, tmp_path: Path) -> None:
    (tmp_path / "t.json").write_bytes(b'{"version":"1.0","node_list":[]}')
    done = run("ranktable", "split", "t.json")
    missing = run("ranktable", "split", "no.json")

    assert (done.status, missing.status) == (1, 2)
    assert "RT116" in done.err
    assert [path.name for path in tmp_path.iterdir()] == ["t.json"]


def test_folder_is_made_whole_or_not_at_all(tmp_path: Path) -> None:
    def files() -> Iterator[tuple[str, bytes]]:
        yield "a", b"1"
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        create_folder(str(tmp_path / "out"), files())
    assert list(tmp_path.iterdir()) == []

    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "b").touch()
    with pytest.raises(OSError, match="not empty"):
        create_folder(str(tmp_path / "out"), iter([("a", b"1")]))
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_folder_and_files_have_the_permissions_of_the_user(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        create_folder(str(tmp_path / "out"), iter([("a", b"1")]))
    finally:
        os.umask(before)

    assert (tmp_path / "out").stat().st_mode & 0o777 == 0o750
    assert (tmp_path / "out" / "a").stat().st_mode & 0o777 == 0o640
