"""Several tables, or lines of probes, become one table."""
