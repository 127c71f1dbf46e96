"""Collectives for training scripts: the result is exact, or there is an error.

Every function also works without a process group; it then returns the data of this
process::

    from ranktable import dist

    dist.init_dist()
    dist.all_reduce(loss, "mean")
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ranktable._lazy import attach
from ranktable.runtime.torch_versions import not_traced

if TYPE_CHECKING:
    from ranktable.dist.coalesced import all_reduce_dict, all_reduce_params
    from ranktable.dist.collective_errors import (
        DistError,
        MismatchError,
        NotMemberError,
        UnsupportedError,
    )
    from ranktable.dist.exchanging import all_to_all, shift
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
    from ranktable.dist.moving import all_gather, broadcast, gather, scatter
    from ranktable.dist.objects import (
        all_gather_object,
        barrier,
        broadcast_object_list,
        gather_object,
        scatter_object_list,
        sync_random_seed,
    )
    from ranktable.dist.point_to_point import (
        P2POp,
        batch_isend_irecv,
        irecv,
        isend,
        recv,
        send,
    )
    from ranktable.dist.reducing import all_reduce, reduce, reduce_scatter
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

_HOMES: Final = {
    "coalesced": "all_reduce_dict all_reduce_params",
    "collective_errors": "DistError MismatchError NotMemberError UnsupportedError",
    "exchanging": "all_to_all shift",
    "groups": (
        "get_backend get_dist_info get_local_rank get_local_size get_rank "
        "get_world_size is_distributed is_main_process local_group master_only "
        "new_group"
    ),
    "moving": "all_gather broadcast gather scatter",
    "objects": (
        "all_gather_object barrier broadcast_object_list gather_object "
        "scatter_object_list sync_random_seed"
    ),
    "point_to_point": "P2POp batch_isend_irecv irecv isend recv send",
    "reducing": "all_reduce reduce reduce_scatter",
    "results": "collect_results",
    "start": "init_dist",
    "wire": "Reduction",
    "work": "Work",
}
"""The public names of each module."""

if not TYPE_CHECKING:
    __getattr__, __dir__ = attach(
        __name__,
        {
            name: f"{__name__}.{module}"
            for module, names in _HOMES.items()
            for name in names.split()
        },
        not_traced,
    )
