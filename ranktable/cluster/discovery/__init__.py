"""Which chips this node has: device nodes, sysfs, procfs and the vendors' tools."""
