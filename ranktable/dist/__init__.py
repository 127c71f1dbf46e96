"""Collectives for training scripts: exact, or refused.

Every function works without a process group too, and then gives what a single process
has::

    from ranktable import dist

    dist.init_dist()
    dist.all_reduce(loss, "mean")
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ranktable._lazy import attach

if TYPE_CHECKING:
    from ranktable.dist.collectives.all_gather import all_gather
    from ranktable.dist.collectives.all_reduce import all_reduce
    from ranktable.dist.collectives.all_reduce_dict import all_reduce_dict
    from ranktable.dist.collectives.all_reduce_params import all_reduce_params
    from ranktable.dist.collectives.all_to_all import all_to_all
    from ranktable.dist.collectives.barrier import barrier
    from ranktable.dist.collectives.broadcast import broadcast
    from ranktable.dist.collectives.collect_results import collect_results
    from ranktable.dist.collectives.gather import gather
    from ranktable.dist.collectives.point_to_point import (
        P2POp,
        batch_isend_irecv,
        irecv,
        isend,
        recv,
        send,
    )
    from ranktable.dist.collectives.reduce import reduce
    from ranktable.dist.collectives.reduce_scatter import reduce_scatter
    from ranktable.dist.collectives.scatter import scatter
    from ranktable.dist.collectives.shift import shift
    from ranktable.dist.collectives.sync_random_seed import sync_random_seed
    from ranktable.dist.errors import (
        DistError,
        MismatchError,
        NotMemberError,
        UnsupportedError,
    )
    from ranktable.dist.explanation import explain
    from ranktable.dist.groups import local_group, new_group
    from ranktable.dist.info import (
        get_backend,
        get_dist_info,
        get_local_rank,
        get_local_size,
        get_rank,
        get_world_size,
        is_distributed,
        is_main_process,
        master_only,
    )
    from ranktable.dist.objects import (
        all_gather_object,
        broadcast_object_list,
        gather_object,
        scatter_object_list,
    )
    from ranktable.dist.reductions import Reduction
    from ranktable.dist.start import init_dist
    from ranktable.dist.work import Work

__all__ = [
    "DistError",
    "MismatchError",
    "NotMemberError",
    "P2POp",
    "Reduction",
    "UnsupportedError",
    "Work",
    "all_gather",
    "all_gather_object",
    "all_reduce",
    "all_reduce_dict",
    "all_reduce_params",
    "all_to_all",
    "barrier",
    "batch_isend_irecv",
    "broadcast",
    "broadcast_object_list",
    "collect_results",
    "explain",
    "gather",
    "gather_object",
    "get_backend",
    "get_dist_info",
    "get_local_rank",
    "get_local_size",
    "get_rank",
    "get_world_size",
    "init_dist",
    "irecv",
    "is_distributed",
    "is_main_process",
    "isend",
    "local_group",
    "master_only",
    "new_group",
    "recv",
    "reduce",
    "reduce_scatter",
    "scatter",
    "scatter_object_list",
    "send",
    "shift",
    "sync_random_seed",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = attach(
        __name__,
        {
            "DistError": "ranktable.dist.errors",
            "MismatchError": "ranktable.dist.errors",
            "NotMemberError": "ranktable.dist.errors",
            "P2POp": "ranktable.dist.collectives.point_to_point",
            "Reduction": "ranktable.dist.reductions",
            "UnsupportedError": "ranktable.dist.errors",
            "Work": "ranktable.dist.work",
            "all_gather": "ranktable.dist.collectives.all_gather",
            "all_gather_object": "ranktable.dist.objects",
            "all_reduce": "ranktable.dist.collectives.all_reduce",
            "all_reduce_dict": "ranktable.dist.collectives.all_reduce_dict",
            "all_reduce_params": "ranktable.dist.collectives.all_reduce_params",
            "all_to_all": "ranktable.dist.collectives.all_to_all",
            "barrier": "ranktable.dist.collectives.barrier",
            "batch_isend_irecv": "ranktable.dist.collectives.point_to_point",
            "broadcast": "ranktable.dist.collectives.broadcast",
            "broadcast_object_list": "ranktable.dist.objects",
            "collect_results": "ranktable.dist.collectives.collect_results",
            "explain": "ranktable.dist.explanation",
            "gather": "ranktable.dist.collectives.gather",
            "gather_object": "ranktable.dist.objects",
            "get_backend": "ranktable.dist.info",
            "get_dist_info": "ranktable.dist.info",
            "get_local_rank": "ranktable.dist.info",
            "get_local_size": "ranktable.dist.info",
            "get_rank": "ranktable.dist.info",
            "get_world_size": "ranktable.dist.info",
            "init_dist": "ranktable.dist.start",
            "irecv": "ranktable.dist.collectives.point_to_point",
            "is_distributed": "ranktable.dist.info",
            "is_main_process": "ranktable.dist.info",
            "isend": "ranktable.dist.collectives.point_to_point",
            "local_group": "ranktable.dist.groups",
            "master_only": "ranktable.dist.info",
            "new_group": "ranktable.dist.groups",
            "recv": "ranktable.dist.collectives.point_to_point",
            "reduce": "ranktable.dist.collectives.reduce",
            "reduce_scatter": "ranktable.dist.collectives.reduce_scatter",
            "scatter": "ranktable.dist.collectives.scatter",
            "scatter_object_list": "ranktable.dist.objects",
            "send": "ranktable.dist.collectives.point_to_point",
            "shift": "ranktable.dist.collectives.shift",
            "sync_random_seed": "ranktable.dist.collectives.sync_random_seed",
        },
    )
