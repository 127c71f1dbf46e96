"""A process group with a vendor's limits and clear error messages."""
