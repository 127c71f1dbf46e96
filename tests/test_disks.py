"""A disk that is full or read-only: every command that writes names the user's file.

The commands run in a namespace of their own, in which anybody may mount. All are forks
of one process there, which is this file: to import everything takes a second.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ranktable import dump
from ranktable.cluster.generate import make_table
from tests.commands import clean_environment
from tests.conftest import CORPUS

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parent.parent
IN_A_NAMESPACE = ("unshare", "--user", "--map-root-user", "--mount")
DISKS = ("full", "read-only")
REASON = {"full": "no space left on device", "read-only": "read-only file system"}
# {disk} is the folder of the disk; t.json and broken.json are there too.
COMMANDS = {
    "gen": "ranktable gen --device-id [[0..7]] --ring sophgo-8 -o {disk}/new.json",
    "vendor": "tpu_gen_sccl_rank_table --device_id [[0..7]]",
    "merge": "ranktable merge a.json b.json --renumber -o {disk}/new.json",
    "convert": "ranktable convert t.json --to openmpi-hostfile -o {disk}/new.json",
    "convert-table": "ranktable convert t.json --to sccl-2024 -o {disk}/new.json",
    "subset": "ranktable subset t.json --ranks 0-7 -o {disk}/new.json",
    "split": "ranktable split t.json -o {disk}/new.json",
    "init": "ranktable init slurm -o {disk}/new.json",
    "schema": "ranktable schema -o {disk}/new.json",
    "plan": "ranktable plan t.json --tp 8 --bytes dp=1GiB -o {disk}/new.json",
    "plan-hosts": "ranktable plan t.json --tp 8 --bytes dp=1GiB "
    "--hostfile {disk}/new.json",
    "shrink": "ranktable shrink t.json --drop n1 --tp 8 -o {disk}/new.json",
    "grow": "ranktable grow t.json --add n9 --new --tp 8 -o {disk}/new.json",
    "renumber": "ranktable renumber t.json --tp 8 --policy stable -o {disk}/new.json",
    "replace-node": "ranktable replace-node t.json n1 n9 --new -o {disk}/new.json",
    "spares": "ranktable spares t.json --add n9 --new -o {disk}/new.json",
    "in-place": "ranktable spares {disk}/t.json --add n9 --new --in-place",
    "fix": "ranktable validate {disk}/broken.json --fix",
}


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[object]]:
    """Run every command on both disks: its exit status, message and what it left."""
    if subprocess.run([*IN_A_NAMESPACE, "true"], check=False).returncode:
        pytest.skip("nobody but root may mount here")
    folder = tmp_path_factory.mktemp("disks")
    table = make_table([range(8)] * 3, hosts=["n1", "n2", "n3"])
    dump(table, folder / "t.json")
    for name in "ab":
        dump(make_table([range(8)], hosts=[name]), folder / f"{name}.json")
    broken = CORPUS / "sccl" / "broken" / "trailing_comma.json"
    (folder / "broken.json").write_bytes(broken.read_bytes())
    done = subprocess.run(
        [*IN_A_NAMESPACE, sys.executable, "-m", "tests.test_disks"],
        cwd=folder, env={**clean_environment(), "PYTHONPATH": str(ROOT)},
        input=json.dumps(COMMANDS), capture_output=True, text=True, check=True,
        timeout=150,
    )  # fmt: skip
    found: dict[str, list[object]] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("disk", DISKS)
@pytest.mark.parametrize("command", COMMANDS)
def test_a_disk_that_takes_nothing_is_told_of_the_users_file(
    command: str, disk: str, ended: dict[str, list[object]]
) -> None:
    program, *arguments = COMMANDS[command].format(disk=disk).split()
    given = [name for name in arguments if name.startswith(f"{disk}/")]
    file = given[0] if given else f"{disk}/new.json"

    status, said, left = ended[f"{command} {disk}"]
    last = str(said).splitlines()[-1]  # merge says first what it has found

    assert (status, last, left) == (2, f"{program}: {file}: {REASON[disk]}", [])


# What follows runs in the namespace.


def _mount(folder: Path) -> None:
    """Mount a disk with the files that commands change, full or read-only."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)]
    subprocess.run(command, check=True)
    for name in ("t.json", "broken.json"):
        (folder / name).write_bytes(Path(name).read_bytes())
    if folder.name == "read-only":
        subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True)
        return
    with (folder / "filler").open("wb", buffering=0) as filler:
        try:
            while True:
                filler.write(bytes(1024))
        except OSError:
            return


def _run(arguments: list[str]) -> tuple[int, str]:
    """Run a command in a fork; return its exit status and what it complains of."""
    from ranktable.cli import main as ranktable  # noqa: PLC0415 - in the namespace
    from ranktable.cli import vendor_generator  # noqa: PLC0415

    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.dup2(write, 2)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.argv = arguments
        status = 0
        try:
            (ranktable if arguments[0] == "ranktable" else vendor_generator.main)()
        except SystemExit as end:
            status = int(end.code or 0)
        sys.stderr.flush()
        os._exit(status)
    os.close(write)
    with os.fdopen(read, "rb") as said:
        text = said.read().decode()
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), text


def _names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def _all_ended() -> Iterator[tuple[str, list[object]]]:
    commands: dict[str, str] = json.load(sys.stdin)
    for disk in map(Path, DISKS):
        _mount(disk)
        there = _names(disk)
        os.environ["RANK_TABLE_FILE"] = f"{disk}/new.json"
        for name, command in commands.items():
            status, said = _run(command.format(disk=disk).split())
            left = sorted(_names(disk) - there)
            yield f"{name} {disk}", [status, said, left]


if __name__ == "__main__":
    sys.stdout.write(json.dumps(dict(_all_ended())))
