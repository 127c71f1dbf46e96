"""What command lines of torchrun say about the nodes of a job."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ranktable.cluster.descriptions.command_line import (
    Command,
    Syntax,
    commands_in,
    is_variable,
    options_of,
)
from ranktable.cluster.descriptions.description import MAX_HOSTS, Description, Host
from ranktable.cluster.descriptions.endpoint import endpoint_host
from ranktable.cluster.hostfiles import hostfile_rules as rules
from ranktable.schema.messages import quoted

if TYPE_CHECKING:
    from ranktable.cluster.descriptions.source import Source, Word

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
    # Names of the private-use backends of vendors.
    *("npu", "tpu", "hpu", "mlu", "musa", "sdaa", "privateuseone"),
)
_THIS_HOST = ("localhost", "127.0.0.1", "::1", "0:0:0:0:0:0:0:1")
_RANGE = 2  # MIN:MAX


@dataclass(slots=True)
class _Nodes:
    """What the commands say so far.

    Attributes:
        count: Number of nodes and where it stands first.
        hosts: What is known of a node, by its index.
        places: Where the index of a node stands.
        first: The host of node 0.
    """

    count: tuple[int, Word] | None = None
    hosts: dict[int, Host] = field(default_factory=dict)
    places: dict[int, Word] = field(default_factory=dict)
    first: str | None = None


def read(source: Source) -> Description | None:
    """Return the nodes of torchrun's commands.

    A command without an index, or with a variable in its place, is every node's; then
    the nodes have no names. A node without a command has a size that is not known.
    """
    nodes = _Nodes()
    for command in commands_in(source):
        options = options_of(source, command, SYNTAX)
        if options is None:
            word = command.words[0]
            message = f"the command {quoted(word.text)} does not start torchrun"
            source.say(rules.BAD_LINE, word, message)
        else:
            _read_command(source, command, options, nodes)
    if nodes.count is None:
        source.refuse_nothing(())
    if nodes.count is None or not source.is_sound:
        return None
    hosts = [nodes.hosts.get(place, Host(name=None)) for place in range(nodes.count[0])]
    if hosts[0].name is None and nodes.first is not None:
        hosts[0] = Host(name=nodes.first, slots=hosts[0].slots)
    return Description(hosts=tuple(hosts))


def _read_command(
    source: Source, command: Command, options: dict[str, Word], nodes: _Nodes
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
        source.say(
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


def _add(source: Source, nodes: _Nodes, index: int, place: Word, host: Host) -> None:
    """Add the node of a command."""
    count = nodes.count[0] if nodes.count is not None else 1
    if index >= count:
        source.say(
            rules.COUNTS_DISAGREE,
            place,
            f"node {index} is not among the {count} of the job",
            hint=f"nodes count from 0 to {count - 1}",
        )
    elif index in nodes.places:
        source.say(
            rules.RANK_TWICE,
            place,
            f"node {index} has two commands",
            first_use=nodes.places[index],
        )
    else:
        nodes.places[index] = place
        nodes.hosts[index] = host


def _num_nodes(source: Source, options: dict[str, Word]) -> int | None:
    """Return the number of nodes, None after saying that it is not known."""
    word = options.get("nnodes")
    if word is None:
        return 1
    counts = list(word.parts(":"))
    numbers = [source.number(part, "a number of nodes") for part in counts[:_RANGE]]
    if None in numbers or len(counts) > _RANGE:
        if len(counts) > _RANGE:
            message = f"{quoted(word.text)} is neither N nor MIN:MAX"
            source.say(rules.BAD_COUNT, word, message)
        return None
    low, high = int(numbers[0] or 0), int(numbers[-1] or 0)
    if low == 0 or high < low:
        message = f"{quoted(word.text)} is no number of nodes; torchrun stops"
        source.say(rules.BAD_COUNT, word, message)
    elif low < high:
        source.say(
            rules.NOT_FIXED,
            word,
            f"the job has {low} to {high} nodes, as many as come",
            hint="a rank table is for a fixed number: write --nnodes N",
        )
    elif high > MAX_HOSTS:
        source.too_many(word, "hosts")
    elif "standalone" in options and high > 1:
        message = f"--standalone is for one node, not {high}"
        source.say(rules.COUNTS_DISAGREE, word, message)
    else:
        return high
    return None


def node_size(source: Source, word: Word | None) -> int | None:
    """Return the processes of a node; None if only the host or a variable knows."""
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
        source.say(rules.NO_SLOTS, word, "the node has no processes")
    return number


def _is_static(options: dict[str, Word]) -> bool:
    backend = options.get("rdzv-backend")
    return "standalone" not in options and (backend is None or backend.text == "static")


def _master(source: Source, options: dict[str, Word]) -> str | None:
    """Return the host of node 0, None where it is this host or a variable."""
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
    return None if name in _THIS_HOST else name
