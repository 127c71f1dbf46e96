"""Command lines of Paddle's launcher: ``--ips a,b --devices 0,1``.

One command is started on every node as it is, so that all nodes have the same devices.

Source: PaddlePaddle/Paddle, python/paddle/distributed/launch/context/args_envs.py.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from ranktable.cluster.argument import ArgumentError
from ranktable.cluster.host_lists import MAX_HOSTS
from ranktable.cluster.hostfiles import hostfile_rules as rules
from ranktable.cluster.hostfiles.command_line import (
    Syntax,
    commands_in,
    is_variable,
    options_of,
)
from ranktable.cluster.hostfiles.hostfile import (
    Host,
    Hostfile,
    LauncherFormat,
    called,
    chips_of,
)
from ranktable.cluster.hostfiles.writer_checks import (
    names_of,
    refuse_interleaved,
    script_words,
)
from ranktable.cluster.source_text import endpoint_host
from ranktable.schema.messages import quoted

if TYPE_CHECKING:
    from ranktable.cluster.hostfiles.hostfile import WriterOptions
    from ranktable.cluster.source_text import SourceText, Token

TITLE = "Paddle's launcher"
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


def read(source: SourceText) -> Hostfile | None:
    """Return the nodes of a command of Paddle's launcher."""
    commands = list(commands_in(source))
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
        message = f"the job has {word.text.replace(':', ' to ')} nodes, as many as come"
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
    """Return the processes of a node: one a device, unless a number is given."""
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


def write(hostfile: Hostfile, options: WriterOptions) -> str:
    """Return the command that is started on every node."""
    refuse_interleaved(hostfile, TITLE)
    names = names_of(hostfile, TITLE)
    chips = chips_of(hostfile)
    for node_rank, own in enumerate(chips):
        if own != chips[0]:
            host = called(node_rank, hostfile.hosts[node_rank])
            raise ArgumentError(
                f"{TITLE} has one list of devices for all nodes, and {host} has "
                f"others than {called(0, hostfile.hosts[0])}",
                hint="paddle-endpoints can have nodes of different size",
            )
    devices = ",".join(map(str, chips[0]))
    words = ["python", "-m", MODULE, "--ips", ",".join(names), "--devices", devices]
    return shlex.join([*words, *script_words(options.script)]) + "\n"


PADDLE = LauncherFormat(
    name="paddle",
    title=TITLE,
    read=read,
    write=write,
    matches=lambda text: MODULE in text,
    options=("script",),
)
