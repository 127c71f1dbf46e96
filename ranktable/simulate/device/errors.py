"""What can go wrong before there is a device."""


class UnsupportedTorchError(ImportError):
    """This version of torch cannot hold the simulated device."""
