"""Make a simulated backend known to torch, and make its groups."""

from __future__ import annotations

import os
from datetime import timedelta
from typing import TYPE_CHECKING

from torch import distributed as dist
from torch._C._distributed_c10d import PrefixStore

from ranktable.simulate.backend.exchange import Exchange
from ranktable.simulate.backend.gloo import connect
from ranktable.simulate.backend.group import SimulatedGroup
from ranktable.simulate.backend.limits import Limits
from ranktable.simulate.backend.membership import Membership, join

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch._C._distributed_c10d import _DistributedBackendOptions

    from ranktable.simulate.backend.world import World

_GROUP_INDEX = "TPU_GROUP_IDX"
"""SOPHGO's variable for several jobs that one launcher has started: a job does not see
what another has in the store."""


def register(world: World) -> None:
    """Make the backend of a run known to torch, for this process."""

    def create(
        options: _DistributedBackendOptions, pg_options: object
    ) -> SimulatedGroup:
        return _create(world, options, pg_options)

    profile = world.profile
    dist.Backend.register_backend(
        profile.backend,
        create,
        extended_api=True,
        # A list: of a plain string, which is what SOPHGO passes, torch takes the
        # letters for devices, and then has no default backend for this one.
        devices=[profile.device],
    )


def _create(
    world: World, options: _DistributedBackendOptions, pg_options: object
) -> SimulatedGroup:
    membership = _membership(world, options)
    rank = membership.ranks[membership.member]
    faults = world.faults_of(rank if membership.is_world else world.rank)
    faults.before_joining()
    chips = faults.chip_map(world.chip_map_of(world, membership, pg_options))
    meeting = join(world, membership, chips)
    if membership.is_world:
        world.chip_map = tuple(chips)
    gloo = connect(
        PrefixStore(meeting.name, membership.store),
        membership.member,
        len(membership.ranks),
        timedelta(seconds=membership.timeout_s),
    )
    recorder = None
    if world.run.is_recorded:
        from ranktable.simulate.recording import Recorder  # noqa: PLC0415 - if asked

        recorder = Recorder(world.folder, rank, meeting.name, membership.ranks)
    exchange = Exchange(gloo, meeting, faults, world.profile.title, recorder)
    limits = Limits(world, _own_chip(world, membership, chips))
    return SimulatedGroup(exchange, limits, membership.member)


def _membership(world: World, options: _DistributedBackendOptions) -> Membership:
    listed = tuple(options.global_ranks_in_group)
    timeout_s = min(world.run.timeout_s, options.timeout.total_seconds())
    prefix = os.environ.get(_GROUP_INDEX, "")
    return Membership(
        ranks=listed or tuple(range(options.group_size)),
        member=options.group_rank,
        is_world=not listed,
        store=PrefixStore(f"simulated{prefix}", options.store),
        timeout_s=timeout_s,
    )


def _own_chip(world: World, membership: Membership, chips: Sequence[int]) -> int | None:
    """Return the chip that tensors of this process are to be on, None for any.

    Where the vendor's own mistake gives a sub-group other chips, any will do.
    """
    if not chips:
        return None
    rank = membership.ranks[membership.member]
    chip = chips[membership.member]
    return chip if not world.chip_map or world.chip_map[rank] == chip else None
