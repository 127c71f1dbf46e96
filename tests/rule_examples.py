"""The findings of a rule's examples, judged as its command judges them."""

from __future__ import annotations

import io
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from ranktable import loads
from ranktable.cli.commands.explain import BESIDE, example_ending
from ranktable.cli.commands.explain import judge_example as validated
from ranktable.cli.site_rules import judge_by_schema
from ranktable.cluster.discovery.machine import Machine
from ranktable.cluster.host_lists import expand_hosts
from ranktable.cluster.hostfiles.launcher_formats import format_of, read_hostfile
from ranktable.cluster.merge import MergeOptions, merge_probes, merge_tables
from ranktable.cluster.specs.read_spec import read_spec
from ranktable.doctor.diagnose import judge_logs
from ranktable.doctor.lines import read_log
from ranktable.preflight.here import check_here
from ranktable.preflight.pods import check_pods
from ranktable.report.rule_pages import page_of
from ranktable.schema.check import check
from ranktable.schema.site_schema import read_site_schema
from tests.file_cases import write_files

if TYPE_CHECKING:
    from ranktable.doctor.diagnose import Diagnosis
    from ranktable.preflight.here import Checked
    from ranktable.schema.finding import Rule
    from ranktable.schema.report import Report

_DESCRIPTION = "from"
"""The option of a rule about host files: their format."""

_SCHEMA = "schema"
"""The option of a rule about a site's schema: the other file is the schema."""

_SPEC = "spec"
"""The option of a rule about cluster specs: the ending of their file names."""


def example_files(rule: Rule, data: bytes, stem: str) -> dict[str, bytes]:
    """Return the files for a command by name."""
    beside = page_of(rule).beside
    before = {} if beside is None else {BESIDE: beside}
    ending = example_ending(rule)
    return {**before, f"{stem}.{ending}": data}


def judge_example(rule: Rule, data: bytes, stem: str) -> list[Report]:
    """Return what the command of a rule finds in its bad or good example.

    Args:
        rule: The rule.
        data: One of its examples.
        stem: ``bad`` or ``good``.
    """
    page = page_of(rule)
    files = example_files(rule, data, stem)
    if page.command == "merge":
        return _merge(rule, files)
    if _SPEC in page.options:
        return [read_spec(data, file=name, limit=None).report for name in files]
    if page.command == "mesh":
        return [_judge_ranks(check(text, file=name)) for name, text in files.items()]
    if page.command == "convert":
        return [_describe(rule, text, name) for name, text in files.items()]

    if _SCHEMA in page.options:
        return [_judge_by_schema(rule, data, list(files)[-1])]
    return [validated(rule, text, name) for name, text in files.items()]


def diagnose_example(rule: Rule, data: bytes | None) -> Diagnosis:
    """Return what ``doctor`` says of an example log of a rule."""
    assert data is not None
    log = read_log(io.BytesIO(data), "job.log")
    beside = page_of(rule).beside
    return judge_logs([log], None if beside is None else loads(beside))


def unpack(example: bytes, folder: Path) -> Path:
    """Write an example of a host as a folder for ``--root``, and return it."""
    parts = (part.partition("\n") for part in example.decode().split("== ")[1:])
    write_files(folder, {path: text for path, _, text in parts})
    return folder


def check_example(rule: Rule, data: bytes | None) -> Checked:
    """Return what ``check`` says of an example of a host."""
    assert data is not None
    page = page_of(rule)
    assert page.beside is not None
    report = check(page.beside, file=BESIDE)
    if "pods" in page.options:
        return check_pods(report, data, file="pods.json")
    with TemporaryDirectory() as folder:
        machine = Machine(root=str(unpack(data, Path(folder))), env={})
        return check_here(machine, {}, report, path=BESIDE)


def _judge_ranks(report: Report) -> Report:
    """Return the report for a command that needs the ranks of a job."""
    return report.where_needed()


def _judge_by_schema(rule: Rule, data: bytes, file: str) -> Report:
    with TemporaryDirectory() as folder:
        path = Path(folder) / BESIDE
        path.write_bytes(page_of(rule).beside or b"")
        return judge_by_schema(check(data, file=file), read_site_schema(str(path)))


def _describe(rule: Rule, data: bytes, file: str) -> Report:
    form = format_of(page_of(rule).options[_DESCRIPTION])
    return read_hostfile(data, form, file=file, limit=None).report


def _merge(rule: Rule, files: dict[str, bytes]) -> list[Report]:
    names, data = list(files), list(files.values())
    hosts = page_of(rule).options.get("hosts")
    request = MergeOptions(hosts=None if hosts is None else expand_hosts(hosts))
    if names[-1].endswith(".jsonl"):
        return list(merge_probes(names, data, names, request).reports)
    reports = [check(text, file=name) for name, text in files.items()]
    return list(merge_tables(reports, names, request).reports)
