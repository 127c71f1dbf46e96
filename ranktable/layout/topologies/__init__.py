"""What holds several nodes: racks, switches, blocks, super pods; one file a source."""
