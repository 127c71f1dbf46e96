"""Find the chips of this node: device nodes, sysfs, procfs and vendors' tools."""
