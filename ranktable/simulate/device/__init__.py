"""A torch device whose memory is the CPU's.

Its name is ``tpu``. Tensors on it are real tensors of torch's PrivateUse1 device with
an index; all operators run on the CPU, on the same bytes.
"""

from ranktable.simulate.device.aliases import on_cpu, on_device
from ranktable.simulate.device.installation import UnsupportedTorchError, install
from ranktable.simulate.device.inventory import (
    chips,
    current_device,
    device_count,
    set_device,
)

__all__ = [
    "UnsupportedTorchError",
    "chips",
    "current_device",
    "device_count",
    "install",
    "on_cpu",
    "on_device",
    "set_device",
]
