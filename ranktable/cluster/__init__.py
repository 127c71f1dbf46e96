"""Hosts, chips and how people describe them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ranktable._lazy import attach

if TYPE_CHECKING:
    from ranktable.cluster.argument import ArgumentError
    from ranktable.cluster.host_lists import expand_hosts, fold_hosts

__all__ = ["ArgumentError", "expand_hosts", "fold_hosts"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = attach(
        __name__,
        {
            "ArgumentError": "ranktable.cluster.argument",
            "expand_hosts": "ranktable.cluster.host_lists",
            "fold_hosts": "ranktable.cluster.host_lists",
        },
    )
