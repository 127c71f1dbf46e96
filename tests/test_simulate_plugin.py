"""The pytest fixture ``simulated_chips``, in the tests of another project."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

from tests.commands import TORCH_ENVIRONMENT, run_python, with_torch

pytest_plugins = ["pytester"]

ROOT = Path(__file__).parent.parent
PLUGIN = "ranktable.simulate.pytest_plugin"


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Another project, in whose tests only this plugin is loaded."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTEST_PLUGINS", PLUGIN)
    for name, value in TORCH_ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    temporary = pytester.path / "tmp"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.delenv("RANK_TABLE_FILE", raising=False)
    return pytester.path


def run_tests(
    pytester: pytest.Pytester, text: str, *, python: Path | None = None
) -> pytest.RunResult:
    """Run tests in an interpreter of their own, if not in that of a server's fork."""
    pytester.makepyfile(test_chips=text)
    command = [str(python or sys.executable), "-m", "pytest"]
    base = f"--basetemp={pytester.path / 'base'}"
    return pytester.run(*command, base, "-q", "-W", "error", timeout=150)


def run_torch_tests(pytester: pytest.Pytester, text: str) -> pytest.RunResult:
    return run_tests(pytester, text, python=with_torch() / "python")


def test_plugin_is_declared_for_pytest() -> None:
    declared = re.search(
        r"^\[project\.entry-points\.pytest11\]\nranktable = \"(.*)\"$",
        (ROOT / "pyproject.toml").read_text(),
        re.MULTILINE,
    )

    assert declared is not None
    assert declared[1] == PLUGIN


def test_plugin_imports_little_in_other_projects() -> None:
    code = f"import pytest, sys; before = {{*sys.modules}}; import {PLUGIN}; "
    done = run_python("-c", code + "print(*(set(sys.modules) - before))")

    assert PLUGIN in done.out
    assert set(done.out.split()) <= {
        "ranktable", "ranktable._lazy", "ranktable.simulate", PLUGIN,
    }  # fmt: skip


def test_project_that_does_not_use_it_is_left_alone(
    project: Path, pytester: pytest.Pytester
) -> None:
    result = run_tests(
        pytester,
        """
        import os, sys

        def test_nothing():
            assert "torch" not in sys.modules
            assert "RANKTABLE_SIMULATE" not in os.environ
        """,
    )

    result.assert_outcomes(passed=1)
    assert list((project / "tmp").iterdir()) == []


@pytest.mark.torch
def test_spawn_returns_what_the_function_returned_on_each_rank(
    project: Path, pytester: pytest.Pytester
) -> None:
    result = run_torch_tests(
        pytester,
        """
        import os
        from dataclasses import dataclass

        @dataclass
        class Term:
            value: float

        def add_up(rank, term, *, unused=None):
            import torch
            import torch.distributed as dist
            import torch_tpu

            chip_map = torch_tpu.tpu.read_rank_table()
            torch_tpu.tpu.set_device(chip_map[rank])
            options = torch_tpu.ProcessGroupSCCLOptions()
            options.chip_map = chip_map
            dist.init_process_group("sccl", pg_options=options)
            tensor = torch.tensor([term.value]).to(f"tpu:{chip_map[rank]}")
            dist.all_reduce(tensor)
            return chip_map[rank], Term(tensor.item())

        def test_it(simulated_chips):
            found = simulated_chips.spawn(add_up, Term(3.0), nproc=2)

            assert found == [(0, Term(6.0)), (1, Term(6.0))]
            assert simulated_chips.findings == ()
            assert "WORLD_SIZE" not in os.environ
        """,
    )

    result.assert_outcomes(passed=1)
    assert list((project / "tmp").iterdir()) == []


@pytest.mark.torch
def test_spawn_returns_what_a_script_printed_on_each_rank(
    project: Path, pytester: pytest.Pytester
) -> None:
    pytester.makepyfile(
        script="""
        import os, sys
        import ranktable

        rank = int(os.environ["RANK"])
        print(rank, ranktable.read_rank_table()[rank], sys.argv[1:])
        """
    )
    result = run_torch_tests(
        pytester,
        """
        from ranktable.cluster.generate import make_table

        def test_it(simulated_chips):
            table = make_table([[3, 1], [6]])
            found = simulated_chips.spawn("script.py", "--lr", 0.1, rank_table=table)

            own = "['--lr', '0.1']"
            assert found == [f"0 3 {own}\\n", f"1 1 {own}\\n", f"2 6 {own}\\n"]
        """,
    )

    result.assert_outcomes(passed=1)
    assert list((project / "tmp").iterdir()) == []


