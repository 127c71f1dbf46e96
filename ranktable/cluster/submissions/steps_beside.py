"""Steps of a script that run beside each other, each an agent of one job.

They are judged as one step, as srun would start them on all of their nodes.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from ranktable.cluster.submissions import submission_rules as rules
from ranktable.cluster.submissions.agents import NUMBERED, expected_agents, is_static
from ranktable.cluster.submissions.judge_address import same_form
from ranktable.cluster.submissions.shell import plain_number
from ranktable.cluster.submissions.shell_marks import (
    FIRST_HOST,
    IN_TASK,
    OTHER_HOST,
    UNKNOWN,
    has_marks,
)
from ranktable.cluster.submissions.submission import Fact, Setting
from ranktable.schema.finding import Severity
from ranktable.schema.values import is_loopback

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ranktable.cluster.submissions.submission import Submission
    from ranktable.schema.finding import Finding

_MEETING = ("master-addr", "master-port", "rdzv-endpoint")
_OF_ONE_JOB = {"nnodes", "node-rank", "master-addr", "rdzv-endpoint"}
"""Options of an agent of several: without them each node may run the same by itself."""


def joined_steps(steps: Sequence[Submission], *, is_whole: bool) -> list[Submission]:
    """Return steps, those on different hosts that differ by their node rank as one.

    Args:
        steps: What a script starts.
        is_whole: Whether nothing else of the script may start processes.
    """
    groups: dict[object, list[Submission]] = {}
    for number, one in enumerate(steps):
        groups.setdefault(_alike(one) or number, []).append(one)
    found = []
    beside = sum(not one.is_alone for one in steps)
    for group in groups.values():
        whole = _joined(group, is_alone=is_whole and beside == len(group))
        found += group if whole is None else [whole]
    return found


def _alike(one: Submission) -> object:
    """Return what the steps of one job have alike, None if it is another line."""
    command = one.roles[0].command
    if one.is_alone or not one.host or one.starts() != 1:
        return None
    if command.program not in NUMBERED or not command.options.keys() & _OF_ONE_JOB:
        return None
    options = {n: s.text for n, s in command.options.items() if n != "node-rank"}
    return command.program, command.script, tuple(sorted(options.items()))


def _joined(group: Sequence[Submission], *, is_alone: bool) -> Submission | None:
    """Return steps as one, None if their hosts or ranks are not those of one job."""
    first, number = group[0], len(group)
    hosts = Counter(one.host for one in group)
    others = hosts.pop(OTHER_HOST, 0)
    is_known = not any(has_marks(host.replace(FIRST_HOST, "")) for host in hosts)
    ranks = [one.roles[0].command.options.get("node-rank") for one in group]
    numbers = sorted(plain_number(rank.text) or 0 for rank in ranks if rank)
    is_job = number > 1 and number <= (first.job_nodes or number)
    if not (is_job and is_known and len(hosts) + others == number):
        return None
    if numbers not in ([], list(range(number))):
        return None
    role = first.roles[0]
    options = dict(role.command.options)
    if numbers:
        given = options["node-rank"]
        options["node-rank"] = given._replace(text=IN_TASK["SLURM_NODEID"])
    tasks = Fact(number, f"{number} steps beside each other")
    command = replace(role.command, options=options)
    return replace(
        first,
        roles=(replace(role, nodes=tasks, command=command),),
        tasks_per_node=Fact(1, ""),
        tasks=tasks,
        is_alone=is_alone,
        is_in_order=first.host == FIRST_HOST,
    )


def same_ranks(steps: Sequence[Submission]) -> Iterator[Finding]:
    """Yield agents of steps beside each other that have the same node rank."""
    first: dict[tuple[str, ...], Submission] = {}
    for one in steps:
        options = one.roles[0].command.options
        rank = options.get("node-rank")
        key = tuple(
            options[name].text if name in options else ""
            for name in ("node-rank", "nnodes", *_MEETING)
        )
        is_one = one.starts() == 1 and not one.is_first_node_only
        is_plain = is_static(one.roles[0]) and "config-file" not in options
        if one.is_alone or rank is None or not (is_one and is_plain):
            continue
        if not rank.text.isdecimal():
            continue
        if key[1] not in ("", "1") and first.setdefault(key, one) is not one:
            yield rules.SAME_RANK.finding(
                one.span,
                f"{rank.said} is that of another step beside this one too",
                hint="give every step its own node rank, from 0",
            )


def apart(steps: Sequence[Submission]) -> Iterator[Finding]:
    """Yield what keeps agents that are numbered as those of one job from meeting."""
    groups: dict[object, list[Submission]] = {}
    for one in steps:
        command = one.roles[0].command
        nodes = command.options.get("nnodes")
        if one.beside is not None and one.starts() == 1 and nodes is not None:
            key = one.beside, command.program, command.script, nodes.text
            groups.setdefault(key, []).append(one)
    for group in groups.values():
        roles = [one.roles[0] for one in group]
        given = [role.command.options for role in roles]
        ranks = sorted(each["node-rank"].text for each in given if "node-rank" in each)
        if len(group) < 2 or given[0]["nnodes"].text != str(len(group)):
            continue
        if ranks == sorted(map(str, range(len(group)))) and all(map(is_static, roles)):
            yield from _other_meetings(group)
            yield from _one_host(group)


def _other_meetings(group: Sequence[Submission]) -> Iterator[Finding]:
    """Yield that an agent is told another place to meet than the first one."""
    first = group[0].roles[0].command.options
    for one in group[1:]:
        options = one.roles[0].command.options
        for name in _MEETING:
            told, other = options.get(name), first.get(name)
            if told is None or other is None or told.text == other.text:
                continue
            texts = told.text + other.text
            if _may_be_one(_compared(one, told), _compared(group[0], other)):
                continue
            is_port = name == "master-port"
            rule = rules.MASTER_PORT if is_port else rules.MASTER_ADDRESS
            is_sure = is_port or (FIRST_HOST in texts and OTHER_HOST in texts)
            yield rule.finding(
                told.span,
                f"{_place(told)} is another place to meet than that of a step of the "
                f"same job beside this one ({_place(other)})",
                hint="give all of them one address and port",
                severity=None if is_sure else Severity.WARNING,
            )


def _may_be_one(told: tuple[str, str], other: tuple[str, str]) -> bool:
    """Whether two places may be the same: an address and a name may mean one host."""
    host, known = told[0], other[0]
    is_open = not (host and known) or host[0].isdecimal() != known[0].isdecimal()
    return is_open or told == other


def _compared(one: Submission, given: Setting) -> tuple[str, str]:
    """Return a host or port in a form to compare, empty if open, and a port behind it.

    The agent with node rank 0 may call its own host by a loopback address.
    """
    text = given.text
    for mark, words in ((FIRST_HOST, "first host"), (OTHER_HOST, "other host")):
        text = text.replace(mark, words)
    host, _, port = text.partition(":")
    rank = one.roles[0].command.options.get("node-rank")
    is_first = rank is None or rank.text == "0"
    if is_loopback(host) and not is_first and (one.job_nodes or 1) > 1:
        return "its own host", port
    return ("", "") if has_marks(port) else (same_form(host), port)


def _place(given: Setting) -> str:
    """Return an address or a port in words."""
    hosts = {FIRST_HOST: ", the first node,", OTHER_HOST: ", another node,"}
    which = next((said for mark, said in hosts.items() if mark in given.text), "")
    return given.said + which


def _one_host(group: Sequence[Submission]) -> Iterator[Finding]:
    """Yield that two agents of a job are put on one host, and none on another."""
    first: dict[str, Submission] = {}
    for one in group:
        is_known = one.host and not has_marks(one.host.replace(FIRST_HOST, ""))
        if (one.job_nodes or 1) < len(group) or not is_known:
            continue
        if first.setdefault(one.host, one) is not one:
            yield rules.WRONG_AGENTS.finding(
                one.span,
                "another agent of the same job is put on this host, beside this one; "
                f"the job has {one.job_nodes} nodes",
                hint="put each on a node of its own",
                severity=Severity.WARNING,
            )


def same_meetings(steps: Sequence[Submission]) -> Iterator[Finding]:
    """Yield agents of jobs beside each other that meet at one place by one name.

    The agents are numbered as they come, those of both jobs together.

    Source: pytorch, distributed/elastic/rendezvous/c10d_rendezvous_backend.py: the key
    is the id of the job, ``none`` by default.
    """
    first: dict[object, Submission] = {}
    for one in steps:
        role = one.roles[0]
        names = ("rdzv-endpoint", "rdzv-id")
        place, name = (role.option(each) for each in names)
        is_whole = role.command.program == "torchrun" and role.command.is_whole
        if one.beside is None or place is None or not is_whole or is_static(role):
            continue
        expected = expected_agents(role)
        if expected is None or (one.starts() or 0) < expected.least:
            continue  # a part of a job
        key = one.beside, place.text, "none" if name is None else name.text
        if UNKNOWN not in "".join(key[1:]) and first.setdefault(key, one) is not one:
            yield rules.MASTER_PORT.finding(
                place.span,
                f"{place.said} is that of another torchrun beside this one, and so is "
                "the id of the job: agents of one may join the other",
                hint="give each its own --rdzv_id and port",
            )


def same_ports(steps: Sequence[Submission]) -> Iterator[Finding]:
    """Yield agents beside each other on one node that listen on the same port.

    Each is a job of its own. Tried with torch 2.13: the second one ends, and without a
    port each takes a free one; accelerate 1.15 takes a free one in both cases.

    Source: deepspeed, launcher/runner.py: the workers get --master_port as MASTER_PORT,
    29500 by default.
    """
    first: dict[object, Submission] = {}
    for one in steps:
        role = one.roles[0]
        program = role.command.program
        port = role.option("master-port")
        if port is None and program == "deepspeed":
            port = Setting(
                "29500", "the default of --master_port, 29500,", role.command.span
            )
        nodes = role.option("nnodes")
        is_known = program in ("torchrun", "deepspeed") and role.command.is_whole
        is_one = one.job_nodes == 1 or one.is_first_node_only
        if one.beside is None or port is None or not (is_known and is_one):
            continue
        is_own = nodes is None or nodes.text == "1"
        if not is_own or not is_static(role) or "standalone" in role.command.options:
            continue
        key = one.beside, plain_number(port.text)
        if key[1] and first.setdefault(key, one) is not one:
            yield rules.MASTER_PORT.finding(
                port.span,
                f"{port.said} is the port of another {program} beside this one, too",
                hint="give each its own"
                + (", or leave it out" if program == "torchrun" else ""),
            )
