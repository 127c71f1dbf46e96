"""What a terminal offers before a command runs: help and completion."""

from __future__ import annotations

import re
import runpy
from typing import TYPE_CHECKING

import pytest

from ranktable.cli.app import COMMANDS
from tests.commands import BIN, run_in_shell, run_process
from tests.test_docs import ROOT

if TYPE_CHECKING:
    from pathlib import Path

    from tests.commands import Commands
    from tests.conftest import Run


TYPED = {
    "va": {"validate"},
    "convert t.json --to open": {"openmpi-hostfile", "openmpi-rankfile"},
    "convert t.json --to hccl-": {"hccl-1.0", "hccl-1.2"},
    "convert t.json --to server": set(),
    "convert --from hccl-": {"hccl-1.0", "hccl-1.2", "hccl-2.0", "hccl-cloud"},
    "explain RT404": {"RT404"},
    "explain rt404": {"rt404"},
    "explain EI000": {f"EI000{number}" for number in range(1, 10)},
    "explain duplicate-r": {"duplicate-rank"},
    "init ta": {"table", "table-of-two"},
    "schema cl": {"cluster-spec"},
    "validate --chip b": {"bm1690"},
    "validate --for torch": {"torch_npu", "torch_tpu"},
    "validate --from cl": {"cluster-spec"},
    "validate --select RT202,RT118": {"RT202,RT118"},
    "validate --format s": {"sarif"},
    "gen --ring s": {"sophgo-8"},
    "merge --ring s": {"sophgo-8"},
    "plan --links s": {"sophgo-8"},
    "plan --preset v": {"vllm"},
    "mesh --ep-style t": {"torchtitan"},
    "fit --ke": {"--keep"},
}


def _offered(run: Run, typed: str, shell: str = "bash") -> list[str]:
    words = ["ranktable", *typed.split(" ")]
    env = {
        "_RANKTABLE_COMPLETE": f"complete_{shell}",
        "COMP_WORDS": "\n".join(words),
        "COMP_CWORD": str(len(words) - 1),
        "_TYPER_COMPLETE_ARGS": " ".join(words),
    }
    return run("ranktable", env=env).out.split()


@pytest.mark.parametrize("typed", TYPED)
def test_a_shell_completes_values(typed: str, run: Run) -> None:
    assert set(_offered(run, typed)) == TYPED[typed]


@pytest.mark.parametrize("typed", ["explain ", "schema ", "init ", "convert --to "])
def test_every_value_is_offered_where_nothing_was_typed(typed: str, run: Run) -> None:
    offered = _offered(run, typed)

    assert len(offered) > 5
    assert not set(offered) & COMMANDS.keys()


def test_fish_is_offered_the_same(run: Run) -> None:
    done = run(
        "ranktable",
        env={
            "_RANKTABLE_COMPLETE": "complete_fish",
            "_TYPER_COMPLETE_FISH_ACTION": "get-args",
            "_TYPER_COMPLETE_ARGS": "ranktable init ta",
        },
    )

    assert done.out.split() == ["table", "table-of-two"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish", "powershell"])
def test_completion_is_shown_for_the_named_shell(shell: str) -> None:
    done = run_process([BIN / "ranktable", "--show-completion", shell])

    assert (done.status, done.err) == (0, "")
    assert f"_RANKTABLE_COMPLETE=complete_{shell}" in done.out.replace(
        '$Env:_RANKTABLE_COMPLETE = "', "_RANKTABLE_COMPLETE="
    )


@pytest.mark.parametrize("option", ["--show-completion", "--install-completion"])
def test_unknown_shell_is_refused(option: str) -> None:
    done = run_process([BIN / "ranktable", option, "tcsh"])

    assert (done.status, done.out) == (2, "")
    assert "'tcsh' is not one of 'bash', 'zsh', 'fish'" in done.err


@pytest.mark.parametrize("name", COMMANDS)
def test_help_is_readable_at_80_columns(name: str, run: Run) -> None:
    shown = run("ranktable", name, "--help", env={"COLUMNS": "80"}).out
    options, _, example = shown.partition("\nExample:\n")
    # A long option has its own line; otherwise its description begins beside it.
    rows = re.split(r"\n(?=  \S)", options)[1:]
    described = [re.sub(r"\A  \S.*?(?:  +|\n)", "", row).rstrip() for row in rows]

    assert (
        re.findall(r"--no-|TEXT|INTEGER|<(?:str|int|float|bool)|\[default: None", shown)
        == []
    )
    assert max(map(len, shown.splitlines())) <= 80
    assert example.startswith("  ranktable ")
    assert [text for text in described if text.split("\n\n")[0].count("\n") > 2] == []


@pytest.mark.parametrize("name", sorted(COMMANDS.keys() - {"init", "run", "simulate"}))
def test_example_of_the_help_can_be_copied(
    name: str, run: Run, commands: Commands, tmp_path: Path
) -> None:
    made = run(
        *("ranktable", "gen", "--device-id", "[[0..7]]", "--ring", "sophgo-8"),
        *("-o", "sccl_rank_table.json"),
    )
    (tmp_path / "job.log").write_text("[rank0]: step 1\n")
    example = run("ranktable", name, "--help").out.partition("\nExample:\n")[2]
    done = run_in_shell(example, tmp_path, programs=commands.folder)

    assert (made.status, done.status) == (0, 0), done.err


def test_front_page_of_the_site_has_the_first_steps_and_every_page() -> None:
    made = runpy.run_path(str(ROOT / "docs" / "conf.py"))
    guides = {path.stem for path in (ROOT / "docs").glob("*.md")} - {"index"}

    text = made["front_page"]((ROOT / "README.md").read_text("utf-8"), guides)

    assert "ranktable gen --device-id '[[0..7]]' --ring sophgo-8\n" in text
    assert text.count(":caption:") == len(made["GROUPS"]) + 1
    assert guides <= set(text.splitlines())


def test_usage_says_which_arguments_there_are(run: Run) -> None:
    usages = {
        name: run("ranktable", name, "--help").out.partition("\n")[0]
        for name in ("merge", "validate", "fit")
    }

    assert usages == {
        "merge": "Usage: ranktable merge [OPTIONS] FILES...",
        "validate": "Usage: ranktable validate [OPTIONS] [FILE]...",
        "fit": "Usage: ranktable fit [OPTIONS] FILE",
    }


def test_man_pages_have_the_example_and_name_pages_that_exist(tmp_path: Path) -> None:
    runpy.run_path(str(ROOT / "docs" / "man_pages.py"))["write_man_pages"](tmp_path)
    pages = {path.stem: path.read_text() for path in tmp_path.iterdir()}

    assert pages.keys() == {"ranktable", *(f"ranktable-{name}" for name in COMMANDS)}
    del pages["ranktable"]
    for name, page in pages.items():
        (example,) = re.findall(r"\.SH EXAMPLES\n\.nf\n(.+?)\n\.fi\n", page, re.DOTALL)
        assert example.replace("\\", "").startswith(name.partition("-")[0])
        beside = re.findall(r"\\fB([^ ]+?)\\fR\(1\)", page.partition(".SH SEE ALSO")[2])
        found = {one.replace("\\", "") for one in beside}
        assert found <= {"ranktable", *pages} - {name}
        assert len(found) > 1
