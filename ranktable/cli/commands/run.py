"""``ranktable run``: start the processes of this node as the rank table says."""

from __future__ import annotations

import os
import shlex
import signal
import socket
import sys
import tempfile
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ranktable.cli.options import in_rack_order
from ranktable.cli.output import DEFECTS_FOUND, CommandError, write
from ranktable.cli.parameters import flag, number, valued
from ranktable.cli.sources import STANDARD_INPUT, named_file
from ranktable.cli.table_input import sound_table
from ranktable.cluster.discovery.machine import Machine
from ranktable.cluster.host_lists import fold_hosts
from ranktable.layout.change.fitting import size_on
from ranktable.layout.change.nodes import has_own_values, node_names
from ranktable.layout.parallel import ParallelLayout, remembered
from ranktable.preflight.facts import Declared, Facts
from ranktable.preflight.here import compare_host
from ranktable.preflight.rules import VISIBLE
from ranktable.runtime import agreement
from ranktable.runtime.agents import (
    agents_of,
    compare_hosts,
    find_agent,
    short_name,
)
from ranktable.runtime.environment import Environment, resolve_environment
from ranktable.runtime.errors import InvalidVariableError, LaunchEnvironmentError
from ranktable.runtime.launchers.slurm import SLURM, step_hosts
from ranktable.runtime.master_address import DEFAULT_PORT
from ranktable.runtime.process_chip import VISIBLE_LISTS, process_chip
from ranktable.runtime.table import REMOVED_AT_END, TIMEOUT_S, VARIABLE
from ranktable.runtime.values import read_address
from ranktable.schema.model import Device, Node
from ranktable.schema.text import counted, printable
from ranktable.schema.writing import dumps

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ranktable.cli.table_input import TableFile
    from ranktable.runtime.agents import Agent
    from ranktable.schema.model import RankTable

# torchrun reads PET_X for an option --x. These say where and what to start, which the
# table and the command line decide; a rendezvous would assign ranks in any order.
_OURS = (
    *("PET_NNODES", "PET_NPROC_PER_NODE", "PET_N_PROC_PER_NODE", "PET_NODE_RANK"),
    *("PET_RDZV_", "PET_STANDALONE", "PET_MASTER_", "PET_LOCAL_ADDR"),
    *("PET_NO_PYTHON", "PET_MODULE", "PET_RUN_PATH"),
    *(REMOVED_AT_END, TIMEOUT_S),  # of a run around this one
)

_LONG_LIST = 200
"""Most characters of a list of hosts in a sentence."""

_SHOWN = 8
_LATER_S = 30
"""How much later torchrun gives up than we do, who have names to say."""

_TOOLS_S = 3.0
"""For the vendor's tool that lists chips; the start does not wait longer."""


def run(
    script: Annotated[
        list[str],
        typer.Argument(metavar="SCRIPT", help="Script to start, and its arguments."),
    ],
    table: Annotated[
        str | None,
        valued(
            "FILE", f"Rank table; by default ${VARIABLE}.", "--rank-table", "--table"
        ),
    ] = None,
    node: Annotated[
        int | None,
        valued(
            "N",
            "Number of this node, in the order of the ranks; by default found "
            "from the host name or the launcher.",
        ),
    ] = None,
    master_addr: Annotated[
        str | None,
        valued(
            "ADDRESS", "Host of the rendezvous; by default the first host of the table."
        ),
    ] = None,
    master_port: Annotated[
        int | None,
        number(
            "PORT",
            "Port of the rendezvous; by default the launcher's, else 29500.",
            min=1,
            max=65535,
        ),
    ] = None,
    racks: Annotated[
        str | None,
        valued(
            "RACKS",
            "Number the nodes so that those of one rack are together: topology.conf or "
            "another file of racks, as for plan.",
        ),
    ] = None,
    timeout: Annotated[
        int | None,
        number(
            "SECONDS",
            "Give up if nodes have not come after so long; by default 890.",
            min=1,
            max=86_400,
        ),
    ] = None,
    dry_run: Annotated[
        bool, flag("Print the commands of all nodes and start nothing.", "--dry-run")
    ] = False,
) -> None:
    """Start the processes of this node with torchrun, as the rank table says.

    On several nodes, start this command once per node, with srun, mpirun, ssh or in
    pods.

    Example: ranktable run --rank-table sccl_rank_table.json --dry-run train.py
    """
    read, order = _table(table, racks, script[0])
    file, ranks = read.name, read.table
    agents = agents_of(ranks)
    given = address(master_addr) or agents[0].host
    environment = launched_by(is_started=not dry_run, has_address=given is not None)
    if node is not None and not 0 <= node < len(agents):
        raise CommandError(f"node {node} is not among the {len(agents)} nodes")
    if not dry_run:
        if node is None and environment.launcher == SLURM.name:
            _refuse_other_hosts(read, agents)
        refuse_other_node(environment, ranks, file, node)
    addr = given or environment.master_addr
    port = master_port or environment.master_port or DEFAULT_PORT
    if len(agents) > 1 and addr is None and not dry_run:
        raise CommandError(
            "the table names no hosts, so the address of the rendezvous is not known; "
            "pass --master-addr"
        )
    if dry_run:
        sys.stderr.write(order)
        lines = _commands if read.is_in_file else _own_commands
        named = file if read.is_in_file else named_file(table)
        write(lines(agents, script, addr or "FIRST_HOST", port, (named, racks)))
        return
    agent = _this_agent(read, agents, environment, node)
    sys.stderr.write(order if agent.node_rank == 0 else "")
    _refuse_missing_script(script[0])
    _warn_of_chips(agent, ranks)
    words = script
    if timeout is not None and len(agents) > 1:
        words = ["--rdzv-conf", f"timeout={timeout + _LATER_S}", *script]
    _start(agent.arguments(words, addr, port), read, timeout)


