"""The collectives of tensors, one file each."""
