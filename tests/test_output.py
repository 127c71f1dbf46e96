"""Where output goes: one rule for all commands, as docs/commands.md states it."""

from __future__ import annotations

import inspect
from importlib import import_module
from typing import TYPE_CHECKING

import pytest

from ranktable import dump
from ranktable.cli.app import COMMANDS
from ranktable.cluster.generate import make_table
from tests.commands import BIN, clean_environment, run_in_shell, run_process

if TYPE_CHECKING:
    from pathlib import Path

    from tests.commands import Commands
    from tests.conftest import Run


MAKES = {
    "gen": ["--device-id", "[[0..7]]"],
    "merge": ["a.json", "b.json", "--renumber"],
    "init": ["slurm"],
    "schema": ["cluster-spec"],
    "convert": ["t.json", "--to", "openmpi-hostfile"],
    "split": ["t.json", "--ranks", "0-7"],
    "plan": ["t.json", "--tp", "8", "--bytes", "dp=1GiB"],
    "report": ["t.json", "--tp", "8"],
    "fit": ["t.json", "--lost", "n1", "--with", "n9"],
}
"""Commands that make one file, with arguments."""

USUAL = {"gen": "sccl_rank_table.json", "merge": "sccl_rank_table.json"} | {
    "init": "slurm.sbatch"
}
"""Those whose file has a usual name, under which the next command looks for it."""

SHOWS = {
    "show": ["t.json"],
    "validate": ["t.json"],
    "mesh": ["t.json", "--tp", "8"],
    "explain": ["RT202"],
    "env": [],
    "init": [],
    "probe": [],
    "wait": ["t.json"],
    "check": ["t.json", "--host", "n1", "--select", "RT701"],
    "diff": ["a.json", "b.json"],
    "plan": MAKES["plan"],
    "fit": ["t.json", "--spare", "n9", "--diff"],
    "run": ["--rank-table", "a.json", "--dry-run", "a.json"],
}
"""Commands that print facts, or make no file with these arguments."""

IN_A_FOLDER = {"split"}
STARTS_A_JOB = {"simulate"}
OF_A_JOB = {"check"}
"""It makes a file of what the processes of a job say; see test_check_live."""

