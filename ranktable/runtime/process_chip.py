"""The chip that a process really has: what its variables and its host make of it.

A list of visible devices counts the chips that the process may open, and a container or
a cgroup has given it fewer than the host has. So a number in a list is not a chip: two
processes with ``CUDA_VISIBLE_DEVICES=0`` may have two chips. What tells chips apart is
the UUID, else the bus address on one machine, else the number that Slurm gives them.

Sources: CUDA Programming Guide, CUDA_VISIBLE_DEVICES; ``torch.cuda``; hiascend,
ASCEND_RT_VISIBLE_DEVICES; rocm.docs.amd.com, GPU isolation; Slurm, gres.html and srun.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Struct

from ranktable.runtime.launchers.slurm import (
    PER_TASK,
    STEP_CHIPS,
    isolated_by,
    step_chip,
)
from ranktable.schema.text import counted, folded, quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ranktable.runtime.environment import Environment

CUDA_LIST, HIP_LIST = "CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"
ROCR_LIST = "ROCR_VISIBLE_DEVICES"
ASCEND_LIST, ASCEND_MOUNTED = "ASCEND_RT_VISIBLE_DEVICES", "ASCEND_VISIBLE_DEVICES"
GPU_LISTS = (CUDA_LIST, HIP_LIST, ROCR_LIST)
VISIBLE_LISTS = (*GPU_LISTS, ASCEND_LIST)
UNREAD_LISTS = (
    *("MLU_VISIBLE_DEVICES", "MUSA_VISIBLE_DEVICES", "ZE_AFFINITY_MASK"),
    *("HABANA_VISIBLE_DEVICES", "NEURON_RT_VISIBLE_CORES", "TPU_VISIBLE_CHIPS"),
)
"""The lists of other vendors."""

_LISTS = {
    "nvidia": ((CUDA_LIST,),),
    # The runtime below takes its list first; the other counts what is left.
    "amd": ((ROCR_LIST,), (HIP_LIST, CUDA_LIST)),
    "ascend": ((ASCEND_LIST,),),
}
"""The lists of each vendor in the order in which they are applied; in each step the
first that is set counts."""

_GIVEN_BY_SLURM = (STEP_CHIPS, "SLURM_JOB_GPUS", "SLURM_GPUS_ON_NODE", *PER_TASK)


class SeenChip(NamedTuple):
    """A chip that a process may open.

    Attributes:
        device_id: Its number by the vendor's tool.
        identity: What no other chip of the machine has: UUID or bus address.
        model: Its model.
    """

    device_id: int
    identity: str = ""
    model: str = ""


class ProcessChip(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The chip of one process.

    Attributes:
        device_id: Its number, as far as this process sees it; None without one.
        identity: What tells it from others on its machine, empty if that is not known.
        is_none: Whether the process certainly has no chip.
        num_visible: How many chips it can use, None if that is not known.
        shown: The chips that it may see, to compare processes; empty if not known.
        usable: The chips that it can use: identities, or numbers if these are unknown.
        wrong: What is wrong, or doubtful if ``is_doubtful``; empty if nothing is.
        hint: What to do about it.
        is_doubtful: Whether it is wrong only for some programs.
        unknown: Why the chip is not known, empty if it is.
        isolated_by: The variable by which each process was given its own chips.
    """

    device_id: int | None = None
    identity: str = ""
    is_none: bool = False
    num_visible: int | None = None
    shown: str = ""
    usable: tuple[str, ...] = ()
    wrong: str = ""
    hint: str = ""
    is_doubtful: bool = False
    unknown: str = ""
    isolated_by: str = ""


class VisibleList(NamedTuple):
    """A list of visible devices, as its owner reads it.

    Attributes:
        entries: The numbers and UUIDs that are read.
        rest: Where reading ends, empty if all is read.
        why: Why it ends there.
    """

    entries: tuple[int | str, ...]
    rest: str = ""
    why: str = ""


