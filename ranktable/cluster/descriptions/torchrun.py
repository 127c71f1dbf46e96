"""Command lines of torchrun, one a node.

Source: pytorch, torch/distributed/run.py and elastic/rendezvous/utils.py.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from ranktable.cluster.descriptions.expressing import (
    DEFAULT_PORT,
    names_of,
    refuse_interleaved,
    script_words,
    sizes_of,
)
from ranktable.cluster.descriptions.form import Form
from ranktable.cluster.descriptions.torchrun_reading import read

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ranktable.cluster.descriptions.description import Description
    from ranktable.cluster.descriptions.form import Settings

TITLE = "torchrun"


def agent_arguments(  # noqa: PLR0913 - every one is an option of its own
    *,
    node_rank: int | str,
    num_nodes: int,
    num_processes: int,
    master_addr: str | None,
    master_port: int,
    script: Sequence[str],
) -> list[str]:
    """Return the arguments of the torchrun of one node, script included."""
    per_node = ["--nproc-per-node", str(num_processes)]
    if num_nodes == 1:
        return ["--standalone", *per_node, *script]
    return [
        *("--nnodes", str(num_nodes)),
        *("--node-rank", str(node_rank)),
        *per_node,
        *("--master-addr", str(master_addr)),
        *("--master-port", str(master_port)),
        *script,
    ]


def write(description: Description, settings: Settings) -> str:
    """Return a command for every node, each below the name of its host."""
    refuse_interleaved(description, TITLE)
    script = script_words(settings.script)
    sizes = sizes_of(description)
    is_named = len(sizes) > 1 or description.hosts[0].name is not None
    names = names_of(description, "torchrun on several nodes") if is_named else []
    lines = []
    for node_rank, size in enumerate(sizes):
        arguments = agent_arguments(
            node_rank=node_rank,
            num_nodes=len(sizes),
            num_processes=size,
            master_addr=names[0] if names else None,
            master_port=settings.port or DEFAULT_PORT,
            script=script,
        )
        if names:
            lines.append(f"# host: {names[node_rank]}\n")
        lines.append(f"{shlex.join(['torchrun', *arguments])}\n")
    return "".join(lines)


TORCHRUN = Form(
    name="torchrun",
    title=TITLE,
    read=read,
    write=write,
    is_known_by=lambda text: any(
        word in text
        for word in ("torchrun ", "torch.distributed.run ", "torch.distributed.launch ")
    ),
    settings=("script", "port"),
)
