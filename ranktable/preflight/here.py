"""``check`` on one host: every rule that applies, and what could not be looked at."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from ranktable.cluster.discovery.machine import Machine, NotDetectedError
from ranktable.preflight.comparisons import DoesNotApplyError
from ranktable.preflight.facts import ENVIRON, Declared, Facts, find_node, names_of
from ranktable.preflight.rules import HOST, OF_HOST
from ranktable.runtime import chip_map
from ranktable.runtime.agreement import refuse_other_table
from ranktable.runtime.environment import Environment, resolve_environment
from ranktable.runtime.errors import (
    ConflictingVariablesError,
    InvalidVariableError,
    LaunchEnvironmentError,
)
from ranktable.runtime.resolution import one_chip_by
from ranktable.schema.check import check_bytes, make_options
from ranktable.schema.chips import npu_of
from ranktable.schema.document import Location
from ranktable.schema.finding import Diagnostic, Severity
from ranktable.schema.report import located
from ranktable.schema.selection import Selection

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from ranktable.preflight.comparisons import Disagreement
    from ranktable.preflight.rules import HostRule
    from ranktable.schema.finding import Finding
    from ranktable.schema.report import Report


class Looked(NamedTuple):
    """A rule that found nothing, or could not be checked and why."""

    code: str
    name: str
    why: str = ""


@dataclass(frozen=True, kw_only=True)
class Checked:
    """What a check has found.

    Attributes:
        subject: What was checked, in words.
        diagnostics: What differs.
        agrees: What was checked and agrees.
        not_checked: What could not be looked at.
        measured: What was measured, as plain data.
        ignored: How many findings of each code and severity an option leaves out.
    """

    subject: str
    diagnostics: tuple[Diagnostic, ...] = ()
    agrees: tuple[Looked, ...] = ()
    not_checked: tuple[Looked, ...] = ()
    measured: tuple[Mapping[str, object], ...] = ()
    ignored: Mapping[tuple[str, Severity], int] = field(default_factory=dict)

    @property
    def is_agreed(self) -> bool:
        """Whether nothing differs; notes do not count."""
        return all(each.severity is Severity.NOTE for each in self.diagnostics)

    @property
    def has_looked(self) -> bool:
        """Whether anything was checked at all."""
        return bool(self.diagnostics or self.agrees)

    def only(self, select: Sequence[str], ignore: Sequence[str]) -> Checked:
        """Return this with only some codes, given as their beginnings."""
        wanted = Selection(tuple(select), tuple(ignore))
        return replace(
            self,
            diagnostics=tuple(d for d in self.diagnostics if wanted.wants(d.code)),
            agrees=tuple(n for n in self.agrees if wanted.wants(n.code)),
            not_checked=tuple(n for n in self.not_checked if wanted.wants(n.code)),
            ignored=wanted.left_out(self.diagnostics),
        )


def recorded_variables(machine: Machine, env: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of the job: for a recorded host those of its recording."""
    if machine.is_this_one or not machine.exists(ENVIRON):
        return dict(env)
    lines = machine.text(ENVIRON).replace("\0", "\n").splitlines()
    pairs = [line.partition("=") for line in lines if "=" in line]
    return {name.strip(): value for name, _, value in pairs}


def check_here(
    machine: Machine,
    env: Mapping[str, str],
    report: Report | None = None,
    *,
    host: str | None = None,
    path: str | None = None,
) -> Checked:
    """Compare what a table declares with one host.

    Args:
        machine: The host.
        env: The variables of the job.
        report: The report of a sound table, None without one.
        host: What the table calls this host, or the index of its node.
        path: The table as it was named.
    """
    env = recorded_variables(machine, env)
    facts = Facts(machine=machine, env=env, path=path)
    contradiction: LaunchEnvironmentError | None = None
    environment = Environment()
    try:
        environment = resolve_environment(env, has_address=True)
    except LaunchEnvironmentError as error:
        contradiction = error
    declared = None
    if report is not None:
        declared = _declared(facts, report, environment, host)
        contradiction = contradiction or _contradiction(environment, declared, env)
    found, agrees, not_checked = compare_host(OF_HOST, facts, declared)
    subject = host or (machine.host() if machine.has_name else "the recorded host")
    diagnostics = _located(found, report, subject)
    diagnostics += _by_generation(facts, report)
    if isinstance(contradiction, (InvalidVariableError, ConflictingVariablesError)):
        diagnostics.append(_of_environment(contradiction, subject))
    elif contradiction is not None:
        not_checked.append(
            Looked(contradiction.code, "environment", contradiction.message)
        )
    return Checked(
        subject=_subject(subject, declared, report),
        diagnostics=tuple(diagnostics),
        agrees=tuple(agrees),
        not_checked=tuple(not_checked),
    )


def compare_host(
    wanted: Iterable[HostRule], facts: Facts, declared: Declared | None
) -> tuple[list[Finding], list[Looked], list[Looked]]:
    """Return what differs, what agrees, and what could not be looked at.

    Args:
        wanted: The rules.
        facts: The host.
        declared: The rows of this host in the table, None without one.
    """
    found: list[Finding] = []
    agrees, not_checked = [], []
    for rule in wanted:
        if not _applies(rule, facts, declared):
            continue
        differences: list[Disagreement] = []
        try:
            assert rule.find is not None
            differences.extend(rule.find(facts, declared))
        except DoesNotApplyError:
            continue
        except NotDetectedError as error:
            not_checked.append(Looked(rule.code, rule.name, str(error)))
        else:
            if not differences:
                agrees.append(Looked(rule.code, rule.name))
        found += [_finding(rule, each, declared) for each in differences]
    return found, agrees, not_checked