def read_gpu_list(text: str, chips: Sequence[SeenChip] | int | None) -> VisibleList:
    """Return what CUDA, HIP and torch read of a list.

    Args:
        text: The list.
        chips: The chips that the entries are about, or their number; None if unknown.
    """
    entries: list[int | str] = []
    kind = text[:4] if text.startswith(("GPU-", "MIG-")) else ""
    for part in text.split(","):
        word = part.strip()
        entry, why = _gpu_entry(word, kind, chips)
        if why:
            return VisibleList(tuple(entries), word, why)
        if entry in entries:
            return VisibleList((), word, "it is there twice, so there is no device")
        if kind == "MIG-" and entries:
            return VisibleList(
                tuple(entries), word, "a process uses one MIG instance, the first"
            )
        entries.append(entry)
    return VisibleList(tuple(entries))


def _gpu_entry(
    word: str, kind: str, chips: Sequence[SeenChip] | int | None
) -> tuple[int | str, str]:
    """Return the entry of a list, and why it ends the list, empty if it does not."""
    if kind:
        return _uuid_entry(word, kind, chips)
    number = re.match(r"\+?([0-9]{1,6})(?![0-9])", word)
    if number is None:
        return word, "it is not the number of a device"
    count = chips if isinstance(chips, int) else None if chips is None else len(chips)
    if count is not None and int(number[1]) >= count:
        return int(number[1]), _only_there(count)
    return int(number[1]), ""


def _uuid_entry(
    word: str, kind: str, chips: Sequence[SeenChip] | int | None
) -> tuple[str, str]:
    if not word.startswith(kind):
        return word, f"after {kind}... only such entries are read"
    known = () if chips is None or isinstance(chips, int) else chips
    has_uuids = any(chip.identity.startswith("GPU-") for chip in known)
    fits = [chip.identity for chip in known if chip.identity.startswith(word)]
    if kind == "MIG-" or not has_uuids:
        return word, ""
    if len(fits) == 1:
        return fits[0], ""
    return word, _NOT_UNIQUE if fits else "no chip here has this UUID"


_NOT_UNIQUE = "it is not unique"


def _only_there(count: int) -> str:
    """Return why a number that does not exist ends a list."""
    return f"there {'is' if count == 1 else 'are'} {counted(count, 'device')}"


def read_ascend_list(text: str, chips: Sequence[SeenChip] | int | None) -> VisibleList:
    """Return what CANN reads of a list: digits and commas, up to anything else.

    Reading ends at an id that does not exist, too.
    """
    count = chips if isinstance(chips, int) else None if chips is None else len(chips)
    ids: list[int | str] = []
    at = 0
    while match := re.compile(r"[0-9]{1,6}").match(text, at):
        if count is not None and int(match[0]) >= count:
            why = _only_there(count)
            return VisibleList(tuple(ids), text[at:], why)
        ids.append(int(match[0]))
        at = match.end()
        if at == len(text):
            return VisibleList(tuple(ids))
        if text[at] != ",":
            break
        at += 1
    return VisibleList(tuple(ids), text[at:], "only digits and commas are read")


def ascends(ids: Sequence[int | str]) -> bool:
    """Whether each id is above the one before, as CANN asks of its list."""
    return all(int(a) < int(b) for a, b in pairwise(ids))


def read_mounted(text: str) -> list[int]:
    """Return the physical chips that the container runtime mounts, sorted.

    Source: Ascend, ascend-docker-runtime: ``0,3-5`` or ``Ascend910-2``.
    """
    found: set[int] = set()
    for part in text.split(","):
        word = re.sub(r"^(?:Ascend\w*|npu)-(?=\d)", "", part.strip())
        ends = re.fullmatch(r"([0-9]{1,6})(?:-([0-9]{1,6}))?", word)
        if ends:
            found.update(range(int(ends[1]), int(ends[2] or ends[1]) + 1))
    return sorted(found)