def _table(table: str | None, racks: str | None, script: str) -> tuple[TableFile, str]:
    """Return the table, in the order of racks if some are given, and a line on that."""
    if STANDARD_INPUT in (table, racks):
        raise CommandError("every node reads the table and the racks; name a file")
    if not (table or os.environ.get(VARIABLE)):
        is_table = script.endswith((".json", ".yaml", ".yml"))
        taken = f"{script} is taken for the script; " if is_table else ""
        raise CommandError(
            f"no table is given, and {VARIABLE} is not set\n"
            f"help: {taken}--rank-table FILE names the table"
        )
    read = sound_table(table)
    if racks is None:
        return read, ""
    agents_of(read.table)  # raises where whole nodes cannot move
    placed, order = in_rack_order(read.table, racks)
    if placed is read.table:
        return read, order
    return read._replace(table=placed, data=dumps(placed), is_in_file=False), order


def _this_agent(
    read: TableFile,
    agents: Sequence[Agent],
    environment: Environment,
    node: int | None,
) -> Agent:
    if node is not None:
        return agents[node]
    started = environment.world_size
    if started not in (None, len(agents)):
        nodes = counted(len(agents), "node")
        raise CommandError(
            f"{environment.launcher} started a job of {started}, and the table has "
            f"{nodes}; start ranktable run once on each of them, or pass --node",
            DEFECTS_FOUND,
        )
    host_name = socket.gethostname()
    agent = find_agent(agents, environment, host_name)
    if agent is None:
        names = dict.fromkeys(filter(None, (host_name, environment.host)))
        advice = "ranktable fit --hosts fits the table to other hosts"
        if environment.launcher == SLURM.name and (there := step_hosts(os.environ)):
            advice = _fit(read, there)
        raise CommandError(
            f"this node is not among the {len(agents)} of the table: no host of it is "
            f"{' or '.join(map(printable, names))}\n"
            f"help: {advice}\nhelp: --node N says which one it is"
        )
    return agent


def _refuse_other_hosts(read: TableFile, agents: Sequence[Agent]) -> None:
    """Raise unless the hosts of Slurm's step are those of the table, on every node."""
    started = step_hosts(os.environ)
    missing, unknown = compare_hosts(agents, started)
    if not missing and not unknown:
        return
    names = {short_name(one.host): one.host for one in read.table.spares if one.host}
    spares = [host for host in unknown if short_name(host) in names]
    new = [host for host in unknown if host not in spares]
    parts = []
    if new:
        parts.append(f"the table has no node {_named(new)}")
    if spares:
        parts.append(f"the table has no ranks for its spare {_named(spares)}")
    if missing:
        parts.append(f"Slurm started none on {_named(missing)}")
    # The command that changes a table is given the names in the table.
    names |= {short_name(agent.host): agent.host for agent in agents if agent.host}
    there = [names.get(short_name(host), host) for host in started]
    advice = _fit(read, there)
    if not missing:
        own = [host for host in started if host not in unknown]
        srun = f"srun --nodes {len(own)} --nodelist {shlex.quote(fold_hosts(own))}"
        others = f"start it on the others only, with {srun}"
        advice = f"{advice}\nhelp: or {others}" if advice else others
    raise CommandError(f"{'; '.join(parts)}\nhelp: {advice}", DEFECTS_FOUND)


