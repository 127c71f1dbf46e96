"""Groups of the libraries, computed here in a second way.

Each function says with plain lists what a library does with its sizes; the orders of
the ranks and of the groups are those of its lists.
"""

from __future__ import annotations

import warnings
from itertools import product
from math import prod
from typing import TYPE_CHECKING

from hypothesis import assume, given
from hypothesis import strategies as st

from ranktable.layout import LayoutError, ParallelLayout, megatron_groups
from tests.effort import law

if TYPE_CHECKING:
    from collections.abc import Sequence

    Lists = list[list[int]]

LARGEST = 192

few = st.integers(1, 4)


def blocks(ranks: Sequence[int], size: int) -> Lists:
    return [list(ranks[at : at + size]) for at in range(0, len(ranks), size)]


def moved_last(shape: Sequence[int], order: Sequence[int]) -> list[int]:
    """Return the ranks of a row-major shape, read with its axes in another order."""
    strides = [prod(shape[at + 1 :]) for at in range(len(shape))]
    sides = [range(shape[axis]) for axis in order]
    return [
        sum(place * strides[axis] for place, axis in zip(point, order, strict=True))
        for point in product(*sides)
    ]


def megatron_lists(sizes: dict[str, int], order: str, wanted: str) -> Lists:
    """Return what Megatron's generator of ranks makes for a token such as tp-dp."""
    tokens = [*order.split("-"), *(name for name in sizes if name not in order)]
    shape = [sizes[token] for token in reversed(tokens)]
    inside = [
        at for at, name in enumerate(reversed(tokens)) if name in wanted.split("-")
    ]
    outside = [at for at in range(len(shape)) if at not in inside]
    return blocks(
        moved_last(shape, [*outside, *inside]), prod(shape[at] for at in inside)
    )


@st.composite
def megatron_requests(draw: st.DrawFn) -> tuple[dict[str, int], str]:
    sizes = {name: draw(few) for name in ("tp", "cp", "dp", "pp")}
    assume(prod(sizes.values()) <= LARGEST)
    order = "-".join(draw(st.permutations(("tp", "cp", "ep", "dp", "pp"))))
    sizes["etp"] = draw(st.sampled_from((1, sizes["tp"])))
    stage = sizes["tp"] * sizes["cp"] * sizes["dp"] // sizes["etp"]
    fitting = [size for size in range(1, stage + 1) if stage % size == 0]
    sizes["ep"] = draw(st.sampled_from(fitting))
    return sizes, order


@given(megatron_requests())
@law(300)
def test_megatron_makes_these_groups_and_no_others(
    request: tuple[dict[str, int], str],
) -> None:
    sizes, order = request
    tp, cp, dp, pp, etp, ep = (
        sizes[name] for name in ("tp", "cp", "dp", "pp", "etp", "ep")
    )
    edp = tp * cp * dp // (etp * ep)
    dense = {"tp": tp, "cp": cp, "ep": 1, "dp": dp, "pp": pp}
    expert = {"tp": etp, "cp": 1, "ep": ep, "dp": edp, "pp": pp}
    same_stages = megatron_lists(dense, order, "pp") == megatron_lists(
        expert, order, "pp"
    )
    is_taken = same_stages and (order.endswith("pp") or pp == 1 or edp == dp)
    try:
        layout = ParallelLayout(tp=tp, cp=cp, dp=dp, pp=pp, etp=etp, ep=ep, order=order)
    except LayoutError:
        assert not is_taken
        return
    assert (layout.refusal is None) == is_taken

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = megatron_groups(layout)

    expected = {
        name: megatron_lists(dense, order, name)
        for name in ("dp-cp", "dp", "cp", "tp-pp", "tp", "pp", "tp-dp-cp", "tp-dp",
                     "tp-cp")
    }  # fmt: skip
    # Where no expert is apart, stages that Megatron refuses are those of the others.
    if is_taken or layout.ep > 1:
        spelt = {"ep": "ep", "etp": "tp", "etp-ep": "tp-ep", "edp": "dp",
                 "etp-ep-pp": "tp-ep-pp"}  # fmt: skip
        expected |= {
            name: megatron_lists(expert, order, token) for name, token in spelt.items()
        }
        expected["optimizer-instance"] = [
            [rank for model in expected["etp-ep-pp"] for rank in model]
        ]
    stages = expected["pp"]
    expected["embedding"] = [
        [ranks[0], ranks[-1]] if pp > 1 else ranks for ranks in stages
    ]
    expected["position-embedding"] = [ranks[:1] for ranks in stages]
    assert {name: found[name] for name in expected} == expected
    if is_taken:
        assert found.keys() == expected.keys()


