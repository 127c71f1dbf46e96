"""How many processes a container starts, as far as its manifest says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ranktable.cluster.descriptions.description import MAX_SLOTS
from ranktable.cluster.descriptions.fields import dotted
from ranktable.cluster.descriptions.torchrun_reading import SIZES_OF_THE_HOST
from ranktable.cluster.hostfiles import hostfile_rules as rules
from ranktable.schema.messages import quoted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ranktable.cluster.descriptions.fields import Fields
    from ranktable.schema.document import Path

_OPTIONS = ("--nproc-per-node", "--nproc_per_node")
_VARIABLES = ("PET_NPROC_PER_NODE", "NPROC_PER_NODE")


def pod_size(fields: Fields, *template: str | int) -> int | None:
    """Return the processes of a pod, None if its manifest does not say.

    The option of torchrun is looked for in the command and its arguments, then the
    variable of that option, then a resource such as ``nvidia.com/gpu``.

    Args:
        fields: The object.
        template: Path of the pod's template.
    """
    path = (*template, "spec", "containers", 0)
    containers = fields.get(*path[:-1])
    if not isinstance(containers, list) or not containers:
        fields.say(f"{dotted(path[:-1])} has no container", *path[:-1])
        return None
    for spot, value in (*_in_command(fields, path), *_in_variables(fields, path)):
        return size_at(fields, spot, value)
    limits = fields.get(*path, "resources", "limits")
    named = [
        (*path, "resources", "limits", str(name))
        for name in (limits if isinstance(limits, dict) else ())
        if "/" in str(name)
    ]
    if len(named) == 1:
        return size_at(fields, named[0], fields.get(*named[0]))
    return None


def _in_command(fields: Fields, path: Path) -> Iterator[tuple[Path, object]]:
    for key in ("command", "args"):
        words = fields.get(*path, key)
        if not isinstance(words, list):
            continue
        for place, word in enumerate(words):
            name, mark, value = str(word).partition("=")
            if name in _OPTIONS and mark:
                yield (*path, key, place), value
            elif name in _OPTIONS and place + 1 < len(words):
                yield (*path, key, place + 1), words[place + 1]


def _in_variables(fields: Fields, path: Path) -> Iterator[tuple[Path, object]]:
    variables = fields.get(*path, "env")
    for place, item in enumerate(variables if isinstance(variables, list) else ()):
        if not isinstance(item, dict) or item.get("name") not in _VARIABLES:
            continue
        if item.get("value") is not None:
            yield (*path, "env", place, "value"), item["value"]


def size_at(fields: Fields, path: Path, value: object) -> int | None:
    """Return the processes that a value says; None if the host or a variable says."""
    text = str(value)
    if text in SIZES_OF_THE_HOST or text.startswith("$"):
        return None
    if isinstance(value, bool) or not (text.isascii() and text.isdigit()):
        message = f"{quoted(value)} is not a number of processes"
        fields.source.say(rules.BAD_COUNT, fields.span_of(*path), message)
        return None
    if len(text) > len(str(MAX_SLOTS)) or not 0 < int(text) <= MAX_SLOTS:
        message = f"a pod has 1 to {MAX_SLOTS} processes, not {text[:12]}"
        fields.source.say(rules.BAD_COUNT, fields.span_of(*path), message)
        return None
    return int(text)
