"""Lines of ``ranktable probe``, which describe the chips of one node."""