@given(few, few, few, few, st.integers(1, 3))
@law(200)
def test_vllm_lists_its_groups_so(
    tp: int, cp: int, pp: int, dp: int, external: int
) -> None:
    shape = (external, dp, pp, cp, tp)
    assume(prod(shape) <= LARGEST)
    layout = ParallelLayout.preset(
        "vllm", tp=tp, cp=cp, pp=pp, dp=dp * external, dp_replicate=external
    )

    # Each axis is exchanged with the last one; for the experts dp is with pp.
    expected = {
        "tp": blocks(range(prod(shape)), tp),
        "cp": blocks(moved_last(shape, (0, 1, 2, 4, 3)), cp),
        "pp": blocks(moved_last(shape, (0, 1, 4, 3, 2)), pp),
        "dp_shard" if external > 1 else "dp": blocks(
            moved_last(shape, (0, 4, 2, 3, 1)), dp
        ),
        "ep": blocks(moved_last(shape, (0, 2, 1, 3, 4)), dp * cp * tp),
    }
    assert {name: layout.groups(name) for name in expected} == expected
    for rank in range(layout.world_size):
        assert layout.rank(**layout.coordinates(rank)) == rank


@given(few, few, few, few, st.integers(1, 3), st.data())
@law(200)
def test_torchtitan_lists_its_groups_so(
    tp: int, cp: int, pp: int, shard: int, copies: int, data: st.DataObject
) -> None:
    stage = tp * cp * shard
    assume(stage * pp * copies <= LARGEST)
    ep = data.draw(st.sampled_from([s for s in range(1, stage + 1) if stage % s == 0]))
    layout = ParallelLayout.preset(
        "torchtitan", tp=tp, cp=cp, pp=pp, dp=shard * copies, dp_replicate=copies, ep=ep
    )

    sparse = (pp, copies, stage // ep, ep)
    dense = (pp, copies, shard * cp, tp)
    assert layout.groups("ep") == blocks(moved_last(sparse, (0, 1, 2, 3)), ep)
    assert layout.groups("edp") == blocks(moved_last(sparse, (0, 1, 3, 2)), stage // ep)
    fsdp = "dp_shard-cp" if copies > 1 else "dp-cp"
    assert layout.groups(fsdp) == blocks(moved_last(dense, (0, 1, 3, 2)), shard * cp)


@given(few, few, st.integers(2, 4), few, st.booleans())
@law(200)
def test_deepspeed_lists_its_experts_so(
    tp: int,
    pp: int,
    ep: int,
    edp: int,
    data_first: bool,
) -> None:
    order = "tp-cp-dp-ep-pp" if data_first else "tp-cp-ep-dp-pp"
    layout = ParallelLayout(
        tp=tp, pp=pp, dp=ep * edp, ep=ep, ep_style="deepspeed", order=order
    )
    stage = tp * ep * edp
    experts, copies = [], []
    for start in range(0, stage * pp, stage):
        for lane in range(tp):
            ranks = list(range(start + lane, start + stage, tp))
            parts = (
                [ranks[at::edp] for at in range(edp)]
                if data_first
                else blocks(ranks, ep)
            )
            experts += parts
            copies += [list(same) for same in zip(*parts, strict=True)]

    assert layout.groups("ep") == experts
    assert layout.groups("edp") == copies