@pytest.mark.torch
def test_spawn_raises_one_sentence_that_names_the_rank(
    project: Path, pytester: pytest.Pytester
) -> None:
    result = run_torch_tests(
        pytester,
        """
        import os, time
        import pytest
        from ranktable.simulate import SimulationError

        def fails(rank):
            if rank == 1:
                raise ValueError("the loss is\\n nan")
            time.sleep(600)

        def exits(rank):
            if rank == 0:
                os._exit(3)
            time.sleep(600)

        def returns_a_function(rank):
            return lambda: None

        @pytest.mark.parametrize(
            ("function", "sentence"),
            [
                (fails, "^rank 1 raised ValueError: the loss is nan$"),
                (exits, "^rank 0 ended with exit status 3$"),
                (returns_a_function, "^rank [01] raised .*pickle"),
            ],
        )
        def test_it(simulated_chips, function, sentence):
            with pytest.raises(SimulationError, match=sentence):
                simulated_chips.spawn(function, nproc=2)
        """,
    )

    result.assert_outcomes(passed=3)
    assert list((project / "tmp").iterdir()) == []


@pytest.mark.torch
def test_spawn_makes_faults(project: Path, pytester: pytest.Pytester) -> None:
    result = run_torch_tests(
        pytester,
        """
        import pytest
        from ranktable.simulate import SimulationError

        def add_up(rank):
            import torch
            import torch.distributed as dist
            import torch_tpu

            chip_map = torch_tpu.tpu.read_rank_table()
            torch_tpu.tpu.set_device(chip_map[rank])
            options = torch_tpu.ProcessGroupSCCLOptions()
            options.chip_map = chip_map
            dist.init_process_group("sccl", pg_options=options)
            dist.all_reduce(torch.ones(4).to(f"tpu:{chip_map[rank]}"))

        def test_it(simulated_chips):
            with pytest.raises(SimulationError, match="rank 1 .* within 9 s") as raised:
                simulated_chips.spawn(add_up, nproc=2, faults=["hang:1"], timeout_s=9)

            assert raised.value.ranks == (1,)
            assert [found.rank for found in simulated_chips.findings] == [1]
        """,
    )

    result.assert_outcomes(passed=1)
    assert list((project / "tmp").iterdir()) == []


@pytest.mark.torch
def test_spawn_refuses_what_it_cannot_start(
    project: Path, pytester: pytest.Pytester
) -> None:
    result = run_torch_tests(
        pytester,
        """
        import pytest

        def work(rank):
            pass

        @pytest.mark.parametrize(
            ("target", "options", "sentence"),
            [
                (lambda rank: None, {}, "at the top of a module"),
                (print, {}, "at the top of a module"),
                ("missing.py", {}, "there is no script 'missing.py'"),
                (work, {"nproc": 0}, "0 is not a number of chips"),
                (work, {"nodes": 0}, "0 is not a number of nodes"),
                (work, {"nproc": 2, "faults": ["hang:2"]}, "rank 2 is not among"),
                (work, {"nproc": 2, "rank_table": "t.json"}, "leave out nproc"),
                (work, {"rank_table": "t.json"}, "RT001"),
                (work, {"timeout_s": 0}, "0 seconds is not a time"),
            ],
        )
        def test_it(simulated_chips, target, options, sentence):
            with pytest.raises(ValueError, match=sentence):
                simulated_chips.spawn(target, **options)
        """,
    )

    result.assert_outcomes(passed=9)
    assert list((project / "tmp").iterdir()) == []


def test_real_package_fails_the_test_that_asks_for_simulated_chips(
    project: Path, pytester: pytest.Pytester
) -> None:
    pytester.makepyfile(**{"torch_tpu/__init__": "raise SystemExit"})
    result = run_tests(
        pytester, "import sys\nsys.path.insert(0, '.')\ndef test_it(simulated_chips): 1"
    )

    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*torch_tpu is installed here*"])
    assert list((project / "tmp").iterdir()) == []
    assert os.environ.get("RANKTABLE_SIMULATE") is None
