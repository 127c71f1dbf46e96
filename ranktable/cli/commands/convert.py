"""``ranktable convert``: rank tables to what launchers read, and back."""

from __future__ import annotations

import sys
from dataclasses import fields
from typing import TYPE_CHECKING, Annotated

import typer

from ranktable.cli import conversion
from ranktable.cli.failure import CommandError
from ranktable.cli.findings import FindingsFormat
from ranktable.cli.output import write
from ranktable.cli.output_files import (
    OutputFile,
    is_standard_output,
    output_file,
    put_files,
    tell_written,
)
from ranktable.cluster.hostfiles.hostfile import (
    LauncherFormat,
    WriterOptions,
    table_from_hostfile,
)
from ranktable.runtime.table import VARIABLE
from ranktable.schema.format import Format
from ranktable.schema.messages import counted
from ranktable.schema.writing import dumps

if TYPE_CHECKING:
    from ranktable.cluster.hostfiles.hostfile import Hostfile

KINDS = (
    "sccl-1.0, openmpi-hostfile, openmpi-rankfile, mpich-machinefile, "
    "deepspeed-hostfile, slurm-nodelist, srun-hostfile, torchrun, accelerate, paddle, "
    "paddle-endpoints, kubernetes-job, jobset, pytorchjob, trainjob"
)


def convert(
    to: Annotated[
        str, typer.Option("--to", metavar="NAME", help=f"What to write: {KINDS}.")
    ],
    file: Annotated[
        str | None,
        typer.Argument(
            metavar="FILE",
            help=f"What to convert, or - for standard input; by default ${VARIABLE}.",
        ),
    ] = None,
    from_: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="NAME", help="What FILE is; by default it is recognised."
        ),
    ] = None,
    output: Annotated[
        str | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="By default standard output."
        ),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace a file that holds something else.")
    ] = False,
    hosts: Annotated[
        str | None,
        typer.Option(metavar="LIST", help="Hosts in their order: n[001-128],login."),
    ] = None,
    device_id: Annotated[
        str | None,
        typer.Option(
            "--device-id",
            "--device_id",
            metavar="LISTS",
            help="Chips of each host in rank order: '[[0..7],[4..7]]'.",
        ),
    ] = None,
    chips_per_node: Annotated[
        int | None,
        typer.Option(
            min=1, max=1 << 20, metavar="N", help="Every host has the chips 0 to N - 1."
        ),
    ] = None,
    include: Annotated[
        str | None,
        typer.Option(metavar="FILTER", help="DeepSpeed's: worker-0@worker-1:0,2."),
    ] = None,
    exclude: Annotated[
        str | None, typer.Option(metavar="FILTER", help="DeepSpeed's: worker-1:7.")
    ] = None,
    script: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT", help="What is started on every node; by default train.py."
        ),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(
            min=1, max=65535, help="Where nodes meet, or the first of endpoints."
        ),
    ] = None,
    node: Annotated[
        int | None,
        typer.Option(
            min=0,
            metavar="N",
            help="Whose file to write, for accelerate: by default 0.",
        ),
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="Name of a job and its pods; by default train.")
    ] = None,
    image: Annotated[
        str | None, typer.Option(help="Image of the containers of a job.")
    ] = None,
    resource: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="What counts chips: vendor.com/chip."),
    ] = None,
    format: Annotated[  # noqa: A002 - the name of the option
        FindingsFormat,
        typer.Option(help="Form of the findings, on standard error."),
    ] = FindingsFormat.FULL,
) -> None:
    """Convert between rank tables and what launchers and schedulers read.

    Exit status: 0 written, 1 defects found in FILE, 2 it cannot be expressed.

    Example: ranktable convert sccl_rank_table.json --hosts n1 --to openmpi-rankfile
    """
    target = conversion.kind_of("--to", to)
    settings = WriterOptions(
        script=script, port=port, node=node, name=name, image=image, resource=resource
    )
    _refuse_settings(settings, target)
    source = conversion.read(file, from_, format)
    given = (hosts, device_id, chips_per_node, include, exclude)
    is_changed = any(option is not None for option in given)
    description = source.description
    if source.table is not None and not is_changed and _is_table(target):
        text = dumps(source.table, format=target.name).decode()
    else:
        description = conversion.with_options(
            conversion.filtered(source, include, exclude, format),
            hosts,
            device_id,
            chips_per_node,
        )
        text = _text(description, target, settings)
        if source.table is not None and _is_table(target):
            _note("addresses and keys that the format does not define are left out")
    if source.left_out:
        _note(f"left out of what the file says: {', '.join(source.left_out)}")
    if output is None or is_standard_output(output):
        write([text])
    else:
        made = OutputFile(path=output_file(output), data=text.encode())
        (done,) = put_files([made], force=force, read={source.name: source.data})
        tell_written(done, made.path, _summary(description, target))


def _is_table(target: LauncherFormat | Format) -> bool:
    return isinstance(target, Format)


def _refuse_settings(settings: WriterOptions, target: LauncherFormat | Format) -> None:
    """Raise CommandError for an option that says nothing to what is written."""
    taken = getattr(target, "options", ())
    for field in fields(settings):
        if getattr(settings, field.name) is not None and field.name not in taken:
            raise CommandError(f"--{field.name} says nothing to {target.name}")


def _text(
    description: Hostfile, target: LauncherFormat | Format, settings: WriterOptions
) -> str:
    hosts = description.hosts
    if isinstance(target, LauncherFormat):
        text = target.write(description, settings)
        if target.names_hosts and any(host.name for host in hosts):
            _note("the pods have names of their own; convert the manifest to a table")
        return text
    data = dumps(table_from_hostfile(description), format=target.name)
    if any(host.device_ids is None for host in hosts):
        _note("every host has the chips from 0 on; --device-id names others")
    return data.decode()


def _note(text: str) -> None:
    sys.stderr.write(f"note: {text}\n")


def _summary(description: Hostfile, target: LauncherFormat | Format) -> str:
    """Return how much was written."""
    hosts = len(description.hosts)
    processes = sum(host.slots or 0 for host in description.hosts)
    if _is_table(target):
        return f"{counted(hosts, 'node')}, {counted(processes, 'rank')}"
    return f"{counted(hosts, 'host')}, {counted(processes, 'process', 'processes')}"
