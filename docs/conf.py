"""How the documentation site is built, and its pages of commands and codes written."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from typer.testing import CliRunner

import ranktable
from ranktable.cli.app import COMMANDS, make_app
from ranktable.report.catalogue import RULES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sphinx.application import Sphinx

project = "ranktable"
author = "The ranktable authors"
release = version = ranktable.__version__
extensions = [
    *("myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton"),
]
# A button copies commands alone: neither their prompt nor what they print.
copybutton_prompt_text = r"\$ |>>> |\.\.\. "
copybutton_prompt_is_regexp = True
copybutton_line_continuation_character = "\\"
html_theme = "furo"
html_title = f"ranktable {release}"
exclude_patterns = ["conf.py"]
root_doc = "index"
myst_heading_anchors = 3
# Links to files of a clone lead nowhere on a site that has no public address yet, and
# headings of terminals stand in documents that are read in a clone first.
suppress_warnings = ["misc.highlighting_failure", "myst.header"]
autodoc_typehints = "none"
autodoc_mock_imports = ["torch"]  # which nothing else here needs
autodoc_member_order = "bysource"

# Every type in a signature has to be a link, except those of torch, which has no page
# here, and those that callers get or may write as text, which are not public.
nitpicky = True
nitpick_ignore = [
    ("py:class", name)
    for name in (
        "torch.Tensor",
        "ProcessGroup",
        "SourceSpan",
        "Edit",
        "CostModel",
        "Owners",
        "ranktable.layout.communicator.Placed",
        "ranktable.layout.grid.Axis",
        "ranktable.layout.traffic.Pattern",
        "Layouts",
        "CostFacts",
    )
]
napoleon_use_ivar = True  # attributes are documented once, with their class

HERE = Path(__file__).parent
GENERATED = HERE / "generated"
PACKAGES = (
    *("ranktable", "ranktable.cluster", "ranktable.layout"),
    *("ranktable.runtime", "ranktable.dist"),
)


def _printed(*arguments: str) -> str:
    """Return what a command prints, in a terminal that is as wide as a page."""
    given = {"COLUMNS": "88", "TERMINAL_WIDTH": "88", "NO_COLOR": "1", "TERM": "dumb"}
    done = CliRunner(env=given).invoke(make_app((arguments[0],)), list(arguments))
    if done.exit_code:
        raise RuntimeError(f"{' '.join(arguments)}: {done.output}")
    return done.stdout.rstrip()


def _write(path: Path, text: str) -> None:
    """Write a page if it differs, so that a second build has nothing to do."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.is_file() or path.read_text("utf-8") != text:
        path.write_text(text, "utf-8")


def _page(title: str, text: str) -> str:
    return f"# {title}\n\n````text\n{text}\n````\n"


def _toc(title: str, names: Iterable[str]) -> str:
    listed = "\n".join(names)
    return f"```{{toctree}}\n:caption: {title}\n:maxdepth: 1\n\n{listed}\n```\n"


def _generate(_app: Sphinx) -> None:
    """Write one page a command, a code and a package, and their lists."""
    _write(GENERATED / "live.md", LIVE)
    for name in COMMANDS:
        text = _page(f"ranktable {name}", _printed(name, "--help"))
        _write(GENERATED / "commands" / f"{name}.md", text)
    _write(GENERATED / "commands" / "index.md", "# Help\n\n" + _toc("Help", COMMANDS))
    for rule in RULES:
        text = _page(f"{rule.code} {rule.name}", _printed("explain", rule.code))
        _write(GENERATED / "codes" / f"{rule.code}.md", text)
    codes = [rule.code for rule in RULES]
    _write(GENERATED / "codes" / "index.md", "# Codes\n\n" + _toc("Codes", codes))
    for name in PACKAGES:
        body = f".. automodule:: {name}\n   :members:"
        of_package = f"# {name}\n\n```{{eval-rst}}\n{body}\n```\n"
        _write(GENERATED / "api" / f"{name}.md", of_package)
    _write(GENERATED / "api" / "index.md", "# Python\n\n" + _toc("Python", PACKAGES))
    guides = {path.stem for path in HERE.glob("*.md")} - {"index"}
    readme = (HERE.parent / "README.md").read_text("utf-8")
    _write(HERE / "index.md", front_page(readme, guides))


LIVE = """# A live page

What `ranktable report` makes of 64 chips in two racks, with a layout and the links of
the chips. Click a chip, or search `tp 2`.

```{raw} html
<p><a href="../live/report.html">On a page of its own</a></p>
<iframe src="../live/report.html" title="A page of ranktable report"
  style="width: 100%; height: 820px; border: 1px solid #8888"></iframe>
```
"""


def _add_live_page(app: Sphinx, exception: Exception | None) -> None:
    """Write a page of ``ranktable report`` into the finished site."""
    if exception is not None:
        return
    row = "[2,6,7,3,1,5,4,0]"
    nodes = f"[{','.join([row] * 8)}]"
    given = ("--tp", "4", "--pp", "4", "--racks", "rack=4", "--links", "sophgo-8")
    with TemporaryDirectory() as made:
        table = f"{made}/cluster.json"
        _printed("gen", "--device-id", nodes, "--hosts", "n[1-8]", "-o", table)
        page = _printed("report", table, *given).replace(table, "cluster.json")
    _write(Path(app.outdir) / "live" / "report.html", page)


GROUPS = {
    "Begin": ("tour", "commands", "diagnostics", "templates", "json"),
    "Tables and hosts": (
        *("formats", "vendors", "specs", "hosts", "discovery", "merge", "hostfiles"),
        "topologies",
    ),
    "Layouts and changes": ("layout", "plan", "change", "report", "generated/live"),
    "In a job": (
        *("check", "launchers", "run", "bootstrap", "python", "dist", "simulate"),
        "doctor",
    ),
    "Reference": (
        *("generated/commands/index", "generated/codes/index", "generated/api/index"),
    ),
}
"""The pages of the site; those without a group come last."""


def front_page(readme: str, guides: set[str]) -> str:
    """Return the first page: the README's first steps, then the pages in groups."""
    first = readme.partition("\n## Find a mistake")[0].replace("](docs/", "](")
    grouped = {name for names in GROUPS.values() for name in names}
    groups = {**GROUPS, "The project": tuple(sorted(guides - grouped))}
    trees = (_toc(title, names) for title, names in groups.items())
    return "\n".join([first.replace("console torch", "console"), *trees])


def setup(app: Sphinx) -> None:
    """Let the pages be written before they are read, and the live one at the end."""
    app.connect("builder-inited", _generate)
    app.connect("build-finished", _add_live_page)
