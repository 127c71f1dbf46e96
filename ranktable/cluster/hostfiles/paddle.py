"""Command lines of Paddle's launcher, ``--ips a,b --devices 0,1``, and its endpoints.

The same command is started on every node, so all nodes have the same devices. A list of
endpoints has one for each rank, ``10.0.0.1:6070,10.0.0.1:6071``: its host is the node,
and ports do not have to be consecutive.

Sources: PaddlePaddle/Paddle, python/paddle/distributed/launch/context/args_envs.py,
python/paddle/distributed/launch/controllers/collective.py and
``PADDLE_TRAINER_ENDPOINTS``.
"""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

from ranktable.cluster.argument import ArgumentError
from ranktable.cluster.host_lists import MAX_HOSTS
from ranktable.cluster.hostfiles import hostfile_rules as rules
from ranktable.cluster.hostfiles.command_line import (
    Syntax,
    commands_in,
    is_command_of,
    is_variable,
    options_of,
)
from ranktable.cluster.hostfiles.hostfile import (
    Host,
    Hostfile,
    LauncherFormat,
    RankAssignment,
    called,
    chips_of,
    hosts_of_ranks,
    names_of,
    refuse_interleaved,
    script_words,
    sizes_of,
)
from ranktable.cluster.source_text import (
    MAX_PORT,
    MAX_SLOTS,
    Token,
    endpoint,
    endpoint_host,
    endpoint_parts,
    port_number,
)
from ranktable.schema.diagnostic import quoted

if TYPE_CHECKING:
    from ranktable.cluster.hostfiles.hostfile import WriterOptions
    from ranktable.cluster.source_text import SourceText

COMMAND_TITLE = "Paddle's launcher"
MODULE = "paddle.distributed.launch"
SYNTAX = Syntax(
    program=MODULE,
    modules=(MODULE,),
    values=frozenset(
        (
            *("master", "legacy", "rank", "log-level", "log-overwrite", "sort-ip"),
            *("enable-gpu-log", "nnodes", "nproc-per-node", "log-dir", "run-mode"),
            *("job-id", "devices", "host", "ips", "start-port", "max-restart"),
            *("auto-parallel-config", "auto-cluster-config", "auto-tuner-json"),
            *("servers", "trainers", "trainer-num", "server-num", "gloo-port"),
            *("with-gloo", "elastic-level", "elastic-timeout"),
        )
    ),
    variables="PADDLE_",
    aliases=dict.fromkeys(("gpus", "npus", "xpus"), "devices"),
)


def read_command(source: SourceText) -> Hostfile | None:
    """Return the nodes of a command of Paddle's launcher."""
    commands = list(commands_in(source, SYNTAX))
    if not commands:
        source.refuse_nothing(())
        return None
    for command in commands[1:2]:
        message = "there is a second command; one is for all nodes"
        source.report(rules.BAD_LINE, command.words[0], message)
    words = commands[0].words
    options = options_of(source, commands[0], SYNTAX)
    if options is None:
        message = f"the command {quoted(words[0].text)} does not start {MODULE}"
        source.report(rules.BAD_LINE, words[0], message)
        return None
    names = _names(source, options)
    devices = _devices(source, options.get("devices"))
    slots = _slots(source, options.get("nproc-per-node"), devices)
    if not source.is_sound:
        return None
    host = Host(name=None, slots=slots, device_ids=devices)
    return Hostfile(
        hosts=tuple(
            Host(name=name, slots=host.slots, device_ids=host.device_ids)
            for name in names
        )
    )


def _names(source: SourceText, options: dict[str, Token]) -> list[str | None]:
    ips = options.get("ips")
    if ips is None:
        count = _num_nodes(source, options.get("nnodes"))
        if "master" in options:
            endpoint_host(source, options["master"])
        return [None] * count
    names: dict[str, Token] = {}
    for word in ips.parts(","):
        name = source.host(word)
        if name is not None and name in names:
            source.report(
                rules.HOST_TWICE,
                word,
                f"{quoted(name)} is described twice; Paddle gives both the same ports",
                first_use=names[name],
            )
        elif name is not None:
            names[name] = word
    return list(names)


def _num_nodes(source: SourceText, word: Token | None) -> int:
    if word is None:
        return 1
    if ":" in word.text:
        message = f"the job has {word.text.replace(':', ' to ')} nodes, as many as join"
        source.report(rules.NOT_FIXED, word, message, hint="write one number")
        return 0
    number = source.number(word, "a number of nodes") or 0
    if number > MAX_HOSTS:
        source.too_many(word, "hosts")
    elif number == 0 and source.is_sound:
        source.report(rules.BAD_COUNT, word, "a job has at least one node")
    return min(number, MAX_HOSTS)


