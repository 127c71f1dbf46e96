"""A fresh process that times torch's device mesh: ``python -m benchmarks.device_mesh``.

The process group is fake: it communicates nothing, and only the groups are made.
"""

from __future__ import annotations

import sys
import time

SHAPE = {"pp": 16, "dp": 8, "cp": 4, "tp": 8}
WORLD_SIZE = 4_096


def main() -> int:
    """Print the CPU seconds; return 1 where torch is not installed."""
    try:
        import torch.distributed as dist
    except ImportError:
        return 1
    from torch.distributed.device_mesh import init_device_mesh
    from torch.testing._internal.distributed.fake_pg import FakeStore

    dist.init_process_group("fake", rank=0, world_size=WORLD_SIZE, store=FakeStore())
    names = tuple(SHAPE)
    init_device_mesh("cpu", tuple(SHAPE.values()), mesh_dim_names=names)
    start = time.process_time()
    init_device_mesh("cpu", tuple(SHAPE.values()), mesh_dim_names=names)
    print(time.process_time() - start)
    dist.destroy_process_group()
    return 0


if __name__ == "__main__":
    sys.exit(main())
