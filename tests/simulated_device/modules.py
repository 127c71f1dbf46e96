"""Checks of ``torch.tpu``, ``torch.accelerator``, streams and random numbers."""

from __future__ import annotations

import pickle

import pytest
import torch
from torch import nn

from ranktable.simulate import device

tpu = torch.tpu  # type: ignore[attr-defined]


def check_the_current_chip_is_one_everywhere() -> None:
    for choose in (
        device.set_device,
        tpu.set_device,
        lambda chip: tpu.set_device(f"tpu:{chip}"),
        lambda chip: tpu.set_device(torch.device("tpu", chip)),
        torch.accelerator.set_device_index,
    ):
        device.set_device(2)
        choose(7)

        assert device.current_device() == tpu.current_device() == 7
        assert torch.accelerator.current_device_index() == 7
        assert torch.empty(0, device="tpu").get_device() == 7


def check_a_chip_is_current_for_a_block() -> None:
    for block in (
        tpu.device(7),
        tpu.device("tpu:7"),
        tpu.device_of(torch.ones(1, device="tpu:7")),
        torch.accelerator.device_index(7),
        tpu.stream(tpu.Stream("tpu:7")),
    ):
        with block:
            assert torch.ones(1).to("tpu").get_device() == 7
        assert device.current_device() == 5
    with tpu.device_of(torch.ones(1)):
        assert device.current_device() == 5


def check_an_absent_chip_never_becomes_current() -> None:
    for choose in (tpu.set_device, torch.accelerator.set_device_index, tpu.device):
        with pytest.raises(RuntimeError, match="tpu:4 does not exist"):
            choose(4)
    with pytest.raises(ValueError, match="expected a tpu device, not cpu"):
        tpu.set_device("cpu")
    assert device.current_device() == 5


def check_the_accelerator_is_the_device() -> None:
    assert str(torch.accelerator.current_accelerator()) == "tpu"
    assert torch.accelerator.is_available()
    assert torch.accelerator.device_count() == tpu.device_count() == 4
    assert torch.get_device_module() is tpu
    torch.accelerator.synchronize()
    torch.accelerator.empty_cache()
    assert torch.accelerator.memory_allocated() == 0
    assert str(torch.accelerator.current_stream().device) == "tpu:5"


def check_memory_statistics_are_there() -> None:
    free, total = tpu.mem_get_info()

    assert 0 < free <= total
    assert tpu.memory_allocated() == tpu.max_memory_reserved(3) == 0
    assert tpu.memory_stats() == {}
    assert tpu.memory_snapshot() == []
    assert "not counted" in tpu.memory_summary()
    tpu.empty_cache()
    tpu.reset_peak_memory_stats()


def check_streams_and_events_are_done_at_once() -> None:
    stream, start, end = tpu.Stream(), tpu.Event(enable_timing=True), tpu.Event()
    start.record()
    with tpu.stream(stream):
        tensor = torch.ones(2, device="tpu")
    tensor.record_stream(stream)
    stream.wait_stream(tpu.current_stream())
    stream.record_event(end).wait()
    stream.synchronize()
    tpu.synchronize("tpu:3")

    assert stream.query()
    assert end.query()
    assert start.elapsed_time(end) >= 0
    with pytest.raises(RuntimeError, match="both events must be recorded"):
        start.elapsed_time(tpu.Event())


def check_random_numbers_are_the_cpus() -> None:
    torch.manual_seed(3)
    host = torch.randn(3), nn.functional.dropout(torch.ones(8))
    torch.manual_seed(3)
    there = (
        torch.randn(3, device="tpu"),
        nn.functional.dropout(torch.ones(8, device="tpu")),
    )

    for one, other in zip(host, there, strict=True):
        assert torch.equal(one, other.cpu())


def check_seeds_and_states_are_kept_and_restored() -> None:
    tpu.manual_seed(7)
    assert tpu.initial_seed() == 7
    state = tpu.get_rng_state()
    first = torch.rand(2, device="tpu")
    tpu.set_rng_state(state)
    again = torch.rand(2, device="tpu")
    with torch.random.fork_rng([5], device_type="tpu"):
        torch.rand(2, device="tpu")
    tpu.manual_seed_all(7)
    seeded = torch.rand(2, device="tpu")

    assert first.tolist() == again.tolist() == seeded.tolist()


def check_a_generator_is_on_its_chip_and_has_the_numbers_of_the_cpus() -> None:
    there = [
        torch.Generator(device=place).manual_seed(1)
        for place in ("tpu", "tpu:3", torch.device("tpu"))
    ]
    generator = torch.Generator().manual_seed(1)

    assert [str(each.device) for each in there] == ["tpu:5", "tpu:3", "tpu:5"]
    assert generator.device.type == "cpu"
    assert isinstance(generator, torch.Generator)
    assert isinstance(torch.default_generator, torch.Generator)
    drawn = [torch.randn(2, device="tpu", generator=each).tolist() for each in there]
    assert drawn == [torch.randn(2, generator=generator).tolist()] * 3


def check_a_copied_generator_goes_on_as_the_first_does() -> None:
    first = torch.Generator(device="tpu:3").manual_seed(7)
    torch.rand(3, device="tpu:3", generator=first)
    others = first.clone_state(), pickle.loads(pickle.dumps(first))  # noqa: S301 - our own
    state = first.get_state()

    drawn = torch.rand(2, device="tpu:3", generator=first).tolist()
    first.set_state(state)

    assert torch.rand(2, device="tpu:3", generator=first).tolist() == drawn
    for other in others:
        assert str(other.device) == "tpu:3"
        assert torch.rand(2, device="tpu:3", generator=other).tolist() == drawn


def check_compiled_functions_run() -> None:
    doubled = torch.compile(lambda value: value * 2, backend="eager")

    assert doubled(torch.ones(2, device="tpu")).tolist() == [2, 2]