def hides_all(text: str) -> bool:
    """Whether a list is meant to show no device; Slurm writes NoDevFiles."""
    return text.strip() in ("", "-1", "NoDevFiles")


class _Visible(NamedTuple):
    """The chips that a process can use, by their index; None where not known.

    Attributes:
        chips: The chips, None if not even their number is known.
        said: The lists that decide, as they are written.
        lost: What is wrong with them.
        unknown: Why it is not known which chips they are.
        names: The names of the lists that are set.
    """

    chips: tuple[SeenChip | None, ...] | None
    said: str = ""
    lost: str = ""
    unknown: str = ""
    names: tuple[str, ...] = ()


def vendor_of(env: Mapping[str, str]) -> str | None:
    """Return the vendor whose list of devices is set, None if that is not known."""
    if ROCR_LIST in env and CUDA_LIST in env and HIP_LIST not in env:
        # Slurm without AutoDetect sets the lists of all vendors on every host.
        return "ascend" if ASCEND_LIST in env else None
    for name, vendor in (
        (ASCEND_LIST, "ascend"),
        (ROCR_LIST, "amd"),
        (HIP_LIST, "amd"),
        (CUDA_LIST, "nvidia"),
    ):
        if name in env:
            return vendor
    return None


def list_for(vendor: str | None) -> str:
    """Return the variable by which people choose the chips of a process."""
    names = {"ascend": ASCEND_LIST, "amd": HIP_LIST, "sophgo": "CHIP_MAP"}
    return names.get(vendor or "", CUDA_LIST)


def _visible(
    env: Mapping[str, str], vendor: str | None, chips: Sequence[SeenChip] | None
) -> _Visible:
    """Apply the lists of a vendor to the chips that the process may open."""
    found = _Visible(None if chips is None else tuple(chips))
    if is_unordered(env, vendor, chips) and not any(
        name in env for names in _LISTS[vendor or ""] for name in names
    ):
        return _Visible((None,) * len(chips or ()), unknown=UNORDERED)
    for names in _LISTS.get(vendor or "", ()):
        name = next((each for each in names if each in env), None)
        if name is not None:
            found = _narrowed(found, name, env, vendor)
    return found


def _narrowed(
    before: _Visible, name: str, env: Mapping[str, str], vendor: str | None
) -> _Visible:
    text = env[name]
    read: Callable[[str, Any], VisibleList] = (
        read_ascend_list if name == ASCEND_LIST else read_gpu_list
    )
    known = before.chips
    whole = None not in (known or ())
    listed = read(text, known if whole else len(known or ()))
    if hides_all(text):
        listed = VisibleList(())
    by_identity = {chip.identity: chip for chip in known or () if chip is not None}
    chips = tuple(_entry(each, known, by_identity) for each in listed.entries)
    said = " and ".join(filter(None, (before.said, f"{name}={quoted(text)}")))
    lost = before.lost
    if listed.why:
        lost = f"{quoted(listed.rest)} ends the list: {listed.why}"
    unknown = before.unknown
    if name == ASCEND_LIST and not ascends(listed.entries):
        unknown, chips = "the list does not ascend", (None,) * len(chips)
    is_number = any(isinstance(each, int) for each in listed.entries)
    there = [chip for chip in known or () if chip is not None]
    if is_number and is_unordered(env, vendor, there):
        unknown, chips = UNORDERED, (None,) * len(chips)
    return _Visible(chips, said, lost, unknown, (*before.names, name))


UNORDERED = (
    "the chips are of several models, and CUDA counts the fastest first; set "
    "CUDA_DEVICE_ORDER=PCI_BUS_ID"
)


def is_unordered(
    env: Mapping[str, str], vendor: str | None, chips: Sequence[SeenChip] | None
) -> bool:
    """Whether numbers mean other chips to CUDA than to the vendor's tool."""
    models = {chip.model for chip in chips or () if chip.model}
    is_ordered = env.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID"
    return vendor == "nvidia" and len(models) > 1 and not is_ordered


