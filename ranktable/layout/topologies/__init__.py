"""Groups of several nodes: racks, switches, blocks; one file for each source."""
