"""What a compose file starts: services that are the nodes of one job.

Source: compose-spec/compose-spec, spec.md, deploy.md and 12-interpolation.md.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from ranktable.cluster.submissions.agents import NUMBERED
from ranktable.cluster.submissions.pod_roles import pod_job, worlds_of
from ranktable.cluster.submissions.shell import UNKNOWN, Scope, shown
from ranktable.cluster.submissions.submission import Fact, Role, Setting, Unjudged
from ranktable.cluster.submissions.task_command import task_command

if TYPE_CHECKING:
    from ranktable.cluster.submissions.manifests import Manifest, Manifests
    from ranktable.cluster.submissions.submission import Submission
    from ranktable.schema.document import Path

_REPLACED: Final = re.compile(r"\$\$|\$\{[^{}]*\}|\$[A-Za-z_]\w*")
_UNREAD: Final = {"extends", "network_mode", "env_file", "scale", "profiles", "gpus"}
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
    return Role(
        name=name,
        nodes=job.number(*path, "deploy", "replicas", default=1),
        chips=_chips(job, (*path, "deploy", "resources", "reservations", "devices")),
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
