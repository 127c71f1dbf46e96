"""A process group over gloo with a vendor's limits and clear error messages."""
