"""A process group over gloo that keeps a vendor's limits and says what goes wrong."""
