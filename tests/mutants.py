"""Changes the package in one place at a time, and lists the changes that no test sees.

``python -m tests.mutants --count 200 --seed 7 --folder schema --covered FILE``

Everything runs in a copy of the checkout, which is first on ``PYTHONPATH``. The fast
tests run once on statements that note when they are reached, in commands too, which are
forks. FILE keeps which test reached what until the package changes; remove it to have
new tests count. Each mutant then runs the fastest tests that reach its statement. A
mutant outside functions runs those that reach a line with the name that it defines, or
its file. A mutant that does not end is seen, too.
"""
# ruff: noqa: S311, T201 - mutants are drawn, and this is a script

from __future__ import annotations

import argparse
import ast
import copy
import importlib
import itertools
import json
import os
import random
import re
import shutil
import sys
import tempfile
import zlib
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.commands import run_process

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pytest

ROOT = Path(__file__).parent.parent
FOLDERS = ("schema", "cluster", "layout", "doctor")
LEFT_OUT = (".git", ".venv*", ".*_cache", ".hypothesis", ".torch-matrix", "__pycache__")
FAST = "not torch and not slow and not deadline"
FIRST, MOST = 30, 400
LIMIT_S, ALL_LIMIT_S = 60, 3600
# A mutant may fill a list without end.
RUN = """ulimit -v 8000000
exec timeout "$0" "$1" -m pytest -q -p no:cacheprovider --hypothesis-seed=0 "${@:2}"
"""
PAIRS = (
    *((ast.Lt, ast.LtE), (ast.Gt, ast.GtE), (ast.Eq, ast.NotEq), (ast.Is, ast.IsNot)),
    *((ast.In, ast.NotIn), (ast.And, ast.Or), (ast.Add, ast.Sub)),
    (ast.Continue, ast.Break),
)
SWAPPED: dict[type, type] = {a: b for pair in PAIRS for a, b in (pair, pair[::-1])}
NOTES = """import os
unseen = bytearray({count})
def begin():
    unseen[:] = bytes([1]) * {count}
def note(line):
    opened = os.open({log!r}, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(opened, line.encode() + bytes([10]))
    os.close(opened)
def hit(number):
    unseen[number] = 0
    note(str(number))
begin()
os.register_at_fork(after_in_child=begin)
"""


class Mutant(NamedTuple):
    """A change; ``reached`` is its statement in a function, or the name it defines."""

    path: str
    node: Any
    new: str
    reached: str


def changes(node: ast.AST) -> Iterator[tuple[ast.AST, ast.AST]]:  # noqa: C901 - cases
    """Yield what may stand in the place of a node, or of a part of it."""
    match node:
        case ast.Compare(ops=ops):
            for i, each in enumerate(ops):
                new = [*ops[:i], SWAPPED[type(each)](), *ops[i + 1 :]]
                yield node, ast.Compare(node.left, new, node.comparators)
        case ast.BoolOp() | ast.BinOp() if type(node.op) in SWAPPED:
            changed = copy.copy(node)
            changed.op = SWAPPED[type(node.op)]()
            yield node, changed
        case ast.UnaryOp(op=ast.Not()):
            yield node, node.operand
        case ast.Constant(value=bool()):
            yield node, ast.Constant(not node.value)
        case ast.Constant(value=int(value)):
            yield from ((node, ast.Constant(value + step)) for step in (1, -1))
        case ast.Return(value=ast.expr()) if not isinstance(node.value, ast.Constant):
            yield node, ast.Return(ast.Constant(None))
        case ast.Continue() | ast.Break():
            yield node, SWAPPED[type(node)]()
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test):
            if isinstance(test, (ast.Name, ast.Attribute, ast.Call, ast.NamedExpr)):
                yield test, ast.UnaryOp(ast.Not(), test)


def is_left_out(node: ast.AST, field: str, child: ast.AST) -> bool:
    """Whether a part is a text, is for type checkers, or an option of a definition."""
    match child:
        case ast.JoinedStr() | ast.keyword(arg="strict"):
            return True
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return True
    options = ["keywords"] if isinstance(node, ast.ClassDef) else []
    return field in ("annotation", "returns", "decorator_list", *options)