def _entry(
    entry: int | str,
    known: tuple[SeenChip | None, ...] | None,
    by_identity: Mapping[str, SeenChip],
) -> SeenChip | None:
    if isinstance(entry, str):
        return by_identity.get(entry) or SeenChip(-1, entry)
    return SeenChip(entry) if known is None else known[entry]


def is_of_torchrun(env: Mapping[str, str]) -> bool:
    """Whether torchrun started this process; what isolates is then about its agent."""
    return "TORCHELASTIC_RUN_ID" in env


def process_chip(
    env: Mapping[str, str],
    environment: Environment,
    vendor: str | None = None,
    chips: Sequence[SeenChip] | None = None,
    *,
    has_chips: bool = False,
) -> ProcessChip:
    """Return the chip that a process has.

    Args:
        env: Its variables.
        environment: What the launcher says of it.
        vendor: Maker of the chips of its machine, None if there are none.
        chips: The chips that the process may open, in the order in which the libraries
            count them; None if that is not known.
        has_chips: Whether the machine shows some whose numbers are not known.
    """
    seen = _visible(env, vendor or vendor_of(env), chips)
    own = "" if is_of_torchrun(env) else isolated_by(env)
    facts: dict[str, Any] = {
        "num_visible": None if seen.chips is None else len(seen.chips),
        "shown": _shown(seen, chips),
        "usable": tuple(e.identity or str(e.device_id) for e in seen.chips or () if e),
        "isolated_by": own,
    }
    place, variable = _place(env, environment, seen, vendor)
    if environment.local_chip_map is not None and environment.device_id is None:
        return _mapped(environment, facts, chips)
    if seen.chips is None:
        why = _UNLISTED if has_chips else NO_CHIPS
        return ProcessChip(**facts, device_id=place, unknown=why)
    if not seen.chips:
        has_chips = has_chips or bool(chips)
        return _none(seen, vendor or vendor_of(env), facts, has_chips=has_chips)
    if place is None and len(seen.chips) > 1:
        why = f"{counted(len(seen.chips), 'chip')} visible, and no local rank is given"
        if variable:
            why = f"{variable} may be a number of this container or of the host"
        return ProcessChip(**facts, unknown=why)
    is_own = _is_own_list(env, seen, place)
    given = env.get("SLURM_GPUS_ON_NODE") or str(len(chips or ()))
    sees_all = given == str(len(seen.chips))
    wrong = _doubt(
        environment, seen, place, variable, own=own or is_own, sees_all=sees_all
    )
    if wrong.get("hint") == _UNBIND and "SLURM_JOB_ID" in env:
        wrong["hint"] = _UNBIND_IN_SLURM
    facts |= wrong or _not_given(env, seen, chips)
    is_beyond = place is not None and place >= len(seen.chips)
    if is_beyond and (len(seen.chips) > 1 or not facts["is_doubtful"]):
        return ProcessChip(**facts, is_none=True)
    at = 0 if place is None or is_beyond else place
    return _chosen(env, seen, at, own or is_own, facts)


_UNLISTED = "no tool says which chips are here"
NO_CHIPS = "no chips were found"


def _shown(seen: _Visible, chips: Sequence[SeenChip] | None) -> str:
    """Return the set of two or more chips that a process sees, for comparison."""
    if chips is not None and len(chips) > 1:
        return " ".join(sorted(each.identity or str(each.device_id) for each in chips))
    if chips is None and seen.chips is not None and len(seen.chips) > 1:
        return seen.said
    return ""


def _place(
    env: Mapping[str, str],
    environment: Environment,
    seen: _Visible,
    vendor: str | None,
) -> tuple[int | None, str]:
    """Return the index that a program takes in its list, and what says so."""
    number = environment.device_id
    if number is not None and (vendor or vendor_of(env)) == "ascend":
        numbers = [each and each.device_id for each in seen.chips or ()]
        name = environment.sources.get("device_id", "DEVICE_ID")
        if ASCEND_LIST in env or number not in numbers:
            return number, name
        is_same = number >= len(numbers) or numbers[number] == number
        return numbers.index(number) if is_same else None, name
    if environment.local_rank is not None:
        return environment.local_rank, environment.sources.get("local_rank", "")
    return (0 if seen.chips is not None and len(seen.chips) == 1 else None), ""


