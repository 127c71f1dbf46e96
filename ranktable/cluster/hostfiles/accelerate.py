"""Configurations of accelerate, one per machine: ``num_machines``, ``num_processes``.

``num_processes`` is the total; every machine starts an equal share of it.

Source: huggingface/accelerate, src/accelerate/commands/config/config_args.py and
src/accelerate/utils/launch.py.
"""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import TYPE_CHECKING

from ranktable.cluster.argument import ArgumentError
from ranktable.cluster.hostfiles import hostfile_rules as rules
from ranktable.cluster.hostfiles.hostfile import (
    DEFAULT_PORT,
    Host,
    Hostfile,
    LauncherFormat,
    chips_of,
    even_size,
    names_of,
    refuse_interleaved,
)
from ranktable.cluster.hostfiles.kubernetes_manifests import documents_in, dump_yaml
from ranktable.cluster.source_text import MAX_SLOTS, is_host
from ranktable.schema.diagnostic import quoted
from ranktable.schema.rules.syntax import TOO_MANY

if TYPE_CHECKING:
    from ranktable.cluster.hostfiles.hostfile import WriterOptions
    from ranktable.cluster.hostfiles.kubernetes_manifests import Fields
    from ranktable.cluster.source_text import SourceText

KEYS = frozenset(
    (
        *("compute_environment", "distributed_type", "mixed_precision", "use_cpu"),
        *("debug", "num_processes", "machine_rank", "num_machines", "gpu_ids"),
        *("main_process_ip", "main_process_port", "rdzv_backend", "same_network"),
        *("main_training_function", "enable_cpu_affinity", "fp8_config"),
        *("deepspeed_config", "fsdp_config", "tp_config", "megatron_lm_config"),
        *("ipex_config", "mpirun_config", "parallelism_config", "dynamo_config"),
        *("downcast_bf16", "tpu_name", "tpu_zone", "tpu_use_cluster", "tpu_use_sudo"),
        *("command_file", "commands", "tpu_vm", "tpu_env"),
        # Keys of older versions, which accelerate converts.
        *("fp16", "dynamo_backend"),
    )
)


TITLE = "an accelerate configuration"
_KNOWN = re.compile(
    r"^[{ \t]*\"?(?:num_machines|num_processes|distributed_type|compute_environment)"
    r"\"?[ \t]*:",
    re.MULTILINE,
)
_IDS = re.compile(r"[0-9]{1,6}(?:,[0-9]{1,6})*")


def read(source: SourceText) -> Hostfile | None:
    """Return the machines of a configuration; only the first one has a name."""
    documents = documents_in(source)
    if not documents:
        source.refuse_nothing(())
        return None
    fields = documents[0]
    for more in documents[1:2]:
        more.report("there is a second document; accelerate reads one")
    _check_keys(fields)
    machines = fields.integer("num_machines", least=1, default=1)
    alone = 1 if fields.get("distributed_type") == "NO" else None
    total = fields.integer("num_processes", least=1, default=alone)
    name = _main_host(fields, machines)
    rank = fields.integer("machine_rank", default=0)
    if machines is None or total is None or rank is None:
        return None
    if max(total, machines) > MAX_SLOTS:
        message = f"this is more than {MAX_SLOTS} processes"
        source.report(TOO_MANY, fields.span_of("num_processes"), message)
        return None
    if rank >= machines:
        message = f"machine {rank} is not among the {machines} machines"
        source.report(rules.COUNTS_DISAGREE, fields.span_of("machine_rank"), message)
    if total % machines:
        source.report(
            rules.UNEVEN,
            fields.span_of("num_processes"),
            f"{total} processes cannot be divided evenly among {machines} machines",
            hint="num_processes is the total of all machines",
        )
    slots = total // machines
    chips = _chips(fields, slots)
    if not source.is_sound:
        return None
    return Hostfile(
        hosts=tuple(
            Host(
                name=name if place == 0 else None,
                slots=slots,
                device_ids=chips if place == rank else None,
            )
            for place in range(machines)
        )
    )


def _check_keys(fields: Fields) -> None:
    assert isinstance(fields.data, dict)
    for key in fields.data:
        if key not in KEYS:
            close = get_close_matches(key, KEYS, 1)
            fields.source.report(
                rules.WRONG_FIELD,
                fields.span_of(key, of_key=True),
                f"accelerate stops at the unknown key {quoted(key)}",
                hint=f"did you mean {close[0]}?" if close else None,
            )
    environment = fields.text("compute_environment", default="LOCAL_MACHINE")
    if environment not in (None, "LOCAL_MACHINE"):
        message = f"compute_environment is {quoted(environment)}, not LOCAL_MACHINE"
        fields.report(message, "compute_environment")
    fields.text("distributed_type")


def _main_host(fields: Fields, machines: int | None) -> str | None:
    """Return the host of machine 0."""
    several = machines is not None and machines > 1
    name = fields.text("main_process_ip", default=None if several else "")
    if name and not is_host(name):
        message = f"{quoted(name)} is not the name of a host"
        fields.source.report(rules.BAD_HOST, fields.span_of("main_process_ip"), message)
    fields.integer("main_process_port", default=DEFAULT_PORT)
    return name or None


def _chips(fields: Fields, slots: int) -> tuple[int, ...] | None:
    """Return the chips of this machine, None if the launcher uses all."""
    value = fields.get("gpu_ids")
    if value in (None, "all"):
        return None
    text = ",".join(map(str, value)) if isinstance(value, list) else str(value)
    if not _IDS.fullmatch(text):
        message = f"gpu_ids is {quoted(value)}, neither all nor a list such as 0,2"
        fields.report(message, "gpu_ids")
        return None
    chips = tuple(map(int, text.split(",")))
    if len(set(chips)) < len(chips):
        fields.report(f"gpu_ids {text} names a device twice", "gpu_ids")
    elif len(chips) != slots:
        fields.source.report(
            rules.COUNTS_DISAGREE,
            fields.span_of("gpu_ids"),
            f"gpu_ids names {len(chips)} devices, a machine has {slots} processes",
        )
    return chips


def write(hostfile: Hostfile, options: WriterOptions) -> str:
    """Return the configuration for one machine, by default the first."""
    refuse_interleaved(hostfile, TITLE)
    size = even_size(hostfile, TITLE)
    machines = len(hostfile.hosts)
    node = options.node or 0
    if not 0 <= node < machines:
        raise ArgumentError(f"--node {node} is not among the {machines} nodes")
    first = names_of(hostfile, TITLE)[0] if machines > 1 else None
    document: dict[str, object] = {
        "compute_environment": "LOCAL_MACHINE",
        "debug": False,
        "distributed_type": "NO" if machines * size == 1 else "MULTI_GPU",
        "enable_cpu_affinity": False,
        "gpu_ids": ",".join(map(str, chips_of(hostfile)[node])),
        "machine_rank": node,
        "main_training_function": "main",
        "mixed_precision": "no",
        "num_machines": machines,
        "num_processes": machines * size,
        "rdzv_backend": "static",
        "same_network": True,
        "use_cpu": False,
    }
    if first is not None:
        document["main_process_ip"] = first
        document["main_process_port"] = options.port or DEFAULT_PORT
    return dump_yaml(dict(sorted(document.items())))


ACCELERATE = LauncherFormat(
    name="accelerate",
    title=TITLE,
    read=read,
    write=write,
    matches=_KNOWN.search,
    options=("port", "node"),
)
