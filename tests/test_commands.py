"""A command that is forked does what one does that starts afresh."""

from __future__ import annotations

import contextlib
import shutil
import signal
from typing import TYPE_CHECKING

import pytest

from ranktable import dump
from ranktable.cluster.generate import make_table
from tests.commands import (
    BIN,
    ROOM,
    Commands,
    clean_environment,
    run_afresh,
    run_in_shell,
    run_process,
    start_process,
    torch_environment,
)
from tests.conftest import CORPUS
from tests.ranks import TRAINING, run_program

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tests.commands import Outcome

TIMEOUT_S = 60
TWICE = (CORPUS / "sccl" / "broken" / "rank_duplicate.json").read_bytes()
DROP_IN = "tpu_gen_sccl_rank_table"
GEN = ("ranktable", "gen", "--device-id", "[[3,1]]")


def shell(commands: Commands, line: str, folder: Path) -> Outcome:
    return run_in_shell(line, folder, programs=commands.folder)


@pytest.mark.parametrize(
    ("command", "env", "given"),
    [
        (["ranktable", "gen", "--help"], {"COLUMNS": "60", "FORCE_COLOR": "1"}, b""),
        (["ranktable", "no-such-command"], {}, b""),
        (["ranktable", "validate", "-"], {"FORCE_COLOR": "1"}, TWICE),
        (["ranktable", "validate", "n\udcff\u00e9", "-"], {}, b"\xff"),
        (["ranktable", "validate", "\u00e9"], {"LC_ALL": "C"}, b""),
        (["ranktable", "validate"], {"RANK_TABLE_FILE": "no\n.json"}, b""),
        (["ranktable", "env"], {"RANK": "1", "WORLD_SIZE": "2"}, b""),
        ([*GEN], {}, b""),
        ([DROP_IN, "--device_id", "[[0..7]]"], {}, b""),
    ],
)
def test_forked_command_gives_the_output_of_a_started_one(
    command: Sequence[str],
    env: dict[str, str],
    given: bytes,
    commands: Commands,
    tmp_path: Path,
) -> None:
    outcomes = []
    for name, start in (("forked", commands.run), ("afresh", run_afresh)):
        folder = tmp_path / name
        folder.mkdir()
        done = start(
            command[0],
            command[1:],
            given=given,
            env={**clean_environment(), **env},
            cwd=folder,
            timeout_s=TIMEOUT_S,
        )
        made = [(path.stat().st_mode, path.read_bytes()) for path in folder.iterdir()]
        outcomes.append((done, made))

    assert outcomes[0] == outcomes[1]


def test_long_input_and_output_are_complete(commands: Commands, tmp_path: Path) -> None:
    devices = ",".join('{"device_id":"0x1","rank":"0"}' for _ in range(5_000))
    data = f'{{"version":"1.0","node_list":[{{"device_list":[{devices}]}}]}}'
    done = commands.run(
        "ranktable",
        ["validate", "-", "--max-errors", "0"],
        given=data.encode(),
        env=clean_environment(),
        cwd=tmp_path,
        timeout_s=TIMEOUT_S,
    )

    assert done.status == 1
    assert done.out.count(b"0x1") >= 5_000


def test_command_leaves_no_state_for_the_next(
    commands: Commands, tmp_path: Path
) -> None:
    def validate(**env: str) -> int:
        return commands.run(
            "ranktable",
            ["validate"],
            given=TWICE,
            env={**clean_environment(), **env},
            cwd=tmp_path,
            timeout_s=TIMEOUT_S,
        ).status

    (tmp_path / "twice.json").write_bytes(TWICE)

    assert [validate(RANK_TABLE_FILE="twice.json"), validate()] == [1, 2]


def test_a_fork_shows_its_own_variables(commands: Commands, tmp_path: Path) -> None:
    code = "import pathlib; print(pathlib.Path('/proc/self/environ').read_text())"
    done = run_process(
        [commands.folder / "python", "-c", code],
        env={**clean_environment(), "MARK": "5"},
        cwd=tmp_path,
    )

    assert done.status == 0, done.err
    variables = done.out.rstrip("\0\n").split("\0")
    assert "MARK=5" in variables
    assert not [each for each in variables if each.startswith(ROOM)]


def test_a_shell_finds_the_forks_first(commands: Commands, tmp_path: Path) -> None:
    done = shell(commands, "ranktable explain | head -n 1; ranktable show no", tmp_path)

    assert done.out.startswith("RT001")
    assert "no" in done.err
    assert done.status == 2


@pytest.mark.parametrize("asked", ["explain", "mesh --help", "show big.json"])
def test_command_ends_if_its_output_pipe_is_closed(
    commands: Commands, tmp_path: Path, asked: str
) -> None:
    dump(make_table([range(8)] * 999), tmp_path / "big.json")

    done = shell(
        commands, f"(sleep 0.3; ranktable {asked}; echo $? > status) | true", tmp_path
    )

    # As shells have it for SIGPIPE; 1 would say that defects were found.
    assert (tmp_path / "status").read_text() == "141\n"
    assert done.err == ""


def test_a_shell_may_close_a_stream(commands: Commands, tmp_path: Path) -> None:
    done = shell(commands, "ranktable validate - <&-; ranktable explain >&-", tmp_path)

    assert (done.status, done.err) == (0, "")


def test_command_ends_if_its_caller_ends(commands: Commands, tmp_path: Path) -> None:
    command = [f"{commands.folder}/ranktable", "wait", "no.json", "--timeout", "600"]
    with start_process(command, pipes=["stderr"], cwd=tmp_path) as asker:
        assert asker.stderr is not None
        assert asker.stderr.read(1)  # it waits
        asker.send_signal(signal.SIGTERM)
        asker.stderr.read()  # until the command, which writes there, has ended

    assert asker.returncode == -signal.SIGTERM


def test_folder_goes_with_the_server() -> None:
    with contextlib.closing(Commands()) as started:
        assert shutil.which("ranktable", path=started.folder)
        assert (started.folder / "real").resolve() == BIN.resolve()

    assert not started.folder.exists()
    assert started.server.returncode == 0


def test_without_a_command_the_help_is_shown(commands: Commands) -> None:
    done = shell(commands, "ranktable", commands.folder)

    assert (done.status, done.err) == (2, "")
    assert "Usage: ranktable" in done.out


@pytest.mark.torch
@pytest.mark.xdist_group("training")
def test_a_fork_has_the_temporary_folder_of_its_variables(tmp_path: Path) -> None:
    show = "import tempfile; print(tempfile.gettempdir())"
    env = {**torch_environment(), **TRAINING, "TMPDIR": str(tmp_path)}
    done = run_program("python", "-c", show, env=env)

    assert (done.status, done.out) == (0, f"{tmp_path}\n"), done.err
