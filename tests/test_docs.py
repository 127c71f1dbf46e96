"""The documents are true: what they show is run, and compared with what they say.

In README.md and docs/*.md the fenced blocks of a document are run from top to bottom in
one folder that looks like a clone, and in one environment: what a block exports lasts
until the end of the document, because a reader pastes all blocks into one shell:

* ``console``: each line after ``$`` is a command of bash; the lines below it are what
  it prints, on both streams. A line ``...`` stands for any lines.
* ``console torch``: the same, but it needs torch and starts processes.
* ``python`` with ``>>>``: a doctest; ``python torch`` is one that needs torch.
* any block below the words "Save this as `NAME`:" is written to that file.

The sessions in tests/sessions are run in the same way. ``--update-golden`` writes what
their commands print; it leaves the documents alone.
"""

from __future__ import annotations

import doctest
import html
import json
import re
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import ranktable
from ranktable import cluster, layout, runtime
from ranktable.report.catalogue import RULES
from ranktable.runtime.launchers.declared import LAUNCHERS
from ranktable.runtime.launchers.nesting import NESTINGS
from tests.commands import TORCH_ENVIRONMENT, run_in_shell, run_process, with_torch
from tests.conftest import CORPUS
from tests.test_launchers import CASES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from ranktable.runtime.launchers.launcher import Launcher
    from tests.commands import Commands
    from tests.conftest import Run