def _fit(read: TableFile, there: Sequence[str]) -> str:
    """Return the advice to fit a table to the hosts that are there.

    The command that it prints works as it is. The advice is empty if more hosts are
    there than the table has, and are too few for another copy of the model.
    """
    table = read.table
    names = node_names(table.nodes)
    known = {*names, *(spare.host for spare in table.spares)}
    new = [host for host in there if host not in known]
    is_probed = bool(new) and any(map(has_own_values, table.nodes))
    devices = tuple(
        Device(rank=0, device_id=one.device_id) for one in table.nodes[-1].devices
    )
    using = [Node(devices=devices, host=host) for host in new] if is_probed else new
    # A list without any host of the table could be one of another cluster.
    is_other = len(new) == len(there)
    layout, is_larger = remembered(table), len(there) > table.num_nodes
    try:
        num_lost, size = size_on(
            table,
            layout or ParallelLayout(dp=table.world_size),
            hosts=None if is_other else there,
            lost=names if is_other else (),
            using=using if is_other or is_probed else (),
            grow=is_larger,
        )
        hosts, gone = fold_hosts(there), fold_hosts(names if is_other else ())
    except ValueError as error:  # the layout, a chip, or the name of a host
        return f"these nodes do not fit the table: {error}"
    if is_larger and not num_lost and size <= table.world_size:
        return ""
    probe = ""
    words = ["ranktable", "fit", read.name]
    words += ["--lost", gone] if is_other else ["--hosts", hosts]
    if is_probed:
        where = ["--nodes", str(len(there)), "--nodelist", hosts]
        probe = shlex.join(["srun", *where, "ranktable", "probe"]) + " | "
        words += ["--with", "-"]
    elif is_other:
        words += ["--with", hosts]
    if is_larger:
        words.append("--grow")
    if 2 * num_lost > table.num_nodes:
        words += ["--ranks", str(size)]
    if layout is None and size != table.world_size:
        words += ["--dp", "-1"]
    # A ConfigMap is not changed.
    words += ["--output", read.key] if read.key else ["--in-place"]
    command = probe + shlex.join(words)
    advice = f"fit the table to the nodes that are there: {command}"
    if "--dp" not in words:
        return advice
    return (
        f"{advice}\nhelp: in place of --dp -1, give the sizes that the model has, such "
        "as --tp 8 --pp 4"
    )


def _named(hosts: list[str]) -> str:
    """Return hosts for a sentence, the first ones if there are many."""
    text = fold_hosts(hosts)
    if len(text) > _LONG_LIST:
        text = f"{fold_hosts(hosts[:_SHOWN])} and {len(hosts) - _SHOWN} more"
    return printable(text)


def _commands(
    agents: Sequence[Agent],
    script: Sequence[str],
    addr: str,
    port: int,
    files: tuple[str, str | None],
) -> Iterator[str]:
    file, _ = files
    for agent in agents:
        host = printable(agent.host) if agent.host else f"node {agent.node_rank}"
        words = ["torchrun", *agent.arguments(script, addr, port)]
        yield f"# {host}\n{VARIABLE}={shlex.quote(file)} {shlex.join(words)}\n"


def _own_commands(
    agents: Sequence[Agent],
    script: Sequence[str],
    addr: str,
    port: int,
    files: tuple[str, str | None],
) -> Iterator[str]:
    """Yield commands of ours: no file has the table as torchrun's processes need it."""
    file, racks = files
    what = "the table in this order" if racks else "the ConfigMap's table"
    yield f"# {printable(file)}: ranktable run writes {what} to a file\n"
    end = ["--", *script] if script[0].startswith("-") else script
    for agent in agents:
        words = ["ranktable", "run", "--rank-table", file]
        words += [] if racks is None else ["--racks", racks]
        words += ["--node", str(agent.node_rank)]
        if len(agents) > 1:
            yield f"# {printable(agent.host) if agent.host else agent.node_rank}\n"
            words += ["--master-addr", addr, "--master-port", str(port)]
        yield f"{shlex.join([*words, *end])}\n"


def _warn_of_chips(agent: Agent, table: RankTable) -> None:
    """Say that too few chips, or others than those of the table, are visible."""
    facts = Facts(machine=Machine(timeout_s=_TOOLS_S), env=os.environ)
    nobody = Environment()
    chip = process_chip(os.environ, nobody, facts.vendor, facts.seen_chips)
    visible, wanted = chip.num_visible, agent.num_processes
    if visible is not None and visible < wanted and not (chip.is_none and chip.unknown):
        lists = [name for name in VISIBLE_LISTS if name in os.environ]
        by = "".join(f" ({name}={os.environ[name]})" for name in lists[:1])
        sys.stderr.write(
            f"warning: {counted(wanted, 'process', 'processes')} will start here, and "
            f"{counted(visible, 'chip')} can be seen{printable(by)}; local rank "
            f"{visible} and above find none: "
            + (f"unset {lists[0]}\n" if lists else "correct the table\n")
        )
    elif visible is not None and visible >= wanted:
        first = sorted(table.first_ranks)[agent.node_rank]
        node = table.node_rank_of(first)
        declared = Declared(report=None, table=table, node_rank=node, named=())
        for each in compare_host([VISIBLE], facts, declared)[0]:
            sys.stderr.write(f"warning: {printable(each.message)}\n")