def _declared(
    facts: Facts, report: Report, environment: Environment, host: str | None
) -> Declared:
    table = report.sound_table()
    names = names_of(facts, host, environment.host)
    node_rank = find_node(table, names, is_index=host is not None)
    rank = environment.rank
    is_unnamed = not any(table.hosts) and host is None
    if node_rank is None and is_unnamed and rank is not None and rank < table.rank_end:
        node_rank = table.node_rank_of(rank)
    return Declared(report=report, table=table, node_rank=node_rank, named=names)


def _contradiction(
    environment: Environment, declared: Declared, env: Mapping[str, str]
) -> LaunchEnvironmentError | None:
    """Return what the variables of the job say of its ranks against the table.

    Those of Slurm or MPI are about the step of this check, which may have one process
    a host. CHIP_MAP is about the host, whatever the size of the step.
    """
    is_of_job = environment.sources.get("world_size") in ("WORLD_SIZE", "RANK_SIZE")
    if declared.node_rank is not None:
        environment = replace(environment, host=declared.node.host)
    try:
        if is_of_job:
            refuse_other_table(environment, declared.table, own_chip=one_chip_by(env))
        elif declared.node_rank is not None:
            chips = declared.table.local_chip_map(declared.node_rank)
            chip_map.refuse_contradiction(environment.local_chip_map, chips)
    except LaunchEnvironmentError as error:
        return error
    return None


def _of_environment(error: LaunchEnvironmentError, host: str) -> Diagnostic:
    return Diagnostic(
        code=error.code,
        severity=Severity.ERROR,
        location=Location(file=host),
        message=error.message,
    )


def _applies(rule: HostRule, facts: Facts, declared: Declared | None) -> bool:
    """Whether a rule is about this host and table."""
    is_known = declared is not None and declared.node_rank is not None
    if rule is HOST:
        return declared is not None
    if rule.is_about_table and not is_known:
        return False
    if declared is not None and not is_known and not rule.is_about_npus:
        return False  # what concerns other rows is not about this job
    is_npu_table = declared is not None and declared.is_ascend
    return not rule.is_about_npus or is_npu_table or facts.is_ascend


def _finding(rule: HostRule, each: Disagreement, declared: Declared | None) -> Finding:
    hint = each.hint or rule.fix
    span = each.span(declared)
    return rule.finding(span, each.message, hint=hint, severity=each.severity)


def _located(
    found: Sequence[Finding], report: Report | None, host: str
) -> list[Diagnostic]:
    """Return findings as diagnostics, in the order of their codes."""
    rows = [finding for finding in found if finding.span is not None]
    others = [finding for finding in found if finding.span is None]
    diagnostics = [finding.diagnostic(Location(file=host)) for finding in others]
    if report is not None:
        diagnostics += located(rows, _text(report), report.file)
    return sorted(diagnostics, key=lambda each: each.code)


def _text(report: Report) -> str | None:
    if report.text is None and report.data is not None:
        return report.data.decode("utf-8-sig", "replace")
    return report.text


def _by_generation(facts: Facts, report: Report | None) -> Iterator[Diagnostic]:
    """Yield what validate says of the table on the chips that this host has."""
    chip = generation(facts)
    if report is None or report.data is None or report.key or chip is None:
        return
    judged = check_bytes(
        report.data, make_options(chip=chip, limit=5), file=report.file
    )
    yield from (each for each in judged.diagnostics if each.severity is Severity.ERROR)


_SCCL_CHIPS = {"BM1690": "bm1690", "SG2260": "sg2260"}


def generation(facts: Facts) -> str | None:
    """Return what ``--chip`` calls the chips of a host, None if it has no name."""
    model = facts.probe.model or ""
    if facts.probe.vendor == "ascend" and (npu := npu_of(model)):
        return npu
    return _SCCL_CHIPS.get(model.upper())


def _subject(host: str, declared: Declared | None, report: Report | None) -> str:
    if report is None or declared is None:
        return f"{host}, without a table"
    table = f"{report.file} ({declared.table.digest()[:8]})"
    if declared.node_rank is None:
        return f"{host}, {table}"
    ranks = sorted(device.rank for device in declared.node.devices)
    return (
        f"{host}, {table}: node {declared.node_rank} of {declared.table.num_nodes}, "
        f"{len(ranks)} of {declared.table.world_size} ranks"
    )


def record(machine: Machine, env: Mapping[str, str]) -> None:
    """Read everything that a check may need of a host, so that it is recorded."""
    check_here(machine, env)
    facts = Facts(machine=machine, env=env)
    reads: list[Callable[[], object]] = [
        lambda: facts.addresses,
        lambda: facts.limit("Max open files"),
        lambda: facts.kernel_numbers("/proc/sys/net/core/somaxconn", 1),
        lambda: facts.resolve(machine.host()),
        lambda: machine.text("/proc/self/mountinfo"),
        lambda: facts.listening,
        lambda: facts.kernel_numbers("/proc/sys/net/ipv4/ip_local_port_range", 2),
        lambda: facts.reserved(()),
        lambda: facts.interfaces,
    ]
    if facts.is_ascend:
        chips = dict.fromkeys(facts.chips, "")
        reads += [lambda: facts.addresses_of(chips), lambda: facts.mapped_chips]
    for read in reads:
        with suppress(NotDetectedError):
            read()