def _devices(source: SourceText, word: Token | None) -> tuple[int, ...] | None:
    if word is None or is_variable(word.text):
        return None
    numbers: dict[int, Token] = {}
    for part in word.parts(","):
        number = source.number(part, "the number of a device", hint="write 0,1,2,3")
        if number is not None and number in numbers:
            message = f"device {number} is given twice; two processes would share it"
            source.report(rules.BAD_LINE, part, message, first_use=numbers[number])
        elif number is not None:
            numbers[number] = part
    return tuple(numbers)


def _slots(
    source: SourceText, word: Token | None, devices: tuple[int, ...] | None
) -> int | None:
    """Return the processes of a node: one for each device, or the given number."""
    if word is None or is_variable(word.text):
        return None if devices is None else len(devices)
    number = source.count(word, "a number of processes")
    if number == 0:
        source.report(rules.NO_SLOTS, word, "the node has no processes")
    if devices is not None and number is not None and number != len(devices):
        source.report(
            rules.COUNTS_DISAGREE,
            word,
            f"there are {number} processes and {len(devices)} devices on a node",
        )
    return number


def write_command(hostfile: Hostfile, options: WriterOptions) -> str:
    """Return the command that is started on every node."""
    refuse_interleaved(hostfile, COMMAND_TITLE)
    names = names_of(hostfile, COMMAND_TITLE)
    chips = chips_of(hostfile)
    for node_rank, own in enumerate(chips):
        if own != chips[0]:
            host = called(node_rank, hostfile.hosts[node_rank])
            raise ArgumentError(
                f"{COMMAND_TITLE} has one list of devices for all nodes, and {host} "
                f"has others than {called(0, hostfile.hosts[0])}",
                hint="paddle-endpoints can have nodes of different size",
            )
    devices = ",".join(map(str, chips[0]))
    words = ["python", "-m", MODULE, "--ips", ",".join(names), "--devices", devices]
    return shlex.join([*words, *script_words(options.script)]) + "\n"


PADDLE = LauncherFormat(
    name="paddle",
    title=COMMAND_TITLE,
    read=read_command,
    write=write_command,
    matches=lambda text: "paddle" in text and is_command_of(SYNTAX, text),
    options=("script",),
)


ENDPOINTS_TITLE = "a list of Paddle's endpoints"
DEFAULT_PORT = 6070
"""Paddle's own first port."""

_VARIABLE = re.compile(r"\s*(?:(?:export\s+)?PADDLE_TRAINER_ENDPOINTS=)?")
_KNOWN = re.compile(
    r"\s*(?:(?:export\s+)?PADDLE_TRAINER_ENDPOINTS=|[^\s,]+:[0-9]+,[^\s,]+:[0-9])"
)


def read_endpoints(source: SourceText) -> Hostfile | None:
    """Return the hosts of a list of endpoints, with the ranks of each."""
    start = _VARIABLE.match(source.text).end()  # type: ignore[union-attr]
    end = len(source.text.rstrip())
    assignment = RankAssignment(source)
    if start < end:
        listed = Token(source.text[start:end], start, end)
        if listed.text[0] == listed.text[-1] and listed.text[0] in "'\"":
            listed = listed.part(1, -1)
        if listed.text.count(",") >= MAX_SLOTS:
            source.too_many(listed, "processes")
        else:
            _read_items(source, listed, assignment)
    return assignment.hostfile()


def _read_items(source: SourceText, listed: Token, assignment: RankAssignment) -> None:
    first_use: dict[tuple[str, int], Token] = {}
    for word in listed.parts(","):
        parts = endpoint_parts(source, word)
        if parts is None:
            continue
        host = source.host(parts[0])
        if parts[1] is None:
            message = f"{quoted(word.text)} has no port"
            source.report(rules.BAD_COUNT, word, message, hint="write host:port")
            continue
        port = port_number(source, parts[1])
        if host is None or port is None:
            continue
        if (host, port) in first_use:
            source.report(
                rules.HOST_TWICE,
                word,
                f"the endpoint {quoted(word.text)} is given to two ranks",
                first_use=first_use[host, port],
            )
        first_use[host, port] = word
        assignment.add(host, parts[0], len(assignment.ranks), word)


def write_endpoints(hostfile: Hostfile, options: WriterOptions) -> str:
    """Return the endpoint of every rank; the ports of a node are consecutive."""
    names = names_of(hostfile, ENDPOINTS_TITLE)
    first = options.port or DEFAULT_PORT
    if first + max(sizes_of(hostfile)) - 1 > MAX_PORT:
        raise ArgumentError(f"the ports from {first} on go beyond {MAX_PORT}")
    ports = [first] * len(names)
    endpoints = []
    for node in hosts_of_ranks(hostfile):
        endpoints.append(endpoint(names[node], ports[node]))
        ports[node] += 1
    return ",".join(endpoints) + "\n"


PADDLE_ENDPOINTS = LauncherFormat(
    name="paddle-endpoints",
    title=ENDPOINTS_TITLE,
    read=read_endpoints,
    write=write_endpoints,
    matches=_KNOWN.match,
    options=("port",),
)
