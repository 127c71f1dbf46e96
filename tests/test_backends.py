"""Every backend starts through the same code; a recorder replaces the device."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from ranktable.runtime import BootstrapError  # noqa: E402 - after the look
from ranktable.runtime.backends.backend import (  # noqa: E402
    NAMES,
    Placement,
    backend_named,
    choose_backend,
    visible_index,
)

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.torch

PLACE = Placement(
    rank=5, world_size=8, local_rank=1, device_id=3, local_chip_map=(2, 3)
)
none: st.SearchStrategy[list[int]] = st.just([])
VENDORS = ["hccl", "cncl", "mccl"]


def record(
    name: str, count: int, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> list[int]:
    """Install a vendor's package and devices, and return which are made current."""
    backend = backend_named(name)
    selected: list[int] = []
    module = SimpleNamespace(
        is_available=lambda: True,
        device_count=lambda: count,
        set_device=selected.append,
    )
    (folder / f"{backend.package}.py").write_text("")
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setattr(torch, backend.device_type, module, raising=False)
    monkeypatch.setattr(torch, "device", lambda *given: given)
    return selected


@pytest.mark.parametrize("name", VENDORS)
@pytest.mark.parametrize(("count", "index"), [(8, 3), (1, 0)])
def test_the_device_of_the_table_or_the_only_one_is_taken(
    name: str, count: int, index: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    selected = record(name, count, tmp_path, monkeypatch)
    backend = choose_backend(name)

    device: object = backend.select_device(PLACE)

    assert device == (backend.device_type, index)
    assert selected == [index]
    assert backend.config == name
    assert backend.group_options([1, 2]) is None


@pytest.mark.parametrize("name", VENDORS)
def test_a_device_that_is_not_there_is_named(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record(name, 2, tmp_path, monkeypatch)

    with pytest.raises(BootstrapError, match="RT403 rank 5 has device 3") as raised:
        choose_backend(name).select_device(PLACE)
    assert backend_named(name).visible_by in str(raised.value)


@given(st.data())
def test_process_takes_the_chip_of_the_table_whatever_hides_the_others(
    data: st.DataObject,
) -> None:
    """The truth is a list of chips of the host: a program sees them by their index."""
    host = data.draw(st.integers(1, 16), "chips of the host")
    chips = data.draw(st.lists(st.integers(0, host - 1), min_size=1, unique=True))
    others = [chip for chip in range(host) if chip not in chips]
    more = data.draw(st.lists(st.sampled_from(others), unique=True) if others else none)
    listed = data.draw(st.permutations([*chips, *more]), "list of visible chips")
    isolated = sorted(chips)  # a container or a cgroup gives these, and no list
    for rank, chip in enumerate(chips):
        place = Placement(
            rank=rank,
            world_size=len(chips),
            local_rank=rank,
            device_id=chip,
            local_chip_map=tuple(chips),
            is_of_host=True,
        )

        assert listed[visible_index(place, len(listed), listed)] == chip
        assert visible_index(place, host) == chip or host == 1
        if len(isolated) > 1 and (len(isolated) <= max(chips)):
            assert isolated[visible_index(place, len(isolated))] == chip
        assert visible_index(replace(place, is_of_host=False), host, listed) == chip


def test_list_of_visible_chips_is_read_as_its_library_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    selected = record("hccl", 2, tmp_path, monkeypatch)
    monkeypatch.setenv("ASCEND_RT_VISIBLE_DEVICES", "3,2")

    choose_backend("hccl").select_device(replace(PLACE, is_of_host=True))

    assert selected == [0]


def test_one_backend_for_each_device_is_told_to_torch_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record("hccl", 8, tmp_path, monkeypatch)

    found = choose_backend("cpu:gloo,npu:hccl")

    assert (found.name, found.config) == ("hccl", "cpu:gloo,npu:hccl")
    device: object = choose_backend("cpu:gloo").select_device(PLACE)
    assert device == ("cpu",)


@pytest.mark.parametrize("name", NAMES)
def test_every_backend_has_a_declaration(name: str) -> None:
    backend = backend_named(name)

    assert backend.name == name
    assert backend.serves_cpu == (name in ("gloo", "mpi"))


def test_a_backend_has_only_what_it_does_rightly() -> None:
    sccl, hccl, gloo = map(backend_named, ("sccl", "hccl", "gloo"))

    assert sccl.has("broadcast", "int64")
    assert not sccl.has("all_reduce", "int64", "sum")  # it adds them as int32
    assert not sccl.has("broadcast", "float64")
    assert not sccl.has("reduce_scatter", "float32", "sum")
    assert not hccl.has("all_reduce", "int16", "product")
    assert gloo.has("all_reduce", "int32", "band")
    assert not gloo.has("all_reduce", "float32", "mean")
