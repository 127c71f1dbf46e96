"""Commands that write one file at the same time: their messages are true."""

from __future__ import annotations

import fcntl
import json
import os
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

import ranktable
from ranktable.cluster.generate import make_table
from ranktable.schema.writing import (
    FileChangedError,
    create_file,
    replace_file,
)

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from tests.conftest import Outcome, Run

ROUNDS = 25
CHANGED = "has changed since it was read; nothing was written; run the command again"


def at_once(run: Run, calls: Iterable[list[str]]) -> list[Outcome]:
    calls = list(calls)
    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(lambda call: run("ranktable", *call), calls))


def test_two_repairs_of_one_table_are_both_done_or_one_is_refused(
    run: Run, tmp_path: Path
) -> None:
    path = tmp_path / "t.json"
    table = make_table([range(8)] * 8, hosts=[f"n{at}" for at in range(8)])
    refused = 0
    for _ in range(ROUNDS):
        ranktable.dump(table, path)
        done = at_once(
            run,
            [
                ["fit", "t.json", "--lost", f"n{at}", "--with", f"m{at}", "-i"]
                for at in range(3)
            ],
        )
        hosts = {node.host for node in ranktable.load(path).nodes}

        assert {d.status for d in done} <= {0, 2}
        assert {at for at in range(3) if f"m{at}" in hosts} == {
            at for at in range(3) if done[at].status == 0
        }
        for outcome in done:
            said = f"t.json {CHANGED}\n" if outcome.status else ""
            assert outcome.status == 0 or outcome.err == f"ranktable: {said}"
        refused += sum(outcome.status == 2 for outcome in done)

    assert refused  # else nothing was simultaneous


@pytest.mark.parametrize(
    "arguments",
    [
        ["fit", "t.json", "--lost", "n1", "--with", "m1", "-i"],
        ["fit", "t.json", "--spare", "m1", "-i"],
        ["fit", "t.json", "--lost", "n1", "--tp", "4", "-o", "t.json", "--force"],
        ["validate", "t.json", "--fix"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_a_change_by_somebody_else_is_never_overwritten(
    run: Run, tmp_path: Path, arguments: list[str]
) -> None:
    path, other = tmp_path / "t.json", tmp_path / "other"
    table = make_table([range(8)] * 4, hosts=["n0", "n1", "n2", "n3"])
    before = ranktable.dumps(table)
    if arguments[0] == "validate":
        before = before.replace(b'"device_id":"0"', b'"device_id":"00"')
    path.write_bytes(before)
    # The lock keeps the command from comparing until the file is another one.
    with path.open("rb") as held, ThreadPoolExecutor(1) as pool:
        fcntl.flock(held, fcntl.LOCK_EX)
        waiting = pool.submit(run, "ranktable", *arguments)
        while not list(tmp_path.glob(".ranktable.*.tmp")):
            assert not waiting.done(), waiting.result()
        other.write_bytes(before + b" ")
        other.replace(path)
        fcntl.flock(held, fcntl.LOCK_UN)
        done = waiting.result()

    assert (done.status, done.err) == (2, f"ranktable: t.json {CHANGED}\n")
    assert path.read_bytes() == before + b" "
    assert [file.name for file in tmp_path.iterdir()] == ["t.json"]


def test_of_two_that_create_a_file_one_has_written_it(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    for _ in range(ROUNDS):
        path.unlink(missing_ok=True)
        done = at_once(
            run,
            [
                ["gen", "--device-id", f"[[{chip}]]", "-o", "t.json"]
                for chip in range(3)
            ],
        )
        devices = json.loads(path.read_text())["node_list"][0]["device_list"]

        assert [int(devices[0]["device_id"])] == [
            chip for chip in range(3) if done[chip].status == 0
        ]
        for outcome in done:
            if outcome.status:
                assert "t.json holds a different table; --force" in outcome.err
            else:
                assert outcome.err.startswith("wrote t.json")


def test_of_two_that_create_the_same_file_one_says_so(run: Run, tmp_path: Path) -> None:
    for _ in range(ROUNDS):
        (tmp_path / "t.json").unlink(missing_ok=True)
        done = at_once(run, [["gen", "--device-id", "[[3]]", "-o", "t.json"]] * 3)

        assert sorted(o.err.split()[0] for o in done) == [
            *("unchanged", "unchanged", "wrote")
        ]


def test_a_file_is_replaced_only_if_it_holds_what_was_read(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    replace_file(path, b"new", expected=b"old")
    replace_file(path, b"new", expected=b"old")  # somebody has done the same
    with pytest.raises(FileChangedError, match=CHANGED):
        replace_file(path, b"newer", expected=b"old")
    path.unlink()
    with pytest.raises(FileChangedError, match=CHANGED):
        replace_file(path, b"newer", expected=b"old")

    assert list(tmp_path.iterdir()) == []


def test_a_file_that_another_program_keeps_locked_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ranktable.schema.writing.LOCK_TIMEOUT_S", 0.1)
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with path.open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(TimeoutError, match="another program keeps the file locked"):
            replace_file(path, b"new", expected=b"old")

    assert path.read_bytes() == b"old"
    assert [file.name for file in tmp_path.iterdir()] == ["file"]


def test_a_new_file_is_created_without_links_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_source: str, target: str) -> None:
        raise PermissionError(1, "Operation not permitted", target)

    monkeypatch.setattr(os, "link", refuse)
    create_file(tmp_path / "file", b"new")
    with pytest.raises(FileExistsError):
        create_file(tmp_path / "file", b"newer")

    assert (tmp_path / "file").read_bytes() == b"new"
    assert [file.name for file in tmp_path.iterdir()] == ["file"]
