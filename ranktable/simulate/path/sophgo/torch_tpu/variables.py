"""What torch_tpu takes from the environment, and says of itself."""

from __future__ import annotations

import os
from pathlib import Path

arch = os.environ.setdefault("CHIP_ARCH", "sg2260")
"""The chip: one of the two that SCCL drives."""

lib_pwd = str(Path(__file__).parent / "lib")
"""Where the vendor keeps its libraries; there are none here."""


def print_all_torch_tpu_envs() -> None:
    """Print the variables that torch_tpu reads."""
    for name in ("CHIP_ARCH", "CHIP_MAP", "RANK_TABLE_FILE", "TPU_GROUP_IDX"):
        print(f"{name}={os.environ.get(name, '')}")  # noqa: T201 - that is its purpose
