"""The one list of the kinds of files, and how a file is judged by its kind.

A ConfigMap is judged as a folder is: each of its keys is a file of some kind.
"""

from __future__ import annotations

import os
import re
from importlib import import_module
from typing import TYPE_CHECKING, Final

from ranktable.schema.check import WRAPPED, check_each, is_manifest, report_wrapping
from ranktable.schema.file_kind import (
    DESCRIPTIONS,
    LOOKED_AT_BYTES,
    FileKind,
    Source,
    not_judged,
)
from ranktable.schema.finding import Findings
from ranktable.schema.report import make_report
from ranktable.schema.rules.shape import NOT_A_RANK_TABLE
from ranktable.schema.table_marks import has_list, looks_like_any_table
from ranktable.schema.topology_file import MATRIX_OF_PATHS, PATHS_ARE_NO_LINKS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ranktable.schema.file_kind import Judge
    from ranktable.schema.report import Options, Report

KINDS: Final = (
    "cli.kinds:CONFIG_MAP",
    "schema.check:TABLE",
    "report.submission_kinds:SBATCH",
    "report.submission_kinds:JOBS",
    "cluster.specs.read_spec:SPEC",
    "cluster.merge:PROBES",
    "cluster.hostfiles.launcher_formats:PODS",
    "schema.topology_file:LINKS",
    "cluster.hccn_conf:HCCN_CONF",
    "cluster.hostfiles.launcher_formats:HOSTFILE",
    "layout.rack_files:SWITCHES",
    "layout.rack_files:NODES",
)
"""Every kind, as its module and its name there, in the order in which they are tried.

A kind is imported when it is tried: a command that gets a table pays for no other.
"""

_MANIFEST = re.compile(rb"""(?m:^|[{,])[ \t]*["']?apiVersion["']?[ \t]*:""")
_CONFIG_MAP = re.compile(rb"""\bkind["']?\s*:\s*["']?ConfigMap(?:List)?\b""")
_COMMENTS = re.compile(r"\A\ufeff?(?:[ \t]*(?:#[^\n]*)?\r?\n)*[ \t]*(?:#[^\n]*\Z)?")
OTHER_SCRIPT = "of scripts only those of Slurm, with #SBATCH lines, are judged"
_SCRIPT = re.compile(r"#!|#(?:PBS|BSUB|\$|flux:|COBALT)[ \t]")
_OF_OTHERS = (
    (PATHS_ARE_NO_LINKS, (MATRIX_OF_PATHS,)),
    (
        "of the files of Slurm only topology.conf and topology.yaml are judged",
        (
            re.compile(
                r"(?im)^(?:ClusterName|NodeName|PartitionName|SlurmctldHost)[ \t]*="
                r"|^Name=\w+[ \t].*\bFile="
            ),
        ),
    ),
    (
        "rows as srun --multi-prog takes them are not judged",
        (re.compile(r"\A\s*(?:\*|[0-9]+(?:[-,][0-9]+)*)[ \t]+[A-Za-z./]"),),
    ),
    (
        "a file of HTCondor is not judged",
        (re.compile(r"(?im)^executable\s*="), re.compile(r"(?im)^queue\b")),
    ),
    (
        "a task of dstack is not judged: its nodes are known where it runs",
        (
            re.compile(r"(?m)^type\s*:\s*(?:task|service|dev-environment)\b"),
            re.compile(r"(?m)^(?:commands|nodes|image)\s*:"),
        ),
    ),
    (
        "a job of Azure ML is not judged",
        (re.compile(r"(?m)^distribution\s*:"), re.compile(r"(?m)^resources\s*:")),
    ),
    (
        "a configuration of accelerate is not judged",
        (re.compile(r"(?m)^(?:compute_environment|distributed_type)\s*:"),),
    ),
    ("a Python program is not judged", (re.compile(r"(?m)^(?:import|from) \w"),)),
    (
        "a task of SkyPilot is not judged: its nodes are known where it runs",
        (re.compile(r"(?m)^num_nodes\s*:|\bSKYPILOT_"), re.compile(r"(?m)^run\s*:")),
    ),
    (
        "a file of compose without torchrun and its like is not judged",
        (re.compile(r"(?m)^services\s*:"),),
    ),
    (
        "it starts processes, and is a file of no scheduler or operator that is read",
        (re.compile(r"\b(?:torchrun|torch\.distributed\.|accelerate launch|mpirun)"),),
    ),
)
"""Files of other programs: why they are not judged, and what is in their text."""
_TWO_WORDS = re.compile(r"[A-Za-z_./][\w./@-]*[ \t]+[^\s:]")
"""A first line that begins as no JSON does."""
_LOG = re.compile(
    r"\s*(?:\[[A-Za-z]\w*\]:? |\[?[0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9]{2}:[0-9]{2}:"
    r"|Traceback \(most recent call last\):)"
)
"""The first line of a log: the mark of a rank, a time, or a traceback of Python."""
_MAX_MANIFEST_BYTES = 8 * 1024 * 1024