def _mapped(
    environment: Environment,
    facts: dict[str, Any],
    chips: Sequence[SeenChip] | None,
) -> ProcessChip:
    """Return the chip in CHIP_MAP, which has numbers of the host."""
    chip_map, local_rank = environment.local_chip_map, environment.local_rank
    if chip_map is None or local_rank is None or local_rank >= len(chip_map):
        return ProcessChip(**facts, unknown="CHIP_MAP is set, and no local rank is")
    number = chip_map[local_rank]
    known = {each.device_id: each.identity for each in chips or ()}
    why = "" if number in known else "no such chip was found on this host"
    return ProcessChip(
        **facts, device_id=number, identity=known.get(number, ""), unknown=why
    )


def _none(
    seen: _Visible, vendor: str | None, facts: dict[str, Any], *, has_chips: bool
) -> ProcessChip:
    """Return that the lists leave no chip; a job on CPUs may have hidden them."""
    name = list_for(vendor)
    hint = f"unset {name}, or give it the chips of the process: {name}=0"
    if len(seen.names) > 1:
        hint = (
            f"set one of {' and '.join(seen.names)}: the second counts only what the "
            "first leaves, from 0"
        )
    elif seen.lost.endswith(_NOT_UNIQUE):
        hint = f"write the whole UUID in {name}; `nvidia-smi -L` has it"
    if not seen.said:
        return ProcessChip(**facts, unknown=NO_CHIPS)
    what = f"{seen.said} leaves this process no chip"
    if not (has_chips or seen.lost):  # a job on CPUs
        return ProcessChip(**facts, is_none=True, unknown=what)
    wrong = f"{what}: {seen.lost}" if seen.lost else what
    return ProcessChip(**facts, is_none=True, wrong=wrong, hint=hint)


def _is_own_list(env: Mapping[str, str], seen: _Visible, place: int | None) -> str:
    """Return the list by which a script has given this process its own chip."""
    for name in seen.names:
        if place and env[name].strip() == str(place):
            return name
    return ""


def _doubt(
    environment: Environment,
    seen: _Visible,
    place: int | None,
    variable: str,
    *,
    own: str,
    sees_all: bool,
) -> dict[str, Any]:
    """Return what is wrong with the index of a process in its list, if anything.

    Args:
        environment: What the launcher says.
        seen: The chips that the process can use.
        place: The index that a program takes.
        variable: What says so.
        own: What shows that the process was given its own chips, else empty.
        sees_all: Whether it can use all chips that were given to its node.
    """
    assert seen.chips is not None
    count = len(seen.chips)
    by = f" ({seen.said})" if seen.said else ""
    shows = f"it sees {counted(count, 'chip')}{by}"
    cut = f"; {seen.lost}" if seen.lost else ""
    local = environment.local_world_size
    source = environment.sources.get("local_world_size", "")
    more, is_crowd = "", False
    if (local or 0) > count:
        told = f"{local} processes on this node by {source}"
        more = f", and there are {told}"
        is_shared = source == "LOCAL_WORLD_SIZE" or sees_all
        is_crowd = count > 1 and is_shared and not own
    if place is not None and place >= count:
        what = f"there is no device {place} for this process, {shows}{cut}{more}"
        # A number of a chip may be that of the host, unless there is a list.
        is_of_list = variable.endswith("DEVICE_ID") and ASCEND_LIST in seen.names
        is_sure = variable == "LOCAL_RANK" or is_of_list or is_crowd
        is_doubtful = not is_sure or (bool(own) and count == 1)
        if is_doubtful:
            return {
                "wrong": f"{variable}={place}: {shows}, so a program that takes its "
                "local rank for the number of its device finds none",
                "hint": _UNBIND if count == 1 else _fewer(seen, count),
                "is_doubtful": True,
            }
        return {
            "wrong": f"{variable}={place}: {what}",
            "hint": _fewer(seen, count),
            "is_doubtful": False,
        }
    if is_crowd:
        what = f"there are {told}, and this one sees {shows[8:]}{cut}"
        wrong = f"{what}: local ranks {_span(count, local)} find no chip"
        return {"wrong": wrong, "hint": _fewer(seen, count)}
    return {}


