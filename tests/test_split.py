"""``ranktable split``: one table becomes one per node, and merge undoes it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from ranktable.cluster.generate import make_table
from ranktable.cluster.splitting import file_names
from ranktable.schema.writing import create_folder

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


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