ROOT = Path(__file__).parent.parent
TEMPLATES = ROOT / "templates"
GUIDES = set((ROOT / "docs").glob("*.md")) - {ROOT / "docs" / "index.md"}
DOCUMENTS = [ROOT / "README.md", *sorted(GUIDES)]
SESSIONS = sorted((ROOT / "tests" / "sessions").glob("*.md"))
SUBMISSIONS = ROOT / "tests" / "submissions" / "plain"
PROSE = [*DOCUMENTS, ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md"]
TIMEOUT_S = 120
END_OF_OUTPUT = "\x1e"  # ASCII's record separator, which no command prints

FENCE = re.compile(r"^```(\w*)( torch)?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SAVED = re.compile(r"Save this as `([\w./-]+)`:\n\n\Z")
LINK = re.compile(r"\]\(([^)\s]+)\)")
FIELDS = (
    *("rank", "world_size", "local_rank", "local_world_size"),
    *("node_rank", "num_nodes", "master_addr", "master_port"),
    *("host", "device_id", "local_chip_map"),
)
# Variables that a launcher sets in some of its jobs and that the environments of the
# launchers' own tests lack; of two for one field, those that are taken first.
MORE_ENVIRONMENTS = (
    {"SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "4", "SLURM_GTIDS": "0,1"},
    {"TPU_WORKER_ID": "0", "TPU_WORKER_HOSTNAMES": "t0,t1"},
    {"RANK_TABLE_FILE": "t.json", "DEVICE_ID": "0"},
)


@dataclass(frozen=True)
class Block:
    """A fenced block of a document."""

    language: str
    needs_torch: bool
    text: str
    saved_as: str | None
    line: int


def blocks_of(document: Path) -> Iterator[Block]:
    text = document.read_text()
    for fence in FENCE.finditer(text):
        before = text[: fence.start()]
        saved = SAVED.search(before)
        yield Block(
            language=fence[1],
            needs_torch=fence[2] is not None,
            text=fence[3],
            saved_as=saved[1] if saved else None,
            line=before.count("\n") + 2,
        )


def commands_of(text: str) -> list[tuple[str, str]]:
    """Return each command of a console block with the output that is shown."""
    # A command goes on in the next line after a backslash.
    parts = re.split(r"^\$ ((?:.*\\\n)*.*)\n", text, flags=re.MULTILINE)
    assert not parts[0], "a console block begins with a command"
    return list(zip(parts[1::2], parts[2::2], strict=True))


def run_console(
    block: Block, folder: Path, tools: Path, session: Path | None = None
) -> None:
    """Run the commands of a block, with those of ``tools`` before any others.

    Args:
        block: The block.
        folder: Where they run.
        tools: The folder of our commands.
        session: Where the output that is shown is replaced; None to judge it.
    """
    commands = commands_of(block.text)
    mark = f"printf '{END_OF_OUTPUT}'\n"
    script = "".join(f"{command}\n{mark}" for command, _ in commands)
    exports = folder / ".venv" / "exports"  # of the blocks before
    exports.touch()
    more = {**TORCH_ENVIRONMENT} if block.needs_torch else {}
    more.pop("OMP_NUM_THREADS", None)  # without it torchrun prints a warning
    done = run_in_shell(
        f". {exports}; exec 2>&1\n{script}export -p | grep -v ' PATH=' > {exports}",
        folder,
        programs=tools,
        env={**more, "TMPDIR": str(folder)},
        timeout_s=TIMEOUT_S,
    )
    outputs = done.out.split(END_OF_OUTPUT)
    for (command, shown), output in zip(commands, outputs, strict=False):
        if session is not None:
            old, new = (f"$ {command}\n{text}" for text in (shown, output))
            session.write_text(session.read_text().replace(old, new))
        elif not is_output(shown, output):
            assert f"$ {command}\n{output}" == f"$ {command}\n{shown}"
    assert len(outputs) == len(commands) + 1


def is_output(shown: str, output: str) -> bool:
    """Whether a document shows this output, a line ``...`` being any lines."""
    pattern = "".join(
        r"(?:.*\n)*" if line == "...\n" else re.escape(line)
        for line in shown.splitlines(keepends=True)
    )
    ended = output if output.endswith("\n") or not output else f"{output}\n"
    return re.fullmatch(pattern, ended) is not None


def run_doctest(block: Block, values: dict[str, object], document: Path) -> None:
    test = doctest.DocTestParser().get_doctest(
        block.text, values, document.name, str(document), block.line
    )
    said: list[str] = []
    result = doctest.DocTestRunner().run(test, out=said.append, clear_globs=False)

    assert result.failed == 0, "".join(said)
    values.update(test.globs)


def run_document(
    document: Path, folder: Path, tools: Path, *, torch: Path | None = None
) -> None:
    """Run a document; its blocks that need torch too, where programs have it."""
    values: dict[str, object] = {}
    for block in blocks_of(document):
        if block.saved_as is not None:
            (folder / block.saved_as).write_text(block.text)
        elif block.needs_torch and torch is None:
            continue
        elif block.language == "python":
            run_doctest(block, values, document)
        elif block.language == "console":
            run_console(block, folder, (block.needs_torch and torch) or tools)


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that looks like a clone in which ``make`` has installed everything."""
    for name in ("examples", "templates"):
        shutil.copytree(ROOT / name, tmp_path / name)
    shutil.copy(ROOT / "Makefile", tmp_path)
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv" / "bin").symlink_to(Path(sys.executable).parent)
    for name in ("pyproject.toml", ".venv/base", ".venv/torch"):
        (tmp_path / name).touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RANK_TABLE_FILE", raising=False)
    return tmp_path


def named(document: Path) -> str:
    return document.name


@pytest.mark.parametrize("document", DOCUMENTS, ids=named)
def test_examples_print_what_the_document_shows(
    document: Path, clone: Path, commands: Commands
) -> None:
    run_document(document, clone, commands.folder)


@pytest.mark.parametrize("session", SESSIONS, ids=named)
def test_commands_print_what_the_session_shows(
    session: Path, clone: Path, commands: Commands, pytestconfig: pytest.Config
) -> None:
    (clone / "corpus").symlink_to(CORPUS)
    (clone / "submissions").symlink_to(SUBMISSIONS)
    is_update = pytestconfig.getoption("--update-golden")
    for block in blocks_of(session):
        run_console(block, clone, commands.folder, session if is_update else None)


@pytest.mark.slow
@pytest.mark.torch
@pytest.mark.parametrize(
    "document",
    [d for d in DOCUMENTS if any(block.needs_torch for block in blocks_of(d))],
    ids=named,
)
def test_examples_with_torch_print_what_the_document_shows(
    document: Path, clone: Path, commands: Commands
) -> None:
    run_document(document, clone, commands.folder, torch=with_torch())


@pytest.mark.parametrize("document", DOCUMENTS, ids=named)
def test_every_python_block_is_run(document: Path) -> None:
    idle = [
        block.line
        for block in blocks_of(document)
        if block.language == "python" and not (block.saved_as or ">>>" in block.text)
    ]

    assert idle == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=named)
def test_json_examples_parse(document: Path) -> None:
    for block in blocks_of(document):
        if block.language == "json":
            json.loads(block.text)


def test_tables_shown_as_formats_are_sound() -> None:
    tables = [
        block.text.encode()
        for block in blocks_of(ROOT / "docs" / "formats.md")
        if block.language == "json" and '"version"' in block.text
    ]
    reports = [ranktable.check(table) for table in tables]

    assert all(report.ok for report in reports)
    # The manual's own form, second on the page, lacks world_rank; the page says so.
    assert [report.totals for report in reports] == [{}, {"RT118": 1}, {}, {}]


def test_ellipsis_stands_for_any_lines_and_nothing_else_does() -> None:
    assert is_output("a\n...\nd\n", "a\nb\nc\nd\n")
    assert is_output("a\n...\n", "a\n")
    assert not is_output("a\n...\nd\n", "a\nb\n")
    assert not is_output("a.\n", "ab\n")
    assert not is_output("", "a\n")


@pytest.mark.parametrize(
    "document", [*PROSE, TEMPLATES / "README.md"], ids=lambda d: d.parent.name + d.name
)
def test_links_between_documents_resolve(document: Path) -> None:
    targets = [t for t in LINK.findall(document.read_text()) if "://" not in t]

    assert [t for t in targets if not (document.parent / t).exists()] == []


def picture(text: str) -> str:
    """Return an SVG of what a terminal shows of a text with colours."""
    style, lines = "", []
    for line in text.splitlines():
        spans = []
        for code, part in re.findall("(?:\x1b\\[([0-9;]*)m)?([^\x1b]*)", line):
            style = " ".join(COLOURS[one] for one in code.split(";") if one) or style
            style = "" if code == "0" else style
            spans.append(f"<tspan {style}>{html.escape(part)}</tspan>" if part else "")
        lines.append(f'<tspan x="16" dy="18">{"".join(spans)}</tspan>')
    size = f'width="700" height="{18 * len(lines) + 24}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="monospace" '
        'font-size="13" xml:space="preserve">\n'
        '<rect width="100%" height="100%" rx="6" fill="#1e1e1e"/>\n'
        '<text y="4" fill="#d4d4d4">\n' + "\n".join(lines) + "\n</text>\n</svg>\n"
    )


COLOURS = {
    "0": "",
    "1": 'font-weight="bold"',
    "31": 'fill="#f14c4c"',
    "32": 'fill="#23d18b"',
    "34": 'fill="#3b8eea"',
    "36": 'fill="#29b8db"',
}


def test_the_picture_of_the_readme_is_what_a_terminal_shows(
    run: Run, tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    readme = ROOT / "README.md"
    (block,) = (each for each in blocks_of(readme) if each.saved_as == "team.json")
    (tmp_path / "team.json").write_text(block.text)
    shown = run(
        *("ranktable", "validate", "team.json", "--format", "full"),
        *("--color", "always"),
    )
    text = f"$ ranktable validate team.json\n{shown.out}"
    file = ROOT / "docs" / "terminal.svg"
    if pytestconfig.getoption("--update-golden"):
        file.write_text(picture(text))

    assert file.read_text() == picture(text)
    assert "docs/terminal.svg" in readme.read_text()


def code_table() -> str:
    """Return the table of all codes, as docs/diagnostics.md has it."""
    rows = [
        f"| {rule.code} | {rule.name} | {rule.severity.value} | {rule.summary} |\n"
        for rule in RULES
    ]
    return "| code | name | severity | defect |\n|---|---|---|---|\n" + "".join(rows)


def said_by(launcher: Launcher) -> dict[str, list[str]]:
    """Return the variables from which a launcher says each field."""
    said = {name: [variable] for name, variable in launcher.fields.items()}
    if launcher.more is not None:
        for env in (*MORE_ENVIRONMENTS, *(case.env for case in CASES.values())):
            claims = launcher.more(env) if launcher.is_present(env) else ()
            for name, _, variable in claims:
                if variable not in said.setdefault(name, []):
                    said[name].append(variable)
    return said


def code_list(words: Iterable[str]) -> str:
    return ", ".join(f"`{word}`" for word in words)


def marks_of(launcher: Launcher) -> str:
    """Return how a launcher is known."""
    where_not = (f"{name}={value}" for name, value in launcher.not_where)
    absent = code_list((*launcher.absent, *where_not))
    only = dict(launcher.only_where)
    marks = code_list(
        f"{name}={only.pop(name)}" if name in only else name
        for name in launcher.markers
    )
    if only:
        marks += f", if set {code_list(f'{k}={v}' for k, v in only.items())}"
    choice = " or ".join(f"`{name}`" for name in launcher.any_of)
    known_by = ", ".join(filter(None, (marks, choice))) or "any of its variables"
    return known_by + (f"; without {absent}" if absent else "")


def launcher_table() -> str:
    """Return the table of all launchers, as docs/launchers.md has it."""
    lines = [
        "| launcher | level | known by | says | does not say |\n",
        "|---|---|---|---|---|\n",
    ]
    for launcher in LAUNCHERS:
        said = said_by(launcher)
        says = "; ".join(
            f"{name}: {code_list(said[name])}" for name in FIELDS if name in said
        )
        unsaid = ", ".join(name for name in FIELDS if name not in said) or "-"
        lines.append(
            f"| {launcher.name} | {launcher.level.value} | {marks_of(launcher)} "
            f"| {says} | {unsaid} |\n"
        )
    return "".join(lines)


def nesting_table() -> str:
    """Return the table of what runs inside what, as docs/launchers.md has it."""
    lines = ["| inside | around | only where | source |\n", "|---|---|---|---|\n"]
    for row in NESTINGS:
        where = []
        if row.program is not None:
            where.append(
                "`{}` is `{}`, and that around has one process".format(*row.program)
            )
        if row.one_agent_a_node:
            where.append("that around has one process a node")
        if row.may_be_reversed:
            where.append("that inside has several processes, or that around has one")
        lines.append(
            f"| {', '.join(row.inner)} | {', '.join(row.outer)} "
            f"| {'; '.join(where) or '-'} | {row.source} |\n"
        )
    return "".join(lines)


@pytest.mark.parametrize(
    ("page", "name", "made"),
    [
        ("diagnostics.md", "codes", code_table),
        ("launchers.md", "launchers", launcher_table),
        ("launchers.md", "nesting", nesting_table),
    ],
)
def test_table_made_from_the_code_is_what_the_code_says(
    page: str, name: str, made: Callable[[], str], request: pytest.FixtureRequest
) -> None:
    path = ROOT / "docs" / page
    begin, end = f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->"
    before, _, rest = path.read_text().partition(begin)
    table, _, after = rest.partition(end)
    if request.config.getoption("--update-golden"):
        path.write_text(f"{before}{begin}{made()}{end}{after}")
        return

    assert table == made()


@pytest.mark.parametrize(
    ("pages", "names"),
    [
        ("python.md", ranktable.__all__),
        ("bootstrap.md", runtime.__all__),
        ("hosts.md python.md", cluster.__all__),
        ("layout.md plan.md", layout.__all__),
    ],
)
def test_every_public_name_is_documented(pages: str, names: list[str]) -> None:
    text = "".join((ROOT / "docs" / page).read_text() for page in pages.split())

    assert [name for name in names if not re.search(rf"`[^`]*\b{name}\b", text)] == []


def test_template_of_the_box_is_what_the_generator_writes(run: Run) -> None:
    made = run(
        "ranktable", "gen", "--device-id", "[[0..7]]", "--ring", "sophgo-8", "-o", "-"
    )

    assert (TEMPLATES / "rank_tables" / "sophgo-8.json").read_text() == made.out


def test_templates_of_rank_tables_have_no_errors() -> None:
    links = str(TEMPLATES / "topologies" / "sophgo-8.txt")
    found = {
        path.name: [d.code for d in ranktable.check(path, topology=links).diagnostics]
        for path in (TEMPLATES / "rank_tables").iterdir()
    }

    assert found == {"sophgo-8.json": [], "two-nodes.json": ["RT505"]}


def test_template_of_the_links_is_the_published_box() -> None:
    from ranktable.schema.topology import SOPHGO_8
    from ranktable.schema.topology_file import find_topology

    assert find_topology(str(TEMPLATES / "topologies" / "sophgo-8.txt")) == SOPHGO_8


def test_every_template_is_listed() -> None:
    listed = set(LINK.findall((TEMPLATES / "README.md").read_text()))
    files = [path for path in TEMPLATES.rglob("*") if path.is_file()]
    there = {str(path.relative_to(TEMPLATES)) for path in files}

    assert listed | {"README.md", "index.toml"} == there


def test_job_script_is_bash() -> None:
    script = TEMPLATES / "jobs" / "torchrun.sh"
    done = run_process(["/bin/bash", "-n", script])

    assert (done.status, done.err) == (0, "")


def test_the_demo_makes_its_table_without_a_finding(run: Run) -> None:
    (chips,) = re.findall(r"--device-id '(.*?)'", (ROOT / "Makefile").read_text())
    made = run("ranktable", "gen", "--device-id", chips)

    assert made.err == "wrote sccl_rank_table.json: 1 node, 8 ranks\n"


@pytest.mark.torch
def test_job_script_makes_a_table_and_starts_a_process_for_each_rank(
    clone: Path,
) -> None:
    command = "DEVICES='[[4,5]]' bash templates/jobs/torchrun.sh examples/all_reduce.py"
    shown = "rank 0: chip 4: [2., 2., 2., 2.]\nrank 1: chip 5: [2., 2., 2., 2.]\n"
    block = Block("console", True, f"$ {command} 2>log | sort\n{shown}", None, 0)

    run_console(block, clone, with_torch())

    assert "wrote sccl_rank_table.json: 1 node, 2 ranks" in (clone / "log").read_text()
