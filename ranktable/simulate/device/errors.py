"""What can go wrong before there is a device."""

from ranktable._error import Error


class UnsupportedTorchError(Error, ImportError):
    """This version of torch cannot hold the simulated device."""
