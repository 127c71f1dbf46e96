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
    from ranktable.dist.errors import (
        DistError,
        MismatchError,
        NotMemberError,
        UnsupportedError,
    )
    from ranktable.dist.groups import (
        get_backend,
        get_dist_info,
        get_local_rank,
        get_local_size,
        get_rank,
        get_world_size,
        is_distributed,
        is_main_process,
        local_group,
        master_only,
        new_group,
    )
    from ranktable.dist.moving import (
        all_gather,
        all_to_all,
        broadcast,
        gather,
        scatter,
        shift,
    )
    from ranktable.dist.objects import (
        all_gather_object,
        barrier,
        broadcast_object_list,
        gather_object,
        scatter_object_list,
        sync_random_seed,
    )
    from ranktable.dist.plan import explain
    from ranktable.dist.point_to_point import (
        P2POp,
        batch_isend_irecv,
        irecv,
        isend,
        recv,
        send,
    )
    from ranktable.dist.reducing import (
        all_reduce,
        all_reduce_dict,
        all_reduce_params,
        reduce,
        reduce_scatter,
    )
    from ranktable.dist.results import collect_results
    from ranktable.dist.start import init_dist
    from ranktable.dist.wire import Reduction
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
            "P2POp": "ranktable.dist.point_to_point",
            "Reduction": "ranktable.dist.wire",
            "UnsupportedError": "ranktable.dist.errors",
            "Work": "ranktable.dist.work",
            "all_gather": "ranktable.dist.moving",
            "all_gather_object": "ranktable.dist.objects",
            "all_reduce": "ranktable.dist.reducing",
            "all_reduce_dict": "ranktable.dist.reducing",
            "all_reduce_params": "ranktable.dist.reducing",
            "all_to_all": "ranktable.dist.moving",
            "barrier": "ranktable.dist.objects",
            "batch_isend_irecv": "ranktable.dist.point_to_point",
            "broadcast": "ranktable.dist.moving",
            "broadcast_object_list": "ranktable.dist.objects",
            "collect_results": "ranktable.dist.results",
            "explain": "ranktable.dist.plan",
            "gather": "ranktable.dist.moving",
            "gather_object": "ranktable.dist.objects",
            "get_backend": "ranktable.dist.groups",
            "get_dist_info": "ranktable.dist.groups",
            "get_local_rank": "ranktable.dist.groups",
            "get_local_size": "ranktable.dist.groups",
            "get_rank": "ranktable.dist.groups",
            "get_world_size": "ranktable.dist.groups",
            "init_dist": "ranktable.dist.start",
            "irecv": "ranktable.dist.point_to_point",
            "is_distributed": "ranktable.dist.groups",
            "is_main_process": "ranktable.dist.groups",
            "isend": "ranktable.dist.point_to_point",
            "local_group": "ranktable.dist.groups",
            "master_only": "ranktable.dist.groups",
            "new_group": "ranktable.dist.groups",
            "recv": "ranktable.dist.point_to_point",
            "reduce": "ranktable.dist.reducing",
            "reduce_scatter": "ranktable.dist.reducing",
            "scatter": "ranktable.dist.moving",
            "scatter_object_list": "ranktable.dist.objects",
            "send": "ranktable.dist.point_to_point",
            "shift": "ranktable.dist.moving",
            "sync_random_seed": "ranktable.dist.objects",
        },
    )