def place(path: str, node: ast.stmt) -> str:
    return f"{path}:{node.lineno}:{node.col_offset}"


def mutants(path: str, node: ast.AST, reached: str = "") -> Iterator[Mutant]:
    """Yield every change of a file, or of a part of it."""
    if isinstance(node, ast.stmt):
        names = [node, getattr(node, "target", None), *getattr(node, "targets", [])]
        bound = [getattr(name, "id", getattr(name, "name", "")) for name in names]
        reached = place(path, node) if ":" in reached else "".join(bound) or reached
    for old, new in changes(node):
        text = ast.unparse(new)
        text = f"({text})" if isinstance(new, ast.expr) else text
        yield Mutant(path, old, text, reached)
    for field, value in ast.iter_fields(node):
        inside = isinstance(node, ast.FunctionDef) and field == "body"
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not is_left_out(node, field, child):
                yield from mutants(path, child, f"{path}:" if inside else reached)


def with_notes(path: str, text: str, places: list[str]) -> str:
    """Return a source whose statements in functions note that they are reached."""
    tree = ast.parse(text)
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    for node in {inner: 0 for each in functions for inner in ast.walk(each)}:
        for field in ("body", "orelse", "finalbody"):
            statements = getattr(node, field, None)
            noted = []
            for each in statements if isinstance(statements, list) else []:
                i = len(places)
                noted += [*ast.parse(f"if _unseen[{i}]: _hit({i})").body, each]
                places.append(place(path, each))
            if noted:
                setattr(node, field, noted)
    imports = "from ranktable._notes import hit as _hit, unseen as _unseen\n"
    future = "from __future__ import annotations\n"
    return ast.unparse(tree).replace(future, future + imports, 1)


def pytest_runtest_logstart(nodeid: str) -> None:
    notes = importlib.import_module("ranktable._notes")
    notes.note(f">{nodeid}")
    notes.begin()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when == "call" and report.passed:
        importlib.import_module("ranktable._notes").note(f"={report.duration}")


