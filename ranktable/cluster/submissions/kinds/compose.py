"""What a compose file starts: services that are the nodes of one job.

Source: compose-spec/compose-spec, spec.md, deploy.md and 12-interpolation.md.
"""

from __future__ import annotations

import re
import shlex
from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from ranktable.cluster.submissions.agents import NUMBERED
from ranktable.cluster.submissions.pod_roles import pod_job, worlds_of
from ranktable.cluster.submissions.shell import Scope
from ranktable.cluster.submissions.shell_marks import UNKNOWN, shown
from ranktable.cluster.submissions.submission import Fact, Role, Setting, Unjudged
from ranktable.cluster.submissions.submission_rules import POD_RESOURCES, REFUSED
from ranktable.cluster.submissions.task_command import task_command
from ranktable.schema.finding import Severity

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ranktable.cluster.submissions.manifests import Manifest, Manifests
    from ranktable.cluster.submissions.submission import Submission
    from ranktable.schema.document import Path
    from ranktable.schema.finding import Finding

_REPLACED: Final = re.compile(r"\$\$|\$\{[^{}]*\}|\$[A-Za-z_]\w*")
_DEVICES: Final = ("deploy", "resources", "reservations", "devices")
_LISTS: Final = {"CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"}
_UNREAD: Final = {"extends", "network_mode", "env_file", "scale", "profiles"}
"""What of a service stands elsewhere, or makes it no node of its own."""


def read_compose(job: Manifest, made: Manifests) -> list[Submission]:
    """Return what the services of a compose file start."""
    services = job.members("services")
    keys = {key for name in services for key in job.members("services", name)}
    unread = [*sorted(keys & _UNREAD), *({"include"} & job.members().keys())]
    is_whole = not (made.unjudged or unread)
    roles = [_service(job, name) for name in services] if is_whole else []
    roles = [role for role in roles if role.command.program in NUMBERED]
    alone = [role for role in roles if role.option("nnodes") is None]
    worlds = worlds_of([role for role in roles if role not in alone])
    made.found += [each for world in worlds for each in _shared_chips(job, world)]
    made.found += [each for role in roles for each in _refused_chips(job, role.name)]
    worlds += [[role] for role in alone]
    found = [one for world in worlds for one in pod_job(job, world)]
    if not found:
        reason = "its services start no agents by words that can be judged"
        if unread:
            reason = f"its services have {', '.join(unread)}, which is not read"
        made.unjudged.append(Unjudged(job.span("services", of_key=True), reason))
    span = job.span("services", of_key=True)
    return [replace(one, kind="compose", node="service", span=span) for one in found]


def _service(job: Manifest, name: str) -> Role:
    """Return the containers of a service."""
    path: Path = ("services", name)
    words = _words(job.get(*path, "entrypoint")) + _words(job.get(*path, "command"))
    lines = (str(line).partition("=") for line in job.items(*path, "environment"))
    given = {key: value for key, _, value in lines} | job.members(*path, "environment")
    span = job.span(*path, "command")
    texts = {str(key): _known(str(value)) for key, value in given.items()}
    variables = {key: Setting(t, f"{key}={shown(t)}", span) for key, t in texts.items()}
    scope = Scope(is_task=True, values=dict(texts), exported=set(texts))
    found = task_command(words, scope, variables, span)
    lists = [each for each in _chip_lists(name) if job.items(*each)]
    return Role(
        name=name,
        nodes=job.number(*path, "deploy", "replicas", default=1),
        chips=_chips(job, lists[0]) if len(lists) == 1 else None,
        command=found.command,
        variables=variables,
    )


def _words(given: object) -> list[str]:
    try:
        words = shlex.split(given) if isinstance(given, str) else given
    except ValueError:
        return [UNKNOWN]
    return [_known(str(word)) for word in words] if isinstance(words, list) else []


def _known(text: str) -> str:
    """Return a text after compose has replaced the variables of its own shell."""
    return _REPLACED.sub(lambda m: "$" if m[0] == "$$" else UNKNOWN, text)


def _chips(job: Manifest, path: Path) -> Fact | None:
    """Return the chips of a container, None if not known."""
    if len(job.items(*path)) != 1:
        return None
    ids = job.items(*path, 0, "device_ids")
    if ids:
        return Fact(len(ids), f"device_ids: {len(ids)}", job.span(*path, 0))
    return job.number(*path, 0, "count")


def _chip_lists(service: str) -> tuple[Path, Path]:
    """Return the paths of the lists in which a service asks for chips."""
    return ("services", service, *_DEVICES), ("services", service, "gpus")


def _refused_chips(job: Manifest, service: str) -> Iterator[Finding]:
    """Yield what compose refuses in the lists of chips of a service.

    Source: compose-spec, deploy.md, "devices": capabilities "MUST be set", count and
    device_ids "are exclusive"; ``gpus`` adds the capability by itself.
    """
    for path in _chip_lists(service):
        for at, item in enumerate(job.items(*path)):
            if not isinstance(item, dict):
                continue
            span = job.span(*path, at)
            if {"count", "device_ids"} <= item.keys():
                yield REFUSED.finding(
                    span,
                    f"a device of {shown(service)} has count and device_ids, and "
                    "compose takes one of them",
                    hint="leave one out",
                )
            if "capabilities" not in item and path[-1] != "gpus":
                yield REFUSED.finding(
                    span,
                    f"a device of {shown(service)} has no capabilities, without which "
                    "compose refuses it",
                    hint="add capabilities: [gpu]",
                )


def _shared_chips(job: Manifest, world: Sequence[Role]) -> Iterator[Finding]:
    """Yield that services of one job have the same chip of their host."""
    users: dict[str, list[str]] = defaultdict(list)
    for role in world:
        path: Path = ("services", role.name)
        is_elsewhere = "placement" in job.members(*path, "deploy")
        if is_elsewhere or _LISTS & role.variables.keys():
            continue
        count = role.nodes.value if role.nodes else 1
        for lists in _chip_lists(role.name):
            for at in range(len(job.items(*lists))):
                for chip in job.items(*lists, at, "device_ids"):
                    users[str(chip)] += [role.name] * count
    shared = {chip: names for chip, names in users.items() if len(names) > 1}
    for chip, names in list(shared.items())[:1]:
        services = " and ".join(map(shown, dict.fromkeys(names)))
        yield POD_RESOURCES.finding(
            job.span("services", names[-1], *_DEVICES),
            f"{len(names)} containers of one job ({services}) have the device "
            f"{shown(chip)} of their host, so ranks share a chip",
            hint="give each of them device_ids of its own",
            severity=Severity.WARNING,
        )
