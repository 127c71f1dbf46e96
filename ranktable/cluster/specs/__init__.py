"""Cluster specs: a cluster in a few lines of YAML, from which a table is made."""
