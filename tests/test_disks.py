"""A disk that takes nothing: every command that writes names the user's file.

A full and a read-only disk are mounted in a namespace, where that is allowed. A limit
of the size of files and a folder that may not be changed need no mount. This file is
also the program that runs there, with a server of commands of its own.
"""

from __future__ import annotations

import json
import os
import resource
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ranktable import dump
from ranktable.cluster.generate import make_table
from tests.commands import Commands, clean_environment, run_process
from tests.conftest import CORPUS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

pytestmark = pytest.mark.xdist_group("disks")  # all look at what one run has found

ROOT = Path(__file__).parent.parent
IN_A_NAMESPACE = ("unshare", "--user", "--map-root-user", "--mount")
# Root may change every folder, but not without its capabilities.
WITHOUT_RIGHTS = ("setpriv", "--bounding-set=-all", "--inh-caps=-all")
MOUNTED = {"full": "no space left on device", "read-only": "read-only file system"}
NOT_MOUNTED = {"limited": "file too large", "unwritable": "permission denied"}
REASON = MOUNTED | NOT_MOUNTED
LIMIT_BYTES = 8
# {disk} is the folder of the disk; t.json and broken.json are there too.
COMMANDS = {
    "gen": "ranktable gen --device-id [[0..7]] --ring sophgo-8 -o {disk}/new.json",
    "vendor": "tpu_gen_sccl_rank_table --device_id [[0..7]]",
    "merge": "ranktable merge a.json b.json --renumber -o {disk}/new.json",
    "convert": "ranktable convert t.json --to openmpi-hostfile -o {disk}/new.json",
    "convert-table": "ranktable convert t.json --to kubernetes -o {disk}/new.json",
    "subset": "ranktable split t.json --ranks 0-7 -o {disk}/new.json",
    "split": "ranktable split t.json -o {disk}/new.json",
    "init": "ranktable init slurm -o {disk}/new.json",
    "schema": "ranktable schema -o {disk}/new.json",
    "plan": "ranktable plan t.json --tp 8 --bytes dp=1GiB -o {disk}/new.json",
    "fit": "ranktable fit t.json --lost n1 --tp 8 -o {disk}/new.json",
    "in-place": "ranktable fit {disk}/t.json --spare n9 --in-place",
    "fix": "ranktable validate {disk}/broken.json --fix",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the files that the commands read."""
    folder = tmp_path_factory.mktemp("disks")
    table = make_table([range(8)] * 3, hosts=["n1", "n2", "n3"])
    dump(table, folder / "t.json")
    for name in "ab":
        dump(make_table([range(8)], hosts=[name]), folder / f"{name}.json")
    broken = CORPUS / "sccl" / "broken" / "trailing_comma.json"
    (folder / "broken.json").write_bytes(broken.read_bytes())
    return folder


@pytest.fixture(scope="module")
def ended(folder: Path) -> dict[str, list[object]]:
    """Run every command on every disk: its exit status, message and what it left."""
    found = _run_all(() if os.geteuid() else WITHOUT_RIGHTS, NOT_MOUNTED, folder)
    if run_process([*IN_A_NAMESPACE, "true"]).status == 0:
        found |= _run_all(IN_A_NAMESPACE, MOUNTED, folder)
    return found


def _run_all(
    how: Iterable[str], disks: Iterable[str], folder: Path
) -> dict[str, list[object]]:
    done = run_process(
        [*how, sys.executable, "-m", "tests.test_disks", *disks],
        given=json.dumps(COMMANDS).encode(),
        env={**clean_environment(), "PYTHONPATH": str(ROOT)},
        cwd=folder,
        timeout_s=150,
    )
    assert done.status == 0, done.err
    found: dict[str, list[object]] = json.loads(done.out)
    return found


@pytest.mark.parametrize("disk", REASON)
@pytest.mark.parametrize("command", COMMANDS)
def test_disk_that_cannot_be_written_names_the_users_file(
    command: str, disk: str, ended: dict[str, list[object]]
) -> None:
    if f"{command} {disk}" not in ended:
        pytest.skip("nobody but root may mount here; limited and unwritable do not")
    program, *arguments = COMMANDS[command].format(disk=disk).split()
    given = [name for name in arguments if name.startswith(f"{disk}/")]
    file = given[0] if given else f"{disk}/new.json"

    status, said, left = ended[f"{command} {disk}"]
    last = str(said).splitlines()[-1]  # merge says first what it has found

    assert (status, last, left) == (2, f"{program}: {file}: {REASON[disk]}", [])


# What follows runs in the namespace, or without the rights of root.


def _make(folder: Path) -> None:
    """Make a disk with the files that commands change, on which none can write."""
    folder.mkdir()
    if folder.name in MOUNTED:
        _mount("-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder))
    for name in ("t.json", "broken.json"):
        (folder / name).write_bytes(Path(name).read_bytes())
    if folder.name == "full":
        _fill(folder / "filler")
    elif folder.name == "read-only":
        _mount("-o", "remount,ro", str(folder))
    elif folder.name == "unwritable":
        folder.chmod(0o555)


def _mount(*options: str) -> None:
    done = run_process(["mount", *options])
    assert done.status == 0, done.err


def _fill(file: Path) -> None:
    with file.open("wb", buffering=0) as filler:
        try:
            while True:
                filler.write(bytes(1024))
        except OSError:
            return


def _limit(process: int, limit_bytes: int) -> None:
    """Limit the files that a process and its forks write from now on."""
    limits = (limit_bytes, resource.RLIM_INFINITY)
    resource.prlimit(process, resource.RLIMIT_FSIZE, limits)


def _names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def _all_ended(server: Commands) -> Iterator[tuple[str, list[object]]]:
    commands: dict[str, str] = json.load(sys.stdin)
    for disk in map(Path, sys.argv[1:]):
        _make(disk)
        is_limited = disk.name == "limited"
        _limit(server.server.pid, LIMIT_BYTES if is_limited else resource.RLIM_INFINITY)
        there = _names(disk)
        for name, command in commands.items():
            program, *arguments = command.format(disk=disk).split()
            done = server.run(
                program,
                arguments,
                given=b"",
                env={**clean_environment(), "RANK_TABLE_FILE": f"{disk}/new.json"},
                cwd=Path.cwd(),
                timeout_s=60,
            )
            left = sorted(_names(disk) - there)
            yield f"{name} {disk}", [done.status, done.err.decode(), left]


if __name__ == "__main__":
    with closing(Commands()) as own_server:
        ended_all = dict(_all_ended(own_server))
    sys.stdout.write(json.dumps(ended_all))
