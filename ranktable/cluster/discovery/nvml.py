"""``python -m ranktable.cluster.discovery.nvml``: a list of GPUs like nvidia-smi's.

nvidia-ml-py calls the driver's library directly. It runs in a process of its own, so
that a driver that does not answer only costs the time limit.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any


def rows(nvml: Any) -> list[str]:
    """Return one CSV row for every GPU: index, UUID, PCI address, serial, name."""
    found: list[str] = []
    nvml.nvmlInit()
    try:
        found.extend(_line(nvml, index) for index in range(nvml.nvmlDeviceGetCount()))
    finally:
        nvml.nvmlShutdown()
    return found


def _line(nvml: Any, index: int) -> str:
    """Return the row of a GPU, or the driver's error message."""
    try:
        return _row(nvml, index)
    except nvml.NVMLError as error:
        return f"GPU {index}: {error}"


def _row(nvml: Any, index: int) -> str:
    handle = nvml.nvmlDeviceGetHandleByIndex(index)
    try:
        serial = _text(nvml.nvmlDeviceGetSerial(handle))
    except nvml.NVMLError:
        serial = "[N/A]"  # consumer cards have no serial number
    cells = (
        _text(nvml.nvmlDeviceGetUUID(handle)),
        _text(nvml.nvmlDeviceGetPciInfo(handle).busId),
        serial,
        _text(nvml.nvmlDeviceGetName(handle)),
    )
    return ", ".join((str(index), *cells))


def _text(value: str | bytes) -> str:
    """Return a text; releases before 11.5 return bytes."""
    return value.decode() if isinstance(value, bytes) else value


def main() -> None:
    """Print the rows."""
    nvml = import_module("pynvml")
    try:
        found = rows(nvml)
    except nvml.NVMLError as error:
        sys.exit(f"nvidia-ml-py: {error}")
    sys.stdout.write("".join(f"{row}\n" for row in found))


if __name__ == "__main__":
    main()