_UNBIND = "let the program use device 0, or let every process see all chips of the host"
_UNBIND_IN_SLURM = (
    "let the program use device 0, or ask for chips without binding them to tasks: "
    "--gpus-per-node, or --tres-bind=gres/gpu:none"
)


def _not_given(
    env: Mapping[str, str], seen: _Visible, chips: Sequence[SeenChip] | None
) -> dict[str, Any]:
    """Return that a list is none of Slurm's, in a step to which it gave no chips."""
    is_step = "SLURM_JOB_ID" in env and "SLURM_PROCID" in env
    is_given = any(name in env for name in _GIVEN_BY_SLURM)
    if not is_step or is_given or seen.chips is None or not seen.names:
        return {}
    if chips is None or len(chips) <= len(seen.chips):
        return {}
    return {
        "wrong": f"{seen.said}: Slurm gave this step no chips (SLURM_JOB_GPUS is not "
        "set), so other jobs may use them",
        "hint": f"ask for chips with --gpus-per-node, and do not set {seen.names[-1]}",
        "is_doubtful": True,
    }


def _span(first: int, end: int | None) -> str:
    return folded(range(first, end or first + 1))


def _fewer(seen: _Visible, count: int) -> str:
    change = f"start {counted(count, 'process', 'processes')} on this host"
    unset = f", or let {seen.names[-1]} show a chip for each" if seen.names else ""
    own = "; if each process was given a chip of its own, let the program use device 0"
    return change + unset + (own if count == 1 else "")


def _chosen(
    env: Mapping[str, str], seen: _Visible, at: int, own: str, facts: dict[str, Any]
) -> ProcessChip:
    assert seen.chips is not None
    chip = seen.chips[at]
    if chip is None:
        return ProcessChip(**facts, unknown=seen.unknown)
    number = None if chip.device_id < 0 else chip.device_id
    identity = chip.identity
    given = None if is_of_torchrun(env) else step_chip(env)
    if not identity and given is not None:
        identity, number = f"{STEP_CHIPS} {given}", given
    why = ""
    if not identity:
        why = (
            "a number in a list is not a chip where each process has its own; "
            "`nvidia-smi -L` in each process says which it is"
            if own
            else "only the number of a chip is known here, not its UUID or address"
        )
    return ProcessChip(**facts, device_id=number, identity=identity, unknown=why)


def idle_beside(
    env: Mapping[str, str], environment: Environment, chip: ProcessChip
) -> str:
    """Return that fewer processes than visible chips were started here, else nothing.

    It may be meant, or the process may be an agent such as torchrun.
    """
    processes, visible = environment.local_world_size, chip.num_visible
    if processes is None or visible is None or not processes < visible:
        return ""
    if environment.launcher is None or chip.isolated_by:
        return ""
    lists = [f"{name}={quoted(env[name])}" for name in VISIBLE_LISTS if name in env]
    by = f" ({lists[0]})" if lists else ""
    option = "--nproc-per-node" if is_of_torchrun(env) else "--ntasks-per-node"
    if not is_of_torchrun(env) and environment.launcher != "slurm":
        option = "--nproc-per-node of torchrun"
    return (
        f"{counted(processes, 'process', 'processes')} on this node, and "
        f"{counted(visible, 'chip')} visible{by}: unless it starts others, as torchrun "
        f"does, or uses several chips, start {visible} of them ({option})"
    )
