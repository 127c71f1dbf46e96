"""Judge the address, the port and the id at which processes meet.

Source: pytorch/pytorch, torch/distributed/elastic/rendezvous.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from ranktable.cluster.submissions import shell_marks
from ranktable.cluster.submissions import submission_rules as rules
from ranktable.cluster.submissions.agents import Group, expected_agents, is_static
from ranktable.schema.finding import Severity
from ranktable.schema.values import is_loopback

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ranktable.cluster.submissions.submission import Role, Setting, Submission
    from ranktable.schema.finding import Finding

_MAX_PORT: Final = 65535
_LEAST_FREE_PORT: Final = 1024
"""Those below it are for the programs of root."""
_PORT_NUMBER: Final = re.compile(r"\s*[+-]?[0-9](?:_?[0-9]){0,8}\s*", re.ASCII)
"""What Python takes for a number; the limits of a port are far below the longest."""
_OF_OTHERS: Final = re.compile(r"[$`{}<>@%\[\]]")
"""What a value has that another shell or program completes."""
_PAIR: Final = re.compile(
    rf"(?:[a-z]+://)?(?:[\w.{shell_marks.FIRST_HOST}{shell_marks.OTHER_HOST}{shell_marks.OWN_HOST}-]+"
    r"|\[[0-9A-Fa-f:.]+\]):[0-9]+",
    re.ASCII,
)
"""A host and a port; an address of IPv6 has more colons, or brackets."""
_WHOLE_NODE: Final = 4
"""A job with so many chips of a node usually has the node for itself."""
_FIRST_HOST: Final = (
    "compute it in the script: "
    "$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n1)"
)
_PORT: Final = "$((20000 + SLURM_JOB_ID % 10000))"
_IN_ORDER: Final = tuple(
    shell_marks.IN_TASK[name] for name in ("SLURM_NODEID", "SLURM_PROCID")
)
BOTH: Final = "--rdzv_backend c10d --rdzv_endpoint HOST:PORT"


def judge_meeting(one: Submission, group: Group, starts: int) -> Iterator[Finding]:
    """Judge the address, the port and the id at which the agents meet."""
    role = group.role
    if "standalone" in role.command.options:
        return  # it takes no address but its own
    # The first node may call itself by a name that means another one elsewhere.
    is_first_alone = bool(group.name) and group.is_first and group.starts == 1
    if (one.nodes or 1) > 1 and starts > 1:
        yield from _judge_id(one, group)
        if not is_first_alone:
            yield from _judge_missing_address(role)
    address, port = _meeting(role)
    if address is not None and not is_first_alone:
        yield from judge_address(one, address)
        rank = role.option("node-rank")
        if is_static(role) and rank is not None and rank.text in _IN_ORDER:
            yield from judge_first(one, address)
    if port is not None:
        yield from judge_port(one, port)


def _meeting(role: Role) -> tuple[Setting | None, Setting | None]:
    """Return the address and the port at which an agent meets the others."""
    endpoint = role.option("rdzv-endpoint")
    if endpoint is not None and "/" in endpoint.text:
        return None, None  # a file, or the address of etcd
    if endpoint is not None and endpoint.text:
        return _parts(endpoint)
    return role.option("master-addr"), role.option("master-port")


def judge_one_meeting(one: Submission, groups: list[Group]) -> Iterator[Finding]:
    """Report agents that need each other and are told different ports or addresses.

    Two names may be those of one host.
    """
    first: dict[object, tuple[Group, str, Setting]] = {}
    for group in groups if one.is_alone else ():
        expected, meeting = expected_agents(group.role), _meeting(group.role)
        is_part = expected is not None and expected.least > (group.starts or 0) > 0
        if not (is_part and group.role.command.is_whole):
            continue
        rules_ = (rules.MASTER_ADDRESS, rules.MASTER_PORT)
        for rule, given in zip(rules_, meeting, strict=True):
            text = "" if given is None else same_form(given.text)
            if given is None or not text:
                continue
            kind = rule, text[:1].isdecimal()  # an address and a name may mean one host
            other, known, told = first.setdefault(kind, (group, text, given))
            if text != known:
                is_port = rule is rules.MASTER_PORT
                what = "port" if is_port else "address"
                yield rule.finding(
                    given.span,
                    f"{group.name} meets at another {what} ({given.said}) than "
                    f"{other.name} ({told.said})",
                    hint=f"give all of them one {what}",
                    severity=None if is_port else Severity.WARNING,
                )


def same_form(text: str) -> str:
    """Return an address or a port to compare, nothing if the file does not say it.

    A loopback address is judged by itself; a name may be written with its domain.
    """
    if _PORT_NUMBER.fullmatch(text):
        return str(int(text))
    is_open = shell_marks.has_marks(text) or _OF_OTHERS.search(text)
    if is_open or is_loopback(text.strip("[]")):
        return ""
    return text if text[:1].isdecimal() else text.partition(".")[0]


def _parts(endpoint: Setting) -> tuple[Setting, Setting | None]:
    """Return the address and the port of an endpoint; torchrun has a default port."""
    host, sign, port = endpoint.text.rpartition(":")
    if not sign or endpoint.text.endswith("]"):  # an address of IPv6 alone
        return endpoint, None
    return endpoint._replace(text=host), endpoint._replace(text=port)


def _judge_id(one: Submission, group: Group) -> Iterator[Finding]:
    """Judge the id, which must be the same for all agents."""
    given = group.role.option("rdzv-id")
    if given is None:
        return
    hint = f"use one value: {'$SLURM_JOB_ID' if one.is_script else 'a name'}"
    if any(mark in given.text for mark in _differing(group)):
        yield rules.NODES_ALONE.finding(
            given.span,
            f"every node makes its own {given.said}, so the agents do not meet",
            hint=hint,
        )
    elif shell_marks.CLOCK in given.text:
        yield rules.NODES_ALONE.finding(
            given.span,
            f"{given.said} is the time at which each node gets there; nodes with "
            "different ones do not meet",
            hint=hint,
            severity=Severity.WARNING,
        )


def _differing(group: Group) -> list[str]:
    """Return the marks of values that are different on each node of a group."""
    role = group.role
    nodes = role.per_job or (role.nodes.value if role.nodes else 1)
    marks = [shell_marks.RANDOM, shell_marks.DRAWN, shell_marks.EACH_NODE]
    if not group.name or group.starts != 1:
        of_node = ("SLURM_NODEID", "SLURM_PROCID")
        marks += [
            shell_marks.OWN_HOST,
            *(shell_marks.IN_TASK[name] for name in of_node),
        ]
    return [*marks, shell_marks.POD_INDEX] if nodes > 1 else marks


def judge_first(one: Submission, given: Setting) -> Iterator[Finding]:
    """Warn about an address of another node than the one with rank 0."""
    is_whole = one.nodes is not None and one.nodes == one.job_nodes and one.nodes > 1
    if one.is_in_order and is_whole and shell_marks.OTHER_HOST in given.text:
        yield rules.MASTER_ADDRESS.finding(
            given.span,
            f"{given.said} need not be the first node of the job; rank 0 is there, and "
            "has to be the master",
            hint=_FIRST_HOST,
            severity=Severity.WARNING,
        )


def _judge_missing_address(role: Role) -> Iterator[Finding]:
    """Report agents that connect to themselves, because no address is given."""
    endpoint, given = role.option("rdzv-endpoint"), role.option("master-addr")
    others = endpoint and endpoint.text, role.option("rdzv-conf")
    expected, is_own = expected_agents(role), is_static(role)
    backend = role.option("rdzv-backend")
    if any(others) or (given and is_own):
        return
    if role.command.program != "torchrun" or not role.command.is_whole:
        return
    if expected is None or expected.most < 2:
        return
    if (
        is_own
        and role.option("node-rank") is None
        and "PET_NODE_RANK" not in role.counted
    ):
        return  # said already
    if is_own or backend is None or backend.text == "c10d":
        default = "127.0.0.1" if is_own else "localhost"
        option = "--master_addr" if is_own else "--rdzv_endpoint"
        unread = f" ({given.said} counts for static rendezvous only)" if given else ""
        yield rules.NODES_ALONE.finding(
            role.command.span,
            f"{option} is not given{unread}, so every agent connects to {default}, "
            "itself",
            hint=f"add {option} with the first node; " + _FIRST_HOST,
        )


def judge_address(one: Submission, given: Setting) -> Iterator[Finding]:
    """Judge the address of the rendezvous.

    Source: pytorch/pytorch, torch/distributed/rendezvous.py, which takes an empty
    variable for none, and torch/distributed/elastic/rendezvous/utils.py.
    """
    text = given.text
    yield from _judge_form(given)
    if (one.nodes or 1) < 2:
        return
    if is_loopback(text.strip("[]")):
        yield rules.MASTER_ADDRESS.finding(
            given.span,
            f"{given.said} is another machine on each of the {one.nodes} {one.node}s",
            hint=_FIRST_HOST if one.is_script else f"name the first {one.node}",
        )
    elif text in (shell_marks.NODE_LIST, shell_marks.HOSTS):
        yield rules.MASTER_ADDRESS.finding(
            given.span,
            f"{given.said} is the list of all hosts, and not the name of one",
            hint=_FIRST_HOST,
        )
    elif shell_marks.OWN_HOST in text:
        yield rules.NODES_ALONE.finding(
            given.span,
            f"{given.said} is computed by every node, so each one meets itself",
            hint=_FIRST_HOST + ", before srun",
        )
    for mark, why in _DOUBTFUL_ADDRESSES.items():
        if mark in text and shell_marks.UNKNOWN not in text:
            yield rules.MASTER_ADDRESS.finding(
                given.span,
                f"{given.said}: {why}",
                hint=_FIRST_HOST,
                severity=Severity.WARNING,
            )


_DOUBTFUL_ADDRESSES: Final = {
    shell_marks.LAUNCH_NODE: "this is where srun ran, with salloc often a login node",
    shell_marks.CUT_LIST: "a list such as n[01-02] is cut here, which gives no host",
    shell_marks.OR_LOCALHOST: "without scontrol, as in many images, it is localhost",
}


def _judge_form(given: Setting) -> Iterator[Finding]:
    """Report an address that is the name of no host, wherever it is used."""
    text = given.text
    if not text.strip():
        yield rules.MASTER_ADDRESS.finding(
            given.span, f"{given.said.rstrip()} names no host", hint=_FIRST_HOST
        )
    elif _PAIR.fullmatch(text):
        yield rules.MASTER_ADDRESS.finding(
            given.span,
            f"{given.said} has a port in the address, so it is not the name of a host",
            hint="give the port apart: MASTER_PORT, or --master_port",
        )
    elif "," in text and not _OF_OTHERS.search(text):
        yield rules.MASTER_ADDRESS.finding(
            given.span,
            f"{given.said} is a list, and not the name of one host",
            hint=_FIRST_HOST,
        )
    if shell_marks.ALL_ADDRESSES in text:
        yield rules.MASTER_ADDRESS.finding(
            given.span,
            f"{given.said} is all addresses of the host and a blank behind each, which "
            "is no name of one",
            hint=_FIRST_HOST,
            severity=Severity.WARNING,
        )


def judge_port(one: Submission, given: Setting) -> Iterator[Finding]:
    """Judge the port of the rendezvous."""
    text = given.text
    port = int(text) if _PORT_NUMBER.fullmatch(text) else None
    is_known = not (
        shell_marks.has_marks(text) or _OF_OTHERS.search(text) or text.isupper()
    )
    hint = f"compute it from the job: {_PORT}"
    of_node = (shell_marks.IN_TASK["SLURM_NODEID"], shell_marks.IN_TASK["SLURM_PROCID"])
    marks = {shell_marks.RANDOM, shell_marks.DRAWN, shell_marks.EACH_NODE, *of_node}
    if marks & {*given.text} and (one.nodes or 1) > 1:
        yield rules.MASTER_PORT.finding(
            given.span,
            f"{given.said} is another port on every node, so the processes do not meet",
            hint="compute it once, before srun: " + _PORT,
        )
    elif shell_marks.JOB_SUM in given.text:
        yield rules.MASTER_PORT.finding(
            given.span,
            f"{given.said} is above {_MAX_PORT} for large numbers of jobs",
            hint=hint,
            severity=Severity.WARNING,
        )
    elif port == 0 and one.nodes == 1:
        return  # torchrun takes any free one
    elif is_known and (port is None or not 1 <= port <= _MAX_PORT):
        yield rules.MASTER_PORT.finding(
            given.span,
            f"{given.said.rstrip()}: a port is a number between 1 and {_MAX_PORT}",
        )
    elif port is not None and one.is_script and port < _LEAST_FREE_PORT:
        yield rules.MASTER_PORT.finding(
            given.span,
            f"{given.said}: ports below {_LEAST_FREE_PORT} are for programs of root",
            hint=hint,
            severity=Severity.WARNING,
        )
    elif port is not None and one.is_script and one.is_shared:
        chips = [role.chips.value for role in one.roles if role.chips is not None]
        if chips and max(chips) >= _WHOLE_NODE and not one.is_array:
            return
        other = "another element of the array" if one.is_array else "another job"
        yield rules.MASTER_PORT.finding(
            given.span,
            f"{given.said} is taken if {other} on the node uses it too; the job does "
            "not ask for whole nodes (--exclusive)",
            hint=hint,
            severity=Severity.WARNING if one.is_array else Severity.NOTE,
        )
