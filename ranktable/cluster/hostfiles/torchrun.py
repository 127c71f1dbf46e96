"""Command lines of torchrun, one for each node.

Source: pytorch, torch/distributed/run.py.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from ranktable.cluster.argument import ArgumentError
from ranktable.cluster.hostfiles.hostfile import (
    DEFAULT_PORT,
    LauncherFormat,
    names_of,
    refuse_interleaved,
    script_words,
    sizes_of,
)
from ranktable.schema.rules.nodes import REACHABLE
from ranktable.schema.text import quoted
from ranktable.schema.values import is_loopback

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ranktable.cluster.hostfiles.hostfile import Hostfile, WriterOptions


def agent_arguments(
    *,
    node_rank: int | str,
    num_nodes: int,
    num_processes: int,
    master_addr: str | None,
    master_port: int,
    script: Sequence[str],
) -> list[str]:
    """Return the arguments of torchrun on one node, with the script."""
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


def write(hostfile: Hostfile, options: WriterOptions) -> str:
    """Return one command for each node, below a comment with the name of its host."""
    refuse_interleaved(hostfile, "torchrun")
    script = script_words(options.script)
    sizes = sizes_of(hostfile)
    is_named = len(sizes) > 1 or hostfile.hosts[0].name is not None
    names = names_of(hostfile, "torchrun on several nodes") if is_named else []
    are_here = [is_loopback(name) for name in names]  # all are: agents on one machine
    if are_here and are_here[0] and not all(are_here):
        message = f"the first host is {quoted(names[0])}; every node would call itself"
        raise ArgumentError(message, hint=REACHABLE)
    lines = []
    for node_rank, size in enumerate(sizes):
        arguments = agent_arguments(
            node_rank=node_rank,
            num_nodes=len(sizes),
            num_processes=size,
            master_addr=names[0] if names else None,
            master_port=options.port or DEFAULT_PORT,
            script=script,
        )
        if names:
            lines.append(f"# host: {names[node_rank]}\n")
        lines.append(f"{shlex.join(['torchrun', *arguments])}\n")
    return "".join(lines)


TORCHRUN = LauncherFormat(
    name="torchrun", title="torchrun", write=write, options=("script", "port")
)