def kinds() -> Iterator[FileKind]:
    """Yield every kind; those that are not asked for are not imported."""
    for place in KINDS:
        module, _, name = place.partition(":")
        kind: FileKind = getattr(import_module(f"ranktable.{module}"), name)
        yield kind


def start_of(data: bytes) -> bytes:
    """Return the bytes by which the kind of a file is detected."""
    start = data[:LOOKED_AT_BYTES]
    return data[:_MAX_MANIFEST_BYTES] if _is_manifest(start) else start


def read_start(path: str) -> bytes:
    """Return the bytes of a file by which its kind is detected."""
    with open(path, "rb") as file:
        start = file.read(LOOKED_AT_BYTES)
        if _is_manifest(start):
            start += file.read(_MAX_MANIFEST_BYTES - len(start))
    return start


def _is_manifest(start: bytes) -> bool:
    """Whether a file holds objects of Kubernetes: lines in them are of no other kind.

    A script may contain a manifest.
    """
    is_config_map = _CONFIG_MAP.search(start) or _MANIFEST.search(start)
    return is_config_map is not None and not start.startswith(b"#!")


def kinds_like(source: Source) -> Iterator[FileKind]:
    """Yield the kinds that a file looks like, the most likely one first."""
    start = start_of(source.data)
    has_parts = _is_manifest(start)
    for kind in kinds():
        if (kind.is_part or not has_parts) and kind.detect(start, source.name):
            yield kind


def kind_named(file: str) -> FileKind | None:
    """Return the kind of the files with the name of a file, whatever they hold."""
    name = os.path.basename(file)
    return next((kind for kind in kinds() if kind.has_name(name)), None)


def kind_among(start: bytes, file: str) -> FileKind | None:
    """Return the kind of a file in a folder by its content, None for another file."""
    name = os.path.basename(file)
    has_parts = _is_manifest(start)
    for kind in kinds():
        if (kind.is_part or not has_parts) and kind.is_among(start, name):
            return kind
    return None


def judge_named(name: str) -> Judge:
    """Return what judges files of a kind or a format with this name.

    Raises:
        ArgumentError: There is no such kind or format.
    """
    kind = next((kind for kind in kinds() if kind.name == name), None)
    if kind is not None:
        judge = kind.judge
        return lambda source, options: (
            judge(source, options) or _judge_rest(source, options)
        )
    from ranktable.cluster.hostfiles.launcher_formats import judge_by_format  # 16 ms

    return judge_by_format(name)


def judge_source(
    source: Source, options: Options, *, is_sure: bool = True, is_inner: bool = False
) -> list[Report]:
    """Judge a file by the first kind that it looks like, or as a rank table.

    Args:
        source: The file.
        options: The options of the check.
        is_sure: Whether it is of a kind that is judged; if not, and it turns out to
            hold nothing, there is no report.
        is_inner: Whether it was in a ConfigMap; manifests in it are not judged.
    """
    reports: list[Report] = []
    for kind in kinds_like(source):
        if not kind.is_part and not reports:
            reports = kind.judge(source, options)
            if reports:
                break
        elif kind.is_part and not is_inner:
            reports += kind.judge(source, options)
    return reports or (_judge_rest(source, options) if is_sure else [])


def _judge_rest(source: Source, options: Options) -> list[Report]:
    """Judge a file that looks like no kind."""
    reason = reason_not_judged(source)
    if reason is not None:
        return [not_judged(source.name, reason)]
    text, body = _beginning(source)
    is_yaml = source.name.endswith(DESCRIPTIONS[:2])
    is_commented = "#" in text[: len(text) - len(body)]
    is_other = is_yaml or is_commented or _TWO_WORDS.match(body)
    if _may_be_other(source, text, body) and is_other:
        return [_unknown(source)]
    return check_each(source.data, options, file=source.name)


