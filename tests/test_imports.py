"""Imports point one way, and the light parts stay light."""

from __future__ import annotations

import ast
import importlib
import inspect
import os
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import ranktable
from ranktable.cli.app import COMMANDS
from tests.commands import run_python

PACKAGE = Path(ranktable.__file__).parent
# From the bottom to the top; a folder may import those before it.
ORDER = (
    "schema", "cluster", "layout", "runtime", "dist", "simulate", "preflight", "doctor",
    "report", "cli",
)  # fmt: skip
HEAVY = ("torch", "jsonschema", "yaml", "typer", "rich", "dataclasses", "argparse")
FILES = sorted(PACKAGE.rglob("*.py"))


@cache
def imported(path: Path) -> set[str]:
    """Return the modules that a file imports, at any place."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return found


def test_imports_point_from_the_top_to_the_bottom() -> None:
    wrong = [
        (str(path.relative_to(PACKAGE)), name)
        for path in FILES
        for name in imported(path)
        if (above := name.split(".")[1:2])
        and name.startswith("ranktable.")
        # The package itself names things of every folder.
        and path.relative_to(PACKAGE).parts[0] in ORDER
        and above[0] in ORDER
        and ORDER.index(above[0]) > ORDER.index(path.relative_to(PACKAGE).parts[0])
    ]

    assert wrong == []


class WithoutTypes(ast.NodeTransformer):
    """Leaves out the imports that only a type checker sees."""

    def visit_If(self, node: ast.If) -> ast.If | None:
        is_for_types = ast.unparse(node.test) == "TYPE_CHECKING"
        return None if is_for_types else node


def files_needed(*, for_types: bool) -> dict[str, set[str]]:
    """Return the modules that each module of the package imports."""
    modules = {
        ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts): path
        for path in FILES
    }
    modules = {name.removesuffix(".__init__"): at for name, at in modules.items()}
    graph: dict[str, set[str]] = {}
    for name, path in modules.items():
        tree: ast.AST = ast.parse(path.read_text("utf-8"))
        found = {
            module
            if (module := f"{node.module}.{alias.name}") in modules
            else node.module
            for node in ast.walk(tree if for_types else WithoutTypes().visit(tree))
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }
        graph[name] = {str(one) for one in found if one in modules} - {name}
    assert "ranktable.schema.document" in graph["ranktable.schema.json_parser"]
    return graph


def test_no_files_need_each_other() -> None:
    TopologicalSorter(files_needed(for_types=False)).prepare()  # raises CycleError


def test_at_most_two_files_name_the_types_of_each_other() -> None:
    graph = files_needed(for_types=True)
    graph["ranktable"] = set()  # it names things of every folder
    needed = {name: set(direct) for name, direct in graph.items()}
    for via in graph:  # the transitive closure
        for all_needed in needed.values():
            if via in all_needed:
                all_needed.update(needed[via])
    circles = {
        frozenset(other for other in needed[name] if name in needed[other])
        for name in graph
    }

    assert [sorted(circle) for circle in circles if len(circle) > 2] == []


def test_commands_share_helpers_that_stand_beside_them() -> None:
    commands = "ranktable.cli.commands"
    wrong = [
        (path.name, name)
        for path in (PACKAGE / "cli").rglob("*.py")
        for name in imported(path)
        if name.startswith(f"{commands}.")
    ]

    assert wrong == []


@pytest.mark.parametrize("part", ["schema", "cluster", "layout", "report", "cli"])
def test_torch_is_left_to_the_parts_that_run_in_a_job(part: str) -> None:
    for path in (PACKAGE / part).rglob("*.py"):
        assert not {name for name in imported(path) if name.split(".")[0] == "torch"}


def test_no_module_hides_a_public_name() -> None:
    # Whoever imports a module first puts it where its package has the name.
    for file in PACKAGE.rglob("__init__.py"):
        if "path" in file.relative_to(PACKAGE).parts:
            continue  # what bears the vendors' names is laid out as theirs is
        modules = {path.stem for path in file.parent.iterdir()} - {"__init__"}

        assert not modules & set(public_names(file)), file


def public_names(file: Path) -> list[str]:
    """Return ``__all__`` of a file."""
    for node in ast.parse(file.read_text("utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return list(ast.literal_eval(node.value))
    return []


def modules_after(code: str) -> set[str]:
    code = f"import sys; {code}; print(*sys.modules)"
    done = run_python("-c", code)
    assert done.status == 0, done.err
    return set(done.out.split())


def test_import_ranktable_loads_nothing_heavy() -> None:
    modules = modules_after("import ranktable")

    assert not modules & {*HEAVY, "msgspec", "json"}


def test_reading_a_small_table_loads_no_slow_library(
    tmp_path: Path,
) -> None:
    path = tmp_path / "table.json"
    path.write_bytes(
        b'{"version":"1.0","node_list":[{"device_list":'
        b'[{"device_id":"5","rank":"0"}]}]}'
    )
    modules = modules_after(
        f"import ranktable; assert ranktable.read_rank_table({str(path)!r}) == [5]"
    )

    # The import of msgspec takes longer than everything else.
    heavy = {*HEAVY, "msgspec", "ranktable.schema.model", "ranktable.cli"}
    assert not modules & heavy


def test_checking_loads_no_schema_library_and_no_torch() -> None:
    modules = modules_after("import ranktable; ranktable.check(b'{}')")

    assert not modules & {"torch", "jsonschema", "yaml", "typer", "rich"}


def test_launcher_formats_load_yaml_only_where_one_is_read_or_written() -> None:
    modules = modules_after("from ranktable.cluster.hostfiles import launcher_formats")

    assert not modules & {"torch", "yaml", "jsonschema", "typer", "rich"}


def test_layouts_need_neither_torch_nor_the_command_line() -> None:
    modules = modules_after(
        "from ranktable.layout import ParallelLayout; ParallelLayout(tp=2).groups('tp')"
    )

    assert not modules & {"torch", "jsonschema", "yaml", "typer", "rich", "msgspec"}
    assert not {name for name in modules if name.startswith("ranktable.cli")}


def test_a_command_loads_no_other() -> None:
    modules = modules_after(
        "from ranktable.cli.app import app_for; app_for(['show', '-h'])"
    )

    loaded = {
        name
        for name in COMMANDS
        if f"ranktable.cli.commands.{module_of(name)}" in modules
    }
    assert loaded == {"show"}


@pytest.mark.parametrize("arguments", ["[]", "['--help']", "['shrin']"])
def test_no_command_is_loaded_where_none_is_named(arguments: str) -> None:
    modules = modules_after(
        f"from ranktable.cli.app import app_for; app_for({arguments})"
    )

    assert (
        not {f"ranktable.cli.commands.{module_of(name)}" for name in COMMANDS} & modules
    )


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_does_what_the_list_says(name: str) -> None:
    module = importlib.import_module(f"ranktable.cli.commands.{module_of(name)}")
    said = inspect.getdoc(getattr(module, module_of(name))) or ""

    assert " ".join(said.split("\n\n")[0].split()) == COMMANDS[name]


def test_a_shell_completes_the_options_of_a_command() -> None:
    asked = {
        "_RANKTABLE_COMPLETE": "complete_bash",
        "COMP_WORDS": "ranktable fit --ke",
        "COMP_CWORD": "2",
    }

    done = run_python("-m", "ranktable", env={**os.environ, **asked})

    assert done.out.split() == ["--keep"]


def module_of(name: str) -> str:
    return name.replace("-", "_")


def test_every_public_name_can_be_had() -> None:
    for package in ("ranktable", "ranktable.layout", "ranktable.runtime"):
        code = f"import {package} as p; [getattr(p, n) for n in p.__all__]"
        assert modules_after(code)


def test_the_package_is_the_command() -> None:
    done = run_python("-m", "ranktable", "gen", "--device-id", "[[3,1]]", "-o", "-")

    assert (done.status, done.err) == (0, "")
    assert '"device_list"' in done.out