NEEDS_LOGS = {"doctor"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    table = make_table([range(8)] * 3, hosts=["n1", "n2", "n3"])
    dump(table, tmp_path / "t.json")
    for name in "ab":
        dump(make_table([range(8)], hosts=[name]), tmp_path / f"{name}.json")
    return tmp_path


def _has_output(name: str) -> bool:
    place = name.replace("-", "_")
    function = getattr(import_module(f"ranktable.cli.commands.{place}"), place)
    return "output" in inspect.signature(function).parameters


def test_every_command_is_tried() -> None:
    assert {name for name in COMMANDS if _has_output(name)} == {
        *MAKES,
        *IN_A_FOLDER,
        *OF_A_JOB,
    }
    assert {*MAKES, *SHOWS, *IN_A_FOLDER, *STARTS_A_JOB, *NEEDS_LOGS} == set(COMMANDS)


@pytest.mark.parametrize("name", MAKES)
def test_output_names_a_file_or_standard_output(
    name: str, folder: Path, run: Run
) -> None:
    before = sorted(folder.iterdir())
    given = [name, *MAKES[name]]
    printed = run("ranktable", *given, "-o", "-")
    also_printed = run("ranktable", *given, "--output", "/dev/stdout")
    assert sorted(folder.iterdir()) == before
    written = run("ranktable", *given, "--output", "made")

    assert printed == also_printed
    assert (printed.status, written.status) == (0, 0)
    assert (folder / "made").read_text() == printed.out
    assert "wrote made" in written.err


@pytest.mark.parametrize("name", MAKES)
def test_a_file_with_something_else_is_kept(name: str, folder: Path, run: Run) -> None:
    (folder / "made").write_text("mine\n")
    given = [name, *MAKES[name], "-o", "made"]
    refused = run("ranktable", *given)
    kept = (folder / "made").read_text()
    forced = run("ranktable", *given, "--force")
    again = run("ranktable", *given)

    assert (refused.status, kept) == (2, "mine\n")
    assert "made holds something else; --force replaces it" in refused.err
    assert (forced.status, again.status) == (0, 0)
    assert "unchanged made" in again.err


@pytest.mark.parametrize("name", MAKES)
def test_without_output_it_is_printed_or_has_its_usual_name(
    name: str, folder: Path, run: Run
) -> None:
    before = sorted(folder.iterdir())
    given = [name, *MAKES[name]]
    wanted = run("ranktable", *given, "-o", "-").out
    done = run("ranktable", *given)
    made = sorted(path.name for path in folder.iterdir() if path not in before)

    assert done.status == 0
    if name in USUAL:
        assert made == [USUAL[name]]
        assert (folder / USUAL[name]).read_text() == wanted
    elif name != "plan":  # which shows what it has found, and writes where told to
        assert (made, done.out) == ([], wanted)


@pytest.mark.parametrize("name", MAKES)
def test_an_empty_name_is_refused(name: str, folder: Path, run: Run) -> None:
    before = sorted(folder.iterdir())
    done = run("ranktable", name, *MAKES[name], "-o", "")

    assert (done.status, done.out) == (2, "")
    assert done.err.splitlines()[-1] == (
        "ranktable: --output is empty; name a file, or - for standard output"
    )
    assert sorted(folder.iterdir()) == before


@pytest.mark.parametrize("name", SHOWS)
def test_facts_are_printed_and_nothing_is_written(
    name: str, folder: Path, run: Run
) -> None:
    before = {path: path.read_bytes() for path in folder.iterdir()}
    done = run("ranktable", name, *SHOWS[name])

    assert done.status in (0, 1), done.err
    assert {path: path.read_bytes() for path in folder.iterdir()} == before


def test_several_files_do_not_go_to_standard_output(folder: Path, run: Run) -> None:
    before = sorted(folder.iterdir())
    for given in (["split", "t.json"], ["init", "vscode"]):
        done = run("ranktable", *given, "-o", "-")

        assert (done.status, done.out) == (2, "")
    assert sorted(folder.iterdir()) == before


def test_facts_go_to_standard_error_beside_a_file_on_standard_output(
    folder: Path, run: Run
) -> None:
    given = ["plan", *MAKES["plan"], "-o"]
    done = run("ranktable", *given, "-")
    run("ranktable", *given, "hosts")

    assert done.out == (folder / "hosts").read_text()
    assert "t.json" in done.err


@pytest.mark.parametrize("module", ["typing", "msgspec", "typer"])
def test_an_interruption_while_it_starts_shows_no_traceback(
    module: str, tmp_path: Path
) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        f"""
import signal, sys

class Interrupter:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            signal.raise_signal(signal.SIGINT)

sys.meta_path.insert(0, Interrupter())
"""
    )
    env = {**clean_environment(), "PYTHONPATH": str(tmp_path)}
    done = run_process([str(BIN / "ranktable"), "show", "t.json"], env=env)

    assert (done.status, done.out, done.err) == (130, "", "")


@pytest.mark.parametrize("asked", ["explain", "mesh --help", "show big.json"])
def test_command_ends_if_its_output_pipe_is_closed(
    commands: Commands, tmp_path: Path, asked: str
) -> None:
    dump(make_table([range(8)] * 999), tmp_path / "big.json")

    line = f"(sleep 0.3; ranktable {asked}; echo $? > status) | true"
    done = run_in_shell(line, tmp_path, programs=commands.folder)

    # As shells have it for SIGPIPE; 1 would say that defects were found.
    assert (tmp_path / "status").read_text() == "141\n"
    assert done.err == ""


def test_a_shell_may_close_a_stream(commands: Commands, tmp_path: Path) -> None:
    done = run_in_shell(
        "ranktable validate - <&-; ranktable explain >&-",
        tmp_path,
        programs=commands.folder,
    )

    assert (done.status, done.err) == (0, "")


def test_without_a_command_the_help_is_shown(commands: Commands) -> None:
    done = run_in_shell("ranktable", commands.folder, programs=commands.folder)

    assert (done.status, done.err) == (2, "")
    assert "Usage: ranktable" in done.out


@pytest.mark.parametrize(
    "command",
    [
        "diff - -",
        "merge - -",
        "validate - -",
        "report - --against -",
        "report - --findings -",
        "plan - --racks - --tp 8",
        "fit - --with -",
        "fit - --spare -",
        "fit - --hosts-from -",
    ],
)
def test_standard_input_is_read_once(command: str, folder: Path, run: Run) -> None:
    given = (folder / "t.json").read_bytes()
    done = run("ranktable", *command.split(), given=given)

    assert (done.status, done.out) == (2, "")
    assert done.err == "ranktable: standard input can be read once\n"