def reason_not_judged(source: Source) -> str | None:
    """Return why a file of no kind is not judged, None if it may be a damaged table."""
    if is_script(source):
        return OTHER_SCRIPT
    text, body = _beginning(source)
    # A message about what JSON expects in the first line would not help for these.
    is_log = _LOG.match(body) is not None
    if not (is_log or _may_be_other(source, text, body)):
        return None
    if is_manifest(source.data) or "\ufffd" in text:
        return None
    if is_log:
        return "a log is not judged; give it to doctor"
    return next(
        (why for why, marks in _OF_OTHERS if all(mark.search(body) for mark in marks)),
        None,
    )


def _beginning(source: Source) -> tuple[str, str]:
    """Return the beginning of a file, and the same without comments before it."""
    text = source.data[:LOOKED_AT_BYTES].decode("utf-8", "replace")
    return text, _COMMENTS.sub("", text)


def _may_be_other(source: Source, text: str, body: str) -> bool:
    """Whether a file begins as no rank table does."""
    is_other = body[:1] not in ("", "{", "[") and "\ufffd" not in text
    return is_other and not is_manifest(source.data)


def is_script(source: Source) -> bool:
    """Whether a file is a script, for a shell or a batch system."""
    text = source.data[:LOOKED_AT_BYTES].decode("utf-8", "replace")
    return _SCRIPT.match(text) is not None


def _unknown(source: Source) -> Report:
    titles = "a cluster spec (which has nodes and chips)"
    if not source.name.endswith(DESCRIPTIONS[:2]):
        titles = "a rank table, a cluster spec or a host file"
    finding = NOT_A_RANK_TABLE.finding(
        None,
        f"nothing here says that it is {titles}",
        hint="if it is, name its format with --from",
    )
    text = source.data.decode("utf-8", "replace")
    return make_report([finding], file=source.name, text=text)


# ConfigMaps


def _judge_config_map(source: Source, options: Options) -> list[Report]:
    """Judge every file in the ConfigMaps of a manifest, with the name ``FILE#KEY``."""
    from ranktable.schema.config_map import unwrap, vendor_of_jobs

    if len(source.data) > options.max_size_bytes:
        return check_each(source.data, options, file=source.name)
    text = source.data.decode("utf-8-sig", "replace")
    options = options._replace(vendor=vendor_of_jobs(text) or options.vendor)
    others: list[str] = []

    def is_wanted(key: str, text: bytes | None) -> bool:
        wanted = _is_wanted(key, text)
        # A line under a plain key is a value such as a version, and no file.
        if text is not None and not wanted and ("." in key or b"\n" in text):
            others.append(key)
        return wanted

    files = unwrap(text, options.max_size_bytes, options.limit, is_wanted)
    if isinstance(files, Findings):
        return [report_wrapping(files, source.data, file=source.name)]
    if files is None and has_list(source.data):
        return check_each(source.data, options, file=source.name)  # it is damaged
    reports: list[Report] = []
    for key, text in files or ():
        each = Source(f"{source.name}#{key}", text.encode(errors="replace"))
        is_sure = _is_sure(key, each.data)
        found = judge_source(each, options, is_sure=is_sure, is_inner=True)
        reports += [report._replace(key=key) for report in found]
        if not found:
            others.append(key)
    beside = tuple(f"{source.name}#{key}" for key in others)
    return [*reports[:-1], *(last._replace(beside=beside) for last in reports[-1:])]


def _is_wanted(key: str, text: bytes | None) -> bool:
    """Whether the text under a key is judged; see ``config_map.Wanted``."""
    if _is_sure(key, text):
        return True
    return text is not None and kind_among(start_of(text), key) is not None


def _is_sure(key: str, text: bytes | None) -> bool:
    is_table = text is not None and looks_like_any_table(text)
    return is_table or kind_named(key) is not None


CONFIG_MAP = FileKind(
    name=WRAPPED,
    title="a ConfigMap",
    detect=lambda start, _: _CONFIG_MAP.search(start) is not None,
    judge=_judge_config_map,
    endings=DESCRIPTIONS,
    is_part=True,
)
