"""Merge several rank tables, or lines of probes, into one table."""