def _refuse_missing_script(script: str) -> None:
    """Raise unless the script exists; an option of torchrun may be in its place."""
    path = Path(script)
    if script.startswith("-") or path.is_file():
        return
    if path.exists():
        raise CommandError(f"{script!r} is not a file that every process can read")
    raise CommandError(f"there is no script {script!r}")


def _start(arguments: list[str], read: TableFile, timeout: int | None) -> None:
    """Replace this process with torchrun, so that signals reach it directly."""
    if find_spec("torch") is None:
        raise CommandError("torch is not installed; pip install torch")
    given = [name for name in os.environ if name.startswith(_OURS)]
    environ = {name: os.environ[name] for name in os.environ if name not in given}
    environ[VARIABLE] = os.path.abspath(read.name)
    if not read.is_in_file:
        environ[VARIABLE] = environ[REMOVED_AT_END] = _file_of_its_own(read)
    if timeout is not None:
        environ[TIMEOUT_S] = str(timeout)
    command = [sys.executable, "-m", "ranktable.runtime.torchrun_process", *arguments]
    sys.stdout.flush()
    # A start of Python that is interrupted prints a traceback.
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    os.execve(sys.executable, command, environ)  # noqa: S606 - no shell is wanted


def _file_of_its_own(read: TableFile) -> str:
    """Write a table that no file has as it is to a new one, and return its path."""
    name = os.path.basename(read.key or read.name)
    try:
        path = Path(tempfile.mkdtemp(prefix="ranktable-"), name)
        path.write_bytes(read.data)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise CommandError(
            f"the table of {printable(read.name)} cannot be written for the "
            f"processes: {reason}\nhelp: TMPDIR names another folder"
        ) from None
    return str(path)


def launched_by(*, is_started: bool, has_address: bool = False) -> Environment:
    """Return the environment of this process.

    Args:
        is_started: Whether this process will start the others, so that no launcher may
            have started several here.
        has_address: Whether the address of the rendezvous is known already.

    Raises:
        CommandError: Variables contradict each other, or several processes were
            started.
    """
    try:
        environment = resolve_environment(os.environ, has_address=has_address)
    except LaunchEnvironmentError as error:
        raise CommandError(str(error), DEFECTS_FOUND) from None
    if is_started and (started := _processes_here(environment)) is not None:
        srun = " (srun --ntasks-per-node=1)" * (environment.launcher == SLURM.name)
        raise CommandError(
            f"{environment.launcher} started {started}; start ranktable run once per "
            f"node{srun}, it starts the others",
            DEFECTS_FOUND,
        )
    return environment


def _processes_here(environment: Environment) -> str | None:
    """Return how many processes a launcher started on its nodes, None for one each."""
    # A pod that is told how many processes to start has not started them yet.
    if environment.launcher is None:
        return None
    started, nodes = environment.local_world_size, environment.num_nodes
    if started not in (None, 1):
        return f"{started} processes on this node"
    if started is None and (environment.local_rank or 0) > 0:
        return "several processes on this node"
    if nodes is not None and (environment.world_size or 0) > nodes:
        return f"{environment.world_size} processes on {counted(nodes, 'node')}"
    return None


def refuse_other_node(
    environment: Environment, table: RankTable, file: str, node: int | None
) -> None:
    """Raise unless the table has this node and its chips, as far as they are known."""
    is_worker = environment.launcher is not None
    about_node = replace(
        environment,
        # The variables of the process that starts the others, if there are any.
        rank=None,
        world_size=None,
        local_rank=None,
        local_world_size=None if is_worker else environment.local_world_size,
        # With --node, another launcher may have started each of the nodes.
        num_nodes=None if is_worker and node is not None else environment.num_nodes,
        node_rank=None if is_worker and node is not None else environment.node_rank,
    )
    try:
        agreement.refuse_other_table(about_node, table, file)
    except LaunchEnvironmentError as error:
        raise CommandError(str(error), DEFECTS_FOUND) from None


def address(argument: str | None) -> str | None:
    """Return the address; texts that torchrun would read as options are refused."""
    if argument is None:
        return None
    try:
        return read_address("it", "--master-addr", argument)
    except InvalidVariableError as error:
        raise CommandError(error.message) from None
