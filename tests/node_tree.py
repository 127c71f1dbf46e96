"""Folders that stand for the / of a node: devices, files of drivers, tools."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

SAMPLES = Path(__file__).parent / "discovery_samples"


class Tree:
    """A folder that is filled file by file."""

    def __init__(self, root: Path, host: str | None = None) -> None:
        self.root = root
        root.mkdir(parents=True, exist_ok=True)
        if host is not None:
            self.put("/etc/hostname", f"{host}\n")

    def put(self, path: str, text: str = "") -> Path:
        file = self.root / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    def install(self, program: str, script: str) -> None:
        """Put a program of the node where programs are."""
        path = program if program.startswith("/") else f"/usr/bin/{program}"
        self.put(path, f"#!/bin/sh\n{script}\n").chmod(0o755)

    def install_printing(self, program: str, sample: str) -> None:
        self.install(program, f"cat '{SAMPLES / sample}'")


def sophgo_node(
    root: Path, host: str, chips: Iterable[int] = range(8), sample: str | None = None
) -> Tree:
    """A host with BM1690 chips: chip N is function N of its own card."""
    tree = Tree(root, host)
    for chip in chips:
        tree.put(f"/dev/sg-host-drv-{chip}")
        function = f"/sys/bus/pci/drivers/sg-host-drv/0000:{chip + 1:02x}:00.0"
        tree.put(f"{function}/vendor", "0x1f1c\n")
        tree.put(f"{function}/device", "0x1690\n")
        tree.put(f"{function}/sg-host-drv/sg-host-drv-{chip}/dev", f"511:{chip}\n")
    tree.put("/proc/sgdrv/driver_date", "2026-05-04\n")
    if sample is not None:
        tree.install_printing("/opt/tpuv7/tpuv7-current/bin/tpu-smi", sample)
    return tree
