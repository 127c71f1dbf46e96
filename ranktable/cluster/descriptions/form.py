"""The interface of a kind of description, and the options of its writer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from ranktable.cluster.descriptions.description import Description
    from ranktable.cluster.descriptions.source import Source


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What a description needs and a rank table does not say.

    Attributes:
        script: What is started on every node, with its arguments.
        port: Port where the nodes meet, or the first port of a node.
        node: Index of the node for which a file is written.
        name: Name of a job.
        image: Image of a container.
        resource: Name under which a cluster counts its chips: ``nvidia.com/gpu``.
    """

    script: str | None = None
    port: int | None = None
    node: int | None = None
    name: str | None = None
    image: str | None = None
    resource: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """One kind of description.

    Attributes:
        name: Its name on the command line.
        title: What people call it, with an article.
        read: Returns the description in a text, None after saying what is wrong.
        write: Returns the text of a description; raises ``ArgumentError`` with the
            reason where it cannot be expressed.
        is_known_by: Whether a text looks like one.
        settings: Names of the settings that the writer takes.
        names_hosts: Whether the hosts get their names from the job, as pods do.
    """

    name: str
    title: str
    read: Callable[[Source], Description | None]
    write: Callable[[Description, Settings], str]
    is_known_by: Callable[[str], bool]
    settings: tuple[str, ...] = ()
    names_hosts: bool = False
