"""Hosts, chips and how people describe them."""
