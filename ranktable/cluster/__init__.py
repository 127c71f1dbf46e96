"""Hosts and chips, and the files that describe them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ranktable._lazy import attach

if TYPE_CHECKING:
    from ranktable.cluster.argument import ArgumentError
    from ranktable.cluster.conversion import Conversion, TableOptions, convert_table
    from ranktable.cluster.host_lists import expand_hosts, fold_hosts
    from ranktable.cluster.hostfiles.hostfile import WriterOptions
    from ranktable.cluster.hostfiles.launcher_formats import convert, read_hostfile
    from ranktable.cluster.specs.read_spec import read_spec

__all__ = [
    "ArgumentError",
    "Conversion",
    "TableOptions",
    "WriterOptions",
    "convert",
    "convert_table",
    "expand_hosts",
    "fold_hosts",
    "read_hostfile",
    "read_spec",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = attach(
        __name__,
        {
            "ArgumentError": "ranktable.cluster.argument",
            "Conversion": "ranktable.cluster.conversion",
            "TableOptions": "ranktable.cluster.conversion",
            "WriterOptions": "ranktable.cluster.hostfiles.hostfile",
            "convert": "ranktable.cluster.hostfiles.launcher_formats",
            "convert_table": "ranktable.cluster.conversion",
            "expand_hosts": "ranktable.cluster.host_lists",
            "fold_hosts": "ranktable.cluster.host_lists",
            "read_hostfile": "ranktable.cluster.hostfiles.launcher_formats",
            "read_spec": "ranktable.cluster.specs.read_spec",
        },
    )
