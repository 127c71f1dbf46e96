"""The templates that ``ranktable init`` copies, in the order in which it lists them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import ranktable
from ranktable.cli.commands.schema import schema_of
from ranktable.cli.failure import CommandError

SCHEMA = "schema:"
"""Begins a source that is the JSON Schema of a format."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """Files to copy and change.

    Attributes:
        name: What to call it on the command line.
        summary: What it is, in a line.
        files: Each source with the path of its copy, the template's own file first.
    """

    name: str
    summary: str
    files: tuple[tuple[str, str], ...]


def _one(name: str, source: str, target: str, summary: str) -> Template:
    return Template(name=name, summary=summary, files=((source, target),))


_SPEC = "cluster.yaml"

TEMPLATES = (
    _one(
        *("one-box", "specs/one-box.yaml", _SPEC),
        summary="cluster spec of one SOPHGO box of eight chips",
    ),
    _one(
        *("two-boxes", "specs/two-boxes.yaml", _SPEC),
        summary="cluster spec of two boxes, with different chips",
    ),
    _one(
        *("rack", "specs/rack.yaml", _SPEC),
        summary="cluster spec of 32 hosts: addresses, racks, spares",
    ),
    _one(
        *("slurm", "jobs/slurm.sbatch", "slurm.sbatch"),
        summary="Slurm job that makes its table and starts ranktable run on every node",
    ),
    _one(
        *("openmpi", "jobs/openmpi.sh", "openmpi.sh"),
        summary="Open MPI job on the hosts of a cluster spec",
    ),
    _one(
        *("kubernetes", "jobs/kubernetes.yaml", "kubernetes.yaml"),
        summary="Indexed Job with its Service and the table in a ConfigMap",
    ),
    _one(
        *("torchrun", "jobs/torchrun.sh", "torchrun.sh"),
        summary="job on one host, which makes a table if there is none",
    ),
    _one(
        *("pre-commit", "checks/pre-commit.yaml", ".pre-commit-config.yaml"),
        summary="hooks that check tables and cluster specs",
    ),
    _one(
        *("github", "checks/github.yml", ".github/workflows/rank-tables.yml"),
        summary="GitHub workflow that does the same on every push",
    ),
    Template(
        name="vscode",
        summary="settings of VS Code, with the JSON Schemas",
        files=(
            ("editors/vscode.json", ".vscode/settings.json"),
            ("schema:sccl-1.0", ".vscode/sccl-1.0.schema.json"),
            ("schema:cluster-spec", ".vscode/cluster-spec.schema.json"),
        ),
    ),
    _one(
        *("table", "rank_tables/sophgo-8.json", "sccl_rank_table.json"),
        summary="rank table of one SOPHGO box of eight chips, in ring order",
    ),
    _one(
        *("table-of-two", "rank_tables/two-nodes.json", "sccl_rank_table.json"),
        summary="rank table of two hosts of eight chips",
    ),
    _one(
        *("links", "topologies/sophgo-8.txt", "links.txt"),
        summary="links of the published box, to start a list of your own from",
    ),
)


def template_of(name: str) -> Template:
    """Return the template of a name.

    Raises:
        CommandError: There is none.
    """
    for template in TEMPLATES:
        if template.name == name:
            return template
    known = ", ".join(template.name for template in TEMPLATES)
    raise CommandError(f"there is no template {name!r}; there are: {known}")


def content_of(source: str) -> tuple[bytes, bool]:
    """Return the bytes of a source, and whether it can be executed.

    Raises:
        CommandError: The installation lacks the templates.
    """
    if source.startswith(SCHEMA):
        return schema_of(source.removeprefix(SCHEMA)), False
    path = _folder() / source
    return path.read_bytes(), bool(path.stat().st_mode & 0o100)


def _folder() -> Path:
    """Return the folder of the templates: in the package, or beside it in a clone."""
    package = Path(ranktable.__file__).parent
    for folder in (package / "templates", package.parent / "templates"):
        if (folder / "specs").is_dir():
            return folder
    raise CommandError("the templates are missing from this installation")
