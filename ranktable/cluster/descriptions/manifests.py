"""Objects of Kubernetes in a file: found by kind, written with their containers."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ranktable.cluster.argument import ArgumentError
from ranktable.cluster.descriptions.description import (
    MAX_HOSTS,
    MAX_SLOTS,
    Description,
    Host,
)
from ranktable.cluster.descriptions.expressing import (
    DEFAULT_PORT,
    even_size,
    refuse_interleaved,
    script_words,
)
from ranktable.cluster.descriptions.fields import documents_in
from ranktable.cluster.hostfiles import hostfile_rules as rules
from ranktable.schema.messages import quoted
from ranktable.schema.rules.syntax import TOO_MANY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ranktable.cluster.descriptions.fields import Fields
    from ranktable.cluster.descriptions.form import Settings
    from ranktable.cluster.descriptions.source import Source

SETTINGS = ("name", "image", "resource", "script", "port")
DEFAULT_NAME = "train"
_LABEL = re.compile(r"[a-z]([a-z0-9-]*[a-z0-9])?")
_MAX_LABEL = 63
# The longest ending of a pod's name is that of JobSet: -node-0-1048575.
_MAX_NAME = _MAX_LABEL - len("-node-0-1048575")


def known_by(kind: str) -> re.Pattern[str]:
    """Return what a manifest of a kind has."""
    return re.compile(
        rf"^[{{\s,]*\"?kind\"?:[ \t]*\"?{kind}\"?[ \t]*(?:#.*|,|}})?$", re.MULTILINE
    )


def find_objects(source: Source, kind: str, group: str) -> tuple[Fields, list[Fields]]:
    """Return the one object of a kind and every object of the file.

    Raises:
        LookupError: There is none, or several; it has been said.
    """
    documents = documents_in(source)
    found = [fields for fields in documents if fields.get("kind") == kind]
    if not found:
        if source.is_sound:
            message = f"the file has no object of the kind {kind}"
            source.say(rules.NO_HOSTS, None, message)
        raise LookupError(kind)
    for more in found[1:]:
        more.say(f"the file has a second {kind}", "kind")
    version = found[0].text("apiVersion")
    if version is not None and not version.startswith(f"{group}/"):
        message = f"apiVersion is {quoted(version)}; a {kind} is of {group}"
        found[0].say(message, "apiVersion")
    return found[0], documents


def name_of(fields: Fields) -> str:
    """Return the name of an object, empty after saying that it is wrong."""
    name = fields.text("metadata", "name") or ""
    if name and not (_LABEL.fullmatch(name) and len(name) <= _MAX_LABEL):
        message = f"metadata.name {quoted(name)} cannot begin the name of a host"
        hint = "write lower-case letters, digits and hyphens, at most 63"
        fields.say(message, "metadata", "name", hint=hint)
    return name


def pods(
    source: Source, fields: Fields, names: Sequence[str], slots: int | None
) -> Description | None:
    """Return the pods of an object, None if something is wrong."""
    if source.is_sound and (
        len(names) > MAX_HOSTS or len(names) * (slots or 0) > MAX_SLOTS
    ):
        message = f"this is more than {MAX_SLOTS} processes"
        source.say(TOO_MANY, fields.span_of("spec"), message)
    source.refuse_nothing(names)
    if not source.is_sound:
        return None
    return Description(hosts=tuple(Host(name=name, slots=slots) for name in names))


def job_name(settings: Settings) -> str:
    """Return the name of a job that is to be written.

    Raises:
        ArgumentError: No host can have it.
    """
    name = settings.name or DEFAULT_NAME
    if not _LABEL.fullmatch(name) or len(name) > _MAX_NAME:
        raise ArgumentError(
            f"--name {quoted(name)} cannot begin the name of a pod",
            hint=f"write lower-case letters, digits and hyphens, at most {_MAX_NAME}",
        )
    return name


def equal_pods(description: Description, title: str) -> int:
    """Return the number of processes of every pod.

    Raises:
        ArgumentError: The nodes differ, which pods of one template cannot.
    """
    refuse_interleaved(description, title)
    return even_size(description, title)


def container(
    settings: Settings, size: int, command: Sequence[str], name: str
) -> dict[str, object]:
    """Return the container that every pod has.

    Raises:
        ArgumentError: No image is given.
    """
    if settings.image is None:
        raise ArgumentError(
            "a container needs an image", hint="name it: --image registry/image:tag"
        )
    made: dict[str, object] = {
        "name": name,
        "image": settings.image,
        "command": list(command),
    }
    if settings.resource is not None:
        made["resources"] = {"limits": {settings.resource: size}}
    return made


def port_and_script(settings: Settings) -> tuple[int, list[str]]:
    """Return where the pods meet and what they start."""
    return settings.port or DEFAULT_PORT, script_words(settings.script)