class Copy:
    """A copy of the checkout, and the tests that reach each of its statements."""

    def __init__(self, folder: Path, kept: Path) -> None:
        self.folder, self.root = folder, folder / "copy"
        shutil.copytree(ROOT, self.root, ignore=shutil.ignore_patterns(*LEFT_OUT))
        self.sources = {
            str(file.relative_to(self.root)): file.read_text("utf-8")
            for each in FOLDERS
            for file in sorted((self.root / "ranktable" / each).rglob("*.py"))
        }
        digest = zlib.crc32(json.dumps(self.sources).encode())
        if not kept.is_file() or json.loads(kept.read_text("utf-8"))[0] != digest:
            kept.write_text(json.dumps([digest, *self.find_tests()]), "utf-8")
        _, names, reaching = json.loads(kept.read_text("utf-8"))
        self.names: list[str] = names
        self.reaching: dict[str, list[int]] = reaching

    def run(self, limit_s: int, *arguments: str) -> bool:
        """Return whether tests pass in time."""
        paths = {"PYTHONPATH": str(self.root), "TMPDIR": str(self.folder)}
        env = {**os.environ, "PYTHONDONTWRITEBYTECODE": "", **paths}
        command = ["/bin/bash", "-c", RUN, str(limit_s), sys.executable, *arguments]
        return not run_process(
            command, env=env, cwd=self.root, timeout_s=2 * limit_s
        ).status

    def write(self, path: str, text: str) -> None:
        (self.root / path).write_text(text, "utf-8")

    def find_tests(self) -> tuple[list[str], dict[str, list[int]]]:
        """Run the fast tests once; return those that pass, and which reach what.

        They are in the order of their time, and those of a statement are indices.
        """
        places: list[str] = []
        for path, text in self.sources.items():
            self.write(path, with_notes(path, text, places))
        log = self.folder / "log"
        notes = NOTES.format(count=len(places), log=str(log))
        self.write("ranktable/_notes.py", notes)
        self.run(ALL_LIMIT_S, "-p", "tests.mutants", "-m", FAST)
        for path, text in self.sources.items():
            self.write(path, text)
        seconds: dict[str, float] = {}
        reached: dict[str, set[int]] = {}
        test = ""
        for line in log.read_text("utf-8").splitlines():
            if line[0] == ">":
                test = line[1:]
            elif line[0] == "=":
                seconds[test] = float(line[1:])
            else:
                reached.setdefault(test, set()).add(int(line))
        names = sorted(seconds, key=lambda name: (seconds[name], name))
        reaching: dict[str, list[int]] = {}
        for index, name in enumerate(names):
            for number in reached.get(name, ()):
                reaching.setdefault(places[number], []).append(index)
        return names, reaching

    def tests_of(self, mutant: Mutant) -> list[str]:
        """Return the tests that reach a mutant, the fastest first."""
        found = set(self.reaching.get(mutant.reached, ()))
        if not found:
            word = re.compile(rf"\b{mutant.reached}\b")
            lines = {path: text.splitlines() for path, text in self.sources.items()}
            beside = set[int]()
            for each, tests in self.reaching.items():
                path, line, _ = each.split(":")
                found.update(tests if word.search(lines[path][int(line) - 1]) else ())
                beside.update(tests if path == mutant.path else ())
            found = found or beside
        return [self.names[index] for index in sorted(found)]

    def is_seen(self, mutant: Mutant, number: int) -> bool:
        """Whether a test of a mutant fails, or takes too long."""
        node, text = mutant.node, self.sources[mutant.path]
        lines = text.encode().splitlines(keepends=True)
        starts = [0, *itertools.accumulate(map(len, lines))]
        begin = starts[node.lineno - 1] + node.col_offset
        end = starts[node.end_lineno - 1] + node.end_col_offset
        old = text.encode()
        changed = old[:begin] + mutant.new.encode() + old[end:]
        self.write(mutant.path, changed.decode())
        # A compiled file is taken for that of its source if the time and size agree.
        os.utime(self.root / mutant.path, (number, number))
        tests = self.tests_of(mutant)
        listed = self.folder / "tests"  # one name may be too long for a command
        seen = False
        for part, limit_s in (
            (tests[:FIRST], LIMIT_S),
            (tests[FIRST:MOST], ALL_LIMIT_S),
        ):
            listed.write_text("\n".join(part), "utf-8")
            seen = seen or (bool(part) and not self.run(limit_s, "-x", f"@{listed}"))
        self.write(mutant.path, text)
        return seen


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--count", type=int, default=200, help="number of mutants")
    parser.add_argument("--seed", type=int, default=7, help="which mutants")
    parser.add_argument("--folder", choices=FOLDERS, help="only those of one folder")
    parser.add_argument("--covered", type=Path, help="keeps which test reaches what")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mutants-") as name:
        folder = Path(name)
        copied = Copy(folder, options.covered or folder / "covered")
        every = [
            mutant
            for path, text in copied.sources.items()
            if options.folder in (None, path.split("/")[1])
            for mutant in mutants(path, ast.parse(text))
        ]
        chosen = random.Random(options.seed).sample(every, options.count)
        show_survivors(copied, sorted(chosen, key=lambda each: each.path))


def show_survivors(copied: Copy, chosen: list[Mutant]) -> None:
    made, survive = Counter[str](), Counter[str]()
    for number, mutant in enumerate(chosen):
        folder = mutant.path.split("/")[1]
        made[folder] += 1
        if not copied.is_seen(mutant, number):
            survive[folder] += 1
            text = copied.sources[mutant.path]
            old = " ".join((ast.get_source_segment(text, mutant.node) or "").split())
            where = f"{mutant.path}:{mutant.node.lineno}:{mutant.node.col_offset + 1}"
            print(f"{where}: {old} -> {mutant.new}", flush=True)
    for folder in made:
        print(f"{folder}: {survive[folder]} of {made[folder]} mutants survive")


if __name__ == "__main__":
    main()
