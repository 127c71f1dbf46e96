"""What the variables of a launcher say besides the rank: hints for people."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Final

from ranktable.runtime.environment import advising
from ranktable.runtime.launchers.declared import LAUNCHERS
from ranktable.runtime.launchers.launcher import ClaimLevel
from ranktable.runtime.launchers.platforms import SAGEMAKER, sagemaker_hosts
from ranktable.runtime.launchers.slurm import follows_topology
from ranktable.runtime.process_chip import UNREAD_LISTS
from ranktable.runtime.values import is_plain, said
from ranktable.schema.text import counted
from ranktable.schema.values import is_loopback

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from ranktable.runtime.environment import Environment
    from ranktable.runtime.launchers.launcher import Launcher

_SHOWN: Final = 4
"""Most variables that are not used that are named; the others are counted."""

_TASKS: Final = re.compile(r"VC_\w+_NUM")


def notes(found: Environment, env: Mapping[str, str]) -> list[str]:
    """Return what else the variables say, in sentences."""
    return [
        note
        for note in (
            _start_line(found, env),
            _no_master(found, env),
            _no_nodes(found, env),
            _own_master(found),
            _others(env),
            _short_list(found, env),
        )
        if note is not None
    ]


def unused(env: Mapping[str, str], used: Collection[str]) -> Iterator[str]:
    """Yield why variables that only one launcher sets are not used.

    Args:
        env: The variables.
        used: The variables that some launcher has set here.
    """
    known = Counter(name for one in LAUNCHERS for name in _named_by(one))
    for launcher in LAUNCHERS:
        own = [name for name in _named_by(launcher) if known[name] == 1]
        own = [name for name in own if env.get(name) and name not in used]
        lacking = [name for name in launcher.markers if not env.get(name)]
        if launcher.is_present(env) or not (own and lacking):
            continue
        family = own[0][: own[0].find("_", 1) + 1]
        more = (name for name in sorted(env) if name.startswith(family))
        names = [*dict.fromkeys([*own, *(name for name in more if name not in used)])]
        shown = ", ".join(names[:_SHOWN])
        rest = len(names) - _SHOWN
        yield (
            f"not used: {shown}{f' and {rest} more' if rest > 0 else ''}; a process "
            f"of {launcher.name} has {' and '.join(lacking)} too"
        )


def _named_by(launcher: Launcher) -> dict[str, None]:
    """Return the variables of a launcher, each once."""
    return dict.fromkeys([*launcher.markers, *launcher.fields.values()])


def _start_line(found: Environment, env: Mapping[str, str]) -> str | None:
    """Return how torchrun is started where only the node of this process is known."""
    launcher = advising(env)
    if launcher is None or found.rank is not None:
        return None
    if launcher.level is not ClaimLevel.NODE or None in (
        found.node_rank,
        found.num_nodes,
    ):
        return None
    chips = env.get(launcher.chips, "")
    options = {
        "nnodes": found.num_nodes,
        "node-rank": found.node_rank,
        "nproc-per-node": chips if is_plain(chips) else found.local_world_size or "N",
        "master-addr": found.master_addr,
        "master-port": found.master_port,
    }
    words = [f"--{name} {value}" for name, value in options.items() if value]
    if not found.node_rank:
        words.insert(1, "--node-rank 0")
    return f"{launcher.name} says: torchrun {' '.join(words)} SCRIPT"


def _short_list(found: Environment, env: Mapping[str, str]) -> str | None:
    """Return that a list of a vendor that is not read has no entry for this process.

    How many devices an entry of ZE_AFFINITY_MASK is depends on the machine.
    """
    if found.local_rank is None:
        return None
    for name in UNREAD_LISTS:
        entries = [entry for entry in env.get(name, "").split(",") if entry.strip()]
        if 0 < len(entries) <= found.local_rank:
            count = counted(len(entries), "entry", "entries")
            return (
                f"{name}={env[name]} has {count}, and the local rank is "
                f"{found.local_rank}: whether this process has a device is not judged"
            )
    return None


def _no_master(found: Environment, env: Mapping[str, str]) -> str | None:
    if found.launcher != "slurm" or found.master_addr or not follows_topology(env):
        return None
    return (
        "the host of rank 0 is not known: Slurm since 26.05 may order tasks by the "
        "topology of the nodes; give srun --distribution=block, or export MASTER_ADDR"
    )


def _own_master(found: Environment) -> str | None:
    """Return that a job of several nodes can meet only if they are on one machine.

    That is no error where the launcher itself gives the address: several agents on one
    machine are a usual test. Operators give it to rank 0 of a PyTorchJob alone.
    """
    sizes = (found.num_nodes or 0, (found.node_rank or 0) + 1)
    local, world = found.local_world_size, found.world_size
    is_split = max(sizes) > 1 or (local or world or 0) < (world or 0)
    is_first = not (found.node_rank if found.rank is None else found.rank)
    if is_first or not is_split or not is_loopback(found.master_addr):
        return None
    return (
        f"the master address {found.master_addr} is another machine on each host, and "
        "there are several nodes: this works only if all of them are on one machine"
    )


def _no_nodes(found: Environment, env: Mapping[str, str]) -> str | None:
    """Return why the number of nodes is not known, where a variable should have it."""
    nodes = env.get("PET_NNODES", "")
    if found.num_nodes is not None:
        return None
    if ":" in nodes:
        why = "is a range: only torchrun's processes know how many nodes came"
        return f"{said('PET_NNODES', nodes)} {why}"
    if SAGEMAKER.is_present(env) and not sagemaker_hosts(env):
        why = "is not a list of names in JSON, so this node and their number are"
        return f"{said('SM_HOSTS', env['SM_HOSTS'])} {why} not known"
    return None


def _others(env: Mapping[str, str]) -> str | None:
    """Return what Volcano before 1.12 counts besides the tasks that join the job."""
    counts = ("WORLD_SIZE", "VC_MASTER_NUM", "VC_WORKER_NUM")
    if not all(is_plain(env.get(name, "")) for name in ("VC_TASK_INDEX", *counts)):
        return None
    size, *parts = (int(env[name]) for name in counts)
    joining = sum(parts)
    if size <= joining:
        return None
    others = (name for name in env if _TASKS.fullmatch(name) and name not in counts)
    more = sorted(said(name, env[name]) for name in others)
    return (
        f"WORLD_SIZE={size} counts other tasks too ({', '.join(more) or 'unknown'}): "
        f"{joining} of {size} pods are master and workers; Volcano counts these alone "
        "since 1.12, before that export WORLD_SIZE yourself"
    )
