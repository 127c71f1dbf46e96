"""Command lines of torchrun, one for each node.

Source: pytorch, torch/distributed/run.py and elastic/rendezvous/utils.py.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ranktable.cluster.host_lists import MAX_HOSTS
from ranktable.cluster.hostfiles import hostfile_rules as rules
from ranktable.cluster.hostfiles.command_line import (
    Command,
    Syntax,
    commands_in,
    is_command_of,
    is_variable,
    options_of,
)
from ranktable.cluster.hostfiles.hostfile import (
    DEFAULT_PORT,
    Host,
    Hostfile,
    LauncherFormat,
    names_of,
    refuse_interleaved,
    script_words,
    sizes_of,
)
from ranktable.cluster.source_text import endpoint_host
from ranktable.schema.diagnostic import quoted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ranktable.cluster.hostfiles.hostfile import WriterOptions
    from ranktable.cluster.source_text import SourceText, Token

SYNTAX = Syntax(
    program="torchrun",
    modules=("torch.distributed.run", "torch.distributed.launch"),
    values=frozenset(
        (
            *("nnodes", "nproc-per-node", "rdzv-backend", "rdzv-endpoint", "rdzv-id"),
            *("rdzv-conf", "max-restarts", "monitor-interval", "start-method"),
            *("event-log-handler", "role", "log-dir", "redirects", "tee"),
            *("local-ranks-filter", "duplicate-stdout-filters", "node-rank"),
            *("duplicate-stderr-filters", "master-addr", "master-port"),
            *("local-addr", "logs-specs", "numa-binding", "signals-to-handle"),
            "shutdown-timeout",
        )
    ),
    flags=frozenset(
        (
            *("standalone", "module", "no-python", "run-path", "virtual-local-rank"),
            "use-env",
        )
    ),
    variables="PET_",
    aliases={"m": "module", "r": "redirects", "t": "tee"},
)
SIZES_OF_THE_HOST = (
    *("auto", "cpu", "gpu", "xpu"),
    # Names of vendors' backends for PyTorch's private-use device.
    *("npu", "tpu", "hpu", "mlu", "musa", "sdaa", "privateuseone"),
)
_THIS_HOST = ("localhost", "127.0.0.1", "::1", "0:0:0:0:0:0:0:1")
_RANGE = 2  # MIN:MAX


@dataclass(slots=True)
class _CommandNodes:
    """The facts from the commands that have been read.

    Attributes:
        count: Number of nodes, and where it first occurs.
        hosts: The hosts that are known, by the index of their node.
        places: Where the index of a node is.
        names: Where the host of a node is.
        first: The host of node 0, and where it is.
    """

    count: tuple[int, Token] | None = None
    hosts: dict[int, Host] = field(default_factory=dict)
    places: dict[int, Token] = field(default_factory=dict)
    names: dict[int, Token] = field(default_factory=dict)
    first: Token | None = None


def read(source: SourceText) -> Hostfile | None:
    """Return the nodes of torchrun's commands.

    A command without an index, or with a variable as its index, is for every node; the
    nodes then have no names. The size of a node without a command is not known.
    """
    nodes = _CommandNodes()
    for command in commands_in(source, SYNTAX):
        options = options_of(source, command, SYNTAX)
        if options is None:
            word = command.words[0]
            message = f"the command {quoted(word.text)} does not start torchrun"
            source.report(rules.BAD_LINE, word, message)
        else:
            _read_command(source, command, options, nodes)
    if nodes.count is None:
        source.refuse_nothing(())
    if nodes.count is None or not source.is_sound:
        return None
    hosts = [nodes.hosts.get(place, Host(name=None)) for place in range(nodes.count[0])]
    if hosts[0].name is None:
        hosts[0] = _named_by_others(hosts[0], nodes)
    if _is_host_twice(source, nodes):
        return None
    return Hostfile(hosts=tuple(hosts))


def _named_by_others(host: Host, nodes: _CommandNodes) -> Host:
    """Return node 0 with its name, which the other commands may have as address."""
    if nodes.first is None:
        return host
    nodes.names[0] = nodes.first
    return Host(name=nodes.first.text, slots=host.slots)


def _is_host_twice(source: SourceText, nodes: _CommandNodes) -> bool:
    """Report two nodes on one host, which would share its chips; return whether so."""
    first: dict[str, int] = {}
    for index, word in sorted(nodes.names.items()):
        other = first.setdefault(word.text, index)
        if other != index:
            source.report(
                rules.HOST_TWICE,
                word,
                f"node {other} and node {index} are both the host {quoted(word.text)}",
                hint="start one torchrun on a host, with all of its processes",
                first_use=nodes.names[other],
            )
    return len(first) < len(nodes.names)


def _read_command(
    source: SourceText,
    command: Command,
    options: dict[str, Token],
    nodes: _CommandNodes,
) -> None:
    count = _num_nodes(source, options)
    slots = node_size(source, options.get("nproc-per-node"))
    name = None if command.host is None else source.host(command.host)
    if count is None:
        return
    place = options.get("nnodes", command.words[0])
    if nodes.count is None:
        nodes.count = (count, place)
    elif nodes.count[0] != count:
        source.report(
            rules.COUNTS_DISAGREE,
            place,
            f"the job has {count} nodes here and {nodes.count[0]} before",
            first_use=nodes.count[1],
        )
    is_static = _is_static(options)
    if is_static:
        nodes.first = _master(source, options) or nodes.first
    index = options.get("node-rank") if is_static else None
    if count > 1 and (not is_static or (index is not None and is_variable(index.text))):
        nodes.hosts.update(dict.fromkeys(range(count), Host(name=None, slots=slots)))
        return
    number = 0 if index is None else source.number(index, "the index of a node")
    if number is not None:
        host = Host(name=name, slots=slots)
        _add(source, nodes, number, index or command.words[0], host)
        if name is not None and command.host is not None:
            nodes.names[number] = command.host


def _add(
    source: SourceText, nodes: _CommandNodes, index: int, place: Token, host: Host
) -> None:
    """Add the node of a command."""
    count = nodes.count[0] if nodes.count is not None else 1
    if index >= count:
        source.report(
            rules.COUNTS_DISAGREE,
            place,
            f"node {index} is not among the {count} of the job",
            hint=f"nodes count from 0 to {count - 1}",
        )
    elif index in nodes.places:
        source.report(
            rules.RANK_TWICE,
            place,
            f"node {index} has two commands",
            first_use=nodes.places[index],
        )
    else:
        nodes.places[index] = place
        nodes.hosts[index] = host


def _num_nodes(source: SourceText, options: dict[str, Token]) -> int | None:
    """Return the number of nodes, None after reporting that it is not known."""
    word = options.get("nnodes")
    if word is None:
        return 1
    counts = list(word.parts(":"))
    numbers = [source.number(part, "a number of nodes") for part in counts[:_RANGE]]
    if None in numbers or len(counts) > _RANGE:
        if len(counts) > _RANGE:
            message = f"{quoted(word.text)} is neither N nor MIN:MAX"
            source.report(rules.BAD_COUNT, word, message)
        return None
    low, high = int(numbers[0] or 0), int(numbers[-1] or 0)
    if low == 0 or high < low:
        message = f"{quoted(word.text)} is not a number of nodes; torchrun stops"
        source.report(rules.BAD_COUNT, word, message)
    elif low < high:
        source.report(
            rules.NOT_FIXED,
            word,
            f"the job has {low} to {high} nodes, as many as join",
            hint="a rank table is for a fixed number: write --nnodes N",
        )
    elif high > MAX_HOSTS:
        source.too_many(word, "hosts")
    elif "standalone" in options and high > 1:
        message = f"--standalone is for one node, not {high}"
        source.report(rules.COUNTS_DISAGREE, word, message)
    else:
        return high
    return None


def node_size(source: SourceText, word: Token | None) -> int | None:
    """Return the processes of a node; None if only the host or a variable has it."""
    if word is None:
        return 1
    if word.text in SIZES_OF_THE_HOST or is_variable(word.text):
        return None
    number = source.count(
        word,
        "a number of processes",
        hint="write a number, or auto, cpu, gpu or xpu for what the host has",
    )
    if number == 0:
        source.report(rules.NO_SLOTS, word, "the node has no processes")
    return number


def _is_static(options: dict[str, Token]) -> bool:
    backend = options.get("rdzv-backend")
    return "standalone" not in options and (backend is None or backend.text == "static")


def _master(source: SourceText, options: dict[str, Token]) -> Token | None:
    """Return the host of node 0, None if it is this host or a variable."""
    endpoint = options.get("rdzv-endpoint")
    if endpoint is None:
        word = options.get("master-addr")
    elif is_variable(endpoint.text):
        return None
    else:
        word = endpoint_host(source, endpoint)
    port = options.get("master-port")
    if port is not None and not is_variable(port.text):
        source.number(port, "a port")
    if word is None or "$" in word.text:
        return None
    if word.text.startswith("[") and word.text.endswith("]"):
        word = word.part(1, len(word.text) - 1)
    name = source.host(word)
    return None if name is None or name in _THIS_HOST else word


TITLE = "torchrun"


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
    refuse_interleaved(hostfile, TITLE)
    script = script_words(options.script)
    sizes = sizes_of(hostfile)
    is_named = len(sizes) > 1 or hostfile.hosts[0].name is not None
    names = names_of(hostfile, "torchrun on several nodes") if is_named else []
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
    name="torchrun",
    title=TITLE,
    read=read,
    write=write,
    matches=lambda text: "torch" in text and is_command_of(SYNTAX, text),
    options=("script", "port"),
)
