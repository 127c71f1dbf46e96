"""Hosts, chips and how people describe them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ranktable._lazy import attach

if TYPE_CHECKING:
    from ranktable.cluster.argument import ArgumentError
    from ranktable.cluster.host_folding import fold_hosts
    from ranktable.cluster.hosts import expand_hosts

__all__ = ["ArgumentError", "expand_hosts", "fold_hosts"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = attach(
        __name__,
        {
            "ArgumentError": "ranktable.cluster.argument",
            "expand_hosts": "ranktable.cluster.hosts",
            "fold_hosts": "ranktable.cluster.host_folding",
        },
    )
